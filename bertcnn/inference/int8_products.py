"""Extracts the int8 products of a quantized OpenVINO graph, for use by other programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bertcnn.errors import BundleError
from bertcnn.inference.runtime import ov

_OF_BLOCK: Final = (
    "attention/query",
    "attention/key",
    "attention/value",
    "attention/output",
    "expand",
    "contract",
)
TAPS: Final = "taps"  # all taps of all windows of the CNN head, in one product
Node = Any  # openvino's node and output classes have no useful types


@dataclass(frozen=True, eq=False)
class Rounding:
    """How a product's input is rounded from float32 to uint8.

    x becomes round(x * factors / step) + zero. n represents (n - value_zero) * value_step.

    Attributes:
        factors: float32 [in], NNCF's smoothing of outliers; None without smoothing.
        step: quantization step of x * factors.
        zero: zero point of the input.
        value_step: step used by the product.
        value_zero: zero point used by the product; the bias corrects any difference from `zero`.
    """

    factors: np.ndarray | None
    step: float
    zero: int
    value_step: float
    value_zero: int


@dataclass(frozen=True, eq=False)
class Int8Product:
    """A matrix product with int8 weights, and its bias.

    Attributes:
        rounding: of the input; the same object for products with a common input.
        weights: int8 [in, out].
        scales: float32 [out], of the weights.
        bias: float32 [out]; None without a bias.
    """

    rounding: Rounding
    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray | None


def int8_products(graph: ov.Model, layers: int) -> dict[str, Int8Product]:
    """The int8 products of a classifier, by name.

    Node names are not reliable, but the order of products is: it follows from the graph's form,
    which `graph_check` has compared with the model's. Keys are `layer_0/attention/query` and so on,
    and `TAPS`.

    `graph` is a quantized `classifier_graph`.

    Raises:
        BundleError: a product of the encoder or of the windows is not in int8.
    """
    names = [f"layer_{layer}/{part}" for layer in range(layers) for part in _OF_BLOCK] + [TAPS]
    roundings: dict[str, Rounding] = {}
    try:
        found = [_product(node, roundings) for node in _in_order(graph) if _has_int8_weights(node)]
    except (AttributeError, ValueError) as error:
        raise _unknown(str(error)) from None
    if len(found) != len(names):
        raise _unknown(f"{len(found)} products in int8, not {len(names)}")
    return dict(zip(names, found, strict=True))


def _unknown(why: str) -> BundleError:
    return BundleError(
        f"engine/ is not int8 as bertcnn makes it ({why})",
        expected="an engine in int8 that this version saved",
        fix="save the model again with this version, or use the engine 'openvino'",
    )


def _in_order(graph: ov.Model) -> Iterator[Node]:
    (logits,) = (node for node in graph.outputs if "logits" in node.get_names())
    seen: set[str] = set()
    waiting = [(logits.get_node(), False)]
    while waiting:
        node, inputs_done = waiting.pop()
        if inputs_done:
            yield node
        elif node.get_name() not in seen:
            seen.add(node.get_name())
            waiting.append((node, True))
            waiting += [
                (_source(node, place), False) for place in reversed(range(node.get_input_size()))
            ]


def _has_int8_weights(node: Node) -> bool:
    if node.get_type_name() != "MatMul" or _source(node, 1).get_type_name() != "Multiply":
        return False
    stored = _source(_source(node, 1), 0)
    return stored.get_type_name() == "Convert" and _source(stored, 0).data.dtype == np.int8


def _product(node: Node, roundings: dict[str, Rounding]) -> Int8Product:
    """Convert a product; `roundings` caches roundings by node name."""
    scaled, rounding = _source(node, 1), _source(node, 0)
    name = rounding.get_name()
    if name not in roundings:
        roundings[name] = _rounding(rounding)
    return Int8Product(
        roundings[name],
        np.ascontiguousarray(_source(_source(scaled, 0), 0).data.T),
        _source(scaled, 1).data.ravel(),
        _bias(node),
    )


def _rounding(node: Node) -> Rounding:
    """The rounding of a FakeQuantize node and the smoothing before it.

    Raises:
        ValueError: it is another node, or has a range per channel.
    """
    if node.get_type_name() != "FakeQuantize":
        raise ValueError("a product whose input is not rounded")
    # .item() raises a ValueError if there are several
    low, high, value_low, value_high = (
        float(_source(node, place).data.item()) for place in range(1, 5)
    )
    steps = node.get_attributes()["levels"] - 1
    step, value_step = (high - low) / steps, (value_high - value_low) / steps
    before = _source(node, 0)
    factors = None
    if before.get_type_name() == "Multiply" and _is_constant(_source(before, 1)):
        factors = _source(before, 1).data.ravel()
    return Rounding(factors, step, round(-low / step), value_step, round(-value_low / value_step))


def _bias(node: Node) -> np.ndarray | None:
    readers = [target.get_node() for target in node.output(0).get_target_inputs()]
    if (
        len(readers) != 1
        or readers[0].get_type_name() != "Add"
        or not _is_constant(_source(readers[0], 1))
    ):
        return None
    return _source(readers[0], 1).data.ravel()


def _is_constant(node: Node) -> bool:
    return bool(node.get_type_name() == "Constant")


def _source(node: Node, place: int) -> Node:
    return node.input_value(place).get_node()
