"""The search space of `tune`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertcnn.settings import FROZEN, FROZEN_HEAD, FULL, HeadSettings

if TYPE_CHECKING:
    from optuna.trial import BaseTrial

LONGEST = 3  # multiple of the default epochs
_FILTERS = (32, 256)
# strings, since an Optuna choice has to be a plain value
_WINDOWS = ("1", "1,2", "2,3", "1,2,3", "2,3,4", "3,4,5", "2,3,4,5")
# The usual 2e-5 to 5e-5 is for BERT-base (Devlin et al. 2019, appendix A.3). MiniLM's layers, half
# as wide, need more. A small head on fixed features tolerates large rates, like a linear model.
_LEARNING_RATES = {"full": (3e-5, 6e-4), "frozen": (5e-4, 2e-2)}


def suggest(trial: BaseTrial, recipe: str, epochs: int) -> tuple[dict[str, Any], HeadSettings]:
    """The settings of a trial: changes to the recipe's `TrainingSettings`, and the CNN head.

    `epochs` is the recipe's default for these rows. Only "full" has layer-wise learning rates.

    Example:
        >>> from optuna.trial import FixedTrial
        >>> training, head = suggest(FixedTrial(defaults("frozen", 20)), "frozen", 20)
        >>> training["learning_rate"], training["epochs"], head.window_sizes
        (0.003, 20, (2, 3, 4))
    """
    training = {
        "learning_rate": trial.suggest_float("learning_rate", *_LEARNING_RATES[recipe], log=True),
        "weight_decay": trial.suggest_float("weight_decay", 1e-4, 0.3, log=True),
        "label_smoothing": trial.suggest_float("label_smoothing", 0.0, 0.3),
        "class_weight": trial.suggest_categorical("class_weight", ("none", "sqrt", "balanced")),
        "epochs": trial.suggest_int("epochs", max(1, epochs // 2), LONGEST * epochs, log=True),
        "fewest_steps": 0,  # keep the epochs as they are
    }
    if recipe == "full":
        training["head_multiplier"] = trial.suggest_float("head_multiplier", 1.0, 30.0, log=True)
        training["layer_decay"] = trial.suggest_float("layer_decay", 0.6, 1.0)
    windows = trial.suggest_categorical("window_sizes", _WINDOWS)
    return training, HeadSettings(
        window_sizes=tuple(map(int, windows.split(","))),
        filters=trial.suggest_int("filters", *_FILTERS, step=32),
        dropout=trial.suggest_float("head_dropout", 0.0, 0.7),
    )


def defaults(recipe: str, epochs: int) -> dict[str, Any]:
    """The recipe's defaults as parameters of a trial."""
    settings, head = (FULL, HeadSettings()) if recipe == "full" else (FROZEN, FROZEN_HEAD)
    names = ("learning_rate", "weight_decay", "label_smoothing", "head_multiplier", "layer_decay")
    return {name: getattr(settings, name) for name in names} | {
        "class_weight": settings.class_weight or "sqrt",
        "epochs": epochs,
        "window_sizes": ",".join(map(str, head.window_sizes)),
        "filters": head.filters,
        "head_dropout": head.dropout,
    }
