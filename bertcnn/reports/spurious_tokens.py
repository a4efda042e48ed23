"""Finds spurious tokens: ids, dates, addresses and names that occur with one label.

Ticket numbers, signatures and dates may predict a label in the training rows, but not in future
tickets. Only single words in at least three distinct texts are shown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betainc

Spans = Callable[[list[str]], np.ndarray]

_FEWEST = 3  # distinct texts
_MOST_TEXTS = 20_000
_LONGEST = 2000  # characters examined, from either end of a text
_LONGEST_WORD = 40
# probability that a word found occurs with one label only by chance (Bonferroni)
_CHANCE = 0.05
_FEWEST_TIMES = 2.0  # as often with the label as in all texts
_SHOWN = 12
_LOOKED_INTO = 6  # texts per word
_CAPITALISED = 0.9  # share of a name's uses
_EDGES = "\"'`.,;:!?()<>{}*“”„‘’«»…"
_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"[.!?:;…>\n\r]\W*$")
_ADDRESS = re.compile(r"\S+@\S+\.\w+|https?://\S+|www\.\S+")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}|\d{4}-\d{2}-\d{2}t\S*|(19|20)\d\d")
_NUMBER = re.compile(r"[^\w\s]*\d[\d\W]*")
_CODE = re.compile(r"#\w+|\[\S+\]|\w+_\w+|(?=\S*\d)[\w.:/#-]+|[A-Z]{2,}[-_:/][A-Z]{2,}\S*")
_SIZE = re.compile(r"\d+[.,]?\d*\W?[^\W\d]{1,4}")  # 5ghz, 20th, 3x: quantities, not codes
_NAME = re.compile(r"[^\W\d_]{2,}(?:[-'’][^\W\d_]+)*")
_DAYS = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april "  # noqa: SIM905
    "june july august september october "
    "june july august september october "
    "november december montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar"
    " märz juni juli oktober dezember".split()
)


@dataclass(frozen=True)
class SpuriousToken:
    """A word that may reveal a label.

    Attributes:
        kind: "address", "date", "number", "code" or "name".
        word: as written; digits of codes are "#".
        texts: number of distinct texts with the word.
        with_label: number of these with the label.
        looked_into: number of these that the model has scored.
        named: number of scored texts with the word among the answer's phrases.
    """

    kind: str
    word: str
    label: str
    texts: int
    with_label: int
    looked_into: int
    named: int

    @property
    def used(self) -> bool:
        """Whether the model uses the word in at least half of the scored texts."""
        return 2 * self.named >= self.looked_into > 0


@dataclass
class _Uses:
    """Where a word occurs: text index, and position in the text."""

    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    shown: Counter[str] = field(default_factory=Counter)


def find_spurious_tokens(
    texts: Sequence[str], labels: Sequence[str], spans: Spans
) -> tuple[SpuriousToken, ...]:
    """The most suspicious words; those that the model uses come first.

    `spans` are the phrases that moved the model's answers, int [rows, phrases, 2].
    """
    first: dict[str, int] = {}
    for row, text in enumerate(texts):
        # repeated texts add no evidence
        first.setdefault(" ".join(text.casefold().split()), row)
    chosen = list(first.values())
    if len(chosen) > _MOST_TEXTS:
        chosen = [
            chosen[index] for index in np.linspace(0, len(chosen) - 1, _MOST_TEXTS).astype(int)
        ]
    different, named = [texts[row] for row in chosen], [labels[row] for row in chosen]
    suspects = _suspects(different, named)
    looked_into = {
        key: [row for row in uses.places if named[row] == label][:_LOOKED_INTO]
        for key, uses, label, _ in suspects
    }
    rows = sorted({row for chosen in looked_into.values() for row in chosen})
    spans_of_row = (
        dict(zip(rows, spans([different[row] for row in rows]), strict=True)) if rows else {}
    )
    spurious_tokens = [
        SpuriousToken(
            kind=key[0],
            word=uses.shown.most_common(1)[0][0],
            label=label,
            texts=len(uses.places),
            with_label=hits,
            looked_into=len(looked_into[key]),
            named=sum(_overlaps(spans_of_row[row], uses.places[row]) for row in looked_into[key]),
        )
        for key, uses, label, hits in suspects
    ]
    return tuple(sorted(spurious_tokens, key=lambda mark: not mark.used)[:_SHOWN])


def _overlaps(spans: np.ndarray, span: tuple[int, int]) -> bool:
    return bool(((spans[:, 0] < span[1]) & (spans[:, 1] > span[0])).any())


Suspect = tuple[tuple[str, str], _Uses, str, int]


def _suspects(texts: Sequence[str], labels: Sequence[str]) -> list[Suspect]:
    """Suspicious words significantly associated with a label, strongest first, with counts."""
    sizes, rows = Counter(labels), len(labels)
    uses = {
        key: word_uses
        for key, word_uses in _words(texts).items()
        if len(word_uses.places) >= _FEWEST
    }
    suspects = []
    for key, word_uses in uses.items():
        label, hits = Counter(labels[row] for row in word_uses.places).most_common(1)[0]
        share, texts_with = sizes[label] / rows, len(word_uses.places)
        accident = float(betainc(hits, texts_with - hits + 1, share)) if share < 1 else 1.0
        if (
            accident * len(uses) * len(sizes) <= _CHANCE
            and hits >= _FEWEST_TIMES * share * texts_with
        ):
            suspects.append((accident, key, word_uses, label, hits))
    suspects.sort(key=lambda one: (one[0], one[1]))
    return [
        (key, word_uses, label, hits) for _, key, word_uses, label, hits in suspects[: 3 * _SHOWN]
    ]


def _words(texts: Sequence[str]) -> Mapping[tuple[str, str], _Uses]:
    """The suspicious words of all texts, by kind and form."""
    uses: dict[tuple[str, str], _Uses] = defaultdict(_Uses)
    small: Counter[str] = Counter()  # count of each word without a capital letter
    inside: set[str] = set()  # capitalised words within a sentence
    for row, text in enumerate(texts):
        for word, start in _split(text):
            kind = kind_of(word)
            if kind == "" and word[0].islower():
                small[word] += 1
            elif kind:
                form = word.casefold()
                if (
                    kind == "name"
                    and form not in inside
                    and start
                    and not _SENTENCE_END.search(text[max(0, start - 8) : start])
                ):
                    inside.add(form)
                shown = re.sub(r"\d", "#", word) if kind == "code" else word
                one = uses[kind, re.sub(r"\d+", "#", form) if kind == "code" else form]
                one.places.setdefault(row, (start, start + len(word)))
                one.shown[shown] += 1
    return {
        (kind, form): one
        for (kind, form), one in uses.items()
        if kind != "name"
        or (
            form in inside and one.shown.total() >= _CAPITALISED * (one.shown.total() + small[form])
        )
    }


def _split(text: str) -> Iterator[tuple[str, int]]:
    """A text's words without surrounding punctuation, and their positions."""
    for match in _WORD.finditer(text):
        if _LONGEST <= match.start() < len(text) - _LONGEST:
            continue
        word = match[0].strip(_EDGES)
        if word and len(word) <= _LONGEST_WORD:
            yield word, match.start() + match[0].index(word)


def kind_of(word: str) -> str:
    """The kind of a suspicious word by its form; "" for ordinary words.

    Example:
        >>> words = ("T-10423", "agent_7", "12/03/2026", "Tuesday", "49.99", "sam@x.org", "Sandra")
        >>> [kind_of(word) for word in words]
        ['code', 'code', 'date', 'date', 'number', 'address', 'name']
        >>> [kind_of(word) for word in ("router", "5GHz", "VPN", "I'm")]
        ['', '', '', '']
    """
    if word.isalpha():
        if word.casefold() in _DAYS:
            return "date"
        return "name" if len(word) > 2 and word[0].isupper() and word[1:].islower() else ""
    for kind, pattern in (
        ("address", _ADDRESS),
        ("date", _DATE),
        ("number", _NUMBER),
        ("", _SIZE),
        ("code", _CODE),
    ):
        if pattern.fullmatch(word.casefold() if kind == "date" else word):
            return kind
    return "name" if _NAME.fullmatch(word) and word[0].isupper() and word[1:].islower() else ""
