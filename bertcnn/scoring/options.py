"""The options of `score_csv`, `score_folder`, `score_table` and `extract_csv`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from bertcnn.errors import SettingsError
from bertcnn.inference import EngineName, check_engine
from bertcnn.progress import Progress, Silent
from bertcnn.settings import PrecisionTargets

if TYPE_CHECKING:
    from bertcnn.scoring.cluster import Cluster


class FileKeywords(TypedDict, total=False):
    """The fields of `FileOptions` as keywords."""

    text: str | Sequence[str] | None
    raw: bool
    overwrite: bool
    restart: bool
    allow_rejects: bool
    progress: Progress


class ScoringKeywords(FileKeywords, total=False):
    """The fields of `ScoringOptions` as keywords."""

    auto_precision: float | str | PrecisionTargets | None
    probabilities: bool
    reasons: bool
    engine: EngineName
    cluster: str | Cluster | None


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file is read, and its answers are written.

    Attributes:
        text: the text column or columns; by default the training file's, which must exist, or a
            guess if the model has none.
        raw: do not quote cells that a spreadsheet would run as formulas.
        overwrite: replace an existing output.
        restart: discard the answers of an interrupted run.
        allow_rejects: write the output even if most rows are unreadable.
        progress: progress callback; None shows nothing.
    """

    text: str | Sequence[str] | None = None
    raw: bool = False
    overwrite: bool = False
    restart: bool = False
    allow_rejects: bool = False
    progress: Progress = field(default_factory=Silent)

    def __post_init__(self) -> None:
        if self.progress is None:
            object.__setattr__(self, "progress", Silent())


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(FileOptions):
    """How texts are classified, as well.

    Attributes:
        auto_precision: required precision of automatic answers; see `bertcnn.load`.
        probabilities: add the probability of every label.
        reasons: add the column `reason`.
        engine: of a saved model; see `bertcnn.load`.
        cluster: a Ray cluster for a saved model: "local" starts one on this machine for this run,
            "auto" joins one on this machine, or HOST:PORT.

    Raises:
        SettingsError: the engine is unknown, or the precision is invalid.
    """

    auto_precision: float | str | PrecisionTargets | None = None
    probabilities: bool = False
    reasons: bool = False
    engine: EngineName = "auto"
    cluster: str | Cluster | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_engine(self.engine)
        _ = self.targets

    @property
    def targets(self) -> PrecisionTargets | None:
        """The required precision; None for the model's own."""
        return None if self.auto_precision is None else PrecisionTargets.of(self.auto_precision)

    def refuse(self, *names: str, source: str) -> None:
        """Raise SettingsError if one of these options is given, which `source` does not have."""
        for name in names:
            if getattr(self, name):
                raise SettingsError(
                    f"{name} for {source}",
                    expected="a file or a folder",
                    fix=f"leave out {name}",
                )
