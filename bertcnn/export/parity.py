"""Compares an exported model's answers with the original model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from bertcnn.bundle import Bundle
from bertcnn.data import Batch, pad, plan_scoring
from bertcnn.errors import ExportError, one_line
from bertcnn.evaluation import calibrated_probabilities, chosen
from bertcnn.settings import Count, Settings
from bertcnn.text import PAD, WordPieceTokenizer

BOUND: Final = 1e-4  # float32: difference of a probability, caused by the order of additions
CLEAR: Final = 0.2  # int8: a lead in probability that rounding cannot reverse

_Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Parity(Settings):
    """How an exported model's answers compare with the bundle's Keras model.

    Only texts without a clear label in the reference may get another label: `undecided` is the
    largest lead in probability that counts as unclear, or with several labels, the largest distance
    from a label's threshold. In float32, probabilities may differ by at most `bound`; int8 has no
    such bound, because its share of equal labels was validated when the model was saved.
    """

    texts: Count = Field(description="compared")
    bound: _Share | None = Field(
        description="largest accepted difference of a probability; none for int8"
    )
    undecided: _Share = Field(
        description="lead in probability up to which the reference counts as undecided"
    )
    decided_texts: int = Field(
        ge=0, description="texts on which the reference is not undecided; each got its label"
    )
    other_labels: int = Field(ge=0, description="other texts that got another label")
    largest_difference: _Share = Field(description="of a probability")

    def describe(self) -> str:
        """One sentence for the reader."""
        apart = (
            f"probabilities at most {self.largest_difference:.2g} apart"
            if self.largest_difference
            else "equal probabilities"
        )
        if not self.other_labels:
            return f"the same label on all of {self.texts:,} test texts, {apart}"
        return (
            f"the same label on {self.texts - self.other_labels:,} of {self.texts:,} test texts,"
            f" among them all {self.decided_texts:,} on which the model's best label leads by more"
            f" than {self.undecided:g}; {apart}"
        )


def compare(
    reference: np.ndarray,
    exported: np.ndarray,
    texts: Sequence[str],
    *,
    precision: str,
    label_thresholds: Sequence[float] = (),
) -> Parity:
    """Compare the probabilities of an exported model with the reference.

    Probabilities are float32 [rows, C]; `label_thresholds` are for texts with several labels.

    Raises:
        ExportError: a clear label differs, or a probability is not a number or beyond the bound.
    """
    bound = BOUND if precision == "float32" else None
    # two probabilities can each move by the bound
    undecided = CLEAR if bound is None else 2 * bound
    differences = np.nan_to_num(np.abs(exported - reference), nan=1.0).max(axis=1)
    if label_thresholds:
        clear, lead, other_labels = _several(
            reference, exported, np.array(label_thresholds, np.float32)
        )
    else:
        rows, best, other = np.arange(len(texts)), reference.argmax(axis=1), exported.argmax(axis=1)
        lead, other_labels = reference[rows, best] - reference[rows, other], best != other
        clear = reference[rows, best] - np.partition(reference, -2, axis=1)[:, -2]
    wrong = np.flatnonzero((lead > undecided) | ~np.isfinite(exported).all(axis=1))
    if len(wrong):
        text = one_line(texts[wrong[0]], 40)
        raise _refusal(
            f"another label on {len(wrong):,} of {len(texts):,} test texts, such as {text}",
            "the label of the model",
        )
    if bound is not None and differences.max() > bound:
        text = one_line(texts[differences.argmax()], 40)
        raise _refusal(
            f"probabilities {differences.max():.2g} away from the model's on {text}",
            f"at most {bound:g}",
        )
    return Parity(
        texts=len(texts),
        bound=bound,
        undecided=undecided,
        decided_texts=int(np.sum(clear > undecided)),
        other_labels=int(np.sum(other_labels)),
        largest_difference=float(differences.max()),
    )


def _several(
    reference: np.ndarray, exported: np.ndarray, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margins of the reference, margins of wrong labels, and which texts are wrong."""
    margin = np.abs(reference - thresholds)  # [rows, C]
    wrong = chosen(reference, thresholds) != chosen(exported, thresholds)
    return margin.min(axis=1), np.where(wrong, margin, 0.0).max(axis=1), wrong.any(axis=1)


def _refusal(answer: str, expected: str) -> ExportError:
    return ExportError(
        f"the exported model gives {answer}",
        expected=expected,
        fix="nothing was exported; save the model again or choose another format",
    )


def probabilities_by(
    run: Callable[[Batch], np.ndarray], bundle: Bundle, texts: Sequence[str]
) -> np.ndarray:
    """Calibrated probabilities, float32 [rows, C]. `run` maps a padded batch to logits [B, C]."""
    token_ids = (
        WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer).encode(texts).token_ids
    )
    logits = np.empty((len(texts), len(bundle.labels)), np.float32)
    for plan in plan_scoring(np.fromiter(map(len, token_ids), np.int64, len(token_ids))):
        logits[plan.rows] = run(pad(token_ids, plan, bundle.vocabulary.index(PAD)))
    return calibrated_probabilities(logits, bundle.calibration)
