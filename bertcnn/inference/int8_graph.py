"""Rewrites an int8 graph into a form with fast kernels in OpenVINO's CPU plugin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bertcnn.inference.runtime import ops, ov

_ROUNDING = 1e-3  # of a step between two of the 256 values
# largest growth of a layer's range to share one range; MiniLM's grow by factors of 1.00 to 1.04
_MOST_WIDENED = 1.1
Node = Any  # openvino's node and output classes have no useful types


def share_activation_range(graph: ov.Model) -> None:
    """Give GELU outputs the same range in all layers, in place, so that one kernel serves them.

    The CPU plugin compiles a range into the kernel of the preceding product. With GELU that takes 5
    ms per layer instead of 1 ms, and again for every number of tokens. NNCF's smoothing factors
    absorb the differences between ranges; layers with another lower bound lose a few of the 256
    steps. The graph stays unchanged without such factors or if the loss is too large.
    """
    ranges = []
    for rounding in _roundings(graph):
        smoothing = _source(rounding, 0)
        if (
            smoothing.get_type_name() != "Multiply"
            or _source(smoothing, 0).get_type_name() != "Gelu"
        ):
            continue
        factors, low, high = _source(smoothing, 1), _source(rounding, 1), _source(rounding, 2)
        if any(
            node.get_type_name() != "Constant" or (node is not factors and node.data.size > 1)
            for node in (factors, low, high)
        ):
            return
        if not low.data.item() <= 0 <= high.data.item() or low.data == high.data:
            return
        ranges.append((rounding, smoothing, factors.data, low.data.item(), high.data.item()))
    if not ranges:
        return
    steps = ranges[0][0].get_attributes()["levels"] - 1
    below = (
        math.ceil(max(-low / (high - low) for *_, low, high in ranges) * steps - _ROUNDING) / steps
    )  # share of the range below 0
    widths = [
        max(bound / max(share, 1e-9) for bound, share in ((-low, below), (high, 1 - below)))
        for *_, low, high in ranges
    ]
    if any(
        width > _MOST_WIDENED * (high - low)
        for width, (*_, low, high) in zip(widths, ranges, strict=True)
    ):
        return
    for width, (rounding, smoothing, factors, *_) in zip(widths, ranges, strict=True):
        _put(smoothing, 1, factors / width)
        for place, bound in enumerate(
            (-below, 1 - below, -below * width, (1 - below) * width), start=1
        ):
            _put(rounding, place, bound)
    graph.validate_nodes_and_infer_types()


def round_from_zero(graph: ov.Model) -> None:
    """Make the lowest of the 256 values the zero point of product inputs, in place.

    W x + b = W (x - low) + (b + W low), so the bias absorbs the shift and answers stay the same.
    With another zero point the CPU plugin adds W low to each output, multiplies by the weight
    scales, and then adds b. Without that step, products with AMX ran a quarter faster.
    """
    for rounding in _roundings(graph):
        low, high = (_source(rounding, place).data for place in (3, 4))
        products = _readers(rounding)
        behind = [
            (sums, addition)
            for product in products
            if (sums := _sums(product)) is not None
            if (addition := _addition(product))
        ]
        if low.size > 1 or not products or len(behind) < len(products):
            continue
        for sums, addition in behind:
            bias = _source(addition, 1).data
            _put(addition, 1, bias + low.item() * sums.reshape(bias.shape))
        _put(rounding, 3, 0.0)
        _put(rounding, 4, high.item() - low.item())
    graph.validate_nodes_and_infer_types()


def _sums(product: Node) -> np.ndarray | None:
    """Sum of the int8 weights for each output of a product, float64; None for other nodes."""
    if product.get_type_name() != "MatMul" or not product.get_attributes()["transpose_b"]:
        return None
    scaled = _source(product, 1)
    if scaled.get_type_name() != "Multiply" or _source(scaled, 0).get_type_name() != "Convert":
        return None
    weights, scales = _source(_source(scaled, 0), 0), _source(scaled, 1)
    if any(node.get_type_name() != "Constant" for node in (weights, scales)):
        return None
    return (weights.data.astype(np.float64) * scales.data).sum(axis=1)


def _addition(product: Node) -> Node | None:
    readers = _readers(product)
    if (
        len(readers) != 1
        or readers[0].get_type_name() != "Add"
        or _source(readers[0], 1).get_type_name() != "Constant"
    ):
        return None
    return readers[0]


def _roundings(graph: ov.Model) -> list[Node]:
    return [node for node in graph.get_ordered_ops() if node.get_type_name() == "FakeQuantize"]


def _source(node: Node, place: int) -> Node:
    return node.input_value(place).get_node()


def _readers(node: Node) -> list[Node]:
    return [target.get_node() for target in node.output(0).get_target_inputs()]


def _put(node: Node, place: int, values: np.ndarray | float) -> None:
    node.input(place).replace_source_output(ops.constant(np.asarray(values, np.float32)).output(0))
