"""Writes the files of a tokenised corpus, sentence by sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import numpy as np

from bertcnn.data import duplicate_key

PART_TOKENS = 4096  # maximum per part; longer documents are stored in several parts
DIGEST_BYTES = 16
TOKENS, SENTENCES, PARTS, KEYS = "tokens.bin", "sentence_ends.bin", "part_ends.bin", "part_keys.bin"
_COUNTS = ("documents", "parts", "sentences", "tokens", "single", "blank", "unknown")


def file_kinds(token_bytes: int) -> dict[str, str]:
    """The files of a corpus, and their dtypes."""
    return {TOKENS: f"<u{token_bytes}", SENTENCES: "<i8", PARTS: "<i8", KEYS: "<u8"}


class CorpusWriter:
    """Writes the files of a `Corpus` into an empty folder, in constant memory.

    A token takes 2 bytes, or 4 if the vocabulary has more than 65,536 pieces. `counts` is as in
    `CorpusSummary`, except what could not be read; `finish` sets `digests`, the files' hashes.
    """

    def __init__(self, folder: Path, vocabulary_size: int, unknown_id: int) -> None:
        self.token_bytes: Literal[2, 4] = 2 if vocabulary_size <= 1 << 16 else 4
        self._kinds = file_kinds(self.token_bytes)
        self._files = {name: (folder / name).open("xb", buffering=1 << 20) for name in self._kinds}
        self._hashes = {name: blake2b(digest_size=DIGEST_BYTES) for name in self._kinds}
        self._pending = {name: bytearray() for name in self._kinds}
        self._unknown_id = unknown_id
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.digests: dict[str, str] = {}
        self._start_document()

    def _start_document(self) -> None:
        self._key = blake2b(digest_size=8)
        self._parts = self._sentences = 0  # of the current document
        self._part_tokens = 0

    def _end_part(self) -> None:
        self._pending[PARTS] += self.counts["sentences"].to_bytes(8, "little")
        self._parts += 1
        self._part_tokens = 0

    def _end_document(self) -> None:
        if self._part_tokens:
            self._end_part()
        self._pending[KEYS] += self._key.digest() * self._parts
        self.counts["documents" if self._parts else "blank"] += 1
        self.counts["parts"] += self._parts
        self.counts["single"] += self._sentences == 1
        self._start_document()

    def add(self, items: Iterable[tuple[str | None, np.ndarray | None]]) -> None:
        """Write sentences with their token ids; None marks the end of a document."""
        for sentence, ids in items:
            if sentence is None or ids is None:
                self._end_document()
            elif len(ids):
                self._add_sentence(sentence, ids)
        tokens = np.frombuffer(self._pending[TOKENS], self._kinds[TOKENS])
        self.counts["unknown"] += int(np.count_nonzero(tokens == self._unknown_id))
        for name, data in self._pending.items():
            self._hashes[name].update(data)
            self._files[name].write(data)
        self._pending = {name: bytearray() for name in self._kinds}

    def _add_sentence(self, sentence: str, ids: np.ndarray) -> None:
        self._key.update(duplicate_key(sentence).encode("utf-8", "surrogatepass") + b"\n")
        self._sentences += 1
        for start in range(0, len(ids), PART_TOKENS):
            piece = ids[start : start + PART_TOKENS]
            if self._part_tokens + len(piece) > PART_TOKENS:
                self._end_part()
            self._part_tokens += len(piece)
            self.counts["tokens"] += len(piece)
            self.counts["sentences"] += 1
            self._pending[TOKENS] += piece.astype(self._kinds[TOKENS]).tobytes()
            self._pending[SENTENCES] += self.counts["tokens"].to_bytes(8, "little")

    def finish(self) -> None:
        """Flush everything to disk, and set the digests."""
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            self.digests[name] = self._hashes[name].hexdigest()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
