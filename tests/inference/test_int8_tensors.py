"""The int8 tensors taken from NNCF's graph rebuild it, and their changes keep its answers."""

import numpy as np
import pytest

from bertcnn.inference import SpansEngine, compiled_model, packed_windows
from bertcnn.inference.int8_tensors import int8_tensors, round_from_zero, share_activation_range
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.openvino_graph import classifier_graph, spans_graph
from bertcnn.inference.quantization import quantized_by_nncf
from bertcnn.models import build_classifier, extract
from bertcnn.settings import HeadSettings
from bertcnn.shapes import int8_shapes, question_answering_shapes
from tests.inference.test_openvino_graph import rows
from tests.inference.test_quantization import batches
from tests.tiny import noisy, tiny_settings

HEAD = HeadSettings(filters=8)
ACTIVATIONS = [("gelu", 2), ("gelu_tanh", 1), ("relu", 2)]


class Classifier:
    """A classifier with random weights, NNCF's graph of it, and the tensors of that graph."""

    def __init__(self, activation="gelu", layers=2, weight_bits=7):
        self.encoder = tiny_settings(activation=activation, layers=layers)
        self.weights = extract(noisy(build_classifier(self.encoder, HEAD, 3, seed=1)).weights)
        plain = classifier_graph(self.weights, self.encoder, HEAD, int8_tokens=True)
        self.graph = quantized_by_nncf(plain, batches(rows(seed=1)), weight_bits)
        self.tensors = int8_tensors(self.graph, self.encoder, HEAD)

    def run(self, int8):
        graph = classifier_graph(self.weights, self.encoder, HEAD, int8=int8)
        return OpenVINOEngine.of_graph(graph, 0, "int8").run(rows(seed=2), evidence=True)


@pytest.fixture(scope="module")
def classifier():
    return Classifier()


@pytest.mark.parametrize(("activation", "layers"), ACTIVATIONS)
def test_a_graph_of_the_tensors_computes_what_nncfs_graph_does(activation, layers):
    model = Classifier(activation, layers)
    nncf = OpenVINOEngine.of_graph(model.graph, 0, "int8").run(rows(seed=2), evidence=True)
    ours = model.run(model.tensors)
    np.testing.assert_array_equal(
        ours.requested_evidence.activations, nncf.requested_evidence.activations
    )
    np.testing.assert_array_equal(ours.requested_evidence.means, nncf.requested_evidence.means)
    # NNCF multiplies the features by factors and divides the last weights, in float32, by them
    np.testing.assert_allclose(ours.logits, nncf.logits, atol=1e-5)


def test_so_does_a_graph_for_question_answering():
    encoder = tiny_settings()
    generator = np.random.default_rng(0)
    weights = {
        name: generator.normal(size=shape).astype(np.float32)
        for name, shape in question_answering_shapes(encoder).items()
    }
    ids = rows(seed=1)
    inputs = [batch for _, batch in packed_windows(ids, 0)]
    graph = quantized_by_nncf(spans_graph(weights, encoder, int8_tokens=True), inputs, 7)
    own = spans_graph(weights, encoder, int8=int8_tensors(graph, encoder))
    nncf, ours = (
        SpansEngine(lambda model=model: compiled_model(lambda: model), 0, "int8").run(ids)
        for model in (graph, own)
    )
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(nncf), atol=1e-4)


def test_shapes_types_and_weights_are_those_of_the_network(classifier):
    shapes = int8_shapes(classifier.encoder, HEAD)
    assert {name: values.shape for name, values in classifier.tensors.items()} == shapes
    for name, values in classifier.tensors.items():
        assert values.dtype == (np.int8 if name.endswith("/weights") else np.float32)
        if name.endswith("/weights") and name != "taps/weights":
            product = name.removesuffix("/weights")
            place = (
                product.rpartition("/")[0]
                if product.endswith(("query", "key", "value"))
                else product
            )
            factors = classifier.tensors[f"{place}/input_factors"]
            scaled = values * classifier.tensors[f"{product}/scales"][:, None] * factors
            kernel = classifier.weights[f"{product}/kernel"].T
            assert np.corrcoef(scaled.ravel(), kernel.ravel())[0, 1] > 0.99, name


@pytest.mark.parametrize("int8_tokens", [False, True])
def test_a_graph_in_float32_has_no_int8_tensors(classifier, int8_tokens):
    plain = classifier_graph(classifier.weights, classifier.encoder, HEAD, int8_tokens=int8_tokens)
    with pytest.raises(ValueError, match="0 products in int8, not 13"):
        int8_tensors(plain, classifier.encoder, HEAD)


def test_product_inputs_are_shifted_to_zero_without_changing_answers(classifier):
    moved = dict(classifier.tensors)
    round_from_zero(moved)
    for name, bounds in moved.items():
        if name.endswith("/input_range") and name != "taps/input_range":  # these have no bias
            before = classifier.tensors[name]
            np.testing.assert_array_equal(bounds[:2], before[:2])
            np.testing.assert_allclose(bounds[2:], [0, before[3] - before[2]], rtol=1e-6)
    assert not np.array_equal(
        moved["layer_0/expand/bias"], classifier.tensors["layer_0/expand/bias"]
    )
    before, after = classifier.run(classifier.tensors).logits, classifier.run(moved).logits
    # a sum in another order can move a value to the next of 256 steps
    assert np.abs(before - after).max() < 0.1 * before.std()
    assert np.median(np.abs(before - after)) < 1e-3 * before.std()


@pytest.mark.parametrize(
    ("others", "is_shared"),
    [((-0.17, 1.3), True), ((0.0, 2.0), True), ((-0.17, 0.0), False), ((-0.17, 0.5), False)],
)
def test_a_range_is_shared_where_that_moves_no_number_by_more_than_a_step(others, is_shared):
    encoder = tiny_settings()
    values = np.linspace(-4, 4, encoder.feed_forward_width, dtype=np.float32)

    def rounded(tensors, layer):
        """Values as FakeQuantize defines them, in the scale before the factors."""
        factors = tensors[f"layer_{layer}/contract/input_factors"]
        low, high, value_low, value_high = tensors[f"layer_{layer}/contract/input_range"]
        steps = np.rint((np.clip(values * factors, low, high) - low) / (high - low) * 255)
        return steps / 255 * (value_high - value_low) + value_low

    def tensors():
        found = {}
        for layer, ((low, high), factor) in enumerate([((-0.1, 1.2), 0.5), (others, 2.0)]):
            found[f"layer_{layer}/contract/input_factors"] = np.full(len(values), factor, "f4")
            found[f"layer_{layer}/contract/input_range"] = np.array([low, high] * 2, "f4")
        return found

    own, shared = tensors(), tensors()
    share_activation_range(shared, encoder)
    bounds = [shared[f"layer_{layer}/contract/input_range"][:2].tolist() for layer in range(2)]
    assert (bounds[0] == bounds[1]) is is_shared
    for layer, (low, high) in enumerate([(-0.1, 1.2), others]):
        before, after = rounded(own, layer), rounded(shared, layer)
        inside = (before > low) & (before < high)  # the shared range may extend beyond its own
        np.testing.assert_allclose(after[inside], before[inside], atol=2 * max(high, -low) / 100)
