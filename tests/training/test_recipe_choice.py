"""The recipe that auto selects."""

import re

import keras
import numpy as np
import pytest

from bertcnn.models.bert import Bert
from bertcnn.settings import FULL, EncoderSettings
from bertcnn.training import recipe_choice
from bertcnn.training.recipe_choice import (
    CostEstimate,
    DeviceSpeed,
    choose_recipe,
    fold_count,
    gpu_speed,
)

# the calculations below assume five epochs in which all layers learn
SETTINGS = FULL.model_copy(update={"epochs": 5, "frozen_share": 0.0})


@pytest.fixture(autouse=True)
def _the_same_device_everywhere(monkeypatch):
    monkeypatch.setattr(recipe_choice, "device_speed", lambda: DeviceSpeed("this CPU", 1e11))


@pytest.fixture(scope="module")
def shape():
    return Bert(
        EncoderSettings(
            vocabulary_size=9, width=128, layers=1, heads=1, feed_forward_width=512, max_positions=8
        )
    )


MORE_TIME = "; --time-budget allows more time, and a named --recipe takes all rows"
ALL_THE_SAME = "; --recipe full does it anyway"


@pytest.mark.on_jax
@pytest.mark.parametrize(
    ("tokens", "rows", "recipe", "reason"),
    [
        (
            20_000,
            1000,
            "full",
            "500 rows a label are enough to train the encoder too, and full fine-tuning would take"
            " about 1 min on this CPU",
        ),
        (600, 30, "few-shot", "only 15 rows per label"),
        (20_000, 399, "few-shot", "only 399 rows"),
        (10**12, 30, "few-shot", "only 15 rows per label"),
        (
            10**12,
            2000,
            "frozen",
            r"full fine-tuning would take about [\d,]+ min on this CPU, about [\d,]+ min at least"
            f"; 400 of 2,000 rows are used{MORE_TIME}",
        ),
    ],
)
def test_auto_gives_a_reason(shape, tokens, rows, recipe, reason):
    choice = choose_recipe(shape, tokens=tokens, rows=rows, classes=2)
    assert choice.recipe == recipe
    assert re.fullmatch(reason, choice.reason)


def test_rows_are_few_by_label_and_all_together_but_fewer_where_nothing_was_measured(shape):
    def recipe(rows, classes, **given):
        return choose_recipe(shape, tokens=20 * rows, rows=rows, classes=classes, **given).recipe

    assert [recipe(rows, 2) for rows in (399, 400)] == ["few-shot", "full"]
    assert [recipe(rows, 50) for rows in (1999, 2000)] == ["few-shot", "full"]
    for given in ({"multi_label": True}, {"sentence_encoder": False}):
        assert [recipe(rows, 50, **given) for rows in (999, 1000)] == ["few-shot", "full"]
        assert [recipe(rows, 2, **given) for rows in (39, 40)] == ["few-shot", "full"]


@pytest.mark.parametrize(
    ("minutes", "recipe", "ending"),
    [
        (
            1e-6,
            "frozen",
            r"(, about [\d,]+ min at least)?, 1e-06 are allowed; 400 of 1,000 rows are used.*",
        ),
        (1e6, "full", ""),
    ],
)
def test_a_time_budget_is_held_against_this_machine(shape, minutes, recipe, ending):
    settings = SETTINGS.model_copy(update={"time_budget": minutes})
    choice = choose_recipe(shape, tokens=20_000, rows=1000, classes=2, settings=settings)
    assert choice.recipe == recipe
    measured = r"about [\d,]+ min on this CPU \(\d+ GFLOP/s just now\)"
    assert re.search(f"{measured}{ending}$", choice.reason)


def chosen(seconds, rows=200, classes=2, settings=SETTINGS, **given):
    """The choice if all epochs take this many seconds."""
    given = {"sentence_encoder": False} | given
    return CostEstimate(rows, classes, seconds, settings, **given).choice()


REFIT, TWO_MINUTES, ONE_MINUTE = {"refit": True}, {"time_budget": 2}, {"time_budget": 1}
BY_REFIT = [  # no fewer than 5 epochs
    (60, {}, "full", {}, "would take about 1 min on this CPU"),
    (60, REFIT, "full", {}, "about 2 min on this CPU, the refit on all rows included"),
    (899, REFIT, "full", {}, "about 30 min on this CPU, the refit on all rows included"),
    (
        60,
        REFIT | TWO_MINUTES,
        "full",
        {},
        "about 2 min on this CPU, the refit on all rows included",
    ),
    (
        61,
        REFIT | TWO_MINUTES,
        "full",
        {"refit": False},
        "about 1 min on this CPU; 2 min leave no time for a refit on all rows",
    ),
    (
        121,
        REFIT | TWO_MINUTES,
        "frozen",
        {},
        f"about 4 min on this CPU, about 2 min at least, 2 are allowed{ALL_THE_SAME}",
    ),
    (901, {}, "frozen", {}, f"about 15 min on this CPU{ALL_THE_SAME}"),
]
BY_EPOCHS = [  # no fewer than 2 epochs
    (900, {}, "full", {}, "about 15 min on this CPU"),
    (1125, {}, "full", {"epochs": 4}, "about 15 min on this CPU, 4 epochs instead of 5"),
    (2250, {}, "full", {"epochs": 2}, "about 15 min on this CPU, 2 epochs instead of 5"),
    (2251, {}, "frozen", {}, f"about 38 min on this CPU, about 15 min at least{ALL_THE_SAME}"),
    (120, ONE_MINUTE, "full", {"epochs": 2}, "about 1 min on this CPU, 2 epochs instead of 5"),
    (
        120,
        REFIT | ONE_MINUTE,
        "full",
        {"epochs": 2, "refit": False},
        "2 epochs instead of 5; 1 min leave no time for a refit on all rows",
    ),
    (1200, REFIT, "full", {"epochs": 3}, "3 epochs instead of 5, the refit on all rows included"),
]


@pytest.mark.parametrize(
    ("fewest", "seconds", "changes", "recipe", "without", "ending"),
    [*((5, *case) for case in BY_REFIT), *((2, *case) for case in BY_EPOCHS)],
)
def test_the_refit_and_then_epochs_are_left_out_where_time_lacks(
    fewest, seconds, changes, recipe, without, ending
):
    settings = SETTINGS.model_copy(update=changes)
    choice = chosen(seconds, settings=settings, fewest_epochs=fewest)
    assert (choice.recipe, choice.changes) == (recipe, without)
    assert choice.reason.endswith(ending)


def test_compiling_takes_as_long_for_few_epochs():
    limited = {"settings": SETTINGS.model_copy(update=ONE_MINUTE), "fewest_epochs": 1}
    assert chosen(100.0, compiling=20.0, **limited).changes == {"epochs": 2}
    assert chosen(100.0, compiling=41.0, **limited).recipe == "frozen"


def test_epochs_are_no_fewer_than_needed_or_requested(shape):
    tokens = 35 * 10**6  # five epochs take about 35 minutes
    assert choose_recipe(shape, tokens, 10**5, 2, SETTINGS).changes == {"epochs": 2}
    assert choose_recipe(shape, tokens, 10**5, 2, SETTINGS, fewest_epochs=3).recipe == "frozen"
    many = 2000  # labels; 10,000 steps are wanted, an epoch has 3,125
    assert choose_recipe(shape, tokens, 10**5, many, SETTINGS).recipe == "frozen"


@pytest.mark.parametrize(
    ("seconds", "classes", "changes", "recipe", "rows", "ending"),
    [
        # an epoch takes 750 minutes
        (225_000, 2, {}, "full", 20_000, "about 15 min on this CPU, 1 epoch instead of 5, "),
        (225_000, 2, {"time_budget": 30}, "full", 40_000, "about 30 min on this CPU, 1 epoch .*"),
        (281_250, 2, {}, "full", 16_000, ".*"),  # 500 steps
        (285_000, 2, {}, "frozen", 63_000, "about 950 min at least; "),
        (225_000, 125, {}, "full", 20_000, ".*"),
        (225_000, 126, {}, "frozen", 80_000, ".*"),  # 630 steps are wanted
        (225_000, 40_000, {}, "frozen", 800_000, ".*"),  # 20 rows a label
    ],
)
def test_a_part_of_the_rows_is_learned_from_where_an_epoch_takes_too_long(
    seconds, classes, changes, recipe, rows, ending
):
    settings = SETTINGS.model_copy(update=changes)
    choice = chosen(seconds, 10**6, classes, settings)
    expected = {"epochs": 1, "most_rows": rows} if recipe == "full" else {"most_rows": rows}
    assert (choice.recipe, choice.changes) == (recipe, expected)
    used = "rows instead of 1,000,000" if recipe == "full" else "of 1,000,000 rows are used"
    assert re.search(f"{ending}{rows:,} {used}{MORE_TIME}$", choice.reason)


def test_all_rows_are_learned_from_where_frozen_is_in_time():
    # an epoch takes 16 or 60 minutes, and `frozen` a quarter
    for seconds in (5 * 16 * 60.0, 5 * 60 * 60.0):
        choice = chosen(seconds, 10**6, sentence_encoder=True)
        assert (choice.recipe, choice.changes) == ("frozen", {})
        assert choice.reason.endswith(ALL_THE_SAME)
    choice = chosen(5 * 61 * 60.0, 10**6, sentence_encoder=True)
    assert choice.changes == {"epochs": 1, "most_rows": 240_000}


def test_rows_that_are_seen_once_have_to_be_more():
    an_epoch = 15 * 60.0
    assert chosen(5 * an_epoch, 16_000).changes == {"epochs": 1}
    assert chosen(5 * an_epoch, 15_999).recipe == "frozen"
    assert chosen(5 * an_epoch / 2, 15_999).changes == {"epochs": 2}


def test_layers_that_stay_as_they_are_cost_a_third_of_the_others(shape):
    half = SETTINGS.model_copy(update={"frozen_share": 0.75})
    for tokens in (10**6, 10**7, 10**8, 10**9):
        whole = choose_recipe(shape, tokens, 10**6, 2, SETTINGS)
        assert choose_recipe(shape, 2 * tokens, 10**6, 2, half).reason == whole.reason


def test_frozen_takes_as_long_whatever_full_leaves_out():
    changed = SETTINGS.model_copy(update={"frozen_share": 0.75})
    # an epoch takes an hour, or half of one; `frozen` takes a quarter of an hour
    for seconds, settings in ((5 * 3600.0, SETTINGS), (5 * 1800.0, changed)):
        assert chosen(seconds, 10**6, 9000, settings, sentence_encoder=True).changes == {}
        assert chosen(1.1 * seconds, 10**6, 9000, settings, sentence_encoder=True).changes != {}


@pytest.mark.parametrize(
    ("recipe", "seconds", "held_out", "changes", "folds"),
    [
        ("full", 70, 400, {}, 5),
        ("full", 140, 400, {}, 3),
        ("full", 290, 400, {}, 2),
        ("full", 310, 400, {}, 0),
        ("full", 10_000, 299, {}, 2),
        ("full", 10_000, 299, {"time_budget": 9.0}, 0),
        ("full", 1, 1_000, {}, 0),
        ("full", 10_000, 1_000, {"folds": 4}, 4),
        ("full", 1, 10, {"folds": 0}, 0),
        ("frozen", 1_000, 400, {}, 5),  # a quarter of one of five epochs
        ("few-shot", 10_000, 30, {}, 3),
    ],
)
def test_folds_are_as_many_as_there_is_time_for(shape, recipe, seconds, held_out, changes, folds):
    weights = sum(
        int(np.prod(weight.shape)) for weight in shape.weights if weight.path.startswith("layer_")
    )
    tokens = round(seconds * 1e11 / (6 * weights * SETTINGS.epochs))
    settings = SETTINGS.model_copy(update=changes)
    assert fold_count(recipe, shape, tokens, 1_000, held_out, settings) == folds


@pytest.mark.on_jax
def test_the_time_is_estimated_for_the_gpu_by_its_name_budget_or_not(shape, monkeypatch):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])
    for name, minutes in (("NVIDIA H100 80GB HBM3", 8), ("NVIDIA L4", 31), ("a new one", 45)):
        monkeypatch.setattr(recipe_choice, "device_speed", lambda name=name: gpu_speed(name))
        for budget in (None, 60):
            settings = SETTINGS.model_copy(update={"time_budget": budget})
            choice = choose_recipe(shape, 4 * 10**9, 10**5, 2, settings, fewest_epochs=5)
            assert f"would take about {minutes} min on {name}" in choice.reason


def test_small_steps_take_a_gpu_as_long_as_it_takes_to_start_them():
    speed = gpu_speed("NVIDIA H100 80GB HBM3")
    assert speed.seconds(work=0, steps=1_000) == 20
    assert gpu_speed("NVIDIA H100 80GB HBM3", 8).name == "8 x NVIDIA H100 80GB HBM3"


def test_folds_wait_for_a_gpus_steps_too(shape, monkeypatch):
    card = gpu_speed("NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(recipe_choice, "device_speed", lambda: card)
    steps_in_time = 300 // 0.02 // SETTINGS.epochs
    for rows, folds in ((steps_in_time, 2), (steps_in_time / 4, 5)):
        assert fold_count("full", shape, 1, int(rows) * 32, 400, SETTINGS) == folds
