"""The data doctor's report: findings with counts, examples and advice, by severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertcnn.errors import one_line

Severity = Literal["problem", "look", "note"]
_SEVERITIES = ("problem", "look", "note")
_KINDS = (  # the most important of a severity first
    "no_information",
    "rejected_rows",
    "label_spellings",
    "label_errors",
    "conflicting_labels",
    "leaks_in_text",
    "rare_labels",
    "leaks_in_columns",
    "after_decision",
    "overlapping_labels",
    "similar_names",
    "near_duplicates",
    "duplicate_texts",
    "missing_labels",
    "empty_texts",
    "languages",
    "broken_characters",
    "placeholders",
    "templates",
    "markup",
    "long_texts",
    "short_rows",
    "constant_columns",
)
_EXAMPLES = 4
_LONGEST_TEXT = 160


@dataclass(frozen=True)
class Example:
    """An example of a finding.

    Attributes:
        line: where the row starts in the file; None if it is not a row.
        says: the problem in a few words.
        text: the row's text on one line, shortened.
    """

    line: int | None
    says: str
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """One kind of problem in the file.

    Attributes:
        kind: identifier, such as "label_errors".
        severity: "problem" spoils a model or a measurement; "look" needs a person's judgement;
            "note" is good to know.
        title: the problem with counts, as a sentence without a full stop.
        advice: how to fix it.
        rows: the affected rows, and the text for their `finding` column.
        examples: the clearest ones first.
        figures: counts for programs.
    """

    kind: str
    severity: Severity
    title: str
    advice: str
    rows: Mapping[int, str] = field(default_factory=dict)
    examples: Sequence[Example] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """The result of `check_csv`.

    Attributes:
        path: the file.
        facts: format, encoding, columns, rows, rejected rows, labels and so on, in display order.
        findings: the most severe first.
        suggestions: suggested labels by row.
        suspicion: float64 [rows], how improbable a row's label is to a model that has not seen the
            row, 0 to 1; NaN if unknown.
        lines: where each row starts in the file.
        skipped: skipped checks with reasons.
        fixed: the file written for `fix`.
        rejects: the file with unreadable rows; None without such rows, or without `fix`.
        seconds: duration of the check.
    """

    path: Path
    facts: Mapping[str, Any]
    findings: Sequence[Finding]
    suggestions: Mapping[int, str]
    suspicion: np.ndarray
    lines: Sequence[int]
    skipped: Sequence[str]
    fixed: Path | None
    rejects: Path | None
    seconds: float

    def finding(self, kind: str) -> Finding | None:
        """The finding of this kind, if any."""
        return next((finding for finding in self.findings if finding.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object; rows are given by line numbers."""
        return {
            "path": str(self.path),
            **self.facts,
            "findings": [
                {
                    "kind": finding.kind,
                    "severity": finding.severity,
                    "title": finding.title,
                    "advice": finding.advice,
                    "rows": len(finding.rows),
                    **finding.figures,
                    "examples": [
                        {"line": one.line, "says": one.says, "text": one.text}
                        for one in finding.examples
                    ],
                    "lines": [self.lines[row] for row in finding.rows],
                }
                for finding in self.findings
            ],
            "suggestions": [
                {
                    "line": self.lines[row],
                    "label": label,
                    "suspicion": None if np.isnan(doubt) else round(float(doubt), 6),
                }
                for row, label in self.suggestions.items()
                for doubt in [self.suspicion[row]]
            ],
            "skipped": list(self.skipped),
            "seconds": round(self.seconds, 1),
        }


def by_weight(findings: Sequence[Finding]) -> list[Finding]:
    """Sort problems first, then what needs a look, then notes."""
    return sorted(
        findings,
        key=lambda finding: (_SEVERITIES.index(finding.severity), _KINDS.index(finding.kind)),
    )


def shortened(text: str, longest: int = _LONGEST_TEXT) -> str:
    r"""A text on one line, of at most `longest` characters.

    Example:
        >>> shortened("no  signal\nsince Monday", 12)
        'no signal...'
    """
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else line[: longest - 3].rstrip() + "..."


def examples_of(
    rows: Mapping[int, str], lines: Sequence[int], texts: Sequence[str], most: int = _EXAMPLES
) -> list[Example]:
    """The first rows of a finding as examples."""
    return [
        Example(lines[row], says, shortened(texts[row])) for row, says in list(rows.items())[:most]
    ]


def named(name: str, longest: int = 40) -> str:
    """A label or word in quotes, which makes outer spaces visible."""
    return one_line(name, longest)
