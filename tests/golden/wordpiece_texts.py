"""Shared by the script that makes the golden ids and the test that checks them.

Texts, a vocabulary, digests. Standard library only.
"""

import json
import random
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

HERE = Path(__file__).parent
SURROGATES = range(0xD800, 0xE000)  # surrogates are no Unicode scalar values
CODE_POINTS = [point for point in range(0x110000) if point not in SURROGATES]
BLOCK = 512  # code points per digest
FORMS = ("{}", "ab{}c")  # alone, and inside a word
RANDOM_STRINGS, SEED = 100_000, 20_181_011
GROUP = 100  # random strings per digest
SAMPLE = 200  # random strings whose ids are stored in full
UNASSIGNED, NEWER, IDEOGRAPHS, COMPOSED = REASONS = (
    "assigned by no Unicode version that the older tokenizer's Python knows",
    "assigned or classified anew after the tables of the tokenizers library were made",
    "U+2B820 to U+2B91F, left out of the library's ideographs",
    (
        "replaced by another character when composed (NFC), which only the older tokenizer does,"
        " with casing kept"
    ),
)
# first and last characters of a range; each line contributes the same number of characters
_POOLS = (
    ((" ", " "), ("a", "z")),
    (("A", "Z"), ("0", "9")),
    (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    (
        ("\0", "\x1f"),
        ("\x7f", "\xa0"),
        ("\u2000", "\u200f"),
        ("\u2028", "\u202f"),
        ("\ufeff", "\ufeff"),
        ("\ufffd", "\ufffd"),
    ),
    (("\xa1", "\u024f"), ("\u1e00", "\u1eff")),
    (("\u0370", "\u03ff"), ("\u1f00", "\u1fff")),
    (("\u0400", "\u052f"),),
    (("\u0300", "\u036f"), ("\u302a", "\u302f"), ("\u05b0", "\u05c7"), ("\u0e31", "\u0e3a")),
    (("\u05d0", "\u05ea"), ("\u0600", "\u06ff"), ("\u0900", "\u0dff")),
    (("\u1100", "\u11ff"), ("\uac00", "\ud7a3")),
    (("\u2010", "\u27bf"), ("\u3000", "\u30ff"), ("\uff00", "\uffef")),
    (("\u4e00", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0002a6df")),
    (("\U0001f300", "\U0001faff"), ("\u200d", "\u200d"), ("\ufe0f", "\ufe0f")),
    (("\0", "\ud7ff"), ("\ue000", "\U0010ffff")),
)


def character_vocabulary() -> list[str]:
    """Special tokens and nearly every assigned character, so that [UNK] hides no difference."""
    points = [
        point
        for point in (*range(0x21, 0x30000), *range(0xE0000, 0xE0200))
        if point not in SURROGATES
    ]
    return [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *map(chr, points),
        *("##" + chr(point) for point in points),
    ]


def blocks() -> Iterator[list[int]]:
    """All code points, in blocks with one digest each."""
    for start in range(0, len(CODE_POINTS), BLOCK):
        yield CODE_POINTS[start : start + BLOCK]


def naughty_strings() -> list[str]:
    """The Big List of Naughty Strings (see blns.LICENSE)."""
    return json.loads((HERE / "blns.json").read_text(encoding="utf-8"))


def random_strings() -> list[str]:
    """Strings of 0 to 39 characters.

    Most use one or two scripts, so that words of several pieces occur.
    """
    draw = random.Random(
        SEED
    ).random  # the only method with the same numbers in every version of Python
    strings = []
    for _ in range(RANDOM_STRINGS):
        pools = [_POOLS[int(draw() ** 2 * len(_POOLS))] for _ in range(1 + int(draw() * 3))]
        characters = []
        for _ in range(int(draw() * 40)):
            pool = pools[int(draw() * len(pools))]
            first, last = map(ord, pool[int(draw() * len(pool))])
            characters.append(chr(first + int(draw() * (last + 1 - first))))
        strings.append("".join(characters))
    return strings


def digest(rows: Iterable[list[int]]) -> int:
    """An 8-byte digest of rows of token ids."""
    return int.from_bytes(blake2b(json.dumps(list(rows)).encode(), digest_size=8).digest(), "big")


def differs_by_design(text: str, listed: set[int], lowercase: bool) -> bool:
    """Whether the older tokenizer may give other ids.

    True with a listed character, a capital sigma, or, if casing is kept, composition.
    """
    if any(ord(char) in listed for char in text):
        return True
    if lowercase:
        return "Σ" in text
    text = "".join(
        char for char in text if char != "\ufffd" and unicodedata.category(char)[0] != "C"
    )  # composed across dropped characters
    return unicodedata.normalize("NFC", text) != text
