"""Streams the sentences of text files and table columns, and counts what cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bertcnn.errors import TableError
from bertcnn.progress import Progress, Silent
from bertcnn.storage.files import unreadable
from bertcnn.tables.columns import guess_text_columns, join_texts
from bertcnn.tables.dialect import detect_encoding, sample_bytes
from bertcnn.tables.formats import HEAD_BYTES, check_input, kind_of, seems_to_be
from bertcnn.tables.lines import LONGEST_LINE, TextFile, undecodable
from bertcnn.tables.tables import column_position, open_table
from bertcnn.text.cleaning import split_lines

_TEXT = (".txt", ".text", ".md", "")
# linear time: a run of dots is matched from its first only
_SENTENCE_END = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|[。！？][」』”’）]*+""")


def split_sentences(text: str) -> list[str]:
    r"""The sentences of a text.

    A sentence ends with its line, or with a full stop, question or exclamation mark before white
    space. An abbreviation ends one too ("Dr. Who"), which does no harm: BERT's "sentences" are
    arbitrary spans of contiguous text (Devlin et al. 2019, section 3).

    Example:
        >>> split_sentences('No signal. Why?? "Since today!"\nbox 2.1 is red')
        ['No signal.', 'Why??', '"Since today!"', 'box 2.1 is red']
    """
    sentences = []
    for line in split_lines(text):
        start = 0
        for end in _SENTENCE_END.finditer(line):
            sentences.append(line[start : end.end()].strip())
            start = end.end()
        sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


@dataclass
class Reading:
    """Counts and choices made while documents are read.

    Attributes:
        rejected: table rows that could not be read.
        cut_lines: lines of text files that were cut after 4 million characters.
        undecodable_lines: lines of text files that were left out, since they cannot be decoded.
        columns: for each table, its text columns and the reason for them.
    """

    rejected: int = 0
    cut_lines: int = 0
    undecodable_lines: int = 0
    columns: dict[str, str] = field(default_factory=dict)


class DocumentFiles:
    """Files of documents.

    A text file (.txt, also .gz) has blank lines between its documents. In a table (.csv, .tsv,
    .jsonl, .parquet, .xlsx, some also .gz) each row is a document.

    Args:
        paths: the files, at least one.
        columns: the text columns of the tables; guessed by default.

    Raises:
        TableError: no file is given, or one is missing, empty, binary, a folder or of an unknown
            kind.

    Attributes:
        paths: the files.
        columns: the text columns, as given.
        total_bytes: size of all files.
        reading: counts and choices so far.
    """

    def __init__(
        self, paths: Sequence[str | Path], columns: str | Sequence[str] | None = None
    ) -> None:
        if not paths:
            raise TableError(
                "no text file was given",
                expected="at least 1 file",
                fix="name a .txt file or a table of texts",
            )
        self.paths = tuple(map(Path, paths))
        self.columns = columns
        for path in self.paths:
            check_input(path) if kind_of(path) else _check_text(path)
        self.total_bytes = sum(path.stat().st_size for path in self.paths)
        self.reading = Reading()

    def sentences(self, progress: Progress | None = None) -> Iterator[list[str]]:
        """Lists of sentences, a few lines at a time; an empty list marks a document's end.

        A document is never held in memory as a whole, so it can have any length.
        """
        progress = progress or Silent()
        for path in self.paths:
            for piece, advanced in self._table(path) if kind_of(path) else self._text(path):
                progress.advance(advanced)
                yield piece

    def _text(self, path: Path) -> Iterator[tuple[list[str], int]]:
        encoding, newline = _text_encoding(path)
        done = 0
        with TextFile(path, _is_gzipped(path), encoding, newline) as lines:
            inside = False
            for line in lines:
                if len(line) > LONGEST_LINE:
                    self.reading.cut_lines += 1
                if undecodable(line):
                    self.reading.undecodable_lines += 1
                    continue
                line = line.removeprefix("\ufeff")
                position = lines.position()
                if line.strip():
                    inside = True
                    yield split_sentences(line), position - done
                elif inside:
                    inside = False
                    yield [], position - done
                else:
                    continue
                done = position
            if inside:
                yield [], 0

    def _table(self, path: Path) -> Iterator[tuple[list[str], int]]:
        done = 0
        with open_table(path) as table:
            choice = guess_text_columns(table.peek(), text=self.columns)
            table.require(choice.text)
            self.reading.columns[str(path)] = choice.reasons["text"]
            places = [column_position(name, table.columns) for name in choice.text]
            for chunk in table.chunks():
                for row in chunk.rows:
                    if sentences := split_sentences(join_texts(row[place] for place in places)):
                        yield sentences, 0
                    yield [], table.position - done
                    done = table.position
            self.reading.rejected += table.rejected


def _is_gzipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _check_text(path: Path) -> None:
    """Refuse a path that is not a text file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        pass
    except OSError as error:
        given, expected = unreadable(path, error)
        raise TableError(given, expected=expected, fix="check the path") from None
    suffix = (path.with_suffix("") if _is_gzipped(path) else path).suffix.lower()
    if suffix not in _TEXT or not path.is_file():
        if path.is_file() and suffix not in _TEXT:
            raise TableError(
                f"{str(path)!r} has the extension {path.suffix}",
                expected=(
                    "a text file (.txt, also .txt.gz) or a table (.csv, .tsv, .jsonl, .parquet,"
                    " .xlsx)"
                ),
                fix="save the texts in one of these formats, with its extension",
            )
        given = f"{str(path)!r} is a folder" if path.is_dir() else f"there is no file {str(path)!r}"
        raise TableError(
            given,
            expected="an existing file of texts",
            fix="check the path, or name the files in the folder",
        )
    _text_encoding(path)


def _text_encoding(path: Path) -> tuple[str, str]:
    """The encoding of a text file, and its line ending."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise TableError(
            f"{str(path)!r} cannot be read ({error.strerror})",
            expected="a readable file",
            fix="check its name and permissions",
        ) from None
    if not head:
        raise TableError(
            f"{str(path)!r} is empty",
            expected="documents with blank lines between them",
            fix="export the texts again",
        )
    seems = seems_to_be(head)
    blocks = (
        []
        if seems and not (_is_gzipped(path) and seems == "a gzip file")
        else sample_bytes(path, _is_gzipped(path))
    )
    encoding = detect_encoding(blocks) if blocks else None
    if encoding is None:
        raise TableError(
            f"{str(path)!r} is not text: it"
            f" {f'seems to be {seems}' if seems else 'holds binary data'}",
            expected="a text file with blank lines between documents",
            fix="save its text as .txt, or give the file its right extension",
        )
    start = blocks[0].decode(encoding, "replace")
    return encoding, "\r" if "\r" in start and "\n" not in start else "\n"
