"""The recipes full, frozen and few-shot."""

from functools import partial

import numpy as np
import pytest

from bertcnn.data.packing import Packing, lay_out
from bertcnn.errors import SettingsError
from bertcnn.models import BertCnn, CnnHead, Forward, extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT, FROZEN, FULL, HeadSettings
from bertcnn.training import RunOptions, TrainingData, on_used_pieces, recipe_settings, train
from bertcnn.training.batches import Examples
from bertcnn.training.fit import fit
from tests.learnable import CLASSES, new_encoder

HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = FULL.model_copy(
    update={"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "compiled_shapes": 1}
)


@pytest.fixture(scope="module")
def rows(make_rows):
    return make_rows(32, 0), make_rows(12, 1)


def run(rows, recipe="full", seed=0, settings=SETTINGS):
    encoder = new_encoder()
    model, result = train(
        encoder, TrainingData(*rows), HEAD, recipe, settings, RunOptions(seed, Silent())
    )
    return encoder, model, result


@pytest.fixture(scope="module")
def full(rows):
    return run(rows)


def test_full_training_gives_the_weights_that_the_whole_vocabulary_would(full, rows):
    packing = Packing(rows[0].lengths, SETTINGS.batch_size, int(rows[1].lengths.max()))
    whole = new_encoder(packed=True)
    model = BertCnn(
        whole, CnnHead(16, CLASSES, HEAD, documents=packing.documents, seed=0, name="head")
    )
    examples = [
        Examples(partial(lay_out, part.token_ids), part.lengths, part.labels, packing)
        for part in rows
    ]
    result = fit(model, *examples, SETTINGS, RunOptions(0, Silent()), layers=1)
    encoder, classifier, compact_result = full
    expected, untrained = extract(whole.weights), extract(new_encoder().weights)
    for name, value in extract(encoder.weights).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)
    for mine, theirs in zip(classifier.head.weights, model.head.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(compact_result.valid_logits, result.valid_logits, rtol=0, atol=1e-4)
    used = np.unique(np.concatenate(rows[0].token_ids))
    moved = np.flatnonzero(
        (expected["embeddings/tokens"] != untrained["embeddings/tokens"]).any(axis=1)
    )
    assert moved.tolist() == used.tolist()


def test_the_smaller_encoder_computes_in_the_requested_precision(make_rows, tiny_encoder):
    encoder, token_ids = tiny_encoder(), make_rows(6, 0).token_ids
    small, _ = on_used_pieces(encoder, token_ids, 0.0, policy="mixed_bfloat16")
    layer = small.get_layer("layer_0")
    assert (layer.compute_dtype, layer.variable_dtype) == ("bfloat16", "float32")
    small, _ = on_used_pieces(encoder, token_ids, 0.0)
    assert small.get_layer("layer_0").compute_dtype == "float32"


def test_the_classifier_gives_equal_logits_on_padded_and_packed_rows(full, rows, token_examples):
    _, model, result = full
    valid = token_examples(rows[1])
    np.testing.assert_allclose(
        Forward(model).rows(valid.collate, valid.lengths), result.valid_logits, rtol=0, atol=1e-5
    )


@pytest.mark.on_jax
@pytest.mark.parametrize(("share", "still"), [(0.5, 1), (0.99, 2)])
def test_the_lowest_layers_and_the_embeddings_stay_as_they_are(rows, share, still):
    settings = SETTINGS.model_copy(update={"frozen_share": share})
    encoder = new_encoder(layers=3)
    train(encoder, TrainingData(*rows), HEAD, "full", settings, RunOptions(0, Silent()))
    untrained = extract(new_encoder(layers=3).weights)
    moved = {
        name.partition("/")[0]
        for name, value in extract(encoder.weights).items()
        if (value != untrained[name]).any()
    }
    assert moved == {f"layer_{place}" for place in range(still, 3)}


def test_rows_are_padded_on_request(rows):
    _, _, result = run(rows, settings=SETTINGS.model_copy(update={"packed": False}))
    assert result.padded_lengths == (24,)


def test_the_same_seed_gives_the_same_weights_bit_for_bit(full, rows):
    again = run(rows)
    for mine, theirs in zip(full[1].weights, again[1].weights, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    np.testing.assert_array_equal(full[2].valid_logits, again[2].valid_logits)
    assert full[2].epochs == again[2].epochs


def test_frozen_leaves_the_encoder_untouched_and_trains_the_head(rows):
    encoder, model, result = run(rows, "frozen")
    untouched = extract(new_encoder().weights)
    for name, value in extract(encoder.weights).items():
        np.testing.assert_array_equal(value, untouched[name])
    fresh = CnnHead(16, CLASSES, HEAD, seed=0)
    for trained, start in zip(model.head.trainable_weights, fresh.trainable_weights, strict=True):
        assert not np.array_equal(trained.numpy(), start.numpy()), trained.path
    assert result.valid_logits.shape == (12, CLASSES)


def test_a_recipes_settings_are_its_defaults_with_changes():
    assert recipe_settings("full", {}) == recipe_settings("auto", {}) == FULL
    assert recipe_settings("full", {}, multi_label=True) == FULL
    assert recipe_settings("few-shot", {"epochs": 7}) == FEW_SHOT.model_copy(update={"epochs": 7})


@pytest.mark.parametrize(
    ("given", "multi_label", "changed"),
    [
        ({"batch_size": 7}, False, {"batch_size": 7}),
        ({}, True, {"fewest_steps": 600}),
        ({"fewest_steps": 5}, True, {"fewest_steps": 5}),
        # epochs that are asked for hold on a small file too
        ({"epochs": 7}, False, {"epochs": 7, "fewest_steps": 0}),
        ({"epochs": 7, "fewest_steps": 50}, False, {"epochs": 7, "fewest_steps": 50}),
    ],
)
def test_frozen_has_more_steps_for_several_labels_by_default(given, multi_label, changed):
    found = recipe_settings("frozen", given, multi_label=multi_label)
    assert found == FROZEN.model_copy(update=changed)


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(SettingsError, match="was given the unknown key 'epoch'; expected only"):
        recipe_settings("full", {"epoch": 3})
    with pytest.raises(SettingsError, match=r"TrainingSettings\.learning_rate was 'nan'; expected"):
        recipe_settings("full", {"learning_rate": float("nan")})
