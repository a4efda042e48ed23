"""Collects the contents of reports and model cards, after a training or an evaluation."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bertcnn.bundle import Bundle, BundleConfig, Decisions
from bertcnn.data import Hierarchy, LabelSet, indicators
from bertcnn.errors import OutputError, SettingsError, one_line
from bertcnn.evaluation import (
    Automation,
    CalibrationFigures,
    Evaluation,
    GroundTruth,
    OutOfScopeRows,
    ScoredPredictions,
    automation,
    compare_calibration,
    describe_decisions,
    describe_held_out,
    describe_promise,
    describe_unknown,
    find_unknown,
    names_of,
    saved_limits,
    saved_warning,
    usual_answer,
)
from bertcnn.inference import Answers, Engine, Predictor
from bertcnn.progress import Progress
from bertcnn.reports.profile import profile_rows
from bertcnn.reports.report import (
    Epoch,
    ExampleGroups,
    ExampleRow,
    Operation,
    Reliability,
    Report,
    render,
    risk_coverage,
)
from bertcnn.reports.slices import Answered, SliceFigures, slice_by_length, slice_by_value
from bertcnn.reports.spurious_tokens import find_spurious_tokens
from bertcnn.settings import DECISIONS
from bertcnn.storage import check_regular, check_target, output_error, write_whole

REPORT = "report.html"

_EXAMPLES = 8  # per kind
_PAIRS, _OF_PAIR = 5, 2
_LONGEST = 700  # characters per example
_AT_ONCE = 1024  # rows per batch
_AROUND = 200  # characters before the first highlight in a longer text

_CAUTION = (
    "Measured on the validation rows. They chose the epoch and the temperature, so expect slightly"
    " less on new tickets"
)
_CAUTION_LEARNED = (
    "Measured on the validation rows, before the model was trained again with them. They chose the"
    " epoch and the temperature, so expect about as much on new tickets"
)


@dataclass(frozen=True)
class Provenance:
    """The provenance of labelled rows; unknown parts are empty.

    Attributes:
        command: the training command.
        file: name of the data file.
        sha256: of the data file.
        slices: values by column name, one per reported row: in the order of the texts given to
            `fit`, or of the validation rows if those are given.
        validation_learned: whether the model finally learned from the validation rows too.
        left_out: rows beyond `most_rows`, neither trained on nor evaluated.
        unlabelled: unlabelled texts used in training.
    """

    command: str = ""
    file: str = ""
    sha256: str = ""
    slices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    validation_learned: bool = False
    left_out: int = 0
    unlabelled: int = 0

    def __post_init__(self) -> None:
        """Escape bytes in file names that are not UTF-8, because card, report and metrics are."""
        for name in ("command", "file"):
            object.__setattr__(
                self, name, getattr(self, name).encode("utf-8", "backslashreplace").decode()
            )

    def of_rows(self, rows: Sequence[int]) -> Provenance:
        """A copy with the slices of some rows.

        Raises:
            SettingsError: a slice has too few values.
        """
        short = next(
            (name for name, values in self.slices.items() if rows and len(values) <= max(rows)),
            None,
        )
        if short is not None:
            raise SettingsError(
                f"{len(self.slices[short])} values of the slice {one_line(short)}",
                expected=f"one for each row, more than {max(rows)}",
                fix="give a value for each text, or for each validation row if there are such rows",
            )
        return replace(
            self,
            slices={name: [values[row] for row in rows] for name, values in self.slices.items()},
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled texts with their token counts, int [rows], and the number over the limit."""

    texts: Sequence[str]
    labels: Sequence[str] | Sequence[LabelSet]
    lengths: np.ndarray
    truncated: int

    @property
    def cells(self) -> list[str]:
        """Each row's labels as one string."""
        return [label if isinstance(label, str) else "; ".join(label) for label in self.labels]

    @property
    def sets(self) -> list[LabelSet]:
        """Each row's labels."""
        return [(label,) if isinstance(label, str) else label for label in self.labels]

    @property
    def counts(self) -> Counter[str]:
        """The number of rows of each label."""
        return Counter(name for label_set in self.sets for name in label_set)


@dataclass(frozen=True)
class Measured:
    """The result of a training on the validation rows.

    Attributes:
        judgement: the scored predictions.
        kept_epoch: the epoch whose weights were kept.
        averaged: whether the weights are the mean over the last steps instead of one epoch's.
        held_back: bool [rows], rows that are never automatic because they are out of scope or
            nearly so; by default none.
        scored: predictions for all rows behind the thresholds; by default `judgement`.
    """

    judgement: ScoredPredictions
    figures: Evaluation
    calibration: CalibrationFigures
    epochs: tuple[Epoch, ...]
    kept_epoch: int
    averaged: bool = False
    held_back: np.ndarray | None = None
    scored: ScoredPredictions | None = None


def about(config: BundleConfig, origin: Provenance) -> tuple[tuple[str, str], ...]:
    """A model's provenance as names and values, without unknown ones."""
    facts = {
        "command": origin.command,
        "data": origin.file,
        "sha256 of the data": origin.sha256,
        "seed": str(config.seed),
        "recipe": config.recipe,
        "validation rows": (
            "used for the figures first, then for training too" if origin.validation_learned else ""
        ),
        "rows left out": (
            f"{origin.left_out:,}, for lack of time or as asked" if origin.left_out else ""
        ),
        "rows without a label": (
            f"{origin.unlabelled:,} different texts, pseudo-labelled from similar rows"
            if origin.unlabelled
            else ""
        ),
        "encoder": config.encoder_name,
        "languages": ", ".join(config.languages),
        "labels of rows out of scope": ", ".join(config.out_of_scope_labels),
        "text columns": ", ".join(config.text_columns),
        "label column": config.label_column or "",
        "made on": config.created_at,
        "versions": ", ".join(
            f"{name} {number}" for name, number in sorted(config.versions.items())
        ),
    }
    return tuple((name, value) for name, value in facts.items() if value)


# === A model just trained ===


def training_report(
    bundle: Bundle,
    engine: Engine,
    learned: Rows,
    held_out: Rows,
    measured: Measured,
    origin: Provenance,
) -> str:
    """The page saved with a model; it quotes no texts.

    `origin` has slices of the validation rows.
    """
    names, judgement = list(bundle.labels), measured.judgement
    confidence, right = judgement.confidence, judgement.right
    sure = certain_enough(bundle.decisions, bundle.hierarchy, judgement)
    answered = Answered(
        right, confidence, sure if measured.held_back is None else sure & ~measured.held_back
    )
    report = Report(
        title=f"Text classifier with {len(names)} labels",
        rows_are="validation rows",
        multi_label=bundle.multi_label,
        warning=saved_warning(bundle.metrics),
        limits=limits.reason if (limits := saved_limits(bundle.metrics)) else "",
        caution=(
            f"{_CAUTION_LEARNED if origin.validation_learned else _CAUTION}; bertcnn evaluate"
            " --report measures on rows of your own."
        ),
        about=about(bundle.config, origin),
        profile=replace(
            profile_rows(
                [*learned.texts, *held_out.texts],
                [*learned.cells, *held_out.cells],
                np.concatenate([learned.lengths, held_out.lengths]),
                truncated=learned.truncated + held_out.truncated,
                limit=bundle.config.tokenizer.max_tokens,
            ),
            labels=len(names),
        ),
        figures=measured.figures,
        reliability=Reliability.of(measured.calibration, *judgement.confidences()),
        operation=_operation(
            bundle.decisions,
            automation(bundle.decisions),
            measured.scored or judgement,
            f"{describe_held_out(bundle.decisions, measured.figures.rows)}"
            f" {describe_decisions(bundle.decisions, names)}."
            f" {describe_promise(bundle.decisions)}",
        ),
        slices=_slices(held_out.lengths, origin.slices, answered),
        trained_on=learned.counts,
        epochs=measured.epochs,
        kept_epoch=measured.kept_epoch,
        averaged=measured.averaged,
        spurious_tokens=find_spurious_tokens(
            learned.texts,
            learned.cells,
            lambda texts: Predictor(bundle, engine).answer(texts).because,
        ),
    )
    return render(report)


def certain_enough(
    decisions: Decisions, hierarchy: Hierarchy, judgement: ScoredPredictions
) -> np.ndarray:
    """Which answers are certain enough, with the label or a parent, bool [rows]."""
    sure: np.ndarray = (
        judgement.confidence >= decisions.limits(len(hierarchy.labels))[judgement.first]
    )
    if judgement.truth.multi_hot is not None:
        # rows without a label go to review even if the confidence is high
        return sure & judgement.predicted.any(axis=1)
    probabilities = hierarchy.with_parents(judgement.probabilities)
    return sure | (hierarchy.fall_back(probabilities, ~sure, decisions.parent_thresholds)[0] >= 0)


def _operation(
    decisions: Decisions,
    counts: Automation,
    answered: Answered | ScoredPredictions,
    sentence: str,
) -> Operation:
    targets = decisions.auto_precision
    return Operation(
        counts,
        None if targets.labels else targets.overall,
        sentence,
        risk_coverage(answered.confidence, answered.right),
    )


def _slices(
    lengths: np.ndarray, columns: Mapping[str, Sequence[str]], answered: Answered
) -> dict[str, tuple[SliceFigures, ...]]:
    """Figures by length, and by columns with at least two values."""
    count = 1 + len(columns)
    slices = {"length": slice_by_length(lengths, answered, columns=count)}
    slices |= {
        name: slice_by_value(values, answered, columns=count) for name, values in columns.items()
    }
    return {
        name: parts
        for name, parts in slices.items()
        if len(parts) > 1 or (parts and name == "length")
    }


# === A model evaluated on a file ===


def evaluation_report(
    predictor: Predictor,
    texts: Sequence[str],
    labels: Sequence[str] | Sequence[LabelSet],
    origin: Provenance,
    progress: Progress,
    *,
    out_of_scope: OutOfScopeRows | None = None,
) -> tuple[Evaluation, str]:
    """A model's figures on the user's rows, and the page about them, with examples.

    `labels` has one per row, or all labels of each row; `origin` has slices of these rows.
    `out_of_scope` are the results for further rows without any of the labels.

    Raises:
        LabelError: there are no rows, or none with a known label.
    """
    names, config = list(predictor.labels), predictor.bundle.config
    rows = Rows(texts, labels, np.empty(0, int), 0)
    unknown = find_unknown(names, list(rows.counts.elements()), len(labels))
    answered_texts = _answered(predictor, texts, progress)
    answers = answered_texts.answers
    truth = _truth(labels, names, unknown, multi_label=predictor.multi_label)
    predictions = ScoredPredictions(truth, answered_texts.logits, predictor.bundle.calibration)
    figures = predictions.figures(usual_answer(predictor.bundle.metrics))
    right, confidence = predictions.right, predictions.confidence
    no_information = figures.no_information
    automatic = answers.decisions == DECISIONS.index("auto")
    counts = _found(predictor, answers, predictions)
    uncalibrated = predictions.without_temperature()  # no temperature is fitted on these rows
    answered = Answered(right, confidence, automatic)
    lengths = answered_texts.lengths
    report = Report(
        title=f"Evaluation on {origin.file}" if origin.file else "Evaluation",
        rows_are="rows",
        caution=_evaluation_caution(names, rows, unknown, out_of_scope),
        about=(
            ("data", origin.file),
            ("sha256 of the data", origin.sha256),
            ("model id", predictor.bundle.bundle_id),
            *about(config, Provenance()),
        ),
        profile=replace(
            profile_rows(
                texts,
                rows.cells,
                lengths,
                truncated=answered_texts.truncated,
                limit=config.tokenizer.max_tokens,
            ),
            labels=len(rows.counts),
        ),
        figures=figures,
        reliability=Reliability.of(
            compare_calibration(uncalibrated, confidence, right), uncalibrated, confidence, right
        ),
        operation=_operation(predictor.decisions, counts, answered, _describe_automatic(counts)),
        slices=_slices(lengths, origin.slices, answered),
        examples=_examples(texts, answers, rows.cells, predictions, figures),
        multi_label=predictor.multi_label,
        warning=(
            no_information.sentence("model")
            if no_information and no_information.knows_nothing
            else ""
        ),
    )
    return replace(figures, out_of_scope=out_of_scope), render(report)


def _evaluation_caution(
    names: list[str], rows: Rows, unknown: Sequence[str], out_of_scope: OutOfScopeRows | None
) -> str:
    """What was compared, with the labels that the model does not know and other rows."""
    return (
        (
            f"A text classifier with {len(names)} labels, compared with the labels of"
            f" {len(rows.labels):,} rows."
        )
        + (f" {describe_unknown(names, rows.sets)}." if unknown else "")
        + (f" {out_of_scope.describe()}." if out_of_scope else "")
    )


def _describe_automatic(counts: Automation) -> str:
    """How many rows are answered automatically, and how many of these answers are right."""
    return (
        f"With the model's thresholds {100 * counts.share:.0f}% of these rows are answered"
        " automatically"
        + (
            f", and {100 * counts.right / counts.automatic:.1f}% of these answers are right"
            if counts.automatic
            else ""
        )
    )


def _truth(
    labels: Sequence[str] | Sequence[LabelSet],
    names: list[str],
    unknown: Sequence[str],
    *,
    multi_label: bool,
) -> GroundTruth:
    """The rows' labels as indices into the model's labels, followed by the unknown ones."""
    every = [*names, *unknown]
    if multi_label:
        multi_hot = indicators([tuple(label_set) for label_set in labels], every)
        return GroundTruth(names, multi_hot.argmax(axis=1), multi_hot, unknown)
    index_of = {name: index for index, name in enumerate(every)}
    indices = np.array([index_of[str(label)] for label in labels])
    return GroundTruth(names, indices, unknown=unknown)


@dataclass(frozen=True, eq=False)
class _Answered:
    """A model's answers, with logits float32 [rows, C] and token counts, int [rows]."""

    answers: Answers
    logits: np.ndarray
    lengths: np.ndarray
    truncated: int


def _answered(predictor: Predictor, texts: Sequence[str], progress: Progress) -> _Answered:
    """The answers as in a scored file, but blank texts also have logits."""
    answers, logits, lengths, truncated = [], [], [], 0
    progress.stage("evaluating", len(texts))
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        encoded = predictor.encode(part)
        output = predictor.run(encoded)
        answers.append(predictor.answer_from(part, encoded, output))
        logits.append(output.logits)
        lengths.append(encoded.lengths)
        truncated += int(encoded.truncated.sum())
        progress.advance(len(part))
    return _Answered(
        Answers.joined(answers), np.concatenate(logits), np.concatenate(lengths), truncated
    )


def _found(predictor: Predictor, answers: Answers, predictions: ScoredPredictions) -> Automation:
    """Count automatic and right answers; a parent is right if the true label is below it."""
    automatic, actual = answers.decisions == DECISIONS.index("auto"), predictions.truth.labels
    parents = answers.labels - len(predictor.labels)
    # unknown labels have no parents
    members = np.pad(predictor.hierarchy.members, ((0, len(predictions.truth.unknown)), (0, 0)))
    below = (
        members[actual, np.maximum(parents, 0)] > 0
        if predictor.hierarchy.parents
        else np.zeros(len(actual), bool)
    )
    right = np.where(parents >= 0, below, predictions.right)
    return Automation(
        rows=len(answers),
        automatic=int(automatic.sum()),
        parents=int((automatic & (parents >= 0)).sum()),
        right=int((automatic & right).sum()),
        out_of_scope=int(
            np.isin(
                answers.decisions,
                [DECISIONS.index(name) for name in ("review:out_of_scope", "review:language")],
            ).sum()
        ),
        auto_precision=str(predictor.decisions.auto_precision),
    )


def _examples(
    texts: Sequence[str],
    answers: Answers,
    actual: list[str],
    predictions: ScoredPredictions,
    figures: Evaluation,
) -> ExampleGroups:
    """Example rows: confident errors, the least certain answers, and frequent confusions."""
    wrong = np.flatnonzero(~predictions.right)
    confidence = predictions.confidence
    names = [*predictions.truth.names, *predictions.truth.unknown]
    truth, answered = predictions.indicators()
    predicted = [
        "; ".join(label_set) or "nothing"
        for label_set in names_of(answered, predictions.probabilities, names)
    ]
    surest = wrong[np.argsort(-confidence[wrong], kind="stable")]
    groups = [
        ("Wrong with high confidence", surest[:_EXAMPLES]),
        ("Least sure", np.argsort(confidence, kind="stable")[:_EXAMPLES]),
    ]
    for pair in figures.most_confused[:_PAIRS]:
        missed, said = names.index(pair.actual), names.index(pair.predicted)
        of_pair = (truth[surest, missed] & ~answered[surest, missed]) & (
            answered[surest, said] & ~truth[surest, said]
        )
        groups.append((f"{pair.actual} called {pair.predicted}", surest[of_pair][:_OF_PAIR]))
    return ExampleGroups(
        tuple(
            (
                title,
                tuple(
                    ExampleRow(
                        parts=marked(texts[row], answers.because[row].tolist()),
                        actual=actual[row],
                        predicted=predicted[row],
                        confidence=float(confidence[row]),
                        decision=DECISIONS[answers.decisions[row]],
                    )
                    for row in chosen.tolist()
                ),
            )
            for title, chosen in groups
        )
    )


def marked(text: str, spans: Sequence[Sequence[int]]) -> tuple[tuple[str, bool], ...]:
    """Split a text into parts with a highlight flag; shortens it around the first highlight.

    `spans` are first character and index after the last of each highlight; 0 and 0 for none.

    Example:
        >>> marked("my router is dead", [[13, 17], [3, 9], [0, 0]])
        (('my ', False), ('router', True), (' is ', False), ('dead', True))
    """
    ordered = sorted((start, end) for start, end in spans if end > start)
    first = (
        max(0, ordered[0][0] - _AROUND)
        if ordered and len(text) > _LONGEST and ordered[0][1] > _LONGEST - _AROUND
        else 0
    )
    last = min(len(text), first + _LONGEST)
    parts = [("… ", False)] if first else []
    at = first
    for start, end in ordered:
        start, end = max(start, at), min(end, last)
        if end > start:
            parts += [(text[at:start], False), (text[start:end], True)]
            at = end
    parts += [(text[at:last], False), (" …" if last < len(text) else "", False)]
    return tuple(part for part in parts if part[0])


# === The file ===


def report_path(
    target: str | os.PathLike[str],
    *,
    model: Path | None = None,
    data: Path | None = None,
    overwrite: bool = False,
) -> Path:
    """The path for a report, checked before any work; `report.html` in a folder.

    `target` is a file ending in .html or .htm, otherwise a folder. `overwrite` replaces an older
    report; other files in a folder stay.

    Raises:
        OutputError: the file exists, is not writable, or is in the model's folder.
    """
    target_path = Path(target)
    try:
        path = (
            target_path
            if target_path.suffix.lower() in (".html", ".htm") and not target_path.is_dir()
            else target_path / REPORT
        )
    except OSError as error:
        raise output_error(target_path, error) from None
    if model is not None and model.resolve() in (path.resolve(), *path.resolve().parents):
        raise OutputError(
            f"a report in {str(model)!r}, the model's folder",
            expected="another place",
            fix="choose one outside the model",
        )

    def check(_: Path) -> None:
        if path.is_dir():
            raise OutputError(
                f"{str(path)!r} is a folder",
                expected="a name that is free",
                fix="choose another name",
            )
        check_regular(path)
        if target_path.is_file() and path != target_path:
            raise OutputError(
                f"{str(target_path)!r} is a file",
                expected="a folder, or a file that ends in .html",
                fix="choose another name",
            )
        if data is not None and path.exists() and data.exists() and path.samefile(data):
            raise OutputError(
                f"{str(path)!r} as data and as output",
                expected="two different files",
                fix="choose another name",
            )
        taken = path.exists() or (
            path != target_path and target_path.is_dir() and any(target_path.iterdir())
        )
        if taken and not overwrite:
            raise OutputError(
                f"{str(target_path)!r} exists",
                expected="a name that is free",
                fix="choose another, or overwrite with --force",
            )

    check_target(path, check)
    return path


def write_report(path: Path, page: str) -> None:
    """Write a report atomically; creates missing parent folders.

    Raises:
        OutputError: the path is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from None
    write_whole(path, page.encode(), overwrite=True)
