"""Finds spurious tokens and columns that reveal the label: ids, queue names, signatures.

Such columns are usually filled in after the decision.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bertcnn.doctor.dataset import LabelledDataset
from bertcnn.doctor.report import Example, Finding, named, shortened
from bertcnn.tables import columns_after_decision
from bertcnn.text import split_lines
from bertcnn.values import folded
from bertcnn.wording import count, percent

_EXAMPLES = 5
# share of the rows with a mark that have its label; the other labels may be wrong
_PURE = 0.95
_CHANCE = 1e-6  # largest probability that a mark occurs with one label only by chance
_CODE_SHARE = 0.05  # of the label's rows that need the code or line for a leak
# the same for the last words of a text; in Banking77, up to 22% of a label's texts end alike
_ENDING_SHARE = 0.4
_WORD_SHARE = 0.9  # the same for an ordinary word, which may be the label's topic
_COLUMN_SURE = 0.95  # share of rows whose label another column predicts
_LONGEST = 2000  # characters examined, from either end of a text
_LONGEST_LINE = 100
_SIGNED_WORDS = 3  # words at the end of a text, as in a signature
_EDGES = "\"'`.,;:!?()<>{}*"
# an address, a link, #tag, [tag], words_with_underscores, UPPER-CASE, or letters, a hyphen and
# digits as in queue names and ids
_CODE = re.compile(
    r"\S+@\S+\.\w+|https?://\S+|www\.\S+|#\w+|\[\S+\]|\w+_\w+|[^\W\d_]{2,}[-:/]\d+\S*|[A-Z]{2,}[-_:/][A-Z]{2,}\S*"
)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class _Leak:
    mark: str
    kind: str
    label: str
    rows: tuple[int, ...]
    share: float  # of the label's distinct texts


def check_spurious_tokens(dataset: LabelledDataset, labels: Mapping[int, str]) -> list[Finding]:
    """Words, lines and endings that occur in the texts of only one label.

    `labels` has the rows with both text and label.
    """
    leaks = _find_leaks(dataset, labels)
    if not leaks:
        return []
    affected = _affected_rows(dataset, labels, leaks)
    codes = any(leak.kind != "word" for leak in leaks)
    give = "gives" if len(leaks) == 1 else "give"
    return [
        Finding(
            "leaks_in_text",
            "problem" if codes else "look",
            f"{count(len(leaks), 'mark')} in the texts of {count(len(affected), 'row')} that {give}"
            " the label away",
            "If such a mark was added after the decision, new texts will not have it: take it out"
            " of the texts before training.",
            dict(sorted(affected.items())),
            [
                Example(
                    dataset.lines[leak.rows[0]],
                    f"{leak.kind} {named(leak.mark, 60)}: {count(len(leak.rows), 'text')},"
                    f" {percent(leak.share)} of {named(leak.label)}",
                    shortened(dataset.texts[leak.rows[0]], 100),
                )
                for leak in leaks[:_EXAMPLES]
            ],
            {
                "marks": [
                    {
                        "kind": leak.kind,
                        "mark": leak.mark,
                        "label": leak.label,
                        "texts": len(leak.rows),
                    }
                    for leak in leaks
                ]
            },
        )
    ]


def _find_leaks(dataset: LabelledDataset, labels: Mapping[int, str]) -> list[_Leak]:
    """The marks that give a label away, the most frequent first."""
    first_rows = [
        row for row in dataset.first_rows.values() if row in labels
    ]  # repeated texts add no evidence
    sizes = Counter(labels[row] for row in first_rows)
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in first_rows:
        for mark in _marks(dataset.texts[row]):
            seen[mark].append(row)
    leaks = [
        leak
        for (kind, mark), rows in seen.items()
        if (leak := _leak(kind, mark, rows, labels, sizes))
    ]
    return _different(leaks)


def _affected_rows(
    dataset: LabelledDataset, labels: Mapping[int, str], leaks: list[_Leak]
) -> dict[int, str]:
    """What gives the label away in each affected row; copies of a text count as the text."""
    copies = {
        row: f"{leak.kind} {named(leak.mark)} gives the label away"
        for leak in leaks
        for row in leak.rows
    }
    first_of = {row: dataset.first_rows[dataset.texts[row].strip()] for row in labels}
    return {
        row: copies[first]
        for row, first in first_of.items()
        if first in copies and labels[row] == labels[first]
    }


def _marks(text: str) -> set[tuple[str, str]]:
    """The marks of a text: words and codes with digits as 0, short lines, and last words."""
    if len(text) > 2 * _LONGEST:
        text = text[:_LONGEST] + "\n" + text[-_LONGEST:]
    words = [word for part in text.split() if (word := part.strip(_EDGES))]
    marks = {
        ("code" if _CODE.fullmatch(word) else "word", _DIGITS.sub("0", word).casefold())
        for word in words
    }
    lines = [" ".join(line.split()) for line in split_lines(text)]
    if len(lines) > 1:
        marks |= {
            ("line", _DIGITS.sub("0", line))
            for line in lines
            if 3 <= len(line) <= _LONGEST_LINE and " " in line
        }
    if len(words) >= 2 * _SIGNED_WORDS:
        marks.add(("ending", _DIGITS.sub("0", " ".join(words[-_SIGNED_WORDS:]))))
    return marks


def _leak(
    kind: str, mark: str, rows: list[int], labels: Mapping[int, str], sizes: Mapping[str, int]
) -> _Leak | None:
    if len(rows) < 3:
        return None
    label, hits = Counter(labels[row] for row in rows).most_common(1)[0]
    by_accident = (sizes[label] / sum(sizes.values())) ** hits
    share = hits / sizes[label]
    least_share = {"word": _WORD_SHARE, "ending": _ENDING_SHARE}.get(kind, _CODE_SHARE)
    if hits < _PURE * len(rows) or by_accident > _CHANCE or share < least_share:
        return None
    return _Leak(mark, kind, label, tuple(row for row in rows if labels[row] == label), share)


def _different(leaks: list[_Leak]) -> list[_Leak]:
    """The strongest of marks in the same rows; the most frequent first."""
    kinds = ("code", "line", "ending", "word")
    chosen: dict[tuple[int, ...], _Leak] = {}
    for leak in sorted(
        leaks, key=lambda leak: (kinds.index(leak.kind), -len(leak.mark), leak.mark)
    ):
        chosen.setdefault(leak.rows, leak)
    return sorted(chosen.values(), key=lambda leak: (-len(leak.rows), leak.mark))


def check_other_columns(dataset: LabelledDataset, labels: Mapping[int, str]) -> list[Finding]:
    """Columns that nearly determine the label.

    A row's label is predicted from other rows with the same value, ignoring digits of ids. `labels`
    has the rows with both text and label.
    """
    if dataset.labels is None:
        return []
    main = max(Counter(labels.values()).values()) / len(labels)
    columns = []
    for name in dataset.others:
        cells = dataset.table.column(name)
        for form, values in _forms(cells):
            right, guessed = _foretold(values, labels)
            if (
                guessed >= max(10, len(labels) / 2)
                and right >= _COLUMN_SURE * guessed
                and right / guessed - main > (1 - main) / 2
            ):
                columns.append((name, form, right, guessed))
                break
    if not columns:
        return []
    same = {name for name, *_ in columns if _same_names(dataset, name)}
    return [
        Finding(
            "leaks_in_columns",
            "look",
            f"{count(len(columns), 'column')} that nearly"
            f" {'determines' if len(columns) == 1 else 'determine'} the label",
            "Do not add such a column with --text if it is filled in after the decision. It may"
            " also be a finer label: see --label.",
            examples=[
                Example(
                    None,
                    f"column {named(name)}{form}: right for {percent(right / guessed)} of"
                    f" {guessed:,} rows" + ("; it repeats the labels" if name in same else ""),
                )
                for name, form, right, guessed in columns[:_EXAMPLES]
            ],
            figures={"columns": [name for name, *_ in columns]},
        )
    ]


def check_after_decision(dataset: LabelledDataset) -> list[Finding]:
    """Columns that are filled in after the label is known, judged by their names."""
    after = columns_after_decision(dataset.table)
    if not after:
        return []
    used = [name for name in after if name in (*dataset.choice.text, dataset.choice.label)]
    return [
        Finding(
            "after_decision",
            "problem" if used else "note",
            f"{count(len(after), 'column')} written after the decision, by the name"
            + (f"; {', '.join(map(named, used))} is used" if used else ""),
            "New tickets do not have them yet: never add them with --text.",
            examples=[
                Example(None, f"column {named(name)}" + (" is used" if name in used else ""))
                for name in after[:_EXAMPLES]
            ],
            figures={"columns": list(after)},
        )
    ]


def _forms(cells: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A column as it is, and with its ids as patterns."""
    plain = [cell.strip() for cell in cells]
    yield "", plain
    yield (
        " by the pattern of its ids",
        [re.sub(r"\d+", "0", cell) if len(cell) <= 40 else "" for cell in plain],
    )


def _foretold(values: list[str], labels: Mapping[int, str]) -> tuple[int, int]:
    """How many rows share their value with others, and are rightly predicted from them.

    Returns the correct predictions, then the rows with such others.
    """
    together: dict[str, Counter[str]] = defaultdict(Counter)
    for row, label in labels.items():
        if values[row]:
            together[values[row]][label] += 1
    right = guessed = 0
    for counts in together.values():
        rows = sum(counts.values())
        if rows > 1:
            guessed += rows
            (_, most), *rest = counts.most_common(2)
            # without one row of the most frequent label, that label must still be the most frequent
            right += most if not rest or most - 1 > rest[0][1] else 0
    return right, guessed


def _same_names(dataset: LabelledDataset, column: str) -> bool:
    labels = dataset.labels or []
    cells = dataset.table.column(column)
    return sum(
        folded(cell) == folded(name) for cell, name in zip(cells, labels, strict=True)
    ) > 0.9 * len(cells)
