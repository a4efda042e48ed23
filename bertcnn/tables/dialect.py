"""Detects the encoding, delimiter and quoting of a text file."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, islice
from pathlib import Path
from typing import IO

from bertcnn.errors import SettingsError, TableError
from bertcnn.tables.delimited import BrokenRowError, Dialect, RowReader, spreadsheet_delimiter
from bertcnn.tables.formats import FileKind
from bertcnn.tables.lines import read_block, unpacked

DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_BLOCK = 128 * 1024  # bytes
_SAMPLE_BLOCKS = 16
_SCANNED_BLOCK = 1024 * 1024
_SNIFFED_ROWS = 1000
_NON_ASCII_BYTES = 64 * 1024  # sample of lines with non-ASCII bytes for charset-normalizer
_FEW_LINES = 0.05  # largest share of these lines that may be broken
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CANDIDATES = [
    "cp1252",
    "cp1250",
    "cp1251",
    "cp1253",
    "cp1254",
    "cp1255",
    "cp1256",
    "koi8_r",
    "cp932",
    "gb18030",
    "big5",
    "cp949",
    "euc_jp",
]
_SYMBOL_IN_WORD = re.compile(r"[^\W\d_][¡¢£¤¥¦§¨©«¬®¯°±²³¶¸¹»¼½¾¿][^\W\d_]")
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\x1a\x1b") + b"\x7f"


def sample_bytes(path: Path, gzipped: bool) -> list[bytes]:
    """A sample of at most 2 MiB: the start of the file and, if it is large, parts from all over it.

    A gzipped file is only sampled at its start. If the sample of a larger file is ASCII, the first
    non-ASCII lines are added.
    """
    size, most = path.stat().st_size, _SAMPLE_BLOCK * _SAMPLE_BLOCKS
    with path.open("rb") as file:
        if gzipped:
            with unpacked(file, path) as stream:
                block = read_block(stream, path, most)
                is_whole = not read_block(stream, path, 1)
                blocks = [block if is_whole else _whole_lines(block, is_first=True)]
        elif size <= most:
            blocks, is_whole = [read_block(file, path, size)], True
        else:
            blocks, is_whole = [], False
            for index in range(_SAMPLE_BLOCKS):
                file.seek(index * (size - _SAMPLE_BLOCK) // (_SAMPLE_BLOCKS - 1))
                blocks.append(
                    _whole_lines(read_block(file, path, _SAMPLE_BLOCK), is_first=index == 0)
                )
        if is_whole or not all(block.isascii() for block in blocks):
            return blocks
        file.seek(0)
        if gzipped:
            with unpacked(file, path) as stream:
                return [*blocks, _lines_with_accents(stream, path)]
        return [*blocks, _lines_with_accents(file, path)]


def _lines_with_accents(stream: IO[bytes], path: Path) -> bytes:
    lines, rest = b"", b""
    while len(lines) < _NON_ASCII_BYTES:
        block = read_block(stream, path, _SCANNED_BLOCK)
        text = rest + block
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if not block or not cut or len(text) - cut > _SCANNED_BLOCK:
            cut = len(text)
        if not text.isascii():
            lines += b"".join(
                line for line in text[:cut].splitlines(keepends=True) if not line.isascii()
            )
        if not block:
            break
        rest = text[cut:]
    return lines


def _whole_lines(block: bytes, *, is_first: bool) -> bytes:
    """`block` without incomplete lines at its ends, if it has a complete one."""
    start = 0 if is_first else block.find(b"\n") + 1
    return block[start : block.rfind(b"\n") + 1] or block


def detect_encoding(blocks: list[bytes]) -> str | None:
    """Detects the encoding of a file from a sample of it; None if it is not text.

    The rules in their order: a byte order mark; UTF-16 without one, by its zero bytes; UTF-8, if at
    least half of the lines with non-ASCII bytes are valid, so that a broken line does not turn the
    others into mojibake; charset-normalizer's result, Western European first.

    Example:
        >>> detect_encoding(["café".encode()]), detect_encoding(["café".encode("latin-1")])
        ('utf-8', 'cp1252')
    """
    for mark, name in _BOMS:
        if blocks[0].startswith(mark):
            return name
    sample = b"\n".join(blocks)
    wide = _utf_16_without_mark(blocks[0])
    if wide:
        return wide
    controls = (len(sample) - len(sample.translate(None, _CONTROLS))) / max(1, len(sample))
    if sample.isascii():
        return None if controls > 0.3 else "utf-8"
    lines = [line for block in blocks for line in block.splitlines() if not line.isascii()]
    if sum(_is_text(line, "utf-8") for line in lines) * 2 >= len(lines):
        return None if controls > 0.3 else "utf-8"
    if controls > 0.02:
        return None
    return _legacy_encoding(lines)


def _utf_16_without_mark(block: bytes) -> str | None:
    """Detects UTF-16 in Western text, where nearly every second byte is zero."""
    block = block[: len(block) // 2 * 2]
    even, odd = block[::2].count(0), block[1::2].count(0)
    if (
        len(block) >= 4
        and max(even, odd) > 0.4 * len(block) / 2
        and min(even, odd) < 0.02 * len(block) / 2
    ):
        return "utf-16-le" if odd > even else "utf-16-be"
    return None


def _is_text(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _legacy_encoding(lines: list[bytes]) -> str:
    """Detects the legacy encoding of lines that all have non-ASCII bytes.

    Similar encodings differ in few letters. So cp1252 is chosen if it is nearly as likely as the
    best one and does not put symbols inside words, as it does for Polish in cp1250. A few broken
    lines are ignored, since they would rule out the right encoding.
    """
    import charset_normalizer

    ends = list(accumulate(map(len, lines)))
    # whole lines, since Asian codecs reject a character that is cut
    most = max(1, bisect_right(ends, _NON_ASCII_BYTES))
    text = b"\n".join(_without_broken(lines[:most]))
    matches = charset_normalizer.from_bytes(text, cp_isolation=_CANDIDATES)
    western = next((match for match in matches if "cp1252" in match.could_be_from_charset), None)
    alternatives = [match for match in matches if match is not western]
    if western is not None:
        plain = text.decode("cp1252", "replace")
        spoilt = 20 * len(_SYMBOL_IN_WORD.findall(plain)) >= sum(
            not char.isascii() for char in plain
        )
        likely = not alternatives or (
            western.chaos <= alternatives[0].chaos + 0.02
            and western.coherence >= alternatives[0].coherence - 0.09
        )
        if likely and not (spoilt and alternatives):
            return "cp1252"
    if alternatives:
        return alternatives[0].encoding
    return "cp1252" if _is_text(text, "cp1252") else "latin-1"


def _without_broken(lines: list[bytes]) -> list[bytes]:
    """`lines` without the few that fail in an encoding that decodes all the others."""
    kept = lines
    for encoding in _CANDIDATES:
        whole = [line for line in lines if _is_text(line, encoding)]
        if (1 - _FEW_LINES) * len(lines) <= len(whole) < len(lines):
            kept = [line for line in kept if _is_text(line, encoding)]
    return kept


def check_encoding(name: str) -> str:
    """The Python name of an encoding; UTF-8 is read with or without a byte order mark.

    Raises:
        SettingsError: Python does not know this text encoding.
    """
    try:
        b"".decode(name)
        canonical = codecs.lookup(name).name
    except (LookupError, ValueError):
        raise SettingsError(
            f"encoding was {name!r}",
            expected="a text encoding such as 'utf-8', 'utf-16' or 'cp1252'",
            fix="correct its name",
        ) from None
    return "utf-8-sig" if canonical == "utf-8" else canonical


def find_encoding(path: Path, kind: FileKind, blocks: list[bytes], requested: str | None) -> str:
    """The encoding `requested`, or detected in a sample; raises TableError for a binary file."""
    encoding = check_encoding(requested) if requested else detect_encoding(blocks)
    if encoding is None:
        raise TableError(
            f"{str(path)!r} is not text: it holds binary data",
            expected=(
                "a text file, as the extension"
                f" {path.suffixes[-1] if not kind.gzipped else ''.join(path.suffixes[-2:])} says"
            ),
            fix="export the table again as .csv, or give the file its right extension",
        )
    return encoding


def sniff(
    text: str, is_tsv: bool, delimiter: str | None = None, quote: str | None = None
) -> Dialect:
    r"""Detects the dialect in which most lines of `text` have as many cells as the header.

    `text` is the start of the file in whole lines. With `is_tsv`, tabs are tried first.

    Example:
        >>> sniff("id;Nachricht\n1;kein Signal, schon wieder\n", is_tsv=False)
        Dialect(delimiter=';', quote='"', escape='', spaced=False)
    """
    lines = list(islice(text.replace("\r\n", "\n").split("\n"), _SNIFFED_ROWS))
    delimiter = delimiter or spreadsheet_delimiter(lines[0])
    delimiters = (
        [delimiter]
        if delimiter
        else sorted(DELIMITERS, key=lambda one: one != "\t")
        if is_tsv
        else list(DELIMITERS)
    )
    best, best_score = Dialect(delimiter or "", '"' if quote is None else quote), 0.0
    for one in delimiters:
        dialect = Dialect(one, _quote_of(lines, one) if quote is None else quote)
        score = _score(lines, dialect)
        if dialect.quote and "\\" + dialect.quote in text:
            escaped = replace(dialect, escape="\\")
            if _score(lines, escaped) > score:
                dialect, score = escaped, _score(lines, escaped)
        if dialect.quote and f"{one} {dialect.quote}" in text:
            spaced = replace(dialect, spaced=True)
            if (
                _score(lines, spaced) >= score
                # also at a tie: the quotes are not part of the text even if no cell has a delimiter
            ):
                dialect, score = spaced, _score(lines, spaced)
        if score > best_score:
            best, best_score = dialect, score
    return best


def _score(lines: list[str], dialect: Dialect) -> float:
    """Share of rows that fit the header, weighted by the header's width; 0 for a single column."""
    rejected: list[int] = []
    reader = RowReader(lines, dialect, lambda line, _reason, _content: rejected.append(line))
    try:
        header = reader.header()
    except BrokenRowError:
        return 0.0
    if not header or len(header) < 2:
        return 0.0
    fits = [len(cells) == len(header) for _, cells in reader.rows(len(header))]
    share = sum(fits) / (len(fits) + len(rejected)) if fits or rejected else 1.0
    return (share + 1e-3) * (1 - 1 / len(header))  # a header alone still shows its delimiter


def _quote_of(lines: list[str], delimiter: str) -> str:
    """The double quote; or the single one, or none in a file with tabs, if the cells show it."""
    cells = [cell for line in lines if line.strip() for cell in line.split(delimiter)]
    enclosed = {
        quote: sum(len(cell) > 1 and cell[0] == cell[-1] == quote for cell in cells)
        for quote in "\"'"
    }
    if enclosed["'"] > 0.3 * len(cells) and enclosed["'"] > enclosed['"']:
        return "'"
    if delimiter == "\t" and not enclosed['"'] and any(re.match('"', cell) for cell in cells):
        return "" if not any(cell.endswith('"') for cell in cells) else '"'
    return '"'
