"""The compiled question-answering engine, compared with the Keras model."""

import numpy as np
import pytest

from bertcnn.errors import BundleError
from bertcnn.inference import SpansEngine, compiled_model, packed_windows, quantize
from bertcnn.inference.openvino_graph import spans_graph
from bertcnn.models import Bert, BertQuestionAnswering, extract
from bertcnn.shapes import question_answering_shapes
from bertcnn.tasks.training import KerasSpans
from tests.tiny import noisy, tiny_settings

SETTINGS = tiny_settings(max_positions=300)
PAD, SEPARATE = 0, 49


@pytest.fixture(scope="module")
def model():
    return noisy(BertQuestionAnswering(Bert(SETTINGS, seed=1)))


@pytest.fixture(scope="module")
def tensors(model):
    weights = extract(model.weights)
    return {name: weights[name] for name in question_answering_shapes(SETTINGS)}


def engine_of(graph, name):
    return SpansEngine(lambda: compiled_model(lambda: graph), PAD, name)


@pytest.fixture(scope="module")
def engine(tensors):
    return engine_of(spans_graph(tensors, SETTINGS), "openvino-float32")


def windows(lengths, seed=0):
    """Token ids of windows of these lengths; half of each is the question."""
    generator = np.random.default_rng(seed)
    token_ids = [generator.integers(1, SEPARATE, length).astype(np.int32) for length in lengths]
    for ids in token_ids:
        ids[[len(ids) // 2 - 1, -1]] = SEPARATE
    return token_ids


MANY = np.random.default_rng(3).permutation([*range(4, 80), *range(80, 301, 11), *[9] * 30])


def test_it_equals_the_keras_model_for_windows_of_many_lengths(model, engine):
    given = windows(MANY)
    plans = [plan for plan, _ in packed_windows(given, PAD)]
    assert max((plan.slots >= 0).sum(axis=1).max() for plan in plans) > 2  # several in a row
    found, expected = engine.run(given), KerasSpans(model, PAD).run(given)
    assert [scores.shape for scores in found] == [(length, 2) for length in MANY]
    for ours, reference in zip(found, expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-4)
    backwards = engine.run(given[::-1])[::-1]
    for ours, other in zip(found, backwards, strict=True):
        np.testing.assert_allclose(other, ours, rtol=0, atol=1e-4)


def test_windows_that_share_a_row_do_not_see_each_other(engine):
    tokens = windows([10, 9, 8, 5])
    (plan,) = [plan for plan, _ in packed_windows(tokens, PAD)]
    assert [sorted(row[row >= 0]) for row in plan.slots] == [[0, 1, 2, 3]]
    before = engine.run(tokens)
    after = engine.run([*tokens[:1], 50 - tokens[1], *tokens[2:]])
    assert np.abs(after[1] - before[1]).max() > 0.1
    for place in (0, 2, 3):
        np.testing.assert_array_equal(after[place], before[place])
        (alone,) = engine.run([tokens[place]])
        np.testing.assert_allclose(alone, before[place], rtol=0, atol=1e-5)


def test_no_windows_give_an_empty_list(model, engine):
    assert engine.run([]) == KerasSpans(model, PAD).run([]) == []
    assert list(packed_windows([], PAD)) == []


def test_int8_is_near_to_float32(tensors, engine):
    batches = [batch for _, batch in packed_windows(windows(MANY, seed=1), PAD)]
    int8 = quantize(spans_graph(tensors, SETTINGS, int8_tokens=True), batches, SETTINGS)
    graph = spans_graph(tensors, SETTINGS, int8=int8)
    given = windows(MANY, seed=2)
    found, expected = (
        np.concatenate(running.run(given)) for running in (engine_of(graph, "int8"), engine)
    )
    assert 0 < np.sqrt(np.mean((found - expected) ** 2)) < 0.2 * expected.std()


def test_tensors_that_do_not_fit_are_refused(tensors):
    with pytest.raises(BundleError, match=r"'spans/bias' has the shape none, it is missing"):
        spans_graph({name: tensors[name] for name in tensors if name != "spans/bias"}, SETTINGS)
    with pytest.raises(BundleError, match="no weight of that name"):
        spans_graph({**tensors, "pooler/bias": np.ones(16, np.float32)}, SETTINGS)
