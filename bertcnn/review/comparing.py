"""Compares a new model with the serving one, on held-out rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertcnn.errors import StoreError
from bertcnn.inference import Predictor, load
from bertcnn.progress import Progress, Silent
from bertcnn.review.corrected_rows import HELD_OUT, Correction, corrections, hold_out_rows
from bertcnn.review.models import KnownModel, find_model, note_comparison, serving_model
from bertcnn.review.people import Person
from bertcnn.review.states import is_right
from bertcnn.review.statistics import Answers, Comparison, compare
from bertcnn.review.store import ReviewStore
from bertcnn.review.tickets import near_duplicates, text_hash
from bertcnn.settings import DECISIONS
from bertcnn.tables import read_labelled

_AT_ONCE = 512  # rows


@dataclass(frozen=True)
class ModelComparison:
    """The comparison of the serving model (champion) with a new one (challenger)."""

    champion: KnownModel
    challenger: KnownModel
    result: Comparison

    def lines(self) -> list[str]:
        """The comparison as text lines."""
        result = self.result
        said = [
            f"{result.verdict}: {result.sentences}",
            f"macro-F1: {result.macro_f1.champion:.4f} now, {result.macro_f1.challenger:.4f} then"
            f" (difference {result.macro_f1.low:+.4f} to {result.macro_f1.high:+.4f})",
        ]
        if result.automated is not None:
            said.append(
                f"automatic: {result.automated.champion:.1%} now,"
                f" {result.automated.challenger:.1%} then"
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "champion": self.champion.id,
            "challenger": self.challenger.id,
            "verdict": self.result.verdict,
            "sentences": self.result.sentences,
            "result": self.result.to_json(),
        }


def compare_models(
    store: ReviewStore,
    challenger: str,
    person: Person,
    *,
    learned: Collection[str] = (),
    progress: Progress | None = None,
) -> ModelComparison:
    """Compare a model with the serving one, and save the result.

    Both answer the decided tickets that `hold_out_rows` keeps from training, without texts whose
    hashes are in `learned` (see `hashes_of`). Each ticket is weighted by the inverse of its
    sampling probability, so the figures are about all tickets, not only about doubtful ones.
    Tickets that belong to no label do not count.

    Raises:
        RoleError: the person is a viewer.
        StoreError: no such model, nothing serves, it is the serving one, or no rows are held out.
        BundleError: a model was moved or deleted.
    """
    person.needs("reviewer", "compare models")
    progress = progress or Silent()
    new, serving = find_model(store, challenger), serving_model(store)
    if serving is None or serving.id == new.id:
        raise StoreError(
            f"a comparison of the model {new.id[:12]} with itself",
            expected="a model other than the serving one",
            fix="train another one: bertcnn retrain",
        )
    rows = rows_to_compare_on(store, learned)
    if not rows:
        raise StoreError(
            "no decided tickets to compare models on",
            expected="tickets that neither model has learned: audits, and a fifth of the reviews",
            fix="decide some first: a few hundred tell little, a thousand a point",
        )
    progress.stage("comparing", 2 * len(rows), "answers")
    answers = [
        _answers(load(model.folder), rows, model.separator, progress) for model in (serving, new)
    ]
    gained = sorted(set(new.labels) - set(serving.labels))
    result = compare(
        [one.label for one in rows],
        *answers,
        groups=[near_duplicates(store, one.text) for one in rows],
        weights=[1 / (one.probability if one.drawn else HELD_OUT) for one in rows],
        gains=[f"the label {name}" for name in gained],
        promised=new.precision,
    )
    comparison = ModelComparison(serving, new, result)
    note_comparison(store, new.id, person, comparison.to_json())
    return comparison


def rows_to_compare_on(store: ReviewStore, learned: Collection[str] = ()) -> list[Correction]:
    """The decided tickets that `compare_models` uses."""
    hold_out_rows(store)
    return [
        one
        for one in corrections(store, held_out=True)
        if one.label and one.text_hash not in learned
    ]


def hashes_of(
    store: ReviewStore,
    data: str | os.PathLike[str],
    *,
    text: str | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> frozenset[str]:
    """Hashes of a training file's texts, for `compare_models`; TableError if unreadable."""
    table = read_labelled(Path(data), text=text, progress=progress)
    return frozenset(text_hash(store, words) for words in table.texts)


def _answers(
    predictor: Predictor, rows: Sequence[Correction], separator: str | None, progress: Progress
) -> Answers:
    """A model's answers; an acceptable variant, such as a parent, is replaced by people's label."""
    labels, automatic = [], []
    for first in range(0, len(rows), _AT_ONCE):
        part = rows[first : first + _AT_ONCE]
        for row, answer in zip(part, predictor.classify([one.text for one in part]), strict=True):
            right = is_right(row.label, answer.label, separator)
            labels.append(row.label if right else answer.label or "")
            automatic.append(answer.decision == DECISIONS[0])
        progress.advance(len(part))
    return Answers(labels, np.array(automatic))
