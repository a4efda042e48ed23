"""The options of `train_csv` and `distill_csv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from bertcnn.data import AUTO, check_levels
from bertcnn.errors import SettingsError
from bertcnn.progress import Progress
from bertcnn.settings import PrecisionTargets


class LabelledFileKeywords(TypedDict, total=False):
    """The fields of `LabelledFileOptions` as keywords."""

    text: str | Sequence[str] | None
    label: str | None
    valid: str | Path | None
    unlabelled: str | Path | None
    min_rows: int
    overwrite: bool
    command: str


class TrainingKeywords(LabelledFileKeywords, total=False):
    """The fields of `TrainingOptions` as keywords."""

    out_of_scope: str | Path | None
    multi_label: str
    levels: str | None


class DistillationKeywords(LabelledFileKeywords, total=False):
    """The fields of `DistillationOptions` as keywords."""

    layers: int
    seed: int
    training: Mapping[str, Any] | None
    auto_precision: float | str | PrecisionTargets
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class LabelledFileOptions:
    """The rows that a model learns from, and the model that is saved.

    Attributes:
        text: the text column or columns; guessed by default, or the teacher's.
        label: the label column; guessed by default, or the teacher's.
        valid: a validation file with the same columns, which chooses the epoch and the thresholds;
            by default a tenth of the rows, 10,000 at most.
        unlabelled: a file of unlabelled texts with the same text columns; `few-shot` uses them and
            the rows of the data with a blank label. A distilled model learns the teacher's answers
            to them; more texts bring it closer to the teacher.
        min_rows: labels with fewer rows are merged into their parents ("A > B" of "A > B > C") or
            into the label "other"; no row is lost. For a distillation, the teacher's value.
        overwrite: overwrite an existing model.
        command: the command line, for the report and the card.

    Raises:
        SettingsError: an option is invalid.
    """

    text: str | Sequence[str] | None = None
    label: str | None = None
    valid: str | Path | None = None
    unlabelled: str | Path | None = None
    min_rows: int = 0
    overwrite: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        if self.min_rows < 0:
            raise SettingsError(
                f"min_rows {self.min_rows}",
                expected="a number of rows, 0 or more",
                fix="give for example 5",
            )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(LabelledFileOptions):
    """How labels are read, as well.

    Attributes:
        out_of_scope: the out-of-scope label, or a file of out-of-scope texts; by default as in the
            classifier. See `BertCNNClassifier`.
        multi_label: separator between several labels of a row, such as ","; "auto" finds ; and |
            and lists, "no" takes every cell as one label.
        levels: separator between the levels of a label; by default as in the classifier.
    """

    out_of_scope: str | Path | None = None
    multi_label: str = AUTO
    levels: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.levels is not None:
            check_levels(self.levels)


@dataclass(frozen=True, kw_only=True)
class DistillationOptions(LabelledFileOptions):
    """How the smaller model is trained, as well.

    Attributes:
        layers: number of layers, fewer than the teacher's.
        seed: makes a run repeat exactly on the same machine.
        training: changes to the settings of the recipe "full".
        auto_precision: target precision of automatic predictions; see `BertCNNClassifier`.
        progress: progress callback; none by default.
    """

    layers: int = 3
    seed: int = 0
    training: Mapping[str, Any] | None = None
    auto_precision: float | str | PrecisionTargets = 0.95
    progress: Progress | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        PrecisionTargets.of(self.auto_precision)
