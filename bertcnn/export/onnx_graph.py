"""The classifier as an ONNX graph, built from its tensors without a converter.

Opset 17 (2022), for older runtimes. GELU is written with Erf, which ONNX Runtime can fuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from bertcnn.errors import ExportError
from bertcnn.inference.onnx_nodes import OnnxNodes
from bertcnn.settings import EncoderSettings, HeadSettings

_OPSET: Final = 17
_IR_VERSION: Final = 8  # the matching file format
_MASKED: Final = -1e9  # mask value; its exp() is exactly 0
_LARGEST: Final = 2_000_000_000  # bytes; a protobuf file holds at most 2 GiB


def classifier_onnx(
    tensors: Mapping[str, np.ndarray], encoder: EncoderSettings, head: HeadSettings
) -> onnx.ModelProto:
    """The classifier, from token ids to logits.

    `tensors` are float32 weights by name, as in a bundle, with checked shapes.

    Returns:
        A model with inputs `token_ids` and `padding_mask`, int64 [B, T] with any B and T, and
        outputs `logits`, float32 [B, C], `activations`, float32 [B, W * N], and `windows`, int64
        [B, W * N], as in `openvino_graph.classifier_graph`, without `means`.

    Raises:
        ExportError: the weights are too large for one ONNX file.
    """
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > _LARGEST:
        raise ExportError(
            f"weights of {size:,} bytes",
            expected=f"at most {_LARGEST:,} in one ONNX file",
            fix="export as openvino",
        )
    graph = _Graph(tensors)
    real = graph.add("Cast", "padding_mask", to=TensorProto.FLOAT)  # [B, T]
    # 0 at tokens
    missing = graph.add("Mul", graph.add("Sub", graph.scalar(1.0), real), graph.scalar(_MASKED))
    bias = graph.add("Unsqueeze", missing, graph.integers(1, 2))  # [B, 1, 1, T]
    hidden = _embeddings(graph, encoder)  # [B, T, D]
    for index in range(encoder.layers):
        hidden = _block(graph, f"layer_{index}", hidden, bias, encoder)
    _head(graph, hidden, real, missing, head)
    features = {
        "logits": len(tensors["logits/bias"]),
        **dict.fromkeys(("activations", "windows"), len(head.window_sizes) * head.filters),
    }
    types = {
        "logits": TensorProto.FLOAT,
        "activations": TensorProto.FLOAT,
        "windows": TensorProto.INT64,
    }
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bertcnn",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["B", "T"])
                for name in ("token_ids", "padding_mask")
            ],
            [
                helper.make_tensor_value_info(name, types[name], ["B", width])
                for name, width in features.items()
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="bertcnn",
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph(OnnxNodes):
    """A graph with these weights."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.tensors = tensors

    def weight(self, name: str) -> str:
        """A weight, unchanged."""
        return self.constant(self.tensors[name], name)


def _embeddings(graph: _Graph, settings: EncoderSettings) -> str:
    """Token, position and first segment embeddings, normalised, [B, T, D]."""
    positions = graph.tensors["embeddings/positions"] + graph.tensors["embeddings/segments"][0]
    length = graph.add("Shape", "token_ids", start=1, end=2)  # [1]
    taken = graph.add(
        "Slice",
        graph.constant(positions, "positions"),
        graph.integers(0),
        length,
        graph.integers(0),
    )  # [T, D]
    hidden = graph.add("Gather", graph.weight("embeddings/tokens"), "token_ids", axis=0)
    return _normalize(
        graph, "embeddings/normalize", graph.add("Add", hidden, taken), settings.layer_norm_epsilon
    )


def _block(graph: _Graph, layer: str, hidden: str, bias: str, settings: EncoderSettings) -> str:
    """One Transformer block, post-norm, [B, T, D]."""
    epsilon = settings.layer_norm_epsilon
    attended = _attention(graph, f"{layer}/attention", hidden, bias, settings.heads)
    hidden = _normalize(
        graph, f"{layer}/attention_norm", graph.add("Add", hidden, attended), epsilon
    )
    active = _activated(graph, _linear(graph, f"{layer}/expand", hidden), settings.activation)
    contracted = _linear(graph, f"{layer}/contract", active)
    return _normalize(graph, f"{layer}/output_norm", graph.add("Add", hidden, contracted), epsilon)


def _attention(graph: _Graph, layer: str, hidden: str, bias: str, heads: int) -> str:
    """softmax(Q K^T / sqrt(K) + bias) V, projected, [B, T, D]."""
    width = graph.tensors[f"{layer}/query/kernel"].shape[0]
    split = graph.integers(0, 0, heads, width // heads)

    def by_head(name: str, order: list[int]) -> str:
        return graph.add(
            "Transpose",
            graph.add("Reshape", _linear(graph, f"{layer}/{name}", hidden), split),
            perm=order,
        )

    queries = graph.add(
        "Mul", by_head("query", [0, 2, 1, 3]), graph.scalar((width // heads) ** -0.5)
    )  # [B, H, T, K]
    # [B, H, T, T]
    scores = graph.add("Add", graph.add("MatMul", queries, by_head("key", [0, 2, 3, 1])), bias)
    context = graph.add(
        "MatMul", graph.add("Softmax", scores, axis=-1), by_head("value", [0, 2, 1, 3])
    )  # [B, H, T, K]
    joined = graph.add(
        "Reshape", graph.add("Transpose", context, perm=[0, 2, 1, 3]), graph.integers(0, 0, width)
    )  # [B, T, D]
    return _linear(graph, f"{layer}/output", joined)


def _activated(graph: _Graph, hidden: str, activation: str) -> str:
    if activation == "relu":
        return graph.add("Relu", hidden)
    if activation == "gelu":  # x (1 + erf(x / sqrt 2)) / 2
        step = graph.add("Erf", graph.add("Div", hidden, graph.scalar(np.sqrt(2.0))))
    else:  # the tanh approximation, Hendrycks and Gimpel 2016
        cube = graph.add("Mul", graph.add("Mul", hidden, hidden), hidden)
        inner = graph.add("Add", hidden, graph.add("Mul", cube, graph.scalar(0.044715)))
        step = graph.add("Tanh", graph.add("Mul", inner, graph.scalar(np.sqrt(2.0 / np.pi))))
    return graph.add(
        "Mul",
        graph.add("Mul", hidden, graph.add("Add", step, graph.scalar(1.0))),
        graph.scalar(0.5),
    )


def _head(graph: _Graph, hidden: str, real: str, missing: str, settings: HeadSettings) -> None:
    """Filters over windows, max and mean pooling, and the linear layer; names the outputs."""
    column = graph.add("Unsqueeze", real, graph.integers(2))  # [B, T, 1]
    hidden = graph.add("Mul", hidden, column)  # windows past the end of a text see zeros
    # all taps of all windows in one product, [D, sum(W) * N]; OpenVINO 2026.4 computes wrong sums
    # if it fuses a Conv with a following addition
    taps = [
        graph.tensors[f"convolution_{window}/kernel"][tap]
        for window in settings.window_sizes
        for tap in range(window)
    ]
    products = graph.add(
        "MatMul", hidden, graph.constant(np.concatenate(taps, axis=1), "convolutions/kernel")
    )
    products = graph.add(
        "Pad", products, graph.integers(0, 0, 0, 0, max(settings.window_sizes) - 1, 0)
    )  # [B, T + max(W) - 1, .]
    length = graph.add("Shape", "token_ids", start=1, end=2)  # [1]
    padding = graph.add("Unsqueeze", missing, graph.integers(2))  # [B, T, 1]
    activations, windows, first = [], [], 0
    for window in settings.window_sizes:
        found = padding
        for tap in range(window):
            start = graph.integers(tap, first)
            stop = graph.add(
                "Concat",
                graph.add("Add", length, graph.integers(tap)),
                graph.integers(first + settings.filters),
                axis=0,
            )
            found = graph.add(
                "Add", found, graph.add("Slice", products, start, stop, graph.integers(1, 2))
            )  # [B, T, N]
            first += settings.filters
        largest = graph.add("ReduceMax", found, axes=[1], keepdims=0)  # [B, N]
        activations.append(
            graph.add("Relu", graph.add("Add", largest, graph.weight(f"convolution_{window}/bias")))
        )
        windows.append(graph.add("ArgMax", found, axis=1, keepdims=0))
    total = graph.add("ReduceSum", hidden, graph.integers(1), keepdims=0)  # [B, D]
    tokens = graph.add(
        "Max", graph.add("ReduceSum", real, graph.integers(1), keepdims=1), graph.scalar(1.0)
    )  # [B, 1]
    pooled = graph.add("Concat", *activations, axis=1, name="activations")  # [B, W * N]
    graph.add("Concat", *windows, axis=1, name="windows")
    _linear(
        graph,
        "logits",
        graph.add("Concat", pooled, graph.add("Div", total, tokens), axis=1),
        name="logits",
    )


def _linear(graph: _Graph, layer: str, hidden: str, name: str | None = None) -> str:
    product = graph.add("MatMul", hidden, graph.weight(f"{layer}/kernel"))
    return graph.add("Add", product, graph.weight(f"{layer}/bias"), name=name)


def _normalize(graph: _Graph, layer: str, hidden: str, epsilon: float) -> str:
    gamma, beta = (graph.weight(f"{layer}/{part}") for part in ("gamma", "beta"))
    return graph.add("LayerNormalization", hidden, gamma, beta, axis=-1, epsilon=epsilon)
