"""The classifier as ONNX: in int8 for CPUs where ONNX Runtime is fastest, in float32 to export.

It computes the same as `openvino_graph.classifier_graph` with the same tensors. In int8, ranges are
fixed, so a text's answer does not depend on its batch, and only the products of queries and keys
are in float32. The nodes are those that ONNX Runtime computes fastest without its own fusions; its
fused addition and normalisation took seven times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from bertcnn.data import NUMBERS, PACKED, POSITION_SEGMENTS, position_segments
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
    """The classifier in int8, from token ids to logits; a row may hold several texts.

    `tensors` are float32 weights by name, and those of `int8_shapes`, which replace some of them.
    `weight_bits` of 8 stores weights as uint8, whose products take a third longer but never
    overflow 16 bits on CPUs without VNNI.

    Returns:
        A serialized model with the inputs and outputs of `openvino_graph.classifier_graph`.

    Raises:
        BundleError: the weights are too large for one ONNX file.
    """
    graph = _Graph(tensors, head, weight_bits)
    outputs = _network(graph, encoder, head)
    shapes = {name: ["K"] if name == NUMBERS else ["B", "T"] for name in PACKED}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT32, shape)
        for name, shape in shapes.items()
    ]
    return bytes(_model(graph, inputs, outputs, "texts").SerializeToString())


def classifier_onnx(
    tensors: Mapping[str, np.ndarray], encoder: EncoderSettings, head: HeadSettings
) -> onnx.ModelProto:
    """The classifier in float32, from token ids to logits; one text a row.

    `tensors` are float32 weights by name, as in a bundle, with checked shapes.

    Returns:
        A model with inputs `token_ids` and `padding_mask`, int64 [B, T] with any B and T. Outputs
        are those of `openvino_graph.classifier_graph` with K = 1; it needs operators of ONNX only.

    Raises:
        BundleError: the weights are too large for one ONNX file.
    """
    graph = _Graph(tensors, head)
    # one text, number 1, a row
    graph.add("Cast", "padding_mask", to=TensorProto.INT32, name="document_ids")
    positions = graph.constant(2 * np.arange(encoder.max_positions), "places")
    length = graph.add("Shape", "token_ids", start=1, end=2)
    first = graph.integers(0)
    graph.add("Slice", positions, first, length, first, name=POSITION_SEGMENTS)  # [T]
    graph.constant(np.ones(1, np.int32), NUMBERS)
    outputs = _network(graph, encoder, head)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["B", "T"])
        for name in ("token_ids", "padding_mask")
    ]
    model = _model(graph, inputs, outputs, "B")
    onnx.checker.check_model(model, full_check=True)
    return model


def _model(
    graph: _Graph, inputs: list[onnx.ValueInfoProto], outputs: Mapping[str, int], rows: str
) -> onnx.ModelProto:
    """The graph as a model; `outputs` are widths by name."""
    types = {"windows": TensorProto.INT32}
    results = [
        helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), [rows, width])
        for name, width in outputs.items()
    ]
    extensions = [helper.make_opsetid(_OF_ONNX_RUNTIME, 1)] if graph.is_int8 else []
    model = helper.make_model(
        helper.make_graph(graph.nodes, "bertcnn", inputs, results, graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET), *extensions],
        ir_version=_IR_VERSION,
        producer_name="bertcnn",
    )
    if model.ByteSize() > _LARGEST:
        raise BundleError(
            f"a model of {model.ByteSize():,} bytes",
            expected=f"at most {_LARGEST:,} in one ONNX file",
            fix="use OpenVINO",
        )
    return model


def _network(graph: _Graph, encoder: EncoderSettings, head: HeadSettings) -> dict[str, int]:
    """Embeddings, blocks and head; returns the widths of the outputs by name."""
    hidden = _embeddings(graph, encoder)  # [B, T, D]
    same_document = graph.add(
        "Equal",
        graph.add("Unsqueeze", "document_ids", graph.integers(1, 3)),
        graph.add("Unsqueeze", "document_ids", graph.integers(1, 2)),
    )
    bias = graph.choice(same_document, 0.0, _MASKED)  # [B, 1, T, T]
    for layer in range(encoder.layers):
        hidden = _block(graph, f"layer_{layer}", hidden, bias, encoder)
    return _head(graph, hidden, head)


class Rounded(NamedTuple):
    """A product's input: float32 values, or in uint8, where n represents (n - zero) * step."""

    values: str
    step: float = 1.0
    zero: int = 0


class _Graph(OnnxNodes):
    """A graph with these weights."""

    def __init__(
        self, tensors: Mapping[str, np.ndarray], head: HeadSettings, weight_bits: int = 7
    ) -> None:
        super().__init__()
        taps = [
            tensors[f"convolution_{window}/kernel"][tap]
            for window in head.window_sizes
            for tap in range(window)
        ]  # all taps of all windows in one product, [D, sum(W) * N]
        self.tensors = {**tensors, "taps/kernel": np.concatenate(taps, axis=1)}
        self.is_int8 = "taps/weights" in tensors
        self._weight_bits = weight_bits

    def weight(self, name: str) -> str:
        """A weight, unchanged."""
        return self.constant(self.tensors[name], name)

    def choice(self, condition: str, if_true: float, if_false: float) -> str:
        """`if_true` where the condition holds, otherwise `if_false`."""
        return self.add("Where", condition, self.scalar(if_true), self.scalar(if_false))

    def product(self, name: str, rounded: Rounded) -> str:
        """An input times the weights of that name, plus bias if there is one, float32."""
        bias = [self.weight(f"{name}/bias")] if f"{name}/bias" in self.tensors else []
        if f"{name}/weights" not in self.tensors:
            product = self.add("MatMul", rounded.values, self.weight(f"{name}/kernel"))
            return self.add("Add", product, *bias) if bias else product
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
            *bias,
        ]
        return self.add("MatMulIntegerToFloat", *inputs, domain=_OF_ONNX_RUNTIME)

    def rounded(self, name: str, hidden: str) -> Rounded:
        """`hidden` as the input of the products at that name: in uint8 if they are in int8."""
        if f"{name}/input_range" not in self.tensors:
            return Rounded(hidden)
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
    """Tokens, positions and segments, normalised, [B, T, D]."""
    table = graph.tensors["embeddings/tokens"]
    if graph.is_int8:  # with a scale for each token
        largest = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.float32(1e-12))
        scales = largest / np.float32(127)
        rounded = np.rint(table / scales).astype(np.int8)
        tokens = graph.add("Gather", graph.constant(rounded, "tokens"), "token_ids", axis=0)
        scale = graph.add("Gather", graph.constant(scales, "token_scales"), "token_ids", axis=0)
        hidden = graph.add("Mul", graph.add("Cast", tokens, to=TensorProto.FLOAT), scale)
    else:
        hidden = graph.add("Gather", graph.weight("embeddings/tokens"), "token_ids", axis=0)
    both = graph.constant(position_segments(graph.tensors), "position_segments")
    taken = graph.add("Gather", both, POSITION_SEGMENTS, axis=0)
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
    """softmax(Q K^T / sqrt(K) + bias) V, projected, [B, T, D]."""
    width = len(graph.tensors[f"{layer}/query/bias"])
    split = graph.integers(0, 0, heads, width // heads)
    rounded = graph.rounded(layer, hidden)

    def by_head(name: str, order: list[int]) -> str:
        values = graph.product(f"{layer}/{name}", rounded)
        return graph.add("Transpose", graph.add("Reshape", values, split), perm=order)

    queries = by_head("query", [0, 2, 1, 3])  # [B, H, T, K]
    if not graph.is_int8:  # whose weights have the scale in them
        queries = graph.add("Mul", queries, graph.scalar((width // heads) ** -0.5))
    scores = graph.add("MatMul", queries, by_head("key", [0, 2, 3, 1]))  # [B, H, T, T]
    scores = graph.add("Add", scores, bias)
    values = by_head("value", [0, 2, 1, 3])  # [B, H, T, K]
    if graph.is_int8:
        weights = attention_weights(graph, scores)
        total = graph.add("ReduceSum", weights, graph.integers(-1), keepdims=1)  # [B, H, T, 1]
        context = graph.add("Div", graph.add("MatMul", weights, values), total)
    else:
        context = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    joined = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    joined = graph.add("Reshape", joined, graph.integers(0, 0, width))  # [B, T, D]
    return _linear(graph, f"{layer}/output", joined)


def _head(graph: _Graph, hidden: str, settings: HeadSettings) -> dict[str, int]:
    """Filters over windows, max and mean pooling, and the linear layer, per text.

    Returns:
        The widths of the outputs by name.
    """
    of_token = graph.add("Unsqueeze", "document_ids", graph.integers(1))  # [B, 1, T]
    of_text = graph.add("Unsqueeze", NUMBERS, graph.integers(0, 2))  # [1, K, 1]
    membership = graph.add("Equal", of_token, of_text)
    shares = graph.choice(membership, 1.0, 0.0)  # [B, K, T]
    elsewhere = graph.add(
        "Unsqueeze", graph.choice(membership, 0.0, _MASKED), graph.integers(-1)
    )  # [B, K, T, 1]
    starts = _starts(graph, of_token, of_text)  # [B, K, 1]
    activations, windows = [], []
    for window, convolved in zip(
        settings.window_sizes, _windows(graph, hidden, settings), strict=True
    ):
        masked = graph.add(
            "Add", graph.add("Unsqueeze", convolved, graph.integers(1)), elsewhere
        )  # [B, K, T, N]
        largest = graph.add("ReduceMax", masked, graph.integers(2), keepdims=0)  # [B, K, N]
        shifted = graph.add("Add", largest, graph.weight(f"convolution_{window}/bias"))
        activations.append(graph.add("Relu", shifted))
        position = graph.add("ArgMax", masked, axis=2, keepdims=0)
        windows.append(graph.add("Sub", graph.add("Cast", position, to=TensorProto.INT32), starts))
    tokens = graph.add("ReduceSum", shares, graph.integers(-1), keepdims=1)
    mean = graph.add(
        "Div",
        graph.add("MatMul", shares, hidden),
        graph.add("Max", tokens, graph.scalar(1.0)),
    )  # [B, K, D]
    pooled = graph.add("Concat", *activations, axis=2)
    features = graph.add("Concat", pooled, mean, axis=2)
    results = {
        "logits": _linear(graph, "logits", features),
        "activations": pooled,
        "windows": graph.add("Concat", *windows, axis=2),
        "means": mean,
    }
    filters = len(settings.window_sizes) * settings.filters
    outputs = {
        "logits": len(graph.tensors["logits/bias"]),
        "activations": filters,
        "windows": filters,
        "means": graph.tensors["embeddings/tokens"].shape[1],
    }
    for name, width in outputs.items():
        graph.add("Reshape", results[name], graph.integers(-1, width), name=name)  # [B * K, .]
    return outputs


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
        later_documents = graph.add("Slice", later, graph.integers(tap), end, graph.integers(1))
        same = graph.choice(graph.add("Equal", later_documents, "document_ids"), 1.0, 0.0)
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


def _normalize(graph: _Graph, layer: str, hidden: str, epsilon: float) -> str:
    gamma, beta = (graph.weight(f"{layer}/{part}") for part in ("gamma", "beta"))
    return graph.add("LayerNormalization", hidden, gamma, beta, axis=-1, epsilon=epsilon)
