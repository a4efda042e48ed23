"""What the data doctor says: findings with counts, examples and advice, by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertcnn.errors import one_line

Severity = Literal["problem", "look", "note"]
_SEVERITIES = ("problem", "look", "note")
_KINDS = (  # of one severity, the weightiest first
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
    """One instance of a finding.

    Attributes:
        line: where the row starts in the file; None for what is no row.
        says: what is the matter with it, in a few words.
        text: the row's text on one line, shortened.
    """

    line: int | None
    says: str
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """One kind of thing that is wrong with the file.

    Attributes:
        kind: its name for programs, such as "label_errors".
        severity: "problem" spoils a model or a measurement; "look" asks for a person's judgement;
            "note" is good to know.
        title: what was found, with counts, as a sentence without a full stop.
        advice: what to do about it.
        rows: positions of the rows it is about, and what the `finding` column says of each.
        examples: the most telling ones first.
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
    """What `check_csv` found.

    Attributes:
        path: the file.
        facts: how it was read: format, encoding, columns, rows, rejected, labels ... in the order
            to show them.
        findings: the weightiest first.
        suggestions: a better label, by position of the row.
        suspicion: float64 [rows], how improbable a row's label is to a model that has not seen the
            row, from 0 to 1; NaN where that could not be judged.
        lines: where each row starts in the file.
        skipped: checks that could not be made, and why.
        fixed: the file written for `fix`.
        rejects: where the rows are that could not be read; None without any, or without `fix`.
        seconds: the whole check.
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
        """The finding of that kind, if there is one."""
        return next((finding for finding in self.findings if finding.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object; rows go by their lines in the file."""
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
    """Problems first, then what to look at, then notes."""
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
    """A label or a word in quotes, so that spaces at its ends are seen."""
    return one_line(name, longest)
