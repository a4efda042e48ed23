"""The compiled graph: tests beyond `tests/export/test_network_parity.py`."""

import numpy as np
import pytest

from bertcnn.data.packing import plan_packed
from bertcnn.errors import BundleError
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.openvino_graph import classifier_graph
from bertcnn.models import build_classifier, extract
from bertcnn.settings import HeadSettings
from tests.tiny import noisy, tiny_settings

SEPARATE = 49  # the id of [SEP]


def rows(seed=0, longest=40, count=60):
    """Token ids of texts; every third one has two segments."""
    generator = np.random.default_rng(seed)
    token_ids = [
        generator.integers(1, SEPARATE, length).astype(np.int32)
        for length in generator.integers(2, longest + 1, count)
    ]
    for number, ids in enumerate(token_ids):
        ids[-1] = SEPARATE
        if number % 3 == 0:
            ids[len(ids) // 2] = SEPARATE
    return token_ids


def both(model, encoder, head, token_ids):
    graph = classifier_graph(extract(model.weights), encoder, head)
    return OpenVINOEngine.of_graph(graph, 0).run(token_ids, evidence=True), KerasEngine(
        model, 0
    ).run(token_ids, evidence=True)


def test_empty_rows_of_a_batch_change_nothing():
    encoder, head = tiny_settings(), HeadSettings(filters=6)
    token_ids = [*rows(longest=8, count=1200), *rows(seed=1, count=3)]
    assert any(
        (plan.slots < 0).all(axis=1).any()
        for plan in plan_packed(np.array([len(row) for row in token_ids]))
    )
    model = noisy(build_classifier(encoder, head, 3, seed=1))
    ours, reference = both(model, encoder, head, token_ids)
    np.testing.assert_allclose(ours.logits, reference.logits, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.activations, reference.evidence.activations, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.means, reference.evidence.means, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: tensors.pop("layer_1/expand/bias"),
            "weight 'layer_1/expand/bias' has the shape none, it is missing; expected \\(24,\\)",
        ),
        (
            lambda tensors: tensors.update({"layer_2/expand/bias": np.ones(24, np.float32)}),
            "no weight of that name",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(change, message):
    encoder, head = tiny_settings(), HeadSettings(filters=6)
    tensors = extract(build_classifier(encoder, head, 3).weights)
    change(tensors)
    with pytest.raises(BundleError, match=message):
        classifier_graph(tensors, encoder, head)
