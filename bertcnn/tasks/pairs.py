"""Pairs of texts: a model learns to write the second for the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertcnn.errors import TableError, one_line
from bertcnn.text import is_blank

FEWEST_PAIRS = 20


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
