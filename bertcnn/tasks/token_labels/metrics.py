"""Precision, recall and F1 of exact spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

Exact = tuple[int, int, str]  # start, end and label


@dataclass(frozen=True)
class LabelFigures:
    """Figures of one label; a span is right if start, end and label are right."""

    right: int
    found: int
    expected: int

    @property
    def precision(self) -> float:
        """Share of the found spans that are right; 0 if none is found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Share of the expected spans that are found; 0 if none is expected."""
        return self.right / self.expected if self.expected else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if no span is right."""
        both = self.found + self.expected
        return 2 * self.right / both if both else 0.0


@dataclass(frozen=True)
class SpanFigures:
    """Figures by label and over all spans, equal to those of seqeval.

    The tests compare them. seqeval's last release is from 2020 and it builds only from source, so
    it is a reference and not a dependency.
    """

    texts: int
    labels: Mapping[str, LabelFigures]

    @classmethod
    def of(cls, found: Sequence[Iterable[Exact]], expected: Sequence[Iterable[Exact]]) -> Self:
        """Compare the spans of each text."""
        counts: tuple[Counter[str], ...] = Counter(), Counter(), Counter()
        for one, other in zip(found, expected, strict=True):
            ours, theirs = set(one), set(other)
            for counter, spans in zip(counts, (ours & theirs, ours, theirs), strict=True):
                counter.update(label for *_, label in spans)
        right, given, wanted = counts
        names = sorted(given.keys() | wanted.keys())
        figures = {name: LabelFigures(right[name], given[name], wanted[name]) for name in names}
        return cls(len(found), figures)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        labels = {
            name: LabelFigures(*(int(one[key]) for key in ("right", "found", "expected")))
            for name, one in record["labels"].items()
        }
        return cls(int(record["texts"]), labels)

    @property
    def micro(self) -> LabelFigures:
        """Over all spans."""
        every = self.labels.values()
        return LabelFigures(
            *(sum(getattr(one, name) for one in every) for name in ("right", "found", "expected"))
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "texts": self.texts,
            "micro": _json(self.micro),
            "labels": {name: _json(one) for name, one in self.labels.items()},
        }

    @property
    def lines(self) -> list[str]:
        """A table of the figures, for a reader."""
        rows = [*self.labels.items(), ("all", self.micro)]
        width = max(len(name) for name, _ in rows)
        head = f"{'':{width}}  precision  recall     F1  spans"
        return [head] + [
            f"{name:{width}}  {one.precision:9.1%}  {one.recall:6.1%}  {one.f1:5.1%}"
            f"  {one.expected:5,}"
            for name, one in rows
        ]


def _json(figures: LabelFigures) -> dict[str, Any]:
    rates = {name: getattr(figures, name) for name in ("precision", "recall", "f1")}
    return {**rates, **asdict(figures)}
