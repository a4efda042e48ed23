"""Changes to an int8 graph do not change its answers."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from bertcnn.inference.int8_graph import round_from_zero, share_activation_range


def roundings(graph):
    return [node for node in graph.get_ordered_ops() if node.get_type_name() == "FakeQuantize"]


@pytest.mark.parametrize(
    ("others", "is_shared"),
    [((-0.17, 1.3), True), ((0.0, 2.0), True), ((-0.17, 0.0), False), ((-0.17, 0.5), False)],
)
def test_a_range_is_shared_where_that_moves_no_number_by_more_than_a_step(others, is_shared):
    def graph():
        given, outputs = ops.parameter([1, 4096], np.float32), []
        for low, high, factor in ((-0.1, 1.2, 0.5), (*others, 2.0)):
            smoothed = ops.multiply(ops.gelu(given, "ERF"), np.full((1, 4096), factor, np.float32))
            outputs.append(
                ops.fake_quantize(
                    smoothed, *(np.float32(bound) for bound in (low, high, low, high)), 256
                )
            )
        return ov.Model(outputs, [given])

    def computed(model):
        answers = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(
            [np.linspace(-4, 4, 4096, dtype=np.float32)[None]]
        )
        return [answers[place] for place in range(2)]

    shared = graph()
    share_activation_range(shared)
    bounds = [
        [node.data.item() for node in (value.get_node() for value in rounding.input_values()[1:3])]
        for rounding in roundings(shared)
    ]
    assert (bounds[0] == bounds[1]) is is_shared
    for own, common, (low, high) in zip(
        computed(graph()), computed(shared), [(-0.1, 1.2), others], strict=True
    ):
        inside = (own > low) & (own < high)  # the shared range may extend beyond its own
        np.testing.assert_allclose(common[inside], own[inside], atol=2 * max(high, -low) / 100)


# === Shift to zero ===

LOW, HIGH, WIDTHS = -0.7, 2.3, (24, 16)


def product(chance, hidden, width, *, bias=True):
    """Int8 weights with a scale for each output, as NNCF writes them."""
    weights = ops.convert(
        ops.constant(chance.integers(-63, 64, (width, WIDTHS[0])).astype(np.int8)), "f32"
    )
    scales = chance.uniform(0.001, 0.02, (width, 1)).astype(np.float32)
    found = ops.matmul(hidden, ops.multiply(weights, ops.constant(scales)), False, True)
    return (
        ops.add(found, ops.constant(chance.normal(0, 1, (1, 1, width)).astype(np.float32)))
        if bias
        else found
    )


def quantised(outputs):
    """A graph with `outputs` of one quantised input, [2, 5, 24]."""
    given = ops.parameter([2, 5, WIDTHS[0]], np.float32)
    bounds = [ops.constant(np.float32(bound)) for bound in (LOW, HIGH, LOW, HIGH)]
    return ov.Model(
        outputs(np.random.default_rng(0), ops.fake_quantize(given, *bounds, 256)), [given]
    )


def answers(graph):
    given = np.random.default_rng(1).normal(0.5, 1.0, (2, 5, WIDTHS[0])).astype(np.float32)
    found = ov.Core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([given])
    return [found[place] for place in range(len(graph.outputs))]


def test_product_inputs_are_shifted_to_zero_without_changing_answers():
    def outputs(chance, rounded):
        return [product(chance, rounded, width) for width in WIDTHS]

    graph, moved = quantised(outputs), quantised(outputs)
    round_from_zero(moved)
    (rounding,) = roundings(moved)
    assert [rounding.input_value(place).get_node().data.item() for place in (1, 2)] == [
        np.float32(LOW),
        np.float32(HIGH),
    ]
    assert [rounding.input_value(place).get_node().data.item() for place in (3, 4)] == [
        0,
        pytest.approx(HIGH - LOW),
    ]
    for before, after in zip(answers(graph), answers(moved), strict=True):
        assert np.std(before) > 0.5
        np.testing.assert_allclose(after, before, atol=1e-4)


@pytest.mark.parametrize(
    "outputs",
    [
        lambda chance, rounded: [
            product(chance, rounded, 16),
            ops.relu(rounded),
        ],  # read by other operations too
        lambda chance, rounded: [
            product(chance, rounded, 16, bias=False)
        ],  # no bias to absorb the difference
        lambda chance, rounded: [
            ops.matmul(
                rounded, ops.constant(chance.normal(0, 1, (16, 24)).astype(np.float32)), False, True
            )
        ],
    ],
    ids=["other readers", "no bias", "weights in float32"],
)
def test_what_cannot_be_moved_stays(outputs):
    graph = quantised(outputs)
    round_from_zero(graph)
    (rounding,) = roundings(graph)
    assert rounding.input_value(3).get_node().data.item() == np.float32(LOW)
    for before, after in zip(answers(quantised(outputs)), answers(graph), strict=True):
        np.testing.assert_array_equal(after, before)
