"""The JSON members of a saved model, as schemas without extra keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, Self

import numpy as np
import pydantic
from pydantic import Field

from bertcnn.data import AUTO, LONGEST_SEPARATOR, MOST_LEVELS
from bertcnn.errors import one_line
from bertcnn.settings import (
    MOST,
    EncoderSettings,
    HeadSettings,
    PrecisionTargets,
    Recipe,
    Settings,
    Share,
    TokenizerSettings,
    Whole,
)

SCHEMA_VERSION: Final = 1
MOST_LABELS: Final = 100_000

_MOST_HELD_OUT = 1 << 17
_LONGEST_NAME = 1 << 16  # characters of a path

Temperature = Annotated[float, Field(ge=0.001, le=100)]  # fitted ones are between 0.05 and 20
OfRows = Field((), max_length=_MOST_HELD_OUT)


class BundleConfig(Settings):
    """`config.json`: the settings to rebuild the model, and its provenance."""

    schema_version: Literal[1] = Field(SCHEMA_VERSION, description="of this file")
    encoder: EncoderSettings
    encoder_name: str = Field(
        min_length=1,
        max_length=_LONGEST_NAME,
        description="catalogue name or folder the training started from",
    )
    head: HeadSettings
    tokenizer: TokenizerSettings
    text_columns: tuple[str, ...] = Field(
        (),
        max_length=1 << 14,
        description="columns joined into one text, in this order; none for lists of texts",
    )
    label_column: str | None = None
    label_separator: str | None = Field(
        None,
        description=(
            "between the labels of a row, '[]' for lists, if a row may have several; null where"
            " each has one"
        ),
    )
    integer_labels: bool = Field(
        False,
        description=(
            "whether the labels were integers, as which a loaded classifier gives them again"
        ),
    )
    boolean_labels: bool = Field(False, description="whether they were booleans, likewise")
    label_levels: str = Field(
        AUTO,
        min_length=1,
        max_length=LONGEST_SEPARATOR,
        description="between a label's levels; 'no' for none, 'auto' as in `Hierarchy.of`",
    )
    out_of_scope_labels: tuple[str, ...] = Field(
        (),
        max_length=MOST_LABELS,
        description="labels of rows that taught which texts are out of scope; never answered",
    )
    languages: tuple[str, ...] = Field(
        (),
        max_length=256,
        description="of the training rows, ISO 639-1; none if unknown",
    )
    merged_labels: dict[str, str] = Field(
        {},
        max_length=MOST_LABELS,
        description="labels of the training file that were too rare, and what they became part of",
    )
    recipe: Recipe
    seed: Annotated[int, Field(ge=0, lt=1 << 64)]
    versions: dict[str, str] = Field(
        max_length=64, description="of bertcnn, keras, its backend and python at training"
    )
    created_at: str = Field(max_length=64, description="ISO 8601")

    def with_scope(self, labels: tuple[str, ...], languages: tuple[str, ...]) -> Self:
        """A copy with the out-of-scope labels and the training languages."""
        return self.model_copy(update={"out_of_scope_labels": labels, "languages": languages})

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tokenizer.max_tokens > self.encoder.max_positions:
            raise ValueError(
                f"max_tokens of at most the encoder's {self.encoder.max_positions} positions, not"
                f" {self.tokenizer.max_tokens}"
            )
        if not self.label_levels.strip():
            raise ValueError(f"label_levels that are not blank, not {self.label_levels!r}")
        try:
            datetime.fromisoformat(self.created_at)
        except ValueError:
            raise ValueError(
                f"created_at as an ISO 8601 time, not {one_line(self.created_at)}"
            ) from None
        return self


class Metrics(Settings):
    """The figures of `metrics.json` that are shown; the file may have others."""

    rows: Whole | None = None
    accuracy: Share | None = None
    macro_f1: Share | None = None
    weighted_f1: Share | None = None


class LabelShiftCalibration(Settings):
    """Data to estimate label shares in unlabelled texts.

    The fields are as in `bertcnn.evaluation.label_shift.ShiftCalibration`.
    """

    temperature: Temperature = Field(description="the logits are divided by it")
    bias: tuple[Annotated[float, Field(ge=-1e6, le=1e6)], ...] = Field(
        min_length=1,
        max_length=MOST_LABELS,
        description="of each label, in the model's order; added to the logits after that",
    )
    shares: tuple[Share, ...] = Field(
        min_length=1,
        max_length=MOST_LABELS,
        description="the mean probability of each label on the held-out rows",
    )
    rows: Annotated[int, Field(ge=1, le=MOST)] = Field(description="held-out rows it was fitted on")


class Calibration(Settings):
    """`calibration.json`: from logits to probabilities (Guo et al. 2017, section 4.2)."""

    temperature: Temperature = Field(description="the logits are divided by it")
    fitted_on_rows: Whole = Field(description="held-out rows it was fitted on")
    label_thresholds: tuple[Share, ...] = Field(
        (),
        max_length=MOST_LABELS,
        description=(
            "if a row may have several labels: the probability from which each is given, in the"
            " model's order"
        ),
    )
    label_shift: LabelShiftCalibration | None = Field(
        None,
        description=(
            "for estimates of how frequent each label is in new texts; null where a row may have"
            " several labels, and in older models"
        ),
    )


class HeldOutParents(Settings):
    """The most probable parents of one level for the rows of `HeldOut`, in the same order."""

    confidence: tuple[Share, ...] = OfRows
    right: tuple[bool, ...] = OfRows


class HeldOut(Settings):
    """The model's answers to the held-out rows, most confident first; numbers only, no texts."""

    confidence: tuple[Share, ...] = OfRows
    predicted: tuple[Annotated[int, Field(ge=0, lt=MOST_LABELS)], ...] = Field(
        (), max_length=_MOST_HELD_OUT, description="places in the model's labels"
    )
    right: tuple[bool, ...] = OfRows
    out_of_scope: Whole = Field(
        0,
        description=(
            "further held-out rows, out of scope, in another language or without a label, and so"
            " never automatic"
        ),
    )
    doubtful: Whole = Field(
        0, description="further ones, too near the limit of the outlier score to be automatic"
    )
    strange: tuple[bool, ...] = Field(
        (),
        max_length=_MOST_HELD_OUT,
        description=(
            "which of the rows are known to be out of scope, so that any answer is wrong; none if"
            " empty"
        ),
    )
    strange_held_back: Whole = Field(
        0, description="further rows that are known to be out of scope, and never automatic"
    )
    parents: tuple[HeldOutParents, ...] = Field(
        (),
        max_length=MOST_LEVELS,
        description="of labels with levels: each level's answers, the deepest first",
    )

    @pydantic.model_validator(mode="after")
    def _same_rows(self) -> Self:
        if not len(self.confidence) == len(self.predicted) == len(self.right):
            raise ValueError("confidence, predicted and right of the same rows")
        if len(self.strange) not in (0, len(self.right)):
            raise ValueError("strange of the same rows, or of none")
        if any(map(bool.__and__, self.strange, self.right)):
            raise ValueError("no right answer to a row out of scope")
        if any(
            not len(level.confidence) == len(level.right) == len(self.right)
            for level in self.parents
        ):
            raise ValueError("parents of the same rows")
        return self

    @property
    def rows(self) -> int:
        """The number of rows, including those that are never automatic."""
        return len(self.right) + self.out_of_scope + self.doubtful + self.strange_held_back

    @property
    def all_strange(self) -> int:
        """The number of rows known to be out of scope."""
        return sum(self.strange) + self.strange_held_back


class Decisions(Settings):
    """`decisions.json`: the thresholds of automatic answers; none means no automatic answers."""

    auto_precision: PrecisionTargets = PrecisionTargets()
    error_probability: Annotated[float, Field(ge=1e-9, lt=1.0)] = Field(
        0.1, description="with which a threshold misses its target"
    )
    thresholds: tuple[Share | None, ...] = Field(
        (),
        max_length=MOST_LABELS,
        description="of each label, in the model's order; null where no confidence is enough",
    )
    own_rows: tuple[str, ...] = Field(
        (),
        max_length=MOST_LABELS,
        description="labels whose threshold rests on their own rows, not on all",
    )
    parent_thresholds: tuple[Share | None, ...] = Field(
        (),
        max_length=MOST_LEVELS,
        description=(
            "of each level of parents, the deepest first: for texts whose label is not certain"
            " enough"
        ),
    )
    reachable: Share | None = Field(
        None,
        description=(
            "the highest precision that the held-out rows can show, where that is below the target"
        ),
    )
    held_out: HeldOut = HeldOut()

    def limits(self, labels: int) -> np.ndarray:
        """The lowest automatic confidence, float32 [labels]; infinite if never automatic."""
        limits = [np.inf if threshold is None else threshold for threshold in self.thresholds]
        return np.array(limits or [np.inf] * labels, np.float32)
