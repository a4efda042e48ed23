"""The products in int8 of a quantised OpenVINO graph, as numbers that another program can use."""

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
TAPS: Final = "taps"  # every tap of every window of the CNN head, in one product
Node = Any  # openvino's node and output classes have no useful types


@dataclass(frozen=True, eq=False)
class Rounding:
    """How float32 becomes uint8 on the way into a product.

    A number is round(x * factors / step) + zero. It stands for (number - value_zero) * value_step.

    Attributes:
        factors: float32 [in], NNCF's smoothing of outliers; None without.
        step: between two numbers, of x * factors.
        zero: the number of 0.
        value_step: what a step is worth to the product.
        value_zero: the number that is worth 0 to the product; where it is not `zero`, the bias
            makes up for it.
    """

    factors: np.ndarray | None
    step: float
    zero: int
    value_step: float
    value_zero: int


@dataclass(frozen=True, eq=False)
class Int8Product:
    """A matrix product with weights in int8, and the bias behind it.

    Attributes:
        rounding: of what goes in; the same object where products share it.
        weights: int8 [in, out].
        scales: float32 [out], of the weights.
        bias: float32 [out]; None without.
    """

    rounding: Rounding
    weights: np.ndarray
    scales: np.ndarray
    bias: np.ndarray | None


def int8_products(graph: ov.Model, layers: int) -> dict[str, Int8Product]:
    """The products of a classifier in int8, by name.

    Names of nodes cannot be relied on. The order in which products are computed can: it follows
    from the graph's form, which `graph_check` has compared with the model's.

    Args:
        graph: of `classifier_graph`, quantised.
        layers: of the encoder.

    Returns:
        `layer_0/attention/query` and so on, and `TAPS`.

    Raises:
        BundleError: some product of the encoder or of the windows is not in int8.
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
    """The nodes that the logits need, each after its inputs, first inputs first."""
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
    """Whether a node is a product with constant weights in int8 and their scales."""
    if node.get_type_name() != "MatMul" or _source(node, 1).get_type_name() != "Multiply":
        return False
    stored = _source(_source(node, 1), 0)
    return stored.get_type_name() == "Convert" and _source(stored, 0).data.dtype == np.int8


def _product(node: Node, roundings: dict[str, Rounding]) -> Int8Product:
    """A product; `roundings` has those that were met before, by their nodes' names."""
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
    """What a FakeQuantize does, and the smoothing before it.

    Raises:
        ValueError: it is another node, or has a range for each channel.
    """
    if node.get_type_name() != "FakeQuantize":
        raise ValueError("a product whose input is not rounded")
    # .item() raises a ValueError where there are several
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
    """What is added to all that a product puts out."""
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
