"""MODEL_CARD.md: facts about a model and its quality, without text from the training rows.

Labels and names are escaped, so none can become markup, a link or an image.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bertcnn.evaluation import (
    CalibrationFigures,
    Evaluation,
    automation,
    describe_decisions,
    describe_held_out,
    describe_out_of_scope,
    describe_promise,
)
from bertcnn.wording import visible

if TYPE_CHECKING:
    from bertcnn.bundle import BundleConfig, Decisions, OutOfScopeDetector

# Active characters of renderers: HTML and entities, code, emphasis, links, mathematics, templates;
# addresses; and marks at the start of a line.
_MARKUP = re.compile(
    r"""[<\\`*\[\]~$@{]|&(?=[#\w])|(?<![^\W_])_|_(?![^\W_])
    |:(?=//|[\w+-]+:)|(?<=www)\.
    |\A(?:[-+=>#]|\d+[.)])""",
    re.VERBOSE | re.IGNORECASE,
)


def model_card(
    config: BundleConfig,
    figures: Evaluation,
    temperature: float,
    calibration: CalibrationFigures,
    decisions: Decisions,
    scope: OutOfScopeDetector,
    about: Sequence[tuple[str, str]] = (),
) -> str:
    """The card, in Markdown.

    `figures` are from the validation rows; `about` is the provenance as in the report: command,
    data and its hash, seed, versions.
    """
    versions = ", ".join(f"{name} {number}" for name, number in sorted(config.versions.items()))
    made = "".join(f"| {_cell(name)} | {_code(value)} |\n" for name, value in about)
    rows = "\n".join(
        f"| {_cell(label.name)} | {label.precision:.3f} | {label.recall:.3f} | {label.f1:.3f} |"
        f" {label.support} |"
        for label in figures.labels
    )
    confused = "\n".join(
        f"- {_cell(pair.actual)} called {_cell(pair.predicted)}: {pair.count} rows"
        f" ({pair.share:.0%})"
        for pair in figures.most_confused  # most frequent first
    )
    right = "" if config.label_separator is None else " (all labels of a row found, and no other)"
    return f"""# Text classifier with {len(figures.labels)} labels

Made by bertcnn: a BERT encoder ({literal(config.encoder_name)}) with a 1D-CNN head, recipe {_code(config.recipe)}, seed {config.seed},
on {literal(config.created_at)} ({literal(versions)}).

## Figures

{_warning(figures)}On the {figures.rows} validation rows, which chose the epoch and the temperature ({temperature:.3f}), so expect
slightly less on new rows: accuracy {figures.accuracy:.4f}{right}, macro-F1 {figures.macro_f1:.4f}, weighted F1 {figures.weighted_f1:.4f}.
Calibration: {calibration.describe()}; {calibration.bins} bins of equal numbers of rows, each row's temperature fitted
without the row.

| label | precision | recall | F1 | rows |
|---|---|---|---|---|
{rows}

Most confused:

{confused or "nothing"}

## Decisions

{describe_held_out(decisions, figures.rows)} {literal(describe_decisions(decisions, [label.name for label in figures.labels]))}. {_thresholds(figures, decisions)}
{describe_promise(decisions)}.

## Provenance

| | |
|---|---|
{made}
`report.html` shows the same figures and more.

## Use

For texts like those it learned from, in the same language and with the same labels. A text that belongs to none of the
labels {"may get one" if figures.several_labels else "still gets one of them"}; {_scope(figures, decisions, scope)}
{_languages(config)}Texts over {config.tokenizer.max_tokens} tokens lose their middle.
"""


def _warning(figures: Evaluation) -> str:
    no_information = figures.no_information
    if no_information is None:
        return ""
    if no_information.knows_nothing:
        return f"**{no_information.sentence()}** {no_information.advice}\n\n"
    pairs = no_information.describe_pairs()
    return f"On these rows {literal(pairs)}.\n\n" if pairs else ""


def _scope(figures: Evaluation, decisions: Decisions, scope: OutOfScopeDetector) -> str:
    held_out = decisions.held_out
    unlabelled = "gets no label, or " if figures.several_labels else ""
    if not scope:
        return f"{describe_out_of_scope(held_out, scope)}."
    outside, rows = held_out.out_of_scope, held_out.rows - held_out.all_strange
    return (
        f"one that {unlabelled}looks unlike all it learned from goes to review as out of scope, as"
        f" {outside} of these {rows} rows do."
    )


def _languages(config: BundleConfig) -> str:
    if not config.languages:
        return ""
    return f"Texts in another language than {', '.join(config.languages)} go to review.\n"


def _thresholds(figures: Evaluation, decisions: Decisions) -> str:
    """The rows behind the thresholds, and labels with their own targets."""
    counts = automation(decisions)
    sentences = []
    if counts.automatic:
        sentences.append(
            f"Of the {counts.automatic} automatic rows {counts.right} are right. A threshold misses"
            f" its target with a probability of at most {decisions.error_probability:.0%}, if the"
            " texts to come are like these."
        )
    for label, threshold in zip(figures.labels, decisions.thresholds, strict=True):
        target = decisions.auto_precision.labels.get(label.name)
        if target is not None:
            rows = (
                "the rows called so"
                if label.name in decisions.own_rows
                else "all rows, since too few were called so"
            )
            outcome = (
                "all go to review"
                if threshold is None
                else f"from a confidence of {threshold:.4f} on"
            )
            sentences.append(
                f"{_cell(label.name)}, which needs {100 * target:.4g}%: {outcome}, from {rows}."
            )
    return " ".join(sentences)


def _code(value: str) -> str:
    """Any text as code in a Markdown table.

    Renderers differ in how they treat backslashes in code, and some in HTML.
    """
    line = visible(" ".join(value.split()))
    if re.search(r"[<\\]", line):
        return _cell(line)
    line = line.replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _cell(name: str) -> str:
    return literal(name).replace("|", "\\|")


def literal(text: str) -> str:
    """Any text on one line, with Markdown and HTML characters escaped as character references."""
    return _MARKUP.sub(
        lambda match: f"{match[0][:-1]}&#{ord(match[0][-1])};", visible(" ".join(text.split()))
    )
