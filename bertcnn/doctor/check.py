"""The data doctor: runs all checks on a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertcnn.data import AUTO, assign_folds, join_labels, spellings
from bertcnn.doctor.dataset import (
    LabelledDataset,
    check_columns,
    check_rejected,
    check_short,
    judged_rows,
    read_dataset,
)
from bertcnn.doctor.labels import check_missing, check_rare, check_similar_names, check_spellings
from bertcnn.doctor.leaks import (
    check_after_decision,
    check_other_columns,
    check_spurious_tokens,
)
from bertcnn.doctor.mislabelled import (
    check_label_errors,
    check_no_information,
    check_overlap,
    label_errors,
    no_information,
    self_confidence,
)
from bertcnn.doctor.multi_label import examine_sets
from bertcnn.doctor.out_of_fold import FOLDS, out_of_fold, truncated_texts, unit_embeddings
from bertcnn.doctor.report import CheckReport, Finding, by_weight
from bertcnn.doctor.similar import similar_groups
from bertcnn.doctor.templates import check_placeholders, check_templates
from bertcnn.doctor.texts import (
    check_blank,
    check_characters,
    check_duplicates,
    check_languages,
    check_lengths,
    check_markup,
    check_near_duplicates,
)
from bertcnn.encoders import FetchedEncoder, fetch_encoder
from bertcnn.progress import Progress, Silent
from bertcnn.tables import (
    DELIMITED,
    Chunk,
    TableWriter,
    check_input,
    check_outcome,
    free_names,
    kind_of,
    open_table,
    rejects_of,
    unescape_formula,
)
from bertcnn.wording import count

SUGGESTED, FINDING = "suggested_label", "finding"
_BETWEEN = "; "
_LEFT_OUT = ("not examined",)


def write_fixed(
    dataset: LabelledDataset,
    findings: Iterable[Finding],
    suggestions: Mapping[int, str],
    target: Path,
    overwrite: bool,
) -> None:
    """Write all rows unchanged and in order, with suggested labels and findings.

    Rows outside the examined sample are marked in `finding`.

    Unlike in a scored file, cells are not quoted for spreadsheets from CSV to CSV or TSV: the input
    must not change, and our cells begin with our words or are labels of the input. Other formats
    are quoted as usual.

    Raises:
        OutputError: the disk is full, or the format cannot hold the table.
    """
    said: dict[int, list[str]] = {line: [] for line in dataset.lines}
    for finding in findings:
        for row, words in finding.rows.items():
            said[dataset.lines[row]].append(words)
    better = {dataset.lines[row]: label for row, label in suggestions.items()}
    table, kind = dataset.table, kind_of(target)
    raw = {dataset.facts["format"], kind and kind.format} <= DELIMITED
    plain = unescape_formula if dataset.facts["format"] in DELIMITED and not raw else str
    columns = (
        *map(plain, table.header),
        *free_names((SUGGESTED, FINDING), (*table.columns, *table.header)),
    )
    with TableWriter(target, columns, raw=raw, overwrite=overwrite) as writer:
        for chunk in _chunks(dataset):
            writer.write(
                (*map(plain, cells), better.get(line, ""), _BETWEEN.join(said.get(line, _LEFT_OUT)))
                for line, cells in zip(chunk.line_numbers, chunk.rows, strict=True)
            )


def _chunks(dataset: LabelledDataset) -> Iterator[Chunk]:
    """All rows of the file; reads it again if they are not in memory."""
    if not dataset.table.left_out:
        yield dataset.table
        return
    with open_table(dataset.table.path, as_written=True) as reader:
        reader.require(dataset.choice.text)
        yield from reader.chunks()


def check_csv(
    data: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    multi_label: str = AUTO,
    fix: str | Path | None = None,
    encoder: str | Path = "minilm-l6",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """Find problems in a file of texts, with or without labels, before training.

    Label errors and overlapping labels are found by cross-validation: a logistic regression on the
    frozen encoder's mean embeddings, with near duplicates in the same fold. The report is
    reproducible on the same machine.

    Args:
        data: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default. Without labels only the texts are checked.
        multi_label: separator of several labels in a cell, such as ","; "auto" detects ; and | and
            JSON lists, "no" takes each cell as one label.
        fix: output file with all input columns, plus `suggested_label` if needed and `finding`.
        encoder: embeds the texts; its token limit is the one that text lengths are compared with.
        overwrite: replace an existing `fix`.
        progress: progress callback.

    Raises:
        TableError: the file is unreadable, has no text column, or a single label.
        OutputError: `fix` exists, is the input, or is not writable.
        EncoderError: the encoder is not available.

    Example:
        check_csv("tickets.csv", label="team", fix="looked_at.csv").finding("label_errors")
    """
    started = time.perf_counter()
    path, target, progress = Path(data), None if fix is None else Path(fix), progress or Silent()
    check_input(path)
    if target is not None:
        check_outcome(path, target, overwrite=overwrite, option="--fix")
    dataset = read_dataset(
        path, text, label, multi_label, None if target is None else rejects_of(target), progress
    )
    fetched = fetch_encoder(encoder, progress=progress)
    findings, suggestions, suspicion, skipped = _examine(dataset, fetched, progress)
    findings = by_weight(findings)
    if target is not None:
        write_fixed(dataset, findings, suggestions, target, overwrite)
    return CheckReport(
        path=path,
        facts=dataset.facts,
        findings=findings,
        suggestions=suggestions,
        suspicion=suspicion,
        lines=dataset.lines,
        skipped=skipped,
        fixed=target,
        rejects=rejects_of(target) if target is not None and dataset.table.rejected else None,
        seconds=time.perf_counter() - started,
    )


def _examine(
    dataset: LabelledDataset, fetched: FetchedEncoder, progress: Progress
) -> tuple[list[Finding], dict[int, str], np.ndarray, list[str]]:
    """Findings, suggestions, suspicion of each row, and skipped checks."""
    progress.stage("comparing texts", 0)
    findings = [*check_rejected(dataset), *check_short(dataset)]
    variants = spellings(name for cell in dataset.labels or [] for name in dataset.names_in(cell))
    names = (
        None
        if dataset.labels is None
        else [_respelled(dataset, cell, variants) for cell in dataset.labels]
    )
    repeated, suggestions = check_duplicates(dataset, names)
    groups = similar_groups(list(dataset.first_rows))
    near = check_near_duplicates(dataset, groups, names)
    suspicion = np.full(len(dataset.texts), np.nan)
    skipped: list[str] = []
    if dataset.table.left_out:
        skipped.append(
            f"{dataset.table.left_out:,} of {count(dataset.facts['rows'], 'row')}:"
            f" {len(dataset.table):,} were chosen as if at random, and all findings about texts and"
            " labels refer to these; split the file to have every row examined"
        )
    if names is None or dataset.labels is None:
        skipped.append("no label column: only the texts were checked; name one with --label")
    else:
        labels = {int(row): names[row] for row in judged_rows(dataset)}
        findings += check_spellings(dataset, variants)
        if labels:
            findings += check_spurious_tokens(dataset, labels)
            errors, better = _examine_labels(
                dataset, labels, groups, fetched, suspicion, skipped, progress
            )
            findings += [*errors, *check_other_columns(dataset, labels)]
            suggestions |= better
        for row, (label, usual) in enumerate(zip(dataset.labels, names, strict=True)):
            if label != usual:
                suggestions.setdefault(row, usual)
        findings += [*check_rare(dataset), *check_similar_names(dataset), *check_missing(dataset)]
    progress.stage("telling languages apart", 0)
    findings += [
        *repeated,
        *near,
        *check_languages(dataset),
        *check_blank(dataset),
        *check_characters(dataset),
        *check_markup(dataset),
        *check_placeholders(dataset),
        *check_templates(dataset),
    ]
    findings += [
        *check_lengths(dataset, *truncated_texts(fetched, dataset.texts)),
        *check_columns(dataset),
        *check_after_decision(dataset),
    ]
    return findings, suggestions, suspicion, skipped


def _respelled(dataset: LabelledDataset, cell: str, variants: Mapping[str, str]) -> str:
    """A cell of the label column with each label in its most frequent spelling."""
    if dataset.separator is None:
        return variants.get(cell, cell)
    return (
        join_labels(
            sorted({variants.get(name, name) for name in dataset.names_in(cell)}), dataset.separator
        )
        if cell
        else ""
    )


def _examine_labels(
    dataset: LabelledDataset,
    labels: dict[int, str],
    groups: np.ndarray,
    fetched: FetchedEncoder,
    suspicion: np.ndarray,
    skipped: list[str],
    progress: Progress,
) -> tuple[list[Finding], dict[int, str]]:
    """Label errors, overlapping labels and suggestions; fills `suspicion`."""
    index_of = {text: index for index, text in enumerate(dataset.first_rows)}
    of_row = np.array([index_of[dataset.texts[row].strip()] for row in labels])
    used, inverse = np.unique(of_row, return_inverse=True)
    texts = list(dataset.first_rows)
    features = unit_embeddings(fetched, [texts[index] for index in used], progress)[inverse]
    if dataset.separator is not None:
        sets = {row: dataset.names_in(cell) for row, cell in labels.items()}
        return examine_sets(dataset, sets, features, groups[of_row], suspicion, progress)
    names = list(labels.values())
    fold_of = assign_folds(
        groups[of_row].tolist(), names, [dataset.texts[row] for row in labels], FOLDS
    )
    predictions = out_of_fold(features, names, fold_of, progress)
    if predictions is None:
        skipped.append(
            "label errors: too few rows of each label for a model to learn from some and judge the"
            " others"
        )
        return [], {}
    rows = np.fromiter(labels, np.int64, len(labels))
    left_out = len(rows) - len(predictions.rows)
    if left_out:
        skipped.append(f"label errors in {count(left_out, 'row')}, whose label no other rows teach")
    comparison = no_information(predictions, groups[of_row][predictions.rows])
    predictions = replace(predictions, rows=rows[predictions.rows])
    if comparison.knows_nothing:
        if comparison.verdict == "unclear":
            skipped.append(f"label errors: {comparison.describe()}")
        return check_no_information(comparison), {}
    suspicion[predictions.rows] = 1 - self_confidence(predictions)
    errors = label_errors(predictions, comparison)
    findings, better = check_label_errors(dataset, predictions, errors)
    return findings + check_overlap(dataset, predictions, errors, comparison), better
