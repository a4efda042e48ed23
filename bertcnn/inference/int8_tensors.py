"""Takes the int8 tensors out of a quantized OpenVINO graph."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from bertcnn.inference.runtime import ov
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.shapes import int8_shapes

LEVELS: Final = 256  # of a rounded input
_ROUNDING = 1e-3  # of a step between two of the 256 values
# largest growth of a layer's range to share one range; MiniLM's grow by factors of 1.00 to 1.04
_MOST_WIDENED = 1.1
Int8Tensors = dict[str, np.ndarray]
Node = Any  # openvino's node and output classes have no useful types


def int8_tensors(
    graph: ov.Model, encoder: EncoderSettings, head: HeadSettings | None = None
) -> Int8Tensors:
    """The tensors of `int8_shapes` of a graph that NNCF has quantized.

    NNCF's node names are not reliable, but the order of products is: it follows from the graph's
    form.

    Raises:
        ValueError: NNCF rounded other places than it does for these networks.
    """
    shapes = int8_shapes(encoder, head)
    names = [
        f"layer_{layer}/{part}"
        for layer in range(encoder.layers)
        for part in (*(f"attention/{part}" for part in _OF_ATTENTION), "expand", "contract")
    ]
    names += [] if head is None else ["taps"]
    products = [node for node in _in_order(graph) if _has_int8_weights(node)]
    if len(products) != len(names):
        raise ValueError(f"{len(products)} products in int8, not {len(names)}")
    tensors: Int8Tensors = {}
    rounded: dict[str, str] = {}
    for name, product in zip(names, products, strict=True):
        tensors |= _product(name, product)
        input_name = name.rpartition("/")[0] if name.endswith(_SHARED) else name
        node = _source(product, 0)
        if rounded.setdefault(input_name, node.get_name()) != node.get_name():
            raise ValueError(f"more than one rounding before {input_name}")
        tensors[f"{input_name}/input_range"] = _range(node)
        tensors[f"{input_name}/input_factors"] = _factors(node)
    actual_shapes = {name: values.shape for name, values in tensors.items()}
    roundings = [node for node in graph.get_ops() if node.get_type_name() == _ROUNDED]
    ranges = sum(name.endswith("_range") for name in shapes)
    if actual_shapes != shapes or len(roundings) != ranges:
        raise ValueError(f"{len(roundings)} roundings in other places than the {ranges} expected")
    return tensors


_OF_ATTENTION = ("query", "key", "value", "output")
_SHARED = ("/query", "/key", "/value")  # have one input
_ROUNDED = "FakeQuantize"


def _in_order(graph: ov.Model) -> Iterator[Node]:
    """The nodes that the first output depends on, sources first, by the order of inputs."""
    seen: set[str] = set()
    waiting = [(graph.get_results()[0], False)]
    while waiting:
        node, inputs_done = waiting.pop()
        if inputs_done:
            yield node
        elif node.get_name() not in seen:
            seen.add(node.get_name())
            waiting.append((node, True))
            waiting += [
                (_source(node, index), False) for index in reversed(range(node.get_input_size()))
            ]


def _has_int8_weights(node: Node) -> bool:
    if node.get_type_name() != "MatMul" or _source(node, 1).get_type_name() != "Multiply":
        return False
    stored = _source(_source(node, 1), 0)
    return stored.get_type_name() == "Convert" and _source(stored, 0).data.dtype == np.int8


def _product(name: str, node: Node) -> Int8Tensors:
    """Weights, scales and, if there are any, the bias and the output's range of a product."""
    scaled = _source(node, 1)
    tensors = {
        f"{name}/weights": _source(_source(scaled, 0), 0).data.copy(),
        f"{name}/scales": _source(scaled, 1).data.ravel().copy(),
    }
    (reader,) = _readers(node)
    if reader.get_type_name() == "Add" and _source(reader, 1).get_type_name() == "Constant":
        tensors[f"{name}/bias"] = _source(reader, 1).data.ravel().copy()
        for behind in _readers(reader):
            if behind.get_type_name() == _ROUNDED and name.endswith(_SHARED):
                tensors[f"{name}/output_range"] = _range(behind)
    return tensors


def _range(node: Node) -> np.ndarray:
    """The bounds before and after rounding, float32 [4].

    Raises:
        ValueError: the node does not round, or has a range per channel.
    """
    if node.get_type_name() != _ROUNDED or node.get_attributes()["levels"] != LEVELS:
        raise ValueError("a product whose input is not rounded to 256 steps")
    # .item() raises a ValueError if there are several
    bounds = np.array([_source(node, index).data.item() for index in range(1, 5)], np.float32)
    if not all(low <= 0 <= high and low < high for low, high in bounds.reshape(2, 2)):
        raise ValueError(f"the bounds {bounds.tolist()} of a rounding")
    return bounds


def _factors(node: Node) -> np.ndarray:
    """NNCF's smoothing of outliers before a rounding, float32 [in]; ones without smoothing."""
    before = _source(node, 0)
    if before.get_type_name() == "Multiply" and _source(before, 1).get_type_name() == "Constant":
        return _source(before, 1).data.ravel().copy()
    return np.ones(node.get_output_partial_shape(0)[-1].get_length(), np.float32)


def _source(node: Node, index: int) -> Node:
    return node.input_value(index).get_node()


def _readers(node: Node) -> list[Node]:
    return [target.get_node() for target in node.output(0).get_target_inputs()]


def share_activation_range(tensors: Int8Tensors, encoder: EncoderSettings) -> None:
    """Give GELU outputs the same range in all layers, in place, so that one kernel serves them.

    OpenVINO's CPU plugin compiles a range into the kernel of the preceding product. With GELU that
    takes 5 ms per layer instead of 1 ms, and again for every number of tokens. The smoothing
    factors absorb the differences between ranges; layers with another lower bound lose a few of the
    256 steps. The tensors stay unchanged if the loss is too large.
    """
    if encoder.activation == "relu":
        return
    inputs = [f"layer_{layer}/contract" for layer in range(encoder.layers)]
    ranges = [tensors[f"{name}/input_range"][:2].tolist() for name in inputs]
    steps = LEVELS - 1
    below = (
        math.ceil(max(-low / (high - low) for low, high in ranges) * steps - _ROUNDING) / steps
    )  # share of the range below 0
    widths = [
        max(bound / max(share, 1e-9) for bound, share in ((-low, below), (high, 1 - below)))
        for low, high in ranges
    ]
    if any(
        width > _MOST_WIDENED * (high - low)
        for width, (low, high) in zip(widths, ranges, strict=True)
    ):
        return
    for name, width in zip(inputs, widths, strict=True):
        tensors[f"{name}/input_factors"] = tensors[f"{name}/input_factors"] / np.float32(width)
        tensors[f"{name}/input_range"] = np.array(
            [-below, 1 - below, -below * width, (1 - below) * width], np.float32
        )


def round_from_zero(tensors: Int8Tensors) -> None:
    """Make the lowest of the 256 values the zero point of product inputs, in place.

    W x + b = W (x - low) + (b + W low), so the bias absorbs the shift and answers stay the same.
    With another zero point the CPU plugin adds W low to each output, multiplies by the weight
    scales, and then adds b. Without that step, products with AMX ran a quarter faster.
    """
    for name in [name for name in tensors if name.endswith("/bias")]:
        product = name.removesuffix("/bias")
        input_name = product.rpartition("/")[0] if product.endswith(_SHARED) else product
        low = tensors[f"{input_name}/input_range"][2].item()
        scales = tensors[f"{product}/scales"][:, None]
        sums = (tensors[f"{product}/weights"].astype(np.float64) * scales).sum(axis=1)
        tensors[name] = (tensors[name] + low * sums).astype(np.float32)
    for name in [name for name in tensors if name.endswith("/input_range")]:
        if name != "taps/input_range":  # has no bias
            low, high = tensors[name][2:]
            tensors[name] = np.array([*tensors[name][:2], 0, float(high) - float(low)], np.float32)
