r"""Escapes cells that a spreadsheet would run as a formula, in CSV and TSV.

Excel, LibreOffice and Google Sheets run a cell of a CSV file that starts with = + - or @; a
Japanese Excel also accepts the full-width forms. Converters skip spaces and invisible characters
before it. The characters are those of OWASP and ASVS (CSV Injection; 1.2.10), and similar ones.
Formats with types (Parquet, JSON, Excel) need no escaping.
"""

from __future__ import annotations

import re

_LONGEST_PLAIN = 80  # characters; no number is longer
_HIDDEN = (
    r"\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
)
_MINUS, _PLUS = "\\-\u2212\ufe63\uff0d", "+\ufe62\uff0b"
_SIGNS = f"=@\ufe66\ufe6b\uff1d\uff20{_MINUS}{_PLUS}"
_START = re.compile(rf"'*+(?:[\t\n\r\0]|[{_HIDDEN}]*+[{_SIGNS}])")
_SHOWN = re.compile(rf"'*+[{_HIDDEN}]*+(.*)", re.DOTALL)

_CURRENCY = "(?:[A-Z]{0,3}[$\xa2-\xa5\u0e3f\u20a0-\u20bf\uff04\uffe1\uffe5])"
_NUMBER = (
    rf"[{_MINUS}{_PLUS}] ?(?:{_CURRENCY} ?|[A-Z]{{3}} )?[.,]?\d+(?:[.,'\u2019_"
    r" \xa0\u2009\u202f]\d+)*[.,]?(?:[eE][+-]?\d+)?"
    rf"(?:[ \xa0\u202f]?(?:[%\u2030]|\xb0[CF]?|{_CURRENCY}|[A-Za-z\xb5]{{1,3}}))?"
)
_PHONE = rf"[{_PLUS}][ (]{{0,2}}\d(?:[ ()./\u2013-]{{0,3}}\d){{6,17}}(?: ?(?:ext|x)\.? ?\d{{1,6}})?"
_PLAIN = re.compile(
    rf"[@{_MINUS}{_PLUS} ./*_~:,;\u2013\u2014]+"  # a dash for "nothing", a line of dashes
    rf"|{_NUMBER}(?:[,;] ?(?:{_NUMBER}|\d+(?:\.\d+)?))?"  # optionally two, as for coordinates
    rf"|[{_MINUS}{_PLUS}]\d{{1,2}}:\d\d(?::\d\d)?"  # a time zone
    rf"|{_PHONE}(?: ?[,;/] ?{_PHONE})*"
)


def escape_formula(cell: str) -> str:
    """Adds a leading quote to a cell that a spreadsheet would run; not to plain and phone numbers.

    Such a cell starts with = + - @ or their full-width forms, also after spaces and invisible
    characters, or with a tab, a line break or NUL. A cell that already has such quotes gets one
    more, so that `unescape_formula` restores every cell.

    Example:
        >>> escape_formula("=1+1"), escape_formula("a=1"), escape_formula("'=5")
        ("'=1+1", 'a=1', "''=5")
        >>> escape_formula("-5"), escape_formula("+49 30 123456")
        ('-5', '+49 30 123456')
    """
    return "'" + cell if _START.match(cell) and _runs(cell) else cell


def unescape_formula(cell: str) -> str:
    """Reverts `escape_formula`.

    Example:
        >>> unescape_formula("'=1+1"), unescape_formula("'tis"), unescape_formula("'-5")
        ('=1+1', "'tis", "'-5")
    """
    return cell[1:] if cell.startswith("'") and _START.match(cell) and _runs(cell) else cell


def _runs(cell: str) -> bool:
    """Whether a cell, without hidden characters, is more than a plain number or phone number."""
    match = _SHOWN.match(cell)
    shown = match[1].rstrip() if match else ""
    return bool(shown) and (len(shown) > _LONGEST_PLAIN or not _PLAIN.fullmatch(shown))
