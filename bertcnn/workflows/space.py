"""Which settings a search tries, and between which bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from bertcnn.data.packing import Packing
from bertcnn.settings import FROZEN, FROZEN_HEAD, FULL, HeadSettings, TrainingSettings

_WINDOWS = (
    "1",
    "1,2",
    "2,3",
    "1,2,3",
    "2,3,4",
    "3,4,5",
    "2,3,4,5",
)  # window sizes; as text, since a choice has to be a plain value
# times the rows of the rarest label that the commonest has: from here on class weights are tried
_IMBALANCED = 3.0
_LONGEST, _SHORTEST = 3.0, 0.5  # times the epochs of the defaults

Parameters = dict[str, Any]


class Suggests(Protocol):
    """Chooses values: a trial of Optuna."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """A number, evenly by its size or by its logarithm."""

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        """A whole number."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:  # noqa: ANN401 - one of the choices
        """One of several."""


@dataclass(frozen=True)
class Bounds:
    """Between which values a setting is searched."""

    low: float
    high: float
    log: bool = False


_BOTH = {"weight_decay": Bounds(1e-4, 0.3, log=True), "label_smoothing": Bounds(0.0, 0.3)}
_TRAINING = {
    # only the head learns: a small, shallow network bears large rates, as any linear model on fixed
    # features does
    "frozen": {"learning_rate": Bounds(5e-4, 2e-2, log=True), **_BOTH},
    # the usual 2e-5 to 5e-5 is for BERT-base (Devlin et al. 2019, appendix A.3); MiniLM's layers,
    # half as wide, want more
    "full": {
        "learning_rate": Bounds(3e-5, 6e-4, log=True),
        "head_multiplier": Bounds(1.0, 30.0, log=True),
        "layer_decay": Bounds(0.6, 1.0),
        **_BOTH,
    },
}
_HEAD_DROPOUT = {"frozen": Bounds(0.1, 0.7), "full": Bounds(0.0, 0.5)}
_FILTERS, _FILTERS_STEP = (32, 256), 32


@dataclass(frozen=True)
class Space:
    """The settings of one recipe that a search may change.

    Attributes:
        recipe: whose settings.
        epochs: that the recipe's defaults train on these rows.
        weighted: whether class weights are tried.
    """

    recipe: Literal["frozen", "full"]
    epochs: int
    weighted: bool

    @classmethod
    def of(
        cls, recipe: Literal["frozen", "full"], labels: Sequence[Any], lengths: np.ndarray
    ) -> Space:
        """The space for a labelled set.

        Args:
            recipe: that is tuned.
            labels: of all rows.
            lengths: int [rows], tokens of the rows that a trial learns from.
        """
        settings = _defaults(recipe)
        counts = Counter(labels).values()
        return cls(
            recipe,
            settings.epochs_of(Packing(lengths, settings.batch_size).steps),
            max(counts) >= _IMBALANCED * min(counts),
        )

    @property
    def most_epochs(self) -> int:
        """That a trial may train."""
        return math.ceil(_LONGEST * self.epochs)

    def in_words(self) -> str:
        """All bounds, which tell one space from another."""
        bounds = (
            _TRAINING[self.recipe],
            _HEAD_DROPOUT[self.recipe],
            _FILTERS,
            _WINDOWS,
            _SHORTEST,
            _LONGEST,
        )
        return f"{self} {bounds} {_defaults(self.recipe)} {self.default_head}"

    def defaults(self) -> Parameters:
        """The recipe's own settings, as a point of this space."""
        settings, head = _defaults(self.recipe), self.default_head
        found: Parameters = {name: getattr(settings, name) for name in _TRAINING[self.recipe]}
        found |= {
            "head_dropout": head.dropout,
            "filters": head.filters,
            "window_sizes": ",".join(map(str, head.window_sizes)),
        }
        return (
            found
            | {"epochs": self.epochs}
            | ({"class_weight": settings.class_weight or "sqrt"} if self.weighted else {})
        )

    @property
    def default_head(self) -> HeadSettings:
        """The recipe's own head."""
        return FROZEN_HEAD if self.recipe == "frozen" else HeadSettings()

    def suggest(self, trial: Suggests) -> Parameters:
        """A point of this space."""
        bounds = {**_TRAINING[self.recipe], "head_dropout": _HEAD_DROPOUT[self.recipe]}
        found: Parameters = {
            name: trial.suggest_float(name, one.low, one.high, log=one.log)
            for name, one in bounds.items()
        }
        found["filters"] = trial.suggest_int("filters", *_FILTERS, step=_FILTERS_STEP)
        found["window_sizes"] = trial.suggest_categorical("window_sizes", _WINDOWS)
        found["epochs"] = trial.suggest_int(
            "epochs", max(1, math.floor(_SHORTEST * self.epochs)), self.most_epochs, log=True
        )
        if self.weighted:
            found["class_weight"] = trial.suggest_categorical(
                "class_weight", ("none", "sqrt", "balanced")
            )
        return found

    def changes(self, point: Parameters) -> tuple[dict[str, Any], HeadSettings]:
        """What a point means: changes to the recipe's `TrainingSettings`, and the head.

        Example:
            >>> space = Space("full", 5, weighted=False)
            >>> point = {**space.defaults(), "window_sizes": "1,2", "learning_rate": 1e-4}
            >>> training, head = space.changes(point)
            >>> training["learning_rate"], training["epochs"], head.window_sizes
            (0.0001, 5, (1, 2))
        """
        head = HeadSettings(
            window_sizes=tuple(int(size) for size in point["window_sizes"].split(",")),
            filters=point["filters"],
            dropout=point["head_dropout"],
        )
        of_head = {"window_sizes", "filters", "head_dropout"}
        training = {name: value for name, value in point.items() if name not in of_head}
        return {**training, "fewest_steps": 0}, head  # the epochs that were found hold as they are

    def settings(self, training: dict[str, Any]) -> TrainingSettings:
        """The recipe's settings with changes."""
        return TrainingSettings(**{**_defaults(self.recipe).model_dump(), **training})


def _defaults(recipe: str) -> TrainingSettings:
    return FROZEN if recipe == "frozen" else FULL
