"""Writes a text for each of many texts, by greedy or beam search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.errors import SettingsError
from bertcnn.models import SearchSettings, Written
from bertcnn.tasks.compiled import compiled_search
from bertcnn.tasks.text_columns import TextColumns

_ROWS = (1, 32)  # batch sizes; a program is compiled for each
_CHUNK_ROWS = 256  # of a file, about 6 s of work with a beam of 4
_LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)  # padded; compiled like `_ROWS`


def check_beam(beam: object) -> None:
    """Raise SettingsError for a beam width that is not a positive whole number."""
    if not isinstance(beam, int) or beam < 1:
        raise SettingsError(
            f"beam {beam!r}", expected="a whole number, 1 or more", fix="give for example 4"
        )


class WrittenText(NamedTuple):
    """What was written for one text: the slot of a batch.

    Attributes:
        row: of the text.
        token_ids: int32 [W, L], best first, up to and including the end token, then padding.
        scores: float32 [W].
        attention: float32 [W, L, S].
    """

    row: int
    token_ids: np.ndarray
    scores: np.ndarray
    attention: np.ndarray


@dataclass(frozen=True, eq=False)
class TextWriter:
    """A model that writes, compiled for each search and shape when it is first used."""

    model: keras.Model
    pad_id: int
    _searches: dict[SearchSettings, Callable[[np.ndarray], Written]] = field(default_factory=dict)

    def write(
        self, settings: SearchSettings, sources: Sequence[np.ndarray], rows: Sequence[int]
    ) -> Iterator[WrittenText]:
        """Write a text for some of the sources, int32 [S] each, in order of their lengths."""
        if settings not in self._searches:
            self._searches[settings] = compiled_search(self.model, settings)
        search = self._searches[settings]
        ordered = sorted(rows, key=lambda row: len(sources[row]))
        size = _ROWS[0] if len(ordered) == 1 else _ROWS[1]
        for start in range(0, len(ordered), size):
            part = np.array(ordered[start : start + size])
            longest = len(sources[part[-1]])
            length = next(one for one in _LENGTHS if one >= longest)
            written = search(pad(sources, BatchPlan(part, length, size), self.pad_id).token_ids)
            for slot, row in enumerate(part.tolist()):
                yield WrittenText(
                    row, written.token_ids[slot], written.scores[slot], written.attention[slot]
                )


def written_column(
    name: str, model: str, beam: int, write: Callable[[list[str]], list[str]]
) -> TextColumns:
    """A new column of a table: what `write` makes of each text, with this beam width.

    Args:
        name: of the column.
        model: id of the model.
        beam: beam width.
        write: maps texts to written texts; a blank text to "".
    """
    write([])  # check the beam before any work
    return TextColumns(
        names=[name],
        model=model,
        engine=keras.backend.backend(),
        settings=f"beam {beam}",
        answer=lambda texts: [one.encode() for one in write(texts)],
        cells=lambda _, written: [written.decode()],
        tally=lambda written: {name: int(written != b"")},
        prefixed=True,
        chunk_rows=_CHUNK_ROWS,
    )
