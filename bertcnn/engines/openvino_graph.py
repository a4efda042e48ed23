"""The classifier as an OpenVINO graph, built from its tensors, without a converter.

No Keras, no TensorFlow.

The graph says what `bertcnn.models.classifier` says, in the shape a CPU runs fastest: the first segment's embedding is folded into the
positions, all windows of all filters are one matrix product, and the bias and ReLU of a filter come after its maximum, where
there is one value a row instead of one a token.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from bertcnn.disk.files import MORE_ROOM
from bertcnn.errors import BundleError, OutputError, one_line
from bertcnn.models.shapes import classifier_shapes
from bertcnn.settings import EncoderSettings, HeadSettings

# nodes that stay in float32 when the others become int8
LAST_PRODUCT = "logits_product"  # so that a logit is exactly the sum of its parts
TOKEN_SCALES = "token_scales"  # of token embeddings that are in int8 already
ROWS_TOGETHER = {8: 2, 10: 2, 12: 4, 24: 2, 40: 2}  # by their tokens, how many rows go through attention together
_MASKED = np.float32(-1e9)  # added to what padding must not win; exp() of it is exactly 0
Node = Any  # openvino's node and output classes have no useful types


def classifier_graph(
    tensors: Mapping[str, np.ndarray], encoder: EncoderSettings, head: HeadSettings, *, int8_tokens: bool = False
) -> ov.Model:
    """The classifier, from token ids to logits.

    Args:
        tensors: weights by name, as a bundle holds them, float32.
        encoder: shape of the encoder.
        head: shape of the head.
        int8_tokens: keep the token embeddings in int8 with a scale each, also in the compiled form, which then loads in half the time.

    Returns:
        A model with inputs `token_ids` and `padding_mask`, int32 [B, T] with any B and T, and the outputs `logits`, float32 [B, C],
        `activations`, float32 [B, W * N], the filters' largest activations, `windows`, int32 [B, W * N], the tokens at which they
        start, both in the order of the head's window sizes, and `means`, float32 [B, D], of the token embeddings. The windows cost nothing
        that could be measured.

    Raises:
        BundleError: a tensor is missing, unknown or misshapen.
    """
    _check_shapes(tensors, classifier_shapes(encoder, head, len(tensors.get("logits/bias", ()))))
    token_ids = ops.parameter([-1, -1], np.int32, name="token_ids")
    padding_mask = ops.parameter([-1, -1], np.int32, name="padding_mask")
    real = ops.unsqueeze(ops.convert(padding_mask, "f32"), _axes(-1))  # [B, T, 1]
    hidden = _encoder(tensors, token_ids, padding_mask, encoder, int8_tokens)
    outputs = _head(tensors, hidden, real, head)
    return _model([token_ids, padding_mask], outputs)


def encoder_graph(tensors: Mapping[str, np.ndarray], settings: EncoderSettings) -> ov.Model:
    """The encoder alone.

    Args:
        tensors: weights by name, as `Bert` has them, float32.
        settings: its shape.

    Returns:
        A model with inputs `token_ids` and `padding_mask`, int32 [B, T] with any B and T, and the output `sequence_output`, float32
        [B, T, D].
    """
    token_ids = ops.parameter([-1, -1], np.int32, name="token_ids")
    padding_mask = ops.parameter([-1, -1], np.int32, name="padding_mask")
    return _model([token_ids, padding_mask], {"sequence_output": _encoder(tensors, token_ids, padding_mask, settings, int8=False)})


def _model(inputs: list[Node], outputs: Mapping[str, Node]) -> ov.Model:
    """A model whose inputs and outputs go by their names."""
    results = []
    for name, node in outputs.items():
        result = ops.result(node, name=name)
        result.output(0).tensor.set_names({name})
        results.append(result)
    for parameter in inputs:
        parameter.output(0).tensor.set_names({parameter.get_friendly_name()})
    return ov.Model(results, inputs, "bertcnn")


def _encoder(tensors: Mapping[str, np.ndarray], token_ids: Node, padding_mask: Node, settings: EncoderSettings, int8: bool) -> Node:
    """Embeddings and all blocks, [B, T, D]; in between, rows go through attention some together, [B / g, g * T, D]."""
    hidden = _embeddings(tensors, token_ids, settings, int8)
    shape = ops.shape_of(token_ids, "i32")
    rows, length = (ops.gather(shape, _axes(place), _scalar(0)) for place in range(2))
    tokens = ops.multiply(_rows_together(rows, length), length)  # g * T, [1]
    hidden = ops.reshape(hidden, ops.concat([_axes(-1), tokens, _axes(settings.width)], 0), False)
    real = ops.reshape(ops.convert(padding_mask, "f32"), ops.concat([_axes(-1, 1, 1), tokens], 0), False)  # [B / g, 1, 1, g * T]
    row = ops.divide(ops.range(_scalar(0), ops.squeeze(tokens, _axes(0)), _scalar(1), "i32"), length)  # of each token, [g * T]
    own = ops.convert(ops.equal(ops.unsqueeze(row, _axes(1)), row), "f32")  # [g * T, g * T]
    bias = ops.add(_mask_bias(real), _mask_bias(own))  # [B / g, 1, g * T, g * T]
    for index in range(settings.layers):
        hidden = _block(_below(tensors, f"layer_{index}"), hidden, bias, settings)
    return ops.reshape(hidden, ops.concat([rows, length, _axes(settings.width)], 0), False)


def _rows_together(rows: Node, length: Node) -> Node:
    """g, [1]: how many of B rows of T tokens go through attention together, each attending to itself alone.

    CPUs with AVX-512 take up to 2.4 times as long for attention over 8, 12 or 24 tokens as for as many tokens in 16s or 48s.
    """
    table = np.ones(max(ROWS_TOGETHER) + 2, np.int32)
    table[[*ROWS_TOGETHER]] = [*ROWS_TOGETHER.values()]
    wanted = ops.gather(ops.constant(table), ops.minimum(length, _axes(len(table) - 1)), _scalar(0))
    return ops.select(ops.equal(ops.mod(rows, wanted), _axes(0)), wanted, _axes(1))  # those that do not divide the batch stay alone


def _check_shapes(tensors: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted(wanted.keys() | tensors.keys()):
        found = tensors[name].shape if name in tensors else None
        if found != wanted.get(name):
            raise BundleError(
                f"weight {name!r} has the shape {found or 'none, it is missing'}",
                expected=str(wanted.get(name, "no weight of that name")),
                fix="use weights and settings that belong together",
            )


def _embeddings(tensors: Mapping[str, np.ndarray], token_ids: Node, settings: EncoderSettings, int8: bool) -> Node:
    """Tokens, positions and the first segment, normalised, [B, T, D]."""
    positions = tensors["embeddings/positions"] + tensors["embeddings/segments"][0]
    length = ops.gather(ops.shape_of(token_ids, "i32"), _axes(1), _scalar(0))  # [1]
    taken = ops.slice(ops.constant(positions), _axes(0), length, _axes(1), _axes(0))  # [T, D]
    table = tensors["embeddings/tokens"]
    if int8:  # looked up before it is scaled: scaled first, the whole table would become float32 again
        scales = np.maximum(np.abs(table).max(axis=1, keepdims=True), np.float32(1e-12)) / np.float32(127)
        looked_up = ops.gather(ops.constant(np.rint(table / scales).astype(np.int8)), token_ids, _scalar(0))
        scale = ops.gather(ops.constant(scales), token_ids, _scalar(0))
        scale.set_friendly_name(TOKEN_SCALES)
        hidden = ops.multiply(ops.convert(looked_up, "f32"), scale)
    else:
        hidden = ops.gather(ops.constant(table), token_ids, _scalar(0))
    return _normalize(_below(tensors, "embeddings/normalize"), ops.add(hidden, taken), settings.layer_norm_epsilon)


def _block(tensors: Mapping[str, np.ndarray], hidden: Node, bias: Node, settings: EncoderSettings) -> Node:
    """One Transformer block, post-norm, [B, T, D]."""
    epsilon = settings.layer_norm_epsilon
    attended = _attention(_below(tensors, "attention"), hidden, bias, settings.heads)
    hidden = _normalize(_below(tensors, "attention_norm"), ops.add(hidden, attended), epsilon)
    expanded = _linear(_below(tensors, "expand"), hidden)
    active = ops.relu(expanded) if settings.activation == "relu" else ops.gelu(expanded, _GELU[settings.activation])
    return _normalize(_below(tensors, "output_norm"), ops.add(hidden, _linear(_below(tensors, "contract"), active)), epsilon)


_GELU = {"gelu": "erf", "gelu_tanh": "tanh"}


def _attention(tensors: Mapping[str, np.ndarray], hidden: Node, bias: Node, heads: int) -> Node:
    """softmax(Q K^T / sqrt(K) + bias) V, joined and projected, [B, T, D]."""
    width = tensors["query/kernel"].shape[0]
    split = ops.constant(np.array([0, 0, heads, width // heads], np.int32))

    def by_head(name: str, order: list[int], scale: float = 1.0) -> Node:
        values = _linear({part: values * np.float32(scale) for part, values in _below(tensors, name).items()}, hidden)
        return ops.transpose(ops.reshape(values, split, True), ops.constant(np.array(order, np.int32)))

    queries = by_head("query", [0, 2, 1, 3], (width // heads) ** -0.5)  # [B, H, T, K]
    keys = by_head("key", [0, 2, 3, 1])  # [B, H, K, T]
    values = by_head("value", [0, 2, 1, 3])  # [B, H, T, K]
    scores = ops.add(ops.matmul(queries, keys, False, False), bias)  # [B, H, T, T]
    context = ops.matmul(ops.softmax(scores, -1), values, False, False)  # [B, H, T, K]
    joined = ops.transpose(context, ops.constant(np.array([0, 2, 1, 3], np.int32)))
    joined = ops.reshape(joined, ops.constant(np.array([0, 0, width], np.int32)), True)  # [B, T, D]
    return _linear(_below(tensors, "output"), joined)


def _head(tensors: Mapping[str, np.ndarray], hidden: Node, real: Node, settings: HeadSettings) -> dict[str, Node]:
    """Filters over windows, their maxima, the mean, one linear layer."""
    hidden = ops.multiply(hidden, real)  # a window past the end of a text sees zeros
    longest = max(settings.window_sizes)
    # [D, sum(W) * N]: every tap of every window in one product
    taps = [tensors[f"convolution_{window}/kernel"][tap] for window in settings.window_sizes for tap in range(window)]
    products = ops.matmul(hidden, ops.constant(np.ascontiguousarray(np.concatenate(taps, axis=1).T)), False, True)
    products = ops.pad(products, _axes(0, 0, 0), _axes(0, longest - 1, 0), "constant", _scalar(0.0))  # [B, T + longest - 1, .]
    length = ops.gather(ops.shape_of(hidden, "i32"), _axes(1), _scalar(0))
    padding = _mask_bias(real)  # [B, T, 1]
    activations, windows, first = [], [], 0
    for window in settings.window_sizes:
        total = None
        for tap in range(window):
            start = ops.constant(np.array([tap, first], np.int32))
            stop = ops.concat([ops.add(length, _axes(tap)), _axes(first + settings.filters)], 0)
            shifted = ops.slice(products, start, stop, _axes(1, 1), _axes(1, 2))  # [B, T, N]
            total = shifted if total is None else ops.add(total, shifted)
            first += settings.filters
        total = ops.add(total, padding)
        best = ops.topk(total, _scalar(1), 1, "max", "none", "i32")
        largest = ops.squeeze(best.output(0), _axes(1))  # [B, N]
        windows.append(ops.squeeze(best.output(1), _axes(1)))
        activations.append(ops.relu(ops.add(largest, ops.constant(tensors[f"convolution_{window}/bias"][None]))))
    mean = ops.divide(ops.reduce_sum(hidden, _axes(1), False), ops.maximum(ops.reduce_sum(real, _axes(1), False), _scalar(1.0)))
    pooled = ops.concat(activations, 1)
    logits = _linear(_below(tensors, "logits"), ops.concat([pooled, mean], 1), LAST_PRODUCT)
    return {"logits": logits, "activations": pooled, "windows": ops.concat(windows, 1), "means": mean}


def _linear(tensors: Mapping[str, np.ndarray], hidden: Node, name: str | None = None) -> Node:
    """`hidden` times kernel plus bias."""
    kernel = ops.constant(np.ascontiguousarray(tensors["kernel"].T))  # [out, in], as OpenVINO's fully connected layer wants it
    bias = tensors["bias"].reshape((1,) * (len(hidden.get_output_partial_shape(0)) - 1) + (-1,))
    product = ops.matmul(hidden, kernel, False, True)
    if name is not None:
        product.set_friendly_name(name)
    return ops.add(product, ops.constant(bias))


def _normalize(tensors: Mapping[str, np.ndarray], hidden: Node, epsilon: float) -> Node:
    """Layer normalisation over the width."""
    centred = ops.mvn(hidden, _axes(-1), True, epsilon, "inside_sqrt")
    gamma, beta = (ops.constant(tensors[name][None, None]) for name in ("gamma", "beta"))
    return ops.add(ops.multiply(centred, gamma), beta)


def _mask_bias(real: Node) -> Node:
    """0 where `real` is 1 and a very negative number where it is 0."""
    return ops.multiply(ops.subtract(_scalar(1.0), real), _scalar(float(_MASKED)))


def _below(tensors: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The tensors under `name`, by the rest of their names."""
    return {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}/")}


def _axes(*values: int) -> Node:
    return ops.constant(np.array(values, np.int32))


def _scalar(value: float) -> Node:
    return ops.constant(np.array(value, np.float32 if isinstance(value, float) else np.int32))


def serialized(graph: ov.Model) -> tuple[bytes, bytes]:
    """The graph's XML and its constants, float32 ones as they are.

    Raises:
        OutputError: the folder for temporary files is full.
    """
    with tempfile.TemporaryDirectory(prefix="bertcnn-engine-") as folder:
        path = Path(folder) / "model.xml"
        try:
            ov.save_model(graph, path, compress_to_fp16=False)
        except RuntimeError as error:  # OpenVINO's word for a disk that is full
            raise OutputError(
                f"the compiled engine cannot be written to {folder} ({one_line(str(error))})",
                expected="room for it there, some 100 MB, for a while",
                fix=MORE_ROOM,
            ) from error
        return path.read_bytes(), path.with_suffix(".bin").read_bytes()
