"""The compiled graph says what the Keras model says."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops

from bertcnn.data.batches import BatchPlan, pad, plan_compiled
from bertcnn.engines.keras_engine import KerasEngine
from bertcnn.engines.openvino_engine import OpenVINOEngine
from bertcnn.engines.openvino_graph import ROWS_TOGETHER, classifier_graph
from bertcnn.errors import BundleError
from bertcnn.models.classifier import BertCnn, CnnHead, build_classifier
from bertcnn.models.weights import extract
from bertcnn.settings import EncoderSettings, HeadSettings

SHAPE = {"vocabulary_size": 50, "width": 16, "layers": 2, "heads": 4, "feed_forward_width": 24, "max_positions": 40}


def noisy(encoder, head, classes=3):
    """A classifier in which no weight is 0 or 1, so that none can be forgotten unnoticed."""
    model = build_classifier(encoder, head, classes, seed=1)
    generator = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(np.asarray(weight) + 0.3 * generator.standard_normal(weight.shape))
    return model


def rows(seed=0, longest=40, count=60):
    generator = np.random.default_rng(seed)
    return [generator.integers(1, 50, length).astype(np.int32) for length in generator.integers(2, longest + 1, count)]


def both(model, encoder, head, token_ids):
    graph = classifier_graph(extract(model.weights), encoder, head)
    return OpenVINOEngine.of_graph(graph, 0).run(token_ids, evidence=True), KerasEngine(model, 0).run(token_ids, evidence=True)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("windows", [(2, 3, 4), (1,), (5, 2)])
def test_logits_and_evidence_are_those_of_keras(activation, windows):
    encoder, head = EncoderSettings(**SHAPE, activation=activation), HeadSettings(window_sizes=windows, filters=6)
    ours, reference = both(noisy(encoder, head), encoder, head, rows())
    np.testing.assert_allclose(ours.logits, reference.logits, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.activations, reference.evidence.activations, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.means, reference.evidence.means, atol=1e-4)
    found = reference.evidence.activations > 1e-3
    assert found.mean() > 0.5
    assert np.mean(ours.evidence.windows[found] == reference.evidence.windows[found]) > 0.99  # but for ties


def test_empty_rows_of_a_batch_change_nothing():
    encoder, head, token_ids = EncoderSettings(**SHAPE), HeadSettings(filters=6), [*rows(longest=8, count=600), *rows(seed=1, count=3)]
    assert any(plan.size > len(plan.rows) for plan in plan_compiled(np.array([len(row) for row in token_ids])))
    ours, reference = both(noisy(encoder, head), encoder, head, token_ids)
    np.testing.assert_allclose(ours.logits, reference.logits, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.activations, reference.evidence.activations, atol=1e-4)
    np.testing.assert_allclose(ours.evidence.means, reference.evidence.means, atol=1e-4)


@pytest.mark.parametrize("length", [*ROWS_TOGETHER, 9, 20, 41])
def test_rows_that_go_through_attention_together_do_not_see_each_other(length):
    encoder = EncoderSettings(**{**SHAPE, "max_positions": 48})
    model, generator = noisy(encoder, HeadSettings(filters=6)), np.random.default_rng(length)
    graph = ov.Core().compile_model(
        classifier_graph(extract(model.weights), encoder, HeadSettings(filters=6)), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    for count in (1, 3, 4, 6, 8):  # not all of them can be divided
        token_ids = [generator.integers(1, 50, generator.integers(2, length + 1)).astype(np.int32) for _ in range(count)]
        batch = pad(token_ids, BatchPlan(np.arange(count), length, count), 0)
        found = graph({"token_ids": batch.token_ids, "padding_mask": batch.padding_mask})["logits"]
        np.testing.assert_allclose(found, KerasEngine(model, 0).run(token_ids).logits, atol=1e-4)


@pytest.mark.parametrize(
    ("batch", "scores"),
    [
        ((60, 8), (30, 16)),
        ((7, 8), (7, 8)),
        ((48, 10), (24, 20)),
        ((40, 12), (10, 48)),
        ((42, 12), (42, 12)),
        ((24, 20), (24, 20)),
        ((20, 24), (10, 48)),
        ((12, 40), (6, 80)),
        ((8, 41), (8, 41)),
        ((1, 64), (1, 64)),
    ],
)
def test_as_many_short_rows_go_through_attention_together_as_divide_the_batch(batch, scores):
    encoder, head = EncoderSettings(**{**SHAPE, "max_positions": 64}), HeadSettings(filters=6)
    whole = classifier_graph(extract(build_classifier(encoder, head, 3).weights), encoder, head)
    softmax = next(node for node in whole.get_ordered_ops() if node.get_type_name() == "Softmax")
    attention = ov.Core().compile_model(ov.Model([ops.result(softmax.output(0))], whole.get_parameters(), "attention"), "CPU")
    found = attention({name: np.ones(batch, np.int32) for name in ("token_ids", "padding_mask")})[0]
    groups, length = scores
    assert found.shape == (groups, encoder.heads, length, length)
    own = np.kron(np.eye(length // batch[1]), np.ones((batch[1], batch[1])))  # each row attends to itself alone
    assert (found[..., own == 0] == 0).all()
    assert (found[..., own == 1] > 0).all()


def test_full_batches_hold_rows_that_can_go_together():
    for length, together in ROWS_TOGETHER.items():
        (plan, *_) = plan_compiled(np.full(1000, length), 512)
        assert (plan.length, plan.size % together) == (length, 0)


def test_a_logit_is_the_sum_of_its_filters_and_the_mean(minilm_folder):
    from bertcnn.encoders.convert import load_encoder

    encoder = load_encoder(minilm_folder)
    model = BertCnn(encoder, CnnHead(encoder.settings.width, 4, HeadSettings(), seed=3, name="head"), name="classifier")
    generator = np.random.default_rng(1)
    token_ids = [generator.integers(1000, 30000, length).astype(np.int32) for length in (2, 5, 17, 128, 512)]
    ours, reference = both(model, encoder.settings, HeadSettings(), token_ids)
    np.testing.assert_allclose(ours.logits, reference.logits, atol=1e-4)
    kernel, bias = (np.asarray(weight) for weight in model.head.get_layer("logits").weights)
    hidden = encoder.predict_on_batch(
        {"token_ids": token_ids[2][None], "segment_ids": np.zeros((1, 17), np.int32), "padding_mask": np.ones((1, 17), np.int32)}
    )["sequence_output"]
    parts = np.concatenate([ours.evidence.activations[2], hidden[0].mean(axis=0)])
    np.testing.assert_allclose(ours.logits[2], bias + parts @ kernel, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: tensors.pop("layer_1/expand/bias"),
            "weight 'layer_1/expand/bias' has the shape none, it is missing; expected \\(24,\\)",
        ),
        (lambda tensors: tensors.update({"layer_2/expand/bias": np.ones(24, np.float32)}), "no weight of that name"),
        (lambda tensors: tensors.update({"logits/kernel": np.ones((4, 3), np.float32)}), "'logits/kernel' has the shape \\(4, 3\\)"),
    ],
)
def test_tensors_that_do_not_fit_are_told(change, message):
    encoder, head = EncoderSettings(**SHAPE), HeadSettings(filters=6)
    tensors = extract(build_classifier(encoder, head, 3).weights)
    change(tensors)
    with pytest.raises(BundleError, match=message):
        classifier_graph(tensors, encoder, head)
