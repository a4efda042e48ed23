"""Writes the files of a tokenised corpus, sentence by sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np

from bertcnn.data.splits import duplicate_key

PART_TOKENS = 4096  # most tokens per part; longer documents are stored in several
TOKENS, SENTENCES, PARTS, KEYS = "tokens.bin", "sentence_ends.bin", "part_ends.bin", "part_keys.bin"


class CorpusWriter:
    """Writes the files that `Corpus` reads, in constant memory.

    Args:
        folder: an empty folder.
        vocabulary_size: V; up to 65,536 pieces, a token takes 2 bytes, else 4.
        unknown_id: id of [UNK], which is counted.

    Attributes:
        documents, parts, sentences, tokens, single, blank, unknown: see `CorpusSummary`.
        digests: hash of each file, after `finish` was called.
    """

    def __init__(self, folder: Path, vocabulary_size: int, unknown_id: int) -> None:
        self.token_bytes: Literal[2, 4] = 2 if vocabulary_size <= 1 << 16 else 4
        self._kinds = {TOKENS: f"<u{self.token_bytes}", SENTENCES: "<i8", PARTS: "<i8", KEYS: "<u8"}
        self._files = {name: (folder / name).open("xb", buffering=1 << 20) for name in self._kinds}
        self._hashes = {name: blake2b(digest_size=16) for name in self._kinds}
        self._unknown_id = unknown_id
        self.documents = self.blank = self.single = self.unknown = 0
        self.sentences = self.tokens = self.parts = 0
        self.digests: dict[str, str] = {}
        self._part_ends: list[int] = []
        self._part_keys: list[int] = []
        self._start_document()

    def _start_document(self) -> None:
        self._key = blake2b(digest_size=8)
        self._part_tokens = self._document_parts = self._document_sentences = 0

    def _end_part(self) -> None:
        self._part_ends.append(self.sentences)
        self._document_parts += 1
        self._part_tokens = 0

    def _end_document(self) -> None:
        if self._part_tokens:
            self._end_part()
        if self._document_parts:
            self._part_keys += [int.from_bytes(self._key.digest(), "little")] * self._document_parts
            self.documents += 1
            self.single += self._document_sentences == 1
        else:
            self.blank += 1
        self._start_document()

    def add(self, items: Iterable[tuple[str | None, np.ndarray | None]]) -> None:
        """Write sentences with their token ids; None marks the end of a document."""
        tokens: list[np.ndarray] = []
        sentence_ends: list[int] = []
        for sentence, ids in items:
            if sentence is None or ids is None:
                self._end_document()
                continue
            if not len(ids):
                continue
            self._key.update(duplicate_key(sentence).encode("utf-8", "surrogatepass") + b"\n")
            self._document_sentences += 1
            for start in range(0, len(ids), PART_TOKENS):
                piece = ids[start : start + PART_TOKENS]
                if self._part_tokens + len(piece) > PART_TOKENS:
                    self._end_part()
                tokens.append(piece)
                self.tokens += len(piece)
                self.sentences += 1
                self._part_tokens += len(piece)
                sentence_ends.append(self.tokens)
        joined = np.concatenate(tokens) if tokens else np.empty(0, np.int32)
        self.unknown += int(np.count_nonzero(joined == self._unknown_id))
        self._write(TOKENS, joined)
        self._write(SENTENCES, sentence_ends)
        self._write(PARTS, self._part_ends)
        self._write(KEYS, self._part_keys)
        self.parts += len(self._part_ends)
        self._part_ends, self._part_keys = [], []

    def _write(self, name: str, values: np.ndarray | list[int]) -> None:
        data = np.asarray(values, self._kinds[name]).tobytes()
        self._hashes[name].update(data)
        self._files[name].write(data)

    def finish(self) -> None:
        """Flush everything to the disk, and set the digests."""
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            self.digests[name] = self._hashes[name].hexdigest()

    def counts(self) -> dict[str, int]:
        """The counts for `CorpusSummary`."""
        names = ("documents", "parts", "sentences", "tokens", "single", "blank", "unknown")
        return {name: getattr(self, name) for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()
