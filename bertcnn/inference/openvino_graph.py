"""The classifier as an OpenVINO graph, built from its tensors without Keras or TensorFlow.

It computes the same as `bertcnn.models.classifier`, in the form that runs fastest on a CPU: one
table holds the sums of position and segment embeddings, one matrix product computes all windows of
all filters, and bias and ReLU follow the maximum, on one value per row instead of one per token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertcnn.data import NUMBERS, PACKED, POSITION_SEGMENTS, position_segments
from bertcnn.errors import BundleError
from bertcnn.inference.runtime import ops, ov
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.shapes import classifier_shapes, question_answering_shapes, token_labels_shapes

ENCODER_INPUTS = tuple(name for name in PACKED if name != NUMBERS)
# nodes that stay in float32 when the others become int8
LAST_PRODUCT = "logits_product"  # so that a logit is exactly the sum of its parts
TOKEN_SCALES = "token_scales"  # of int8 token embeddings
SUMS = "sums_of_token_embeddings"
POSITIONS = "position_embeddings"
_MASKED = np.float32(-1e9)  # mask value; its exp() is exactly 0
Node = Any  # openvino's node and output classes have no useful types


def classifier_graph(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    head: HeadSettings,
    *,
    int8: Mapping[str, np.ndarray] | None = None,
    int8_tokens: bool = False,
) -> ov.Model:
    """The classifier, from token ids to logits; a row may hold several texts.

    `tensors` are float32 weights by name, as in a bundle; `int8` are the tensors of `int8_shapes`,
    whose products replace theirs. `int8_tokens` keeps token embeddings in int8 with a scale each,
    also in the compiled form, which then loads in half the time; `int8` implies it.

    Returns:
        A model with the inputs of `packed_inputs`, for any B, T and K. Outputs: `logits`, float32
        [B * K, C]; `activations`, float32 [B * K, W * N], the filters' largest activations;
        `windows`, int32 [B * K, W * N], the first tokens of their windows; `means`, float32 [B * K,
        D], mean token embeddings. Filters are in the order of the window sizes. Rows with fewer
        than K texts have undefined outputs at the end. The windows add no measurable time.

    Raises:
        BundleError: a tensor is missing, unknown or of another shape.
    """
    _check_shapes(tensors, classifier_shapes(encoder, head, len(tensors.get("logits/bias", ()))))
    inputs = {
        name: ops.parameter([-1] if name == NUMBERS else [-1, -1], np.int32, name=name)
        for name in PACKED
    }
    documents = ops.convert(inputs["document_ids"], "f32")
    int8_tokens = int8_tokens or int8 is not None
    tensors = {**tensors, **(int8 or {})}
    hidden = _encoder(tensors, inputs, documents, encoder, int8_tokens)
    outputs = _head(tensors, hidden, documents, ops.convert(inputs[NUMBERS], "f32"), head)
    return _model(list(inputs.values()), outputs)


def encoder_graph(tensors: Mapping[str, np.ndarray], settings: EncoderSettings) -> ov.Model:
    """The encoder alone. `tensors` are float32 weights by name, as in `Bert`.

    Returns:
        A model with the inputs `ENCODER_INPUTS` of `packed_inputs` and the output
        `sequence_output`, float32 [B, T, D].
    """
    inputs = {name: ops.parameter([-1, -1], np.int32, name=name) for name in ENCODER_INPUTS}
    documents = ops.convert(inputs["document_ids"], "f32")
    hidden = _encoder(tensors, inputs, documents, settings, int8_tokens=False)
    return _model(list(inputs.values()), {"sequence_output": hidden})


def spans_graph(
    tensors: Mapping[str, np.ndarray],
    settings: EncoderSettings,
    *,
    int8: Mapping[str, np.ndarray] | None = None,
    int8_tokens: bool = False,
    tags: int | None = None,
) -> ov.Model:
    """The question answering encoder, from token ids to start and end scores.

    `tensors` are as in `BertQuestionAnswering` or, with `tags`, as in `BertTokenLabels`; `int8` and
    `int8_tokens` are as for `classifier_graph`.

    Returns:
        A model with the inputs `ENCODER_INPUTS` of `packed_inputs`. Its output is `spans`, float32
        [B, T, 2 or tags].

    Raises:
        BundleError: a tensor is missing, unknown or of another shape.
    """
    shapes = token_labels_shapes(settings, tags) if tags else question_answering_shapes(settings)
    _check_shapes(tensors, shapes)
    inputs = {name: ops.parameter([-1, -1], np.int32, name=name) for name in ENCODER_INPUTS}
    hidden = _encoder(
        {**tensors, **(int8 or {})},
        inputs,
        ops.convert(inputs["document_ids"], "f32"),
        settings,
        int8_tokens or int8 is not None,
    )
    spans = _linear(_below(tensors, "tags" if tags else "spans"), hidden, LAST_PRODUCT)
    return _model(list(inputs.values()), {"spans": spans})


def one_text_a_row(graph: ov.Model) -> ov.Model:
    """`graph` with the inputs `token_ids` and `padding_mask`, int32 [B, T], one text per row.

    All tokens are in the first segment.
    `graph`, from `classifier_graph` or its int8 form, is modified and unusable afterwards.
    """
    packed = {parameter.get_friendly_name(): parameter for parameter in graph.get_parameters()}
    plain = {
        name: ops.parameter([-1, -1], np.int32, name=name) for name in ("token_ids", "padding_mask")
    }
    shape = ops.shape_of(plain["token_ids"], "i32")
    length = ops.gather(shape, _scalar(1), _scalar(0))
    inputs = {
        "token_ids": plain["token_ids"],
        "document_ids": plain["padding_mask"],  # 1 for the first text's tokens, 0 for padding
        POSITION_SEGMENTS: ops.broadcast(
            ops.range(_scalar(0), ops.multiply(length, _scalar(2)), _scalar(2), "i32"), shape
        ),
        NUMBERS: _axes(1),
    }
    for name, parameter in packed.items():
        parameter.output(0).replace(inputs[name].output(0))
    for name, parameter in plain.items():
        parameter.output(0).tensor.set_names({name})
    return ov.Model(graph.get_results(), list(plain.values()), "bertcnn")


def _model(inputs: list[Node], outputs: Mapping[str, Node]) -> ov.Model:
    results = []
    for name, node in outputs.items():
        result = ops.result(node, name=name)
        result.output(0).tensor.set_names({name})
        results.append(result)
    for parameter in inputs:
        parameter.output(0).tensor.set_names({parameter.get_friendly_name()})
    return ov.Model(results, inputs, "bertcnn")


def _encoder(
    tensors: Mapping[str, np.ndarray],
    inputs: Mapping[str, Node],
    documents: Node,
    settings: EncoderSettings,
    int8_tokens: bool,
) -> Node:
    """Embeddings and all blocks, [B, T, D].

    Tokens attend within their own text, `documents` float32 [B, T].
    """
    hidden = _embeddings(tensors, inputs, settings, int8_tokens)
    # [B, 1, T, T]
    same_document = ops.equal(
        ops.unsqueeze(documents, _axes(1, 3)), ops.unsqueeze(documents, _axes(1, 2))
    )
    bias = _mask_bias(_choice(same_document))
    for index in range(settings.layers):
        hidden = _block(_below(tensors, f"layer_{index}"), hidden, bias, settings)
    return hidden


def _check_shapes(
    tensors: Mapping[str, np.ndarray], expected: Mapping[str, tuple[int, ...]]
) -> None:
    for name in sorted(expected.keys() | tensors.keys()):
        shape = tensors[name].shape if name in tensors else None
        if shape != expected.get(name):
            raise BundleError(
                f"weight {name!r} has the shape {shape or 'none, it is missing'}",
                expected=str(expected.get(name, "no weight of that name")),
                fix="use weights and settings that belong together",
            )


def _embeddings(
    tensors: Mapping[str, np.ndarray],
    inputs: Mapping[str, Node],
    settings: EncoderSettings,
    int8_tokens: bool,
) -> Node:
    """Token, position and segment embeddings, normalised, [B, T, D]."""
    token_ids = inputs["token_ids"]
    both = ops.constant(position_segments(tensors))
    taken = ops.gather(both, inputs[POSITION_SEGMENTS], _scalar(0))
    taken.set_friendly_name(POSITIONS)
    table = tensors["embeddings/tokens"]
    # look up first, then scale: otherwise the whole table would become float32
    if int8_tokens:
        scales = np.maximum(
            np.abs(table).max(axis=1, keepdims=True), np.float32(1e-12)
        ) / np.float32(127)
        looked_up = ops.gather(
            ops.constant(np.rint(table / scales).astype(np.int8)), token_ids, _scalar(0)
        )
        scale = ops.gather(ops.constant(scales), token_ids, _scalar(0))
        scale.set_friendly_name(TOKEN_SCALES)
        hidden = ops.multiply(ops.convert(looked_up, "f32"), scale)
    else:
        hidden = ops.gather(ops.constant(table), token_ids, _scalar(0))
    return _normalize(
        _below(tensors, "embeddings/normalize"), ops.add(hidden, taken), settings.layer_norm_epsilon
    )


def _block(
    tensors: Mapping[str, np.ndarray], hidden: Node, bias: Node, settings: EncoderSettings
) -> Node:
    """One Transformer block, post-norm, [B, T, D]."""
    epsilon = settings.layer_norm_epsilon
    attended = _attention(_below(tensors, "attention"), hidden, bias, settings.heads)
    hidden = _normalize(_below(tensors, "attention_norm"), ops.add(hidden, attended), epsilon)
    expand, contract = _below(tensors, "expand"), _below(tensors, "contract")
    expanded = _linear(expand, _rounded(expand, hidden))
    active = (
        ops.relu(expanded)
        if settings.activation == "relu"
        else ops.gelu(expanded, _GELU[settings.activation])
    )
    return _normalize(
        _below(tensors, "output_norm"),
        ops.add(hidden, _linear(contract, _rounded(contract, active))),
        epsilon,
    )


_GELU = {"gelu": "erf", "gelu_tanh": "tanh"}


def _attention(tensors: Mapping[str, np.ndarray], hidden: Node, bias: Node, heads: int) -> Node:
    """softmax(Q K^T / sqrt(K) + bias) V, joined and projected, [B, T, D]."""
    width = tensors["query/kernel"].shape[0]
    split = ops.constant(np.array([0, 0, heads, width // heads], np.int32))
    hidden = _rounded(tensors, hidden)

    def by_head(name: str, order: list[int], scale: float = 1.0) -> Node:
        weights = _below(tensors, name)
        if "weights" not in weights:  # int8 weights are scaled already
            weights |= {part: weights[part] * np.float32(scale) for part in ("kernel", "bias")}
        values = _rounded(weights, _linear(weights, hidden), "output")
        return ops.transpose(
            ops.reshape(values, split, True), ops.constant(np.array(order, np.int32))
        )

    queries = by_head("query", [0, 2, 1, 3], (width // heads) ** -0.5)  # [B, H, T, K]
    keys = by_head("key", [0, 2, 3, 1])  # [B, H, K, T]
    values = by_head("value", [0, 2, 1, 3])  # [B, H, T, K]
    scores = ops.add(ops.matmul(queries, keys, False, False), bias)  # [B, H, T, T]
    context = ops.matmul(ops.softmax(scores, -1), values, False, False)  # [B, H, T, K]
    joined = ops.transpose(context, ops.constant(np.array([0, 2, 1, 3], np.int32)))
    joined = ops.reshape(joined, ops.constant(np.array([0, 0, width], np.int32)), True)  # [B, T, D]
    output = _below(tensors, "output")
    return _linear(output, _rounded(output, joined))


def _head(
    tensors: Mapping[str, np.ndarray],
    hidden: Node,
    documents: Node,
    numbers: Node,
    settings: HeadSettings,
) -> dict[str, Node]:
    """Filters over windows, max and mean pooling, and the linear layer, per text.

    `numbers` are the indices of a row's texts, float32 [K].
    """
    # [B, 1, T], [1, K, 1]
    of_token = ops.unsqueeze(documents, _axes(1))
    of_text = ops.unsqueeze(numbers, _axes(0, 2))
    membership = _choice(ops.equal(of_token, of_text))  # [B, K, T]
    before = ops.logical_and(ops.greater(of_token, _scalar(0.0)), ops.less(of_token, of_text))
    # first token of each text, [B, K, 1]
    starts = ops.convert(ops.reduce_sum(_choice(before), _axes(-1), True), "i32")
    longest = max(settings.window_sizes)
    products = _tap_products(tensors, hidden, settings, longest)
    length, inside = _inside(documents, longest)
    elsewhere = ops.unsqueeze(_mask_bias(membership), _axes(-1))  # [B, K, T, 1]
    activations, windows, first = [], [], 0
    for window in settings.window_sizes:
        total = _window_sum(products, length, inside[:window], first, settings.filters)
        first += window * settings.filters
        best = ops.topk(
            ops.add(ops.unsqueeze(total, _axes(1)), elsewhere), _scalar(1), 2, "max", "none", "i32"
        )  # [B, K, 1, N]
        largest = ops.squeeze(best.output(0), _axes(2))  # [B, K, N]
        windows.append(ops.subtract(ops.squeeze(best.output(1), _axes(2)), starts))
        activations.append(
            ops.relu(
                ops.add(largest, ops.constant(tensors[f"convolution_{window}/bias"][None, None]))
            )
        )
    sums = ops.matmul(membership, hidden, False, False)  # [B, K, D]
    sums.set_friendly_name(SUMS)
    mean = ops.divide(sums, ops.maximum(ops.reduce_sum(membership, _axes(-1), True), _scalar(1.0)))
    pooled = ops.concat(activations, 2)
    logits = _linear(_below(tensors, "logits"), ops.concat([pooled, mean], 2), LAST_PRODUCT)
    outputs = {
        "logits": logits,
        "activations": pooled,
        "windows": ops.concat(windows, 2),
        "means": mean,
    }
    return {name: _joined(values) for name, values in outputs.items()}


def _tap_products(
    tensors: Mapping[str, np.ndarray], hidden: Node, settings: HeadSettings, longest: int
) -> Node:
    """Each token times all taps of all windows, [B, T + longest - 1, sum(W) * N]; padded with 0."""
    # [D, sum(W) * N]: all taps of all windows in one product
    taps = [
        tensors[f"convolution_{window}/kernel"][tap]
        for window in settings.window_sizes
        for tap in range(window)
    ]
    int8 = _below(tensors, "taps")
    products = _product({"kernel": np.concatenate(taps, axis=1), **int8}, _rounded(int8, hidden))
    return ops.pad(products, _axes(0, 0, 0), _axes(0, longest - 1, 0), "constant", _scalar(0.0))


def _inside(documents: Node, longest: int) -> tuple[Node, list[Node]]:
    """The length T, int32 [1], and what keeps windows inside their text, [B, T, 1] per distance.

    It says whether the token at this distance belongs to the same text; a window past the end of
    its text sees zeros.
    """
    # [B, T + longest - 1]
    later = ops.pad(documents, _axes(0, 0), _axes(0, longest - 1), "constant", _scalar(0.0))
    length = ops.gather(ops.shape_of(documents, "i32"), _axes(1), _scalar(0))
    inside = []
    for tap in range(longest):
        later_documents = ops.slice(
            later, _axes(tap), ops.add(length, _axes(tap)), _axes(1), _axes(1)
        )
        inside.append(ops.unsqueeze(_choice(ops.equal(later_documents, documents)), _axes(-1)))
    return length, inside


def _window_sum(
    products: Node, length: Node, inside: Sequence[Node], first: int, filters: int
) -> Node:
    """The filters of one window size at each token, [B, T, N]; `first` is their first product."""
    total = None
    for tap, same_text in enumerate(inside):
        start = ops.constant(np.array([tap, first], np.int32))
        stop = ops.concat([ops.add(length, _axes(tap)), _axes(first + filters)], 0)
        shifted = ops.slice(products, start, stop, _axes(1, 1), _axes(1, 2))  # [B, T, N]
        total = shifted if total is None else ops.add(total, ops.multiply(shifted, same_text))
        first += filters
    return total


def _joined(values: Node) -> Node:
    return ops.reshape(values, _axes(-1, values.get_output_partial_shape(0)[2].get_length()), False)


def _linear(tensors: Mapping[str, np.ndarray], hidden: Node, name: str | None = None) -> Node:
    product = _product(tensors, hidden)
    if name is not None:
        product.set_friendly_name(name)
    bias = tensors["bias"].reshape((1,) * (len(hidden.get_output_partial_shape(0)) - 1) + (-1,))
    return ops.add(product, ops.constant(bias))


def _product(tensors: Mapping[str, np.ndarray], hidden: Node) -> Node:
    """`hidden` times the int8 weights if there are any, else the kernel."""
    # [out, in], as in OpenVINO's fully connected layer
    if "weights" in tensors:
        weights = ops.convert(ops.constant(tensors["weights"]), "f32")
        kernel = ops.multiply(weights, ops.constant(tensors["scales"][:, None]))
    else:
        kernel = ops.constant(np.ascontiguousarray(tensors["kernel"].T))
    return ops.matmul(hidden, kernel, False, True)


def _rounded(tensors: Mapping[str, np.ndarray], values: Node, side: str = "input") -> Node:
    """`values` rounded to 256 steps of a product's input or output; unchanged without a range."""
    if f"{side}_range" not in tensors:
        return values
    if (factors := tensors.get(f"{side}_factors")) is not None:
        values = ops.multiply(values, ops.constant(factors[None, None]))
    bounds = [ops.constant(bound) for bound in tensors[f"{side}_range"]]
    return ops.fake_quantize(values, *bounds, 256)


def _normalize(tensors: Mapping[str, np.ndarray], hidden: Node, epsilon: float) -> Node:
    centred = ops.mvn(hidden, _axes(-1), True, epsilon, "inside_sqrt")
    gamma, beta = (ops.constant(tensors[name][None, None]) for name in ("gamma", "beta"))
    return ops.add(ops.multiply(centred, gamma), beta)


def _choice(condition: Node) -> Node:
    """1 where the condition holds, else 0.

    Not a Convert node: OpenVINO takes it for the end of an int8 section and moves it.
    """
    return ops.select(condition, _scalar(1.0), _scalar(0.0))


def _mask_bias(real: Node) -> Node:
    """0 where `real` is 1, a large negative number where it is 0."""
    return ops.multiply(ops.subtract(_scalar(1.0), real), _scalar(float(_MASKED)))


def _below(tensors: Mapping[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    return {
        key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(f"{name}/")
    }


def _axes(*values: int) -> Node:
    return ops.constant(np.array(values, np.int32))


def _scalar(value: float) -> Node:
    return ops.constant(np.array(value, np.float32 if isinstance(value, float) else np.int32))
