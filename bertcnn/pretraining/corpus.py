"""The corpus: documents tokenised once into files that are mapped into memory.

They are found again by what is in them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pydantic
from pydantic import Field

from bertcnn.errors import TableError
from bertcnn.pretraining.corpus_writer import (
    KEYS,
    PART_TOKENS,
    PARTS,
    SENTENCES,
    TOKENS,
    CorpusWriter,
)
from bertcnn.pretraining.documents import DocumentFiles
from bertcnn.progress import Progress, Silent
from bertcnn.settings import TokenizerSettings
from bertcnn.storage.cache import cache_folder
from bertcnn.storage.files import open_regular, output_error, write_new
from bertcnn.storage.folders import clean_leftovers, put_in_place, work_folder
from bertcnn.text.wordpiece import (
    CLASSIFY,
    CONTINUES,
    MASK,
    PAD,
    SEPARATE,
    UNKNOWN,
    WordPieceTokenizer,
)

VERSION = 1
_MANIFEST = "manifest.json"
_KEPT = 8  # corpora in the cache
_BATCH_SENTENCES, _BATCH_CHARACTERS = 4096, 1 << 21  # tokenised with one call
_BLOCK = 1 << 22  # bytes read at once
_LONGEST_INPUT = 1 << 40  # tokens; a sentence is never truncated here
Whole = Annotated[int, Field(ge=0)]


class CorpusSummary(pydantic.BaseModel):
    """What a corpus holds, and what was left out of it.

    Attributes:
        documents: with a token at least.
        parts: documents, those over 4,096 tokens counted once for each such part.
        sentences: of all documents.
        tokens: of all documents, special ones apart.
        single: documents of one sentence.
        blank: documents without a token, left out.
        unknown: tokens that are [UNK].
        rejected: rows of tables that could not be read.
        cut_lines: lines of text files over 4 million characters, of which only the start was kept.
        undecodable_lines: lines with bytes that are no text.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    documents: Whole
    parts: Whole
    sentences: Whole
    tokens: Whole
    single: Whole
    blank: Whole
    unknown: Whole
    rejected: Whole
    cut_lines: Whole
    undecodable_lines: Whole

    def lines(self) -> list[str]:
        """The findings in sentences, for a log."""
        mean = self.tokens / self.documents
        found = [
            f"{self.documents:,} documents of {mean:.1f} tokens on average, {self.sentences:,}"
            f" sentences, {self.tokens:,} tokens ({self.unknown / self.tokens:.2%} unknown)"
        ]
        if self.single:
            found.append(f"{self.single:,} of {self.documents:,} documents are a single sentence")
        left_out = {
            "documents without a word left out": self.blank,
            "table rows that could not be read": self.rejected,
            "lines of more than 4,000,000 characters cut there": self.cut_lines,
            "lines with bytes that are no text": self.undecodable_lines,
        }
        return found + [f"{count:,} {what}" for what, count in left_out.items() if count]


class _Manifest(pydantic.BaseModel):
    """`manifest.json` of a corpus in the cache."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    key: str
    token_bytes: Literal[2, 4]
    digests: dict[str, str]
    summary: CorpusSummary


@dataclass(frozen=True)
class SpecialIds:
    """Ids of BERT's special tokens."""

    pad: int
    unknown: int
    classify: int
    separate: int
    mask: int

    def all(self) -> tuple[int, ...]:
        """All of them."""
        return (self.pad, self.unknown, self.classify, self.separate, self.mask)


class Corpus:
    """Tokenised documents on disk, mapped into memory; made by `open_corpus`.

    Documents of more than 4,096 tokens are stored in parts, which share their key.

    Attributes:
        folder: where it is.
        key: hash of the texts, of how they were read and of the tokenizer.
        summary: what it holds.
        tokens: uint16 or uint32 [tokens], of all documents.
        sentence_ends: int64 [sentences], where in `tokens` each sentence ends.
        part_ends: int64 [parts], where in `sentence_ends` each part of a document ends.
        part_keys: uint64 [parts], hash of the document's text: equal for documents that differ in
            case, digits and punctuation only.
        continues: bool [V], which pieces go on with a word ("##s").
        special: ids of the special tokens.
        vocabulary_size: V.
    """

    def __init__(self, folder: Path, manifest: _Manifest, tokenizer: WordPieceTokenizer) -> None:
        self.folder, self.key, self.summary = folder, manifest.key, manifest.summary
        self.tokens = _mapped(folder / TOKENS, np.dtype(f"<u{manifest.token_bytes}"))
        self.sentence_ends = _mapped(folder / SENTENCES, np.dtype("<i8"))
        self.part_ends = _mapped(folder / PARTS, np.dtype("<i8"))
        self.part_keys = _mapped(folder / KEYS, np.dtype("<u8"))
        self.vocabulary_size = len(tokenizer.vocabulary)
        self.special = _special_ids(tokenizer)
        self.continues = tokenizer.kinds(np.arange(self.vocabulary_size)) & CONTINUES > 0

    def __len__(self) -> int:
        return len(self.part_ends)


def _special_ids(tokenizer: WordPieceTokenizer) -> SpecialIds:
    places = {piece: place for place, piece in enumerate(tokenizer.vocabulary)}
    if MASK not in places:
        raise TableError(
            f"a vocabulary without {MASK}",
            expected="BERT's special tokens",
            fix="use or learn a vocabulary that has it",
        )
    return SpecialIds(*(places[piece] for piece in (PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK)))


def _mapped(path: Path, kind: np.dtype) -> np.ndarray:
    return np.memmap(path, kind, "r")


def open_corpus(
    paths: Sequence[str | Path],
    tokenizer: WordPieceTokenizer,
    *,
    columns: str | Sequence[str] | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """The corpus of some files, from the cache if it was tokenised before, in constant memory.

    Args:
        paths: text files with blank lines between documents, and tables with a document in each
            row.
        tokenizer: its vocabulary and casing are used; texts are not truncated.
        columns: the text columns of the tables; guessed by default.
        cache: folder of the cache; see `cache_folder`.
        progress: told how far it is.

    Raises:
        TableError: a file cannot be read, changed meanwhile, or there is not one word in all of
            them.
        OutputError: the cache cannot be written, as on a full disk; then nothing is left of it.
    """
    progress = progress or Silent()
    files = DocumentFiles(paths, columns)
    _special_ids(tokenizer)
    state = _state(files)
    key = _key(files, tokenizer, progress)
    target = cache_folder(cache) / "corpora" / key
    found = _read(target, key)
    if found is None:
        try:
            found = _build(files, state, tokenizer, target, key, progress)
        except OSError as error:
            raise output_error(target, error) from None
    else:
        progress.note(f"reusing the texts tokenised earlier, in {target}")
    with suppress(OSError):
        _forget(target.parent)
    return Corpus(target, found, tokenizer)


def _state(files: DocumentFiles) -> list[tuple[int, int]]:
    """Sizes and times of the files, to see whether somebody writes them."""
    return [(found.st_size, found.st_mtime_ns) for found in (path.stat() for path in files.paths)]


def _key(files: DocumentFiles, tokenizer: WordPieceTokenizer, progress: Progress) -> str:
    """A hash of all that the corpus depends on."""
    progress.stage("looking at the texts", files.total_bytes, "bytes")
    contents = []
    for path in files.paths:
        digest = blake2b(digest_size=16)
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                progress.advance(len(block))
        contents.append(["".join(path.suffixes[-2:]).lower(), digest.hexdigest()])
    columns = (
        [files.columns] if isinstance(files.columns, str) else files.columns and list(files.columns)
    )
    identity = [
        VERSION,
        PART_TOKENS,
        contents,
        columns,
        tokenizer.settings.lowercase,
        tokenizer.vocabulary,
    ]
    return blake2b(json.dumps(identity).encode(), digest_size=16).hexdigest()


def _read(folder: Path, key: str) -> _Manifest | None:
    """The manifest of a corpus in the cache.

    None if there is none, or if a file of it was changed since.
    """
    try:
        with open_regular(folder / _MANIFEST) as file:
            manifest = _Manifest.model_validate_json(file.read())
        whole = manifest.key == key and all(
            _digest(folder / name) == digest for name, digest in manifest.digests.items()
        )
        os.utime(folder)
    except (OSError, pydantic.ValidationError):
        return None
    return manifest if whole else None


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        digest = blake2b(digest_size=16)
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _build(
    files: DocumentFiles,
    state: list[tuple[int, int]],
    tokenizer: WordPieceTokenizer,
    target: Path,
    key: str,
    progress: Progress,
) -> _Manifest:
    """Tokenise into a work folder, and put it in place when it is whole."""
    unlimited = TokenizerSettings(lowercase=tokenizer.settings.lowercase, max_tokens=_LONGEST_INPUT)
    endless = WordPieceTokenizer(tokenizer.vocabulary, unlimited)
    with work_folder(target) as work:
        folder = work / key
        folder.mkdir()
        with CorpusWriter(folder, len(tokenizer.vocabulary), tokenizer.unknown_id) as writer:
            progress.stage("tokenising", files.total_bytes, "bytes")
            for batch in _batches(files.sentences(progress)):
                sentences = [sentence for sentence in batch if sentence is not None]
                ids = iter(endless.encode(sentences).token_ids)
                writer.add(
                    (sentence, None if sentence is None else next(ids)[1:-1]) for sentence in batch
                )
            writer.finish()
        if _state(files) != state:
            raise TableError(
                "a file of texts changed while it was read",
                expected="files that nobody writes",
                fix="run it again when they are complete",
            )
        if not writer.documents:
            raise TableError(
                f"there is no word in {', '.join(repr(str(path)) for path in files.paths[:3])}",
                expected="documents to learn from",
                fix="name files with texts, or the column that holds them",
            )
        reading = files.reading
        summary = CorpusSummary(
            **writer.counts(),
            rejected=reading.rejected,
            cut_lines=reading.cut_lines,
            undecodable_lines=reading.undecodable_lines,
        )
        manifest = _Manifest(
            version=VERSION,
            key=key,
            token_bytes=writer.token_bytes,
            digests=writer.digests,
            summary=summary,
        )
        write_new(folder / _MANIFEST, manifest.model_dump_json(indent=1).encode())
        put_in_place(folder, target, work, replace=True)
    for path, reason in reading.columns.items():
        progress.note(f"text of {path}: {reason}")
    return manifest


def _batches(pieces: Iterator[list[str]]) -> Iterator[list[str | None]]:
    """Sentences and, as None, the ends of documents, as many as are tokenised with one call."""
    batch: list[str | None] = []
    characters = 0
    for piece in pieces:
        batch += piece or [None]
        characters += sum(map(len, piece))
        if len(batch) >= _BATCH_SENTENCES or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _forget(corpora: Path) -> None:
    """Remove the corpora used longest ago, and what killed builds left."""
    for folder in corpora.glob(".*.tmp"):
        clean_leftovers(corpora / folder.name[1:].rsplit(".", 2)[0])
    found = [folder for folder in corpora.iterdir() if not folder.name.startswith(".")]
    for folder in sorted(found, key=lambda one: one.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
