"""Language identification by py3langid, a naive Bayes model over bytes (Lui and Baldwin 2012).

Its top language is wrong too often. `is_foreign` is reliable, because it only asks whether a text
is almost surely in none of the expected languages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

_FEWEST_BYTES = 12  # of letters, in UTF-8: four characters of Chinese
_LOOKED_AT = 400  # characters
_SURE = 0.9  # probability; on 5,040 English tickets no result above 0.53 was wrong
_MAIN = 0.05  # share of the recognised texts that makes a language a main one
_FEWEST_RECOGNISED, _ASKED = 10, 1000
_HARDLY = 0.02  # total probability of all expected languages


def language_of(text: str) -> str | None:
    """The language of a text, ISO 639-1; None if it is too short or uncertain.

    Example:
        >>> language_of("Bonjour, ma facture n'est pas correcte depuis deux mois")
        'fr'
    """
    if not _long_enough(text):
        return None
    language, probability = _identifier().classify(_start(text))
    return str(language) if probability >= _SURE else None


def main_languages(texts: Sequence[str]) -> tuple[str, ...]:
    """The languages of at least 5 % of the recognised texts, the most frequent first.

    It samples 1,000 texts at even distances; empty if fewer than 10 are recognised.
    """
    sample = texts[:: max(1, len(texts) // _ASKED)]
    counts = Counter(filter(None, map(language_of, sample)))
    if counts.total() < _FEWEST_RECOGNISED:
        return ()
    return tuple(name for name, number in counts.most_common() if number >= _MAIN * counts.total())


def is_foreign(text: str, languages: Sequence[str]) -> bool:
    """Whether a text is almost surely in none of these languages (ISO 639-1).

    False below 12 letters (4 Chinese ones), which is too short to identify.

    Example:
        >>> is_foreign("Meine Rechnung stimmt seit zwei Monaten nicht", ("en",))
        True
    """
    if not languages or not _long_enough(text):
        return False
    shares = dict(_identifier().rank(_start(text)))
    return sum(float(shares.get(name, 0)) for name in languages) < _HARDLY


def _long_enough(text: str) -> bool:
    letters = filter(str.isalpha, text[:_LOOKED_AT])
    return len("".join(letters).encode("utf-8", "replace")) >= _FEWEST_BYTES


def _start(text: str) -> str:
    """The part of a text to classify; capitals alone look like another language."""
    start = text[:_LOOKED_AT].encode("utf-8", "replace").decode()
    return start.lower() if start.isupper() else start


@cache
def _identifier() -> Any:  # noqa: ANN401 - a class of py3langid
    """The model, which takes about a second to load."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
