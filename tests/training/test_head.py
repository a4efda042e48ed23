"""Training of the head alone."""

import numpy as np
import pytest

from bertcnn.data.batches import BatchPlan
from bertcnn.inference.keras_embeddings import keras_embed
from bertcnn.models import BertCnn, CnnHead, Forward, extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT, FULL, HeadSettings
from bertcnn.training import RunOptions, TokenizedRows, TrainingData
from bertcnn.training.batches import class_weights
from bertcnn.training.head import train_head
from bertcnn.training.linear_probe import start_from_probe

HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = FULL.model_copy(
    update={"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "compiled_shapes": 1}
)
STILL = FEW_SHOT.model_copy(update={"epochs": 1, "learning_rate": 1e-9, "packed": False})


@pytest.fixture(scope="module")
def rows(make_rows):
    return make_rows(32, 0), make_rows(12, 1)


def trained(tiny_encoder, rows, settings=SETTINGS, *, known=None, refit=False, **given):
    encoder, head = tiny_encoder(), CnnHead(16, 3, HEAD, seed=0, name="head")
    data, run = TrainingData(*rows, detector_rows=known), RunOptions(0, Silent(), refit=refit)
    result = train_head(keras_embed(encoder), head, data, settings, run, **given)
    return encoder, head, result


def embedded(encoder, token_ids):
    found = {}
    keras_embed(encoder)(
        token_ids,
        lambda rows, hidden: found.update({row: hidden[place] for place, row in enumerate(rows)}),
    )
    return [found[row][: len(ids)] for row, ids in enumerate(token_ids)]


def probe_of(encoder, rows):
    means = np.stack([output.mean(axis=0) for output in embedded(encoder, rows.token_ids)])
    head = CnnHead(16, 3, HEAD, seed=0)
    start_from_probe(head, means, rows.labels, class_weights(rows.labels, 3, None)[rows.labels])
    return head


def assert_near(head, other):
    for mine, theirs in zip(head.weights, other.weights, strict=True):
        np.testing.assert_allclose(
            mine.numpy(), theirs.numpy(), atol=0.01 * np.abs(theirs.numpy()).max()
        )  # features are in half precision


def test_the_detectors_rows_are_scored(rows, tiny_encoder, token_examples):
    known = np.array([5, 0, 17])
    encoder, head, result = trained(tiny_encoder, rows, known=known)
    model, part = BertCnn(encoder, head), rows[0].of(known)
    examples = token_examples(part)
    logits, means = result.detector_outputs
    np.testing.assert_allclose(
        logits, Forward(model).rows(examples.collate, examples.lengths), rtol=0, atol=5e-3
    )  # half precision
    hidden = [
        np.asarray(
            encoder.predict_on_batch(
                examples.collate(BatchPlan(np.array([row]), len(part.token_ids[row]), 1))
            )["sequence_output"]
        )
        for row in range(3)
    ]
    np.testing.assert_allclose(means, [row[0].mean(axis=0) for row in hidden], rtol=0, atol=2e-3)


def test_the_head_starts_from_a_linear_probe_and_learns(rows, tiny_encoder):
    encoder, head, _ = trained(tiny_encoder, rows, STILL, probe=True)
    assert_near(head, probe_of(encoder, rows[0]))
    learned = trained(tiny_encoder, rows, FEW_SHOT.model_copy(update={"epochs": 4}), probe=True)[1]
    assert not np.array_equal(
        extract(learned.weights)["logits/kernel"], extract(head.weights)["logits/kernel"]
    )


def test_the_final_training_includes_validation_rows_but_figures_predate_it(
    rows, tiny_encoder, token_examples
):
    encoder, head, result = trained(tiny_encoder, rows, STILL, probe=True, refit=True)
    assert_near(head, probe_of(encoder, rows[0].with_rows(rows[1])))
    _, before, first = trained(tiny_encoder, rows, STILL, probe=True)
    np.testing.assert_array_equal(result.valid_logits, first.valid_logits)
    assert result.epochs == first.epochs
    valid = token_examples(rows[1])
    for logits, one in ((result.model_logits, head), (first.model_logits, before)):
        np.testing.assert_allclose(
            logits,
            Forward(BertCnn(encoder, one)).rows(valid.collate, valid.lengths),
            rtol=0,
            atol=5e-2,
        )
    assert np.abs(result.refit_logits - result.valid_logits).max() > 0.1


def test_trained_once_more_rows_have_the_labels_they_have_then(rows, tiny_encoder):
    turned, all_turned = (
        (rows[0].labels + 1) % 3,
        np.concatenate([(rows[0].labels + 1) % 3, rows[1].labels]),
    )
    encoder, head, _ = trained(
        tiny_encoder, rows, STILL, probe=True, refit=True, refit_labels=turned
    )
    every = rows[0].with_rows(rows[1])
    assert_near(head, probe_of(encoder, TokenizedRows(every.token_ids, all_turned)))
