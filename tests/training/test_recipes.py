"""The recipes full, frozen, few-shot and auto."""

import re
from functools import partial

import numpy as np
import pytest

from bertcnn.data.packing import Packing, lay_out
from bertcnn.errors import SettingsError
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.forward import Forward
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FEW_SHOT, FROZEN, FULL, EncoderSettings, HeadSettings
from bertcnn.training.fit import Examples, Fit
from bertcnn.training.recipes import _chosen, choose_recipe, recipe_settings, train

CLASSES = 3
HEAD = HeadSettings(window_sizes=(2,), filters=8)
SETTINGS = FULL.model_copy(update={"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "compiled_shapes": 1})


@pytest.fixture(scope="module")
def rows(make_rows):
    return make_rows(32, 0), make_rows(12, 1)


def new_encoder(*, packed=False):
    shape = EncoderSettings(
        vocabulary_size=150, width=16, layers=1, heads=2, feed_forward_width=32, max_positions=24, attention_dropout=0.0
    )
    return Bert(shape, packed=packed, seed=3, name="bert")


def run(rows, recipe="full", seed=0, settings=SETTINGS):
    encoder = new_encoder()
    model, result = train(encoder, *rows, HEAD, recipe, settings, seed=seed, progress=Silent())
    return encoder, model, result


@pytest.fixture(scope="module")
def full(rows):
    return run(rows)


def test_full_training_gives_the_weights_that_the_whole_vocabulary_would(full, rows):
    packing = Packing(rows[0].lengths, SETTINGS.batch_size, int(rows[1].lengths.max()))
    whole = new_encoder(packed=True)
    model = BertCnn(whole, CnnHead(16, CLASSES, HEAD, documents=packing.documents, seed=0, name="head"))
    examples = [Examples(partial(lay_out, part.token_ids), part.lengths, part.labels, packing) for part in rows]
    result = Fit(model, *examples, SETTINGS, layers=1, seed=0, progress=Silent()).run()
    encoder, classifier, compact_result = full
    expected, untrained = extract(whole.weights), extract(new_encoder().weights)
    for name, value in extract(encoder.weights).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5, err_msg=name)
    for mine, theirs in zip(classifier.head.weights, model.head.weights, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(compact_result.valid_logits, result.valid_logits, rtol=0, atol=1e-4)
    used = np.unique(np.concatenate(rows[0].token_ids))
    moved = np.flatnonzero((expected["embeddings/tokens"] != untrained["embeddings/tokens"]).any(axis=1))
    assert moved.tolist() == used.tolist()


def test_the_classifier_answers_on_padded_rows_what_it_learned_on_packed_ones(full, rows, token_examples):
    _, model, result = full
    valid = token_examples(rows[1])
    np.testing.assert_allclose(Forward(model).rows(valid.collate, valid.lengths), result.valid_logits, rtol=0, atol=1e-5)


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


# === Which recipe ===


@pytest.fixture(scope="module")
def shape():
    return Bert(EncoderSettings(vocabulary_size=9, width=128, layers=1, heads=1, feed_forward_width=512, max_positions=8))


@pytest.mark.on_jax
@pytest.mark.parametrize(
    ("tokens", "rows", "recipe", "reason"),
    [
        (
            20_000,
            1000,
            "full",
            "500 rows a label are enough to train the encoder too, and full fine-tuning would take about 1 min on (a GPU|this CPU)",
        ),
        (600, 30, "few-shot", "15 rows a label are few: all they tell is learned, names of labels too where they help"),
        (10**12, 30, "few-shot", "15 rows a label are few: all they tell is learned, names of labels too where they help"),
        (
            10**12,
            10**9,
            "frozen",
            r"full fine-tuning would take about \d+ min on (a GPU|this CPU), about \d+ min at the least"
            r"; --recipe full does it all the same",
        ),
    ],
)
def test_auto_says_why(shape, tokens, rows, recipe, reason):
    choice = choose_recipe(shape, tokens=tokens, rows=rows, classes=2)
    assert choice.recipe == recipe
    assert re.fullmatch(reason, choice.reason)


@pytest.mark.parametrize(
    ("minutes", "recipe", "ending"),
    [(1e-6, "frozen", r"(, about \d+ min at the least)?, 1e-06 are allowed; --recipe full does it all the same"), (1e6, "full", "")],
)
def test_a_time_budget_is_held_against_this_machine(shape, minutes, recipe, ending):
    choice = choose_recipe(shape, tokens=20_000, rows=1000, classes=2, settings=FULL.model_copy(update={"time_budget": minutes}))
    assert choice.recipe == recipe
    assert re.search(rf"about \d+ min on this CPU \(\d+ GFLOP/s just now\){ending}$", choice.reason)


@pytest.mark.parametrize(
    ("seconds", "changes", "recipe", "without", "ending"),
    [
        (60, {}, "full", {}, "would take about 1 min on this CPU"),
        (60, {"refit": True}, "full", {}, "would take about 2 min on this CPU, the second time on all rows included"),
        (899, {"refit": True}, "full", {}, "would take about 30 min on this CPU, the second time on all rows included"),
        (60, {"refit": True, "time_budget": 2}, "full", {}, "about 2 min on this CPU, the second time on all rows included"),
        (
            61,
            {"refit": True, "time_budget": 2},
            "full",
            {"refit": False},
            "about 1 min on this CPU; of 2 that leaves none to train once more on all rows",
        ),
        (
            121,
            {"refit": True, "time_budget": 2},
            "frozen",
            {},
            "about 4 min on this CPU, about 2 min at the least, 2 are allowed; --recipe full does it all the same",
        ),
        (901, {}, "frozen", {}, "about 15 min on this CPU; --recipe full does it all the same"),
        (450, {"trainings": 2}, "full", {}, "would take about 15 min on this CPU"),
        (451, {"trainings": 2}, "full", {"trainings": 1}, "would take about 8 min on this CPU, 1 training instead of 2"),
        (440, {"trainings": 3}, "full", {"trainings": 2}, "would take about 15 min on this CPU, 2 trainings instead of 3"),
        (901, {"trainings": 2}, "frozen", {}, "about 30 min on this CPU, about 15 min at the least; --recipe full does it all the same"),
        (
            60,
            {"refit": True, "trainings": 2, "time_budget": 3},
            "full",
            {"trainings": 1},
            "about 2 min on this CPU, 1 training instead of 2, the second time on all rows included",
        ),
        (
            60,
            {"refit": True, "trainings": 2, "time_budget": 1.5},
            "full",
            {"trainings": 1, "refit": False},
            "about 1 min on this CPU, 1 training instead of 2; of 1.5 that leaves none to train once more on all rows",
        ),
    ],
)
def test_trainings_are_repeated_as_far_as_there_is_time(seconds, changes, recipe, without, ending):
    choice = _chosen(100.0, seconds, "this CPU", FULL.model_copy(update={"trainings": 1, **changes}), FULL.epochs)
    assert (choice.recipe, choice.changes) == (recipe, without)
    assert choice.reason.endswith(ending)


@pytest.mark.parametrize(
    ("seconds", "changes", "recipe", "without", "ending"),
    [
        (900, {}, "full", {"trainings": 1}, "about 15 min on this CPU, 1 training instead of 2"),
        (1125, {}, "full", {"trainings": 1, "epochs": 4}, "about 15 min on this CPU, 1 training instead of 2, 4 epochs instead of 5"),
        (2250, {"trainings": 1}, "full", {"epochs": 2}, "about 15 min on this CPU, 2 epochs instead of 5"),
        (2251, {}, "frozen", {}, "about 75 min on this CPU, about 15 min at the least; --recipe full does it all the same"),
        (
            120,
            {"time_budget": 1},
            "full",
            {"trainings": 1, "epochs": 2},
            "about 1 min on this CPU, 1 training instead of 2, 2 epochs instead of 5",
        ),
        (
            120,
            {"trainings": 1, "time_budget": 1, "refit": True},
            "full",
            {"epochs": 2, "refit": False},
            "about 1 min on this CPU, 2 epochs instead of 5; of 1 that leaves none to train once more on all rows",
        ),
        (1200, {"refit": True}, "full", {"trainings": 1, "epochs": 3}, "3 epochs instead of 5, the second time on all rows included"),
    ],
)
def test_epochs_become_fewer_where_time_lacks(seconds, changes, recipe, without, ending):
    choice = _chosen(100.0, seconds, "this CPU", FULL.model_copy(update=changes), 2)
    assert (choice.recipe, choice.changes) == (recipe, without)
    assert choice.reason.endswith(ending)


def test_compiling_takes_as_long_for_few_epochs():
    limited = FULL.model_copy(update={"trainings": 1, "time_budget": 1})
    assert _chosen(100.0, 100.0, "this CPU", limited, 1, 20.0).changes == {"epochs": 2}
    assert _chosen(100.0, 100.0, "this CPU", limited, 1, 41.0).recipe == "frozen"


def test_epochs_become_no_fewer_than_the_labels_need_or_than_asked_for(shape):
    tokens = 35 * 10**6  # five epochs take about 35 minutes
    assert choose_recipe(shape, tokens, 10**5, 2).changes == {"trainings": 1, "epochs": 2}
    assert choose_recipe(shape, tokens, 10**5, 2, fewest_epochs=2).changes == {"trainings": 1, "epochs": 2}
    assert choose_recipe(shape, tokens, 10**5, 2, fewest_epochs=3).recipe == "frozen"
    many = 2000  # labels; 10,000 steps are wanted, an epoch has 3,125
    assert choose_recipe(shape, tokens, 10**5, many).recipe == "frozen"


def test_fewer_epochs_take_less_time(shape):
    tokens = 3 * 10**7
    assert choose_recipe(shape, tokens, 10**6, 2, fewest_epochs=FULL.epochs).recipe == "frozen"
    assert choose_recipe(shape, tokens, 10**6, 2, FULL.model_copy(update={"epochs": 1})).recipe == "full"


def test_a_recipes_settings_are_its_defaults_with_changes():
    assert recipe_settings("full", {}) == recipe_settings("auto", {}) == FULL
    assert recipe_settings("few-shot", {"epochs": 7}) == FEW_SHOT.model_copy(update={"epochs": 7})
    assert recipe_settings("frozen", {"batch_size": 7}) == FROZEN.model_copy(update={"batch_size": 7})
    assert recipe_settings("frozen", {}, several=True) == FROZEN.model_copy(update={"fewest_steps": 600})
    assert recipe_settings("frozen", {"fewest_steps": 5}, several=True).fewest_steps == 5
    assert recipe_settings("full", {}, several=True) == FULL


def test_epochs_that_are_asked_for_hold_on_a_small_file_too():
    assert recipe_settings("frozen", {"epochs": 7}) == FROZEN.model_copy(update={"epochs": 7, "fewest_steps": 0})
    assert recipe_settings("frozen", {"epochs": 7, "fewest_steps": 50}) == FROZEN.model_copy(update={"epochs": 7, "fewest_steps": 50})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": 3}, "TrainingSettings was given the unknown key 'epoch'; expected only keys this version knows"),
        ({"epochs": 0}, "TrainingSettings.epochs was '0'; expected input should be greater than or equal to 1"),
        ({"label_smoothing": 1.0}, "TrainingSettings.label_smoothing was '1.0'; expected input should be less than 1"),
        ({"learning_rate": float("nan")}, "TrainingSettings.learning_rate was 'nan'; expected input should be"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes, message):
    with pytest.raises(SettingsError, match=f"^{message}"):
        recipe_settings("full", changes)
