"""The int8 classifier as ONNX, for CPUs where ONNX Runtime's int8 is faster than OpenVINO.

It computes the same as `openvino_graph.classifier_graph` with the same int8 tensors. Ranges are
fixed, so a text's answer does not depend on its batch. Only the products of queries and keys are in
float32. The nodes are those that ONNX Runtime computes fastest without its own fusions; its fused
addition and normalisation took seven times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from bertcnn.data.packing import NUMBERS, PACKED
from bertcnn.errors import BundleError
from bertcnn.inference.onnx_nodes import OnnxNodes
from bertcnn.settings import EncoderSettings, HeadSettings

_OPSET: Final = 20  # the first opset with Gelu
_IR_VERSION: Final = 9  # the matching file format
_OF_ONNX_RUNTIME: Final = "com.microsoft"
_MASKED: Final = -1e9  # mask value; its exp() is exactly 0
_ROUNDS: Final = 512.0  # adding and subtracting it rounds float32 to multiples of 2^-14
_STEPS: Final = 255  # between the values of uint8
_MIDDLE: Final = 128  # zero point of uint8
_LARGEST: Final = 2_000_000_000  # bytes; a protobuf file holds at most 2 GiB
_GELU: Final = {"gelu": "none", "gelu_tanh": "tanh"}  # `approximate`, by our name


def classifier_onnx_int8(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    head: HeadSettings,
    weight_bits: int,
) -> bytes:
    """The classifier, from token ids to logits; a row may hold several texts.

    `tensors` are float32 weights by name, and those of `int8_shapes`, which replace some of them.
    `weight_bits` of 8 stores weights as uint8, whose products take a third longer but never
    overflow 16 bits on CPUs without VNNI.

    Returns:
        A serialized model with the inputs and outputs of `openvino_graph.classifier_graph`.

    Raises:
        BundleError: the weights are too large for one ONNX file.
    """
    graph = _Graph(tensors, weight_bits)
    hidden = _embeddings(graph, encoder)  # [B, T, D]
    own = graph.add(
        "Equal",
        graph.add("Unsqueeze", "document_ids", graph.integers(1, 3)),
        graph.add("Unsqueeze", "document_ids", graph.integers(1, 2)),
    )
    bias = graph.choice(own, 0.0, _MASKED)  # [B, 1, T, T]
    for layer in range(encoder.layers):
        hidden = _block(graph, f"layer_{layer}", hidden, bias, encoder)
    _head(graph, hidden, head)
    model = helper.make_model(
        helper.make_graph(graph.nodes, "bertcnn", _inputs(), _outputs(), graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_OF_ONNX_RUNTIME, 1)],
        ir_version=_IR_VERSION,
        producer_name="bertcnn",
    )
    if model.ByteSize() > _LARGEST:
        raise BundleError(
            f"a model of {model.ByteSize():,} bytes in int8",
            expected=f"at most {_LARGEST:,} for ONNX Runtime",
            fix="use the engine 'openvino'",
        )
    return bytes(model.SerializeToString())


def _inputs() -> list[onnx.ValueInfoProto]:
    shapes = {name: ["K"] if name == NUMBERS else ["B", "T"] for name in PACKED}
    return [
        helper.make_tensor_value_info(name, TensorProto.INT32, shape)
        for name, shape in shapes.items()
    ]


def _outputs() -> list[onnx.ValueInfoProto]:
    types = {
        "logits": TensorProto.FLOAT,
        "activations": TensorProto.FLOAT,
        "windows": TensorProto.INT32,
        "means": TensorProto.FLOAT,
    }
    return [
        helper.make_tensor_value_info(name, kind, ["texts", name]) for name, kind in types.items()
    ]


class Rounded(NamedTuple):
    """Values in uint8: n represents (n - zero) * step."""

    values: str
    step: float
    zero: int


class _Graph(OnnxNodes):
    """A graph with these weights."""

    def __init__(self, tensors: Mapping[str, np.ndarray], weight_bits: int) -> None:
        super().__init__()
        self.tensors, self._weight_bits = tensors, weight_bits

    def weight(self, name: str) -> str:
        """A weight, unchanged."""
        return self.constant(self.tensors[name], name)

    def choice(self, condition: str, there: float, elsewhere: float) -> str:
        """`there` where the condition holds, otherwise `elsewhere`."""
        return self.add("Where", condition, self.scalar(there), self.scalar(elsewhere))

    def product(self, name: str, rounded: Rounded) -> str:
        """A rounded input times the int8 weights of that name, plus bias, float32."""
        # [in, out]
        weights = np.ascontiguousarray(self.tensors[f"{name}/weights"].T)
        scales = self.tensors[f"{name}/scales"]
        zeros = np.zeros_like(scales, np.int8)
        if self._weight_bits == 8:
            weights = (weights.astype(np.int16) + _MIDDLE).astype(np.uint8)
            zeros = np.full_like(zeros, _MIDDLE, np.uint8)
        inputs = [
            rounded.values,
            self.constant(weights, f"{name}/weights"),
            self.scalar(rounded.step),
            self.constant(scales, f"{name}/scales"),
            self._zero(rounded.zero),
            self.constant(zeros, f"zeros_{zeros.dtype}_{len(zeros)}"),
        ]
        if f"{name}/bias" in self.tensors:
            inputs.append(self.weight(f"{name}/bias"))
        return self.add("MatMulIntegerToFloat", *inputs, domain=_OF_ONNX_RUNTIME)

    def rounded(self, name: str, hidden: str) -> Rounded:
        """`hidden` in uint8, as the input of the products at that name."""
        smoothed = self.add("Mul", hidden, self.weight(f"{name}/input_factors"))
        low, high, value_low, value_high = self.tensors[f"{name}/input_range"].tolist()
        step, value_step = (high - low) / _STEPS, (value_high - value_low) / _STEPS
        values = self.add(
            "QuantizeLinear", smoothed, self.scalar(step), self._zero(round(-low / step))
        )
        return Rounded(values, value_step, round(-value_low / value_step))

    def _zero(self, value: int) -> str:
        return self.constant(np.array(value, np.uint8), f"zero_{value}")


def _embeddings(graph: _Graph, settings: EncoderSettings) -> str:
    """Int8 tokens with a scale each, plus positions and first segment, normalised, [B, T, D]."""
    table = graph.tensors["embeddings/tokens"]
    largest = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.float32(1e-12))
    scales = largest / np.float32(127)
    rounded = np.rint(table / scales).astype(np.int8)
    tokens = graph.add("Gather", graph.constant(rounded, "tokens"), "token_ids", axis=0)
    scale = graph.add("Gather", graph.constant(scales, "token_scales"), "token_ids", axis=0)
    hidden = graph.add("Mul", graph.add("Cast", tokens, to=TensorProto.FLOAT), scale)
    positions = graph.tensors["embeddings/positions"] + graph.tensors["embeddings/segments"][0]
    taken = graph.add("Gather", graph.constant(positions, "positions"), "position_ids", axis=0)
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
    expanded = _linear(graph, f"{layer}/expand", hidden)
    active = (
        graph.add("Relu", expanded)
        if settings.activation == "relu"
        else graph.add("Gelu", expanded, approximate=_GELU[settings.activation])
    )
    contracted = _linear(graph, f"{layer}/contract", active)
    return _normalize(graph, f"{layer}/output_norm", graph.add("Add", hidden, contracted), epsilon)


def _linear(graph: _Graph, name: str, hidden: str) -> str:
    return graph.product(name, graph.rounded(name, hidden))


def attention_weights(graph: OnnxNodes, scores: str) -> str:
    """exp(scores - max) per row, rounded to multiples of 2^-14.

    So the sum of 512 values is exact in any order. In ONNX Runtime's softmax the last bit of the
    sum depends on a text's position in its row; after rounding to 256 values, that changed one text
    in a hundred.
    """
    largest = graph.add("ReduceMax", scores, graph.integers(-1), keepdims=1)
    weights = graph.add("Exp", graph.add("Sub", scores, largest))
    return graph.add("Sub", graph.add("Add", weights, graph.scalar(_ROUNDS)), graph.scalar(_ROUNDS))


def _attention(graph: _Graph, layer: str, hidden: str, bias: str, heads: int) -> str:
    """softmax(Q K^T + bias) V, projected, [B, T, D]; the scale is in the weights of Q."""
    width = len(graph.tensors[f"{layer}/query/bias"])
    split = graph.integers(0, 0, heads, width // heads)
    rounded = graph.rounded(layer, hidden)

    def by_head(name: str, order: list[int]) -> str:
        values = graph.product(f"{layer}/{name}", rounded)
        return graph.add("Transpose", graph.add("Reshape", values, split), perm=order)

    queries = by_head("query", [0, 2, 1, 3])  # [B, H, T, K]
    scores = graph.add("MatMul", queries, by_head("key", [0, 2, 3, 1]))  # [B, H, T, T]
    weights = attention_weights(graph, graph.add("Add", scores, bias))
    total = graph.add("ReduceSum", weights, graph.integers(-1), keepdims=1)  # [B, H, T, 1]
    weighted = graph.add("MatMul", weights, by_head("value", [0, 2, 1, 3]))  # [B, H, T, K]
    context = graph.add("Div", weighted, total)
    joined = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    joined = graph.add("Reshape", joined, graph.integers(0, 0, width))  # [B, T, D]
    return _linear(graph, f"{layer}/output", joined)


def _head(graph: _Graph, hidden: str, settings: HeadSettings) -> None:
    """Filters over windows, max and mean pooling, and the linear layer, per text."""
    of_token = graph.add("Unsqueeze", "document_ids", graph.integers(1))  # [B, 1, T]
    of_text = graph.add("Unsqueeze", NUMBERS, graph.integers(0, 2))  # [1, K, 1]
    own = graph.add("Equal", of_token, of_text)
    shares = graph.choice(own, 1.0, 0.0)  # [B, K, T]
    elsewhere = graph.add(
        "Unsqueeze", graph.choice(own, 0.0, _MASKED), graph.integers(-1)
    )  # [B, K, T, 1]
    starts = _starts(graph, of_token, of_text)  # [B, K, 1]
    activations, windows = [], []
    for window, found in zip(settings.window_sizes, _windows(graph, hidden, settings), strict=True):
        masked = graph.add(
            "Add", graph.add("Unsqueeze", found, graph.integers(1)), elsewhere
        )  # [B, K, T, N]
        largest = graph.add("ReduceMax", masked, graph.integers(2), keepdims=0)  # [B, K, N]
        shifted = graph.add("Add", largest, graph.weight(f"convolution_{window}/bias"))
        activations.append(graph.add("Relu", shifted))
        place = graph.add("ArgMax", masked, axis=2, keepdims=0)
        windows.append(graph.add("Sub", graph.add("Cast", place, to=TensorProto.INT32), starts))
    tokens = graph.add("ReduceSum", shares, graph.integers(-1), keepdims=1)
    mean = graph.add(
        "Div",
        graph.add("MatMul", shares, hidden),
        graph.add("Max", tokens, graph.scalar(1.0)),
    )  # [B, K, D]
    pooled = graph.add("Concat", *activations, axis=2)
    features = graph.add("Concat", pooled, mean, axis=2)
    product = graph.add("MatMul", features, graph.weight("logits/kernel"))
    found_by_name = {
        "logits": graph.add("Add", product, graph.weight("logits/bias")),
        "activations": pooled,
        "windows": graph.add("Concat", *windows, axis=2),
        "means": mean,
    }
    filters = len(settings.window_sizes) * settings.filters
    widths = (len(graph.tensors["logits/bias"]), filters, filters, _width(graph))
    for (name, values), width in zip(found_by_name.items(), widths, strict=True):
        graph.add("Reshape", values, graph.integers(-1, width), name=name)  # [B * K, .]


def _starts(graph: _Graph, of_token: str, of_text: str) -> str:
    """The number of tokens before each text in its row, int32 [B, K, 1]."""
    none = graph.constant(np.array(0, np.int32), "no_document")
    before = graph.add(
        "And", graph.add("Greater", of_token, none), graph.add("Less", of_token, of_text)
    )
    counted = graph.add("Cast", before, to=TensorProto.INT32)
    return graph.add("ReduceSum", counted, graph.integers(-1), keepdims=1)


def _windows(graph: _Graph, hidden: str, settings: HeadSettings) -> list[str]:
    """Every filter at every token, [B, T, N], per window size; zeros past the end of a text."""
    longest = max(settings.window_sizes)
    products = graph.add(
        "Pad", _linear(graph, "taps", hidden), graph.integers(0, 0, 0, 0, longest - 1, 0)
    )  # [B, T + longest - 1, sum(W) * N]
    later = graph.add("Pad", "document_ids", graph.integers(0, 0, 0, longest - 1))
    length = graph.add("Shape", "document_ids", start=1, end=2)
    inside = []  # whether the token at this distance belongs to the same text, [B, T, 1]
    for tap in range(longest):
        end = graph.add("Add", length, graph.integers(tap))
        there = graph.add("Slice", later, graph.integers(tap), end, graph.integers(1))
        same = graph.choice(graph.add("Equal", there, "document_ids"), 1.0, 0.0)
        inside.append(graph.add("Unsqueeze", same, graph.integers(-1)))
    sums, first = [], 0
    for window in settings.window_sizes:
        total = ""
        for tap in range(window):
            end = graph.add("Add", length, graph.integers(tap))
            stop = graph.add("Concat", end, graph.integers(first + settings.filters), axis=0)
            shifted = graph.add(
                "Slice", products, graph.integers(tap, first), stop, graph.integers(1, 2)
            )  # [B, T, N]
            total = (
                graph.add("Add", total, graph.add("Mul", shifted, inside[tap])) if tap else shifted
            )
            first += settings.filters
        sums.append(total)
    return sums


def _width(graph: _Graph) -> int:
    return int(graph.tensors["embeddings/tokens"].shape[1])


def _normalize(graph: _Graph, layer: str, hidden: str, epsilon: float) -> str:
    gamma, beta = (graph.weight(f"{layer}/{part}") for part in ("gamma", "beta"))
    return graph.add("LayerNormalization", hidden, gamma, beta, axis=-1, epsilon=epsilon)
