"""Finds quoted e-mail in a ticket's text, so that the desk can fold it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTRODUCTION = re.compile(  # On Mon, 3 Mar 2025 at 10:12, Ann <ann@example.org> wrote:
    r"(?:on|am|le|il|el|op|em)\b.{0,300}\b"
    r"(?:wrote|schrieb|a écrit|ha scritto|escribió|schreef|escreveu)\b.{0,100}:\s*",
    re.IGNORECASE,
)
_PRECISE = re.compile(r"\d{4}|\d:\d\d|@")  # a year, a time or an address
_RULE = re.compile(r"\s*-{3,}\s*(\w[\w ]{2,40}?)\s*-{3,}\s*")  # -----Original Message-----
_MESSAGES = re.compile(r"message|nachricht|messaggio|mensaje|bericht|mensagem", re.IGNORECASE)
_HEADER = re.compile(r"\s*\w[\w -]{0,20}:\s.*")  # From: Ann
_MARK = ">"


def quoted_spans(text: str) -> list[tuple[int, int]]:
    r"""Characters [start, end) of the quoted lines, none if nothing else would remain.

    Quoted are lines that begin with ">", a line such as "On 3 March 2025 Ann wrote:" before them,
    and everything below such a line or below "-----Original Message-----".

    Example:
        >>> quoted_spans("It works now.\n> Does it work?\n")
        [(14, 30)]
    """
    lines = text.splitlines(keepends=True)
    quoted = _quoted_lines([line.rstrip("\r\n") for line in lines])
    if not any(line.strip() for line, one in zip(lines, quoted, strict=True) if not one):
        return []
    spans: list[tuple[int, int]] = []
    at = 0
    for line, one in zip(lines, quoted, strict=True):
        if one and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], at + len(line))
        elif one:
            spans.append((at, at + len(line)))
        at += len(line)
    return spans


def _quoted_lines(lines: Sequence[str]) -> list[bool]:
    """Whether each line is quoted."""
    quoted = [line.startswith(_MARK) for line in lines]
    below = _lines_below(lines)
    for number in range(len(lines)):
        if quoted[number]:
            continue
        height = _introduction(lines, number)
        end = below[min(number + height, len(lines)) - 1] if height else len(lines)
        if end < len(lines) and quoted[end]:
            quoted[number:end] = [True] * (end - number)
        elif (height and _PRECISE.search(" ".join(lines[number : number + height]))) or _is_rule(
            lines, number, below[number]
        ):
            return [*quoted[:number], *[True] * (len(lines) - number)]
    for number, line in enumerate(lines[:-1]):  # blank lines within a quotation
        end = below[number]
        if number and not line.strip() and end < len(lines):
            quoted[number] = quoted[number - 1] and quoted[end]
    return quoted


def _lines_below(lines: Sequence[str]) -> list[int]:
    """For each line, the next one that is not blank."""
    below, last = [0] * len(lines), len(lines)
    for number in reversed(range(len(lines))):
        below[number] = last
        if lines[number].strip():
            last = number
    return below


def _introduction(lines: Sequence[str], number: int) -> int:
    """The height of the introduction that begins at a line, wrapped or not; 0 if none does."""
    for height in (1, 2):
        if _INTRODUCTION.fullmatch(" ".join(lines[number : number + height])):
            return height
    return 0


def _is_rule(lines: Sequence[str], number: int, below: int) -> bool:
    match = _RULE.fullmatch(lines[number])
    if match is None:
        return False
    header = below < len(lines) and _HEADER.fullmatch(lines[below]) is not None
    return header or _MESSAGES.search(match[1]) is not None
