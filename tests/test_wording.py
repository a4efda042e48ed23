"""Numbers as words: the edges where words change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bertcnn.wording import count, duration, percent


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234567, "1,234,567 rows")]
)
def test_a_noun_is_singular_for_one_only(number, words):
    assert count(number, "row") == words


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0, "0%"),
        (1e-9, "under 1%"),
        (0.01, "1%"),
        (0.99, "99%"),
        (1 - 1e-9, "over 99%"),
        (1, "100%"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(share, words):
    assert percent(share) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.6, "1 h 0 min"),
        (90061, "25 h 1 min"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, words):
    assert duration(seconds) == words


# translated-sounding English, and private words for standard ideas
_AVOIDED = re.compile(
    r"\b(anew|told|tells|asked about|ha(?:s|ve) learned from|how-manieth|used up"
    r"|if need be|over and over|nobody is|is no (?:name|number|file|folder) of"
    r"|patients?|sealed?|judging)\b",
    re.IGNORECASE,
)
_ROOT = Path(__file__).parents[1]
_READ_BY_USERS = sorted(
    [
        *_ROOT.glob("*.md"),
        *_ROOT.glob("docs/**/*.md"),
        *_ROOT.glob("bertcnn/**/*.py"),
        *_ROOT.glob("apps/**/*.py"),
    ]
)


@pytest.mark.parametrize(
    "path", _READ_BY_USERS, ids=lambda path: path.relative_to(_ROOT).as_posix()
)
def test_prose_is_plain(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{number}: {line}" for number, line in enumerate(lines, 1) if _AVOIDED.search(line)]
    assert found == []
