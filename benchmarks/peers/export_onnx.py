"""Our network as ONNX for ONNX Runtime: float32, and dynamic int8.

Answers on standard output with one JSON line.

        # in FOLDER of peer_model.py; network-float32.onnx and network-int8.onnx are put in it
        python -m benchmarks.peers.export_onnx FOLDER

ONNX Runtime's optimizer for BERT comes between the two: with it int8 took 1.3 s of processor time
for 300 short rows, without it 2.1 s. The older exporter (TorchScript) gives it more to fuse,
attention included, and came out slower, at 1.7 s.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import onnx  # type: ignore[import-not-found,import-untyped]
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-not-found,import-untyped]
from onnxruntime.transformers.optimizer import optimize_model  # type: ignore[import-not-found,import-untyped]
from torch.export import Dim

from benchmarks.peers.network import trained


def main() -> None:
    """Export, quantize, and tell how many products are in int8."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    folder = arguments.parse_args().folder
    whole, small = folder / "network-float32.onnx", folder / "network-int8.onnx"
    model = trained(folder)
    example = torch.arange(60).reshape(3, 20) % 50, torch.ones(3, 20, dtype=torch.int64)
    shape = {0: Dim("rows"), 1: Dim("tokens", min=2, max=model.bert.config.max_position_embeddings)}
    torch.onnx.export(
        model,
        example,
        whole,
        input_names=["token_ids", "mask"],
        output_names=["logits"],
        dynamic_shapes={"token_ids": shape, "mask": shape},
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    config = model.bert.config
    optimized = optimize_model(
        str(whole),
        "bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        opt_level=0,
    )
    optimized.save_model_to_file(str(whole))
    network = onnx.load(whole)
    del network.graph.value_info[
        :
    ]  # quantization turns weights round, and then stumbles over the shapes noted here
    unknown = {
        "DefaultTensorType": onnx.TensorProto.FLOAT
    }  # what the shapes are not known of, behind the optimizer's own operators
    quantize_dynamic(network, small, weight_type=QuantType.QInt8, extra_options=unknown)
    kinds = [node.op_type for node in onnx.load(small).graph.node]
    print(
        json.dumps(
            {
                "int8": kinds.count("MatMulInteger"),
                "float32": kinds.count("MatMul") + kinds.count("Gemm"),
            }
        )
    )


if __name__ == "__main__":
    main()
