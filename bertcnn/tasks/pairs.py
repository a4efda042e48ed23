"""Pairs of texts: a model learns to write the second for the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from bertcnn.errors import SettingsError, TableError, one_line
from bertcnn.storage import read_text
from bertcnn.tables import read_table
from bertcnn.text import is_blank, split_lines

FEWEST_PAIRS = 20

# a first line of two such words is a header: nobody needs them translated
_HEADER_WORDS = set(
    "source target src tgt text translation original translated input output from to"  # noqa: SIM905
    " english german french italian spanish portuguese dutch polish turkish chinese japanese"
    " en de fr it es pt nl pl tr zh ja".split()
)


@dataclass(frozen=True)
class Pairs:
    """Texts, and the texts to write for them."""

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(
        cls,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        target: str = "translation",
        least: int = 1,
    ) -> Pairs:
        """Pair two lists; messages call an item of the second one `target`.

        Raises:
            TableError: different lengths, too few pairs, or a text that is blank or no string.
        """
        if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
            raise TableError(
                f"{one_line(sources, 40)} and {one_line(targets, 40)}",
                expected="two lists of equal length",
                fix=f"pass a {target} for each text",
            )
        for row, pair in enumerate(zip(sources, targets, strict=True), 1):
            for side, text in zip(("text", target), pair, strict=True):
                if not isinstance(text, str) or is_blank(text):
                    raise TableError(
                        f"pair {row}, whose {side} is {one_line(text) if text else 'empty'}",
                        expected="a text on both sides",
                        fix="complete the pair or remove it",
                    )
        if len(sources) < least:
            raise TableError(
                f"{len(sources)} pairs", expected=f"at least {least}", fix="give more pairs"
            )
        return cls(list(sources), list(targets))

    def rows(self, chosen: Sequence[int] | np.ndarray) -> Pairs:
        """Some of the pairs."""
        return Pairs([self.sources[row] for row in chosen], [self.targets[row] for row in chosen])

    def split(self, fraction: float, most: int, seed: int) -> tuple[Pairs, Pairs]:
        """Training pairs and validation pairs, which share no source and no target."""
        held_out = max(1, min(round(fraction * len(self)), most))
        order = np.random.default_rng(seed).permutation(len(self))
        chosen = order[:held_out]
        sources, targets = (
            {texts[row] for row in chosen} for texts in (self.sources, self.targets)
        )
        kept = [
            row
            for row in np.sort(order[held_out:])
            if self.sources[row] not in sources and self.targets[row] not in targets
        ]
        return self.rows(kept), self.rows(np.sort(chosen))


def read_pairs(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    least: int = FEWEST_PAIRS,
) -> Pairs:
    """Read texts and their translations.

    Without column names the file has a text, a tab and its translation in each line. A first line
    of two names, such as `english` and `italian`, is a header and is left out.

    Args:
        path: a text file, or any table of `score_csv` if columns are named.
        source: the column of texts; given together with `target`.
        target: the column of translations.
        least: fewest pairs.

    Raises:
        SettingsError: only one column is named.
        TableError: the file cannot be read, a line lacks two texts, or there are too few pairs.
        ColumnError: a named column is missing.
    """
    if (source is None) != (target is None):
        raise SettingsError(
            f"one column, {one_line(source or target)}",
            expected="the columns of texts and of translations",
            fix="name both with --source and --target, or neither",
        )
    if source is not None and target is not None:
        table = read_table(Path(path), required=(source, target))
        return Pairs.of(table.column(source), table.column(target), least=least)
    file = Path(path)
    try:
        lines = split_lines(read_text(file).removeprefix("\ufeff"))
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"{file} cannot be read ({error.strerror if isinstance(error, OSError) else error})",
            expected="a text file in UTF-8, with a text, a tab and its translation in each line",
            fix="check its name and its encoding; for other tables name --source and --target",
        ) from None
    pairs = []
    for row, line in enumerate(lines, 1):
        cells = line.split("\t")
        if is_blank(line):
            continue
        if len(cells) != 2:
            raise TableError(
                f"line {row} of {file} with {len(cells)} columns ({one_line(line, 40)})",
                expected="a text, a tab and its translation",
                fix="name the columns of a table with --source and --target, or keep two columns",
            )
        pairs.append(cells)
    if pairs and _HEADER_WORDS.issuperset(cell.strip().lower() for cell in pairs[0]):
        del pairs[0]
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    return Pairs.of(sources, targets, least=least)


def read_summaries(
    path: str | PathLike[str],
    *,
    text: str = "ticket",
    summary: str = "summary",
    least: int = FEWEST_PAIRS,
) -> Pairs:
    """Read texts and their summaries from two columns of a table.

    Raises:
        TableError: the file cannot be read, a cell is blank, or there are too few pairs.
        ColumnError: a column is missing.
    """
    table = read_table(Path(path), required=(text, summary))
    return Pairs.of(table.column(text), table.column(summary), target="summary", least=least)
