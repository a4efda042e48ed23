"""Reads the texts that a language model learns or is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertcnn.pretraining import DocumentFiles
from bertcnn.progress import Progress, Silent


def read_documents(
    paths: Sequence[str | Path], *, text: str | None = None, progress: Progress | None = None
) -> list[str]:
    """The texts of files.

    Args:
        paths: text files (.txt, also .gz) with blank lines between texts, or tables with a text in
            each row.
        text: text column of the tables, or several, separated by commas; guessed by default.
        progress: notes what could not be read.

    Raises:
        TableError: a file cannot be read as text.
        ColumnError: the text column is missing.
    """
    files, progress = DocumentFiles(paths, text), progress or Silent()
    texts, sentences = [], list[str]()
    for some in files.sentences():
        if some:
            sentences += some
        elif sentences:
            texts.append(" ".join(sentences))
            sentences = []
    for kind, count in files.unread.items():
        if count:
            progress.note(f"left out: {count:,} {kind.replace('_', ' ')}")
    return texts
