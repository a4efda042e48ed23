"""New frequent words: words of many recent texts and of hardly any earlier ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from scipy.special import xlogy
from scipy.stats import chi2

from bertcnn.data import duplicate_key

_CHANCE_OF_WORD = 0.01  # for all words together (Bonferroni)
_TIMES = 3.0  # as frequent as before
_LONGEST = 5000  # characters read of a text
_LOOKED_INTO = 30  # texts searched to tell whether a word is a name
_ADDRESS = re.compile(r"\S+@\S+|https?://\S+|www\.\S+")
_WORD = re.compile(r"(?<!\w)(?!\d)\w\w+(?:['’-]\w+)*")
_GREETING = re.compile(
    r"\b(?:dear|hi|hello|hey|mr|mrs|ms|dr|regards|thanks|thank you|sincerely|cheers|yours|name is"
    r"|hallo|liebe|lieber|herr|frau|gruß|grüße|bonjour|monsieur|madame|cordialement"
    r"|ciao|gentile|signor|signora|saluti|hola|señor|señora|saludos)\W+(?:\w+\W+)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NewWord:
    """A word that has become frequent.

    Attributes:
        texts: number of different recent texts with it.
        days: number of days with such texts.
        share: of the recent texts, 0 to 1.
        before: share of the earlier texts.
        g2: the log-likelihood ratio.
    """

    word: str
    texts: int
    days: int
    share: float
    before: float
    g2: float


def new_words(
    recent: Sequence[str],
    days: Sequence[date],
    before: Sequence[str],
    *,
    fewest_texts: int = 10,
    fewest_days: int = 3,
) -> list[NewWord]:
    """Words of recent texts that are much more frequent than before, the most significant first.

    The test is the log-likelihood ratio G2 of the texts with and without the word (Dunning 1993,
    "Accurate Methods for the Statistics of Surprise and Coincidence", section 4), and the share
    must be at least three times as high. Texts that differ only in case, punctuation and digits
    count once. Addresses, words with a leading digit, single characters, and names (words that
    mostly follow a greeting or a sign-off) are left out. Texts in scripts without spaces have no
    words here.

    Args:
        recent: the texts of the last days.
        days: of the recent texts.
        before: earlier texts.
        fewest_texts: minimum number of texts with the word.
        fewest_days: minimum number of their days.

    Example:
        >>> recent = [f"the new decoder {word} fails" for word in "box lamp menu screen".split()]
        >>> days = [date(2026, 4, place + 1) for place in range(4)]
        >>> before = [f"the line {place * 'x'} fails" for place in range(99)]
        >>> [one.word for one in new_words(recent, days, before, fewest_texts=4)]
        ['decoder', 'new']
    """
    words_before, number_before = _texts_with(before, before)
    now, number = _texts_with(recent, days)
    frequent = {word: on for word, on in now.items() if len(on) >= fewest_texts}
    results = []
    for word, on in frequent.items():
        earlier = len(words_before.get(word, ()))
        share, share_before = len(on) / number, earlier / max(1, number_before)
        g2 = log_likelihood(len(on), number, earlier, number_before)
        if (
            len(set(on)) >= fewest_days
            and share >= _TIMES * (earlier + 0.5) / (number_before + 1)
            and chi2.sf(g2, 1) * len(frequent) < _CHANCE_OF_WORD
            and not _is_name(word, recent)
        ):
            results.append(NewWord(word, len(on), len(set(on)), share, share_before, g2))
    return sorted(results, key=lambda one: (-one.g2, one.word))


def log_likelihood(texts: int, of: int, texts_before: int, of_before: int) -> float:
    """G2 of a word in `texts` of `of` texts now, and `texts_before` of `of_before` earlier.

    Example:
        >>> round(log_likelihood(10, 100, 10, 1000), 2)
        22.91
    """
    table = np.array([[texts, of - texts], [texts_before, of_before - texts_before]], float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / max(1.0, table.sum())
    return float(2 * (xlogy(table, table) - xlogy(table, np.where(table, expected, 1))).sum())


def _texts_with(texts: Sequence[str], days: Sequence[Any]) -> tuple[dict[str, list[Any]], int]:
    """For each word, the days of the different texts with it; and the number of texts."""
    first = {duplicate_key(text[:_LONGEST]): index for index, text in reversed([*enumerate(texts)])}
    by_word: dict[str, list[Any]] = defaultdict(list)
    for index in first.values():
        shown = _ADDRESS.sub(" ", texts[index][:_LONGEST]).lower()
        for word in set(_WORD.findall(shown)):
            by_word[word].append(days[index])
    return by_word, len(first)


def _is_name(word: str, texts: Sequence[str]) -> bool:
    """Whether most of its uses are capitalised and follow a greeting or a sign-off."""
    uses = [
        (match.group()[0].isupper(), bool(_GREETING.search(text[: match.start()][-60:])))
        for text in [text[:_LONGEST] for text in texts if word in text.lower()][:_LOOKED_INTO]
        for match in _WORD.finditer(text)
        if match.group().lower() == word
    ]
    return 2 * sum(capital and greeted for capital, greeted in uses) > len(uses)
