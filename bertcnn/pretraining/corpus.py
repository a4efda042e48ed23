"""The corpus: documents tokenised once into memory-mapped files and cached."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pydantic
from pydantic import Field

from bertcnn.errors import TableError
from bertcnn.pretraining.corpus_writer import DIGEST_BYTES, PART_TOKENS, CorpusWriter, file_kinds
from bertcnn.pretraining.documents import DocumentFiles
from bertcnn.progress import Progress, Silent
from bertcnn.settings import Settings, TokenizerSettings, Whole
from bertcnn.storage import (
    cache_folder,
    clean_leftovers,
    open_regular,
    output_error,
    put_in_place,
    work_folder,
    write_new,
)
from bertcnn.text import (
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
_BATCH_SENTENCES, _BATCH_CHARACTERS = 4096, 1 << 21  # most per call of the tokenizer
_BLOCK = 1 << 22  # bytes
_LONGEST_INPUT = 1 << 40  # tokens; sentences are never truncated here


class CorpusSummary(Settings):
    """Counts of a corpus, and of what was left out."""

    documents: Whole = Field(description="with at least one token")
    parts: Whole = Field(description="of documents; one of more than 4,096 tokens has several")
    sentences: Whole
    tokens: Whole = Field(description="without special ones")
    single: Whole = Field(description="documents of one sentence")
    blank: Whole = Field(description="documents without a token, which are left out")
    unknown: Whole = Field(description="tokens that are [UNK]")
    rejected: Whole = Field(description="table rows that could not be read")
    cut_lines: Whole = Field(description="lines of text files, cut after 4 million characters")
    undecodable_lines: Whole = Field(description="left out, since they cannot be decoded")

    def lines(self) -> list[str]:
        """The counts as log messages."""
        mean = self.tokens / self.documents
        lines = [
            f"{self.documents:,} documents of {mean:.1f} tokens on average, {self.sentences:,}"
            f" sentences, {self.tokens:,} tokens ({self.unknown / self.tokens:.2%} unknown)"
        ]
        if self.single:
            lines.append(f"{self.single:,} of {self.documents:,} documents are a single sentence")
        left_out = {
            "documents without a word left out": self.blank,
            "table rows that could not be read": self.rejected,
            "lines cut after 4,000,000 characters": self.cut_lines,
            "lines left out, with bytes that cannot be decoded": self.undecodable_lines,
        }
        return lines + [f"{count:,} {what}" for what, count in left_out.items() if count]


class _Manifest(Settings):
    """`manifest.json` of a cached corpus."""

    version: Literal[1]
    key: str
    token_bytes: Literal[2, 4]
    digests: dict[str, str]
    summary: CorpusSummary


class SpecialIds(NamedTuple):
    """Ids of BERT's special tokens."""

    pad: int
    unknown: int
    classify: int
    separate: int
    mask: int


class Corpus:
    """Tokenised documents in memory-mapped files; made by `open_corpus`.

    A document of more than 4,096 tokens is stored in parts, which share its key.

    Attributes:
        key: hash of texts, reading options and tokenizer.
        tokens: uint16 or uint32 [tokens], of all documents.
        sentence_ends: int64 [sentences], end of each sentence in `tokens`.
        part_ends: int64 [parts], end of each part in `sentence_ends`.
        part_keys: uint64 [parts], hash of the document's text. Documents that differ only in case,
            digits and punctuation have equal keys.
        continues: bool [V], whether a piece continues a word ("##s").
    """

    def __init__(self, folder: Path, manifest: _Manifest, tokenizer: WordPieceTokenizer) -> None:
        self.folder, self.key, self.summary = folder, manifest.key, manifest.summary
        kinds = file_kinds(manifest.token_bytes)
        self.tokens, self.sentence_ends, self.part_ends, self.part_keys = (
            np.memmap(folder / name, kind, "r") for name, kind in kinds.items()
        )
        self.vocabulary_size = len(tokenizer.vocabulary)
        self.special = _special_ids(tokenizer)
        self.continues = tokenizer.kinds(np.arange(self.vocabulary_size)) & CONTINUES > 0

    def __len__(self) -> int:
        return len(self.part_ends)


def _special_ids(tokenizer: WordPieceTokenizer) -> SpecialIds:
    ids = {piece: number for number, piece in enumerate(tokenizer.vocabulary)}
    if MASK not in ids:
        raise TableError(
            f"a vocabulary without {MASK}",
            expected="BERT's special tokens",
            fix="use or learn a vocabulary that has it",
        )
    return SpecialIds(*(ids[piece] for piece in (PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK)))


def open_corpus(
    paths: Sequence[str | Path],
    tokenizer: WordPieceTokenizer,
    *,
    columns: str | Sequence[str] | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Tokenise files into a corpus, or open it from the cache; uses constant memory.

    Texts are not truncated. The text columns of tables are guessed by default.

    Raises:
        TableError: a file cannot be read or changed while it was read, or the files have no word.
        OutputError: the cache cannot be written; nothing is left in it then.
    """
    progress = progress or Silent()
    files = DocumentFiles(paths, columns)
    _special_ids(tokenizer)
    state = _state(files)
    key = _key(files, tokenizer, progress)
    target = cache_folder(cache) / "corpora" / key
    manifest = _read(target, key)
    if manifest is None:
        try:
            manifest = _build(files, state, tokenizer, target, key, progress)
        except OSError as error:
            raise output_error(target, error) from None
    else:
        progress.note(f"reusing the tokenised texts in {target}")
    with suppress(OSError):
        _remove_old(target.parent)
    return Corpus(target, manifest, tokenizer)


def _state(files: DocumentFiles) -> list[tuple[int, int]]:
    return [(stat.st_size, stat.st_mtime_ns) for stat in (path.stat() for path in files.paths)]


def _key(files: DocumentFiles, tokenizer: WordPieceTokenizer, progress: Progress) -> str:
    progress.stage("hashing the texts", files.total_bytes, "bytes")
    contents = [
        ["".join(path.suffixes[-2:]).lower(), _digest(path, progress)] for path in files.paths
    ]
    columns = [files.columns] if isinstance(files.columns, str) else files.columns
    read_as = columns, tokenizer.settings.lowercase, tokenizer.vocabulary
    identity = [VERSION, PART_TOKENS, contents, *read_as]
    return blake2b(json.dumps(identity).encode(), digest_size=16).hexdigest()


def _read(folder: Path, key: str) -> _Manifest | None:
    try:
        with open_regular(folder / _MANIFEST) as file:
            manifest = _Manifest.model_validate_json(file.read())
        whole = manifest.key == key and all(
            _digest(folder / name, Silent()) == digest for name, digest in manifest.digests.items()
        )
        os.utime(folder)
    except (OSError, pydantic.ValidationError):
        return None
    return manifest if whole else None


def _digest(path: Path, progress: Progress) -> str:
    digest = blake2b(digest_size=DIGEST_BYTES)
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            progress.advance(len(block))
    return digest.hexdigest()


def _build(
    files: DocumentFiles,
    state: list[tuple[int, int]],
    tokenizer: WordPieceTokenizer,
    target: Path,
    key: str,
    progress: Progress,
) -> _Manifest:
    """Tokenise into a work folder, and move it into place when complete."""
    unlimited = TokenizerSettings(lowercase=tokenizer.settings.lowercase, max_tokens=_LONGEST_INPUT)
    endless = WordPieceTokenizer(tokenizer.vocabulary, unlimited)
    with work_folder(target) as work:
        folder = work / key
        folder.mkdir()
        with closing(
            CorpusWriter(folder, len(tokenizer.vocabulary), tokenizer.unknown_id)
        ) as writer:
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
                expected="files that nothing else writes to",
                fix="run it again when they are complete",
            )
        if not writer.counts["documents"]:
            raise TableError(
                f"no word in {', '.join(repr(str(path)) for path in files.paths[:3])}",
                expected="documents to learn from",
                fix="name files with texts, or the column that holds them",
            )
        manifest = _Manifest(
            version=VERSION,
            key=key,
            token_bytes=writer.token_bytes,
            digests=writer.digests,
            summary=CorpusSummary(**writer.counts, **files.unread),
        )
        write_new(folder / _MANIFEST, manifest.model_dump_json(indent=1).encode())
        put_in_place(folder, target, work, replace=True)
    for path, reason in files.columns_read.items():
        progress.note(f"text of {path}: {reason}")
    return manifest


def _batches(pieces: Iterator[list[str]]) -> Iterator[list[str | None]]:
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


def _remove_old(corpora: Path) -> None:
    """Remove the least recently used corpora and interrupted builds."""
    for folder in corpora.glob(".*.tmp"):
        clean_leftovers(corpora / folder.name[1:].rsplit(".", 2)[0])
    folders = [folder for folder in corpora.iterdir() if not folder.name.startswith(".")]
    for folder in sorted(folders, key=lambda one: one.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
