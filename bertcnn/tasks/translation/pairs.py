"""Pairs of texts and translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from bertcnn.errors import TableError, one_line
from bertcnn.storage.files import read_text
from bertcnn.text import is_blank, split_lines

FEWEST_PAIRS = 20


@dataclass(frozen=True)
class Pairs:
    """Texts and their translations."""

    sources: list[str]
    targets: list[str]

    def __len__(self) -> int:
        return len(self.sources)

    @classmethod
    def of(cls, sources: Sequence[str], targets: Sequence[str], *, least: int = 1) -> Pairs:
        """Pair two lists.

        Raises:
            TableError: different lengths, too few pairs, or a text that is blank or no string.
        """
        if isinstance(sources, str) or isinstance(targets, str) or len(sources) != len(targets):
            raise TableError(
                f"{one_line(sources, 40)} and {one_line(targets, 40)}",
                expected="two lists of equal length",
                fix="pass a translation for each text",
            )
        for row, pair in enumerate(zip(sources, targets, strict=True), 1):
            for side, text in zip(("text", "translation"), pair, strict=True):
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


def read_pairs(path: str | PathLike[str]) -> Pairs:
    """Read a file with a text, a tab and its translation in each line; no header.

    Raises:
        TableError: the file cannot be read, a line lacks two texts, or fewer than 20 pairs.
    """
    file = Path(path)
    try:
        lines = split_lines(read_text(file).removeprefix("\ufeff"))
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(
            f"{file} cannot be read ({error.strerror if isinstance(error, OSError) else error})",
            expected="a text file in UTF-8, with a text, a tab and its translation in each line",
            fix="check its name and its encoding",
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
                fix="keep two columns, for example with: cut -f 1,2",
            )
        pairs.append(cells)
    sources, targets = zip(*pairs, strict=True) if pairs else ((), ())
    return Pairs.of(sources, targets, least=FEWEST_PAIRS)
