"""Streams sentences from text files and table columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertcnn.errors import TableError
from bertcnn.progress import Progress, Silent
from bertcnn.tables import (
    LONGEST_LINE,
    TextFile,
    check_input,
    column_position,
    detect_encoding,
    guess_text_columns,
    join_texts,
    kind_of,
    open_table,
    read_head,
    sample_bytes,
    seems_to_be,
    undecodable,
)
from bertcnn.text import split_lines

_TEXT = (".txt", ".text", ".md", "")
# possessive quantifiers keep this linear in time
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


class DocumentFiles:
    """Files of documents.

    In a text file (.txt, also .gz) blank lines separate the documents. In a table (.csv, .tsv,
    .jsonl, .parquet, .xlsx, some also .gz) each row is a document.

    Args:
        columns: the text columns of the tables; guessed by default.

    Raises:
        TableError: no file, or one that is missing, empty, binary, a folder or of unknown kind.

    Attributes:
        unread: counts of what was left out: `rejected` rows of tables, `cut_lines` of text files
            after 4 million characters, and `undecodable_lines`.
        columns_read: for each table, its text columns and the reason for them.
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
        self._formats = {
            path: _text_format(path)
            for path in self.paths
            if not (kind_of(path) and check_input(path))
        }
        self.total_bytes = sum(path.stat().st_size for path in self.paths)
        self.unread = {"rejected": 0, "cut_lines": 0, "undecodable_lines": 0}
        self.columns_read: dict[str, str] = {}

    def sentences(self, progress: Progress | None = None) -> Iterator[list[str]]:
        """Lists of sentences, a few lines at a time; an empty list marks a document's end."""
        progress = progress or Silent()
        for path in self.paths:
            for piece, advanced in self._table(path) if kind_of(path) else self._text(path):
                progress.advance(advanced)
                yield piece

    def _text(self, path: Path) -> Iterator[tuple[list[str], int]]:
        done, inside = 0, False
        with TextFile(path, _is_gzipped(path), *self._formats[path]) as lines:
            for line in lines:
                self.unread["cut_lines"] += len(line) > LONGEST_LINE
                if undecodable(line):
                    self.unread["undecodable_lines"] += 1
                    continue
                line = line.removeprefix("\ufeff")
                is_blank = not line.strip()
                if is_blank and not inside:
                    continue
                position, inside = lines.position(), not is_blank
                yield split_sentences(line), position - done
                done = position
            if inside:
                yield [], 0

    def _table(self, path: Path) -> Iterator[tuple[list[str], int]]:
        done = 0
        with open_table(path) as table:
            choice = guess_text_columns(table.peek(), text=self.columns)
            table.require(choice.text)
            self.columns_read[str(path)] = choice.reasons["text"]
            indices = [column_position(name, table.columns) for name in choice.text]
            for chunk in table.chunks():
                for row in chunk.rows:
                    if sentences := split_sentences(join_texts(row[index] for index in indices)):
                        yield sentences, 0
                    yield [], table.position - done
                    done = table.position
            self.unread["rejected"] += table.rejected


def _is_gzipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _text_format(path: Path) -> tuple[str, str]:
    head, gzipped = read_head(path, "an existing file of texts"), _is_gzipped(path)
    if (path.with_suffix("") if gzipped else path).suffix.lower() not in _TEXT:
        raise TableError(
            f"{str(path)!r} has the extension {path.suffix}",
            expected="a text file (.txt, also .txt.gz) or a table (.csv, .tsv, .jsonl, .parquet,"
            " .xlsx)",
            fix="save the texts in one of these formats, with its extension",
        )
    if not head:
        raise TableError(
            f"{str(path)!r} is empty",
            expected="documents with blank lines between them",
            fix="export the texts again",
        )
    seems = seems_to_be(head)
    is_text = not seems or (gzipped and seems == "a gzip file")
    blocks = sample_bytes(path, gzipped) if is_text else []
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
