"""Trains the next model from the old rows and people's decisions."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertcnn.data import AUTO, NO, join_labels
from bertcnn.doctor import check_csv
from bertcnn.errors import LabelError
from bertcnn.inference import load
from bertcnn.progress import Progress, Silent
from bertcnn.review.comparing import compare_models, rows_to_compare_on
from bertcnn.review.corrected_rows import Correction, corrections, held_out_hashes, hold_out_rows
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import add_model, serving_model
from bertcnn.review.people import Person
from bertcnn.review.store import ReviewStore
from bertcnn.review.tickets import answer_waiting, text_hash
from bertcnn.review.training_files import TrainingFile
from bertcnn.tables import TableWriter, read_labelled
from bertcnn.text import is_blank
from bertcnn.wording import count
from bertcnn.workflows import train_csv

if TYPE_CHECKING:
    from bertcnn.classifier import BertCNNClassifier

MOST_OF_A_PERSON = 0.5  # of all corrections, if several people decide
_FINDINGS = 3  # shown before the training
_FEW = 20  # corrections that everybody may contribute


@dataclass(frozen=True)
class TrainingRows:
    """Training rows of the next model.

    Attributes:
        labels: of the rows; several are joined in one string by `separator`.
        learned: hashes of the file's texts, which the serving model was trained on.
        strange: texts that people decided belong to no label.
        corrected: number of rows from people.
        held_out: number of texts held out from training.
        capped: number of corrections left out, by person.
    """

    texts: list[str]
    labels: list[str]
    separator: str | None
    learned: frozenset[str]
    strange: list[str]
    corrected: int
    held_out: int
    capped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Retraining:
    """The result of `retrain`: model id, training rows, comparison as JSON (None if impossible)."""

    model: str
    rows: TrainingRows
    comparison: dict[str, Any] | None


def retrain(  # noqa: PLR0913 - options that callers name
    store: ReviewStore,
    data: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    person: Person,
    classifier: BertCNNClassifier | None = None,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    check: bool = True,
    progress: Progress | None = None,
) -> Retraining:
    """Train a model on the old rows and the corrections, add it, and compare it.

    A fifth of the decided texts and all audits are held out. If several people decide, at most half
    of the corrections come from one person. A correction replaces old rows with the same text. The
    findings of `check_csv` are reported before training. A first model then answers the waiting
    tickets. The place and the hash of `data` are kept with the model; see `training_file`.

    Args:
        store: an open store.
        data: the serving model's training file; None for corrections only.
        out: the folder of the new model.
        person: an admin.
        classifier: how to train; by default `BertCNNClassifier()`.
        text: text column or columns of `data`; guessed by default.
        label: its label column; guessed by default.
        check: report problems in the rows first.
        progress: progress callback.

    Raises:
        RoleError: the person is not an admin.
        LabelError: fewer than two labels, or no rows.
        TableError: `data` cannot be read.
        OutputError: `out` exists or cannot be written.
    """
    person.needs("admin", "train a model")
    progress = progress or Silent()
    rows = training_rows(store, data, text=text, label=label, progress=progress)
    learned_from = None if data is None else TrainingFile.of(data, text=text, label=label).to_json()
    progress.note(
        f"{count(len(rows.texts), 'row')} to learn from, {rows.corrected:,} of them from people;"
        f" {count(rows.held_out, 'text')} held out to compare models on"
    )
    for name, left in rows.capped.items():
        progress.note(f"{count(left, 'correction')} of {name} left out: more than half of all")
    with tempfile.TemporaryDirectory(prefix="bertcnn-") as scratch:
        file = _written(Path(scratch) / "rows.csv", ("text", "label"), rows.texts, rows.labels)
        strange = None
        if rows.strange:
            strange = _written(Path(scratch) / "out-of-scope.csv", ("text",), rows.strange)
        several = rows.separator or NO  # not guessed: a label may contain a common separator
        if check:
            encoder = "minilm-l6" if classifier is None else classifier.encoder
            report = check_csv(
                file, text="text", label="label", multi_label=several, encoder=encoder
            )
            for finding in report.findings[:_FINDINGS]:
                progress.note(f"the doctor: {finding.title}")
        train_csv(
            file,
            Path(out),
            classifier,
            text="text",
            label="label",
            multi_label=several,
            out_of_scope=strange,
        )
    champion = serving_model(store)
    added = add_model(store, out, person, figures={"data": learned_from})
    comparison = None
    if champion is None:  # tickets came before the first model
        answer_waiting(store, load(Path(out)), progress=progress)
    if champion is None or champion.id == added.id:
        return Retraining(added.id, rows, None)
    if rows_to_compare_on(store, rows.learned):
        comparison = compare_models(
            store, added.id, person, learned=rows.learned, progress=progress
        ).to_json()
    else:
        progress.note("not compared: no decided ticket that neither model has learned")
    return Retraining(added.id, rows, comparison)


def training_rows(
    store: ReviewStore,
    data: str | os.PathLike[str] | None,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    progress: Progress | None = None,
) -> TrainingRows:
    """The training rows of the next model; see `retrain`."""
    held_out_count = hold_out_rows(store)
    held_out = held_out_hashes(store)
    used = labels_in_use(store)
    separator = used.separator
    learned: set[str] = set()
    rows: dict[str, tuple[str, str]] = {}
    repeated: list[tuple[str, str]] = []  # equal texts of the file stay repeated
    if data is not None:
        # the serving model was trained on this file, so its labels use the same separator
        several = separator or (NO if used.names else AUTO)
        table = read_labelled(
            Path(data), text=text, label=label, multi_label=several, progress=progress
        )
        separator = table.separator
        for words, names in zip(table.texts, table.sets, strict=True):
            key = text_hash(store, words)
            learned.add(key)
            if is_blank(words) or not names or key in held_out:
                continue
            row = (words, join_labels(names, separator) if separator else names[0])
            if key in rows:
                repeated.append((key, words))
            rows.setdefault(key, row)
    chosen, capped = _capped(list(corrections(store, held_out=False)), store)
    corrected = {one.text_hash: one for one in chosen}
    strange = [one.text for one in corrected.values() if not one.label]
    for key, one in corrected.items():
        rows.pop(key, None)
        if one.label:
            rows[key] = (one.text, one.label)
    again = [(words, rows[key][1]) for key, words in repeated if key in rows]
    every = [*rows.values(), *again]
    if len({name for _, name in every}) < 2:
        raise LabelError(
            f"{count(len(every), 'row')} with {len({name for _, name in every})} label",
            expected="rows of at least two labels",
            fix="give the file that the first model was trained on, or decide more tickets",
        )
    return TrainingRows(
        [words for words, _ in every],
        [name for _, name in every],
        separator,
        frozenset(learned),
        strange,
        sum(bool(one.label) for one in corrected.values()),
        held_out_count,
        capped,
    )


def _capped(
    rows: Sequence[Correction], store: ReviewStore
) -> tuple[list[Correction], dict[str, int]]:
    """At most half of the corrections from one person, chosen by a hash of the ticket."""
    by_person = Counter(one.actor for one in rows)
    if len(by_person) < 2:
        return list(rows), {}
    (name, most), *_ = by_person.most_common(1)
    from_others = len(rows) - most
    allowed = max(_FEW, int(from_others * MOST_OF_A_PERSON / (1 - MOST_OF_A_PERSON)))
    if most <= allowed:
        return list(rows), {}
    theirs = sorted(
        (one for one in rows if one.actor == name),
        key=lambda one: store.hashed(f"cap/{one.ticket}"),
    )
    kept = {one.ticket for one in theirs[:allowed]}
    return (
        [one for one in rows if one.actor != name or one.ticket in kept],
        {name: most - allowed},
    )


def _written(file: Path, columns: Sequence[str], *cells: Sequence[str]) -> Path:
    with TableWriter(file, columns) as writer:
        writer.write(zip(*cells, strict=True))
    return file
