"""The search space of settings."""

import optuna
import pytest
from optuna.trial import FixedTrial

from bertcnn.settings import FROZEN, FROZEN_HEAD, FULL, HeadSettings
from bertcnn.training.recipes import recipe_settings
from bertcnn.workflows.space import LONGEST, defaults, suggest


@pytest.mark.parametrize("recipe", ["frozen", "full"])
@pytest.mark.filterwarnings("error")  # Optuna warns of a value outside its bounds
def test_the_defaults_are_inside_the_space(recipe):
    training, head = suggest(FixedTrial(defaults(recipe, 20)), recipe, 20)
    own = FROZEN if recipe == "frozen" else FULL
    assert recipe_settings(recipe, training) == own.model_copy(
        update={"epochs": 20, "fewest_steps": 0, "class_weight": "sqrt"}
    )  # None means sqrt
    assert head == (FROZEN_HEAD if recipe == "frozen" else HeadSettings())


@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_every_point_gives_valid_settings(recipe):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = set()
    for _ in range(40):
        trial = study.ask()
        training, head = suggest(trial, recipe, 6)
        assert 3 <= recipe_settings(recipe, training).epochs <= LONGEST * 6
        seen |= {training["class_weight"], training["epochs"], head.window_sizes}
        assert suggest(FixedTrial(trial.params), recipe, 6) == (training, head)
    assert {"none", "sqrt", "balanced", 3, (1,), (2, 3, 4, 5)} <= seen
    assert ("layer_decay" in trial.params) == (recipe == "full")
