"""Answers a file's texts in chunks, from a journal, a cache, or the model."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np

from bertcnn.data import prefetch
from bertcnn.inference import Answers, EngineOutput, Predictor
from bertcnn.scoring.journal import DIGEST_BYTES, Frame, Journal
from bertcnn.text import EncodedTexts

_CACHE_SETS, _CACHE_WAYS = 8192, 16  # 131,072 texts
_CACHED_PROBABILITIES = 16 * 1024**2  # values, 64 MiB


Output = EngineOutput | Answers  # from this process's engine, or from other processes


@dataclass(frozen=True)
class Question:
    """A chunk of rows, and the texts that need the model.

    Attributes:
        position: bytes of the input read so far.
        texts: the distinct texts, in order of appearance.
        places: for each row, the index of its text.
        digest: of the rows' texts, in order.
        slots: int64 [texts], cache slot of each answer; -1 if the model is needed.
        kept: new answers for the cache: slots and indices of texts, each int64 [n].
        new_texts: texts for the model; empty if the journal has the answers.
        encoded: their tokens; None if there are none, or other processes run the model.
    """

    rows: list[tuple[str, ...]]
    position: int
    texts: list[str]
    places: list[int]
    digest: bytes
    slots: np.ndarray
    kept: tuple[np.ndarray, np.ndarray]
    new_texts: list[str]
    encoded: EncodedTexts | None

    @property
    def unknown(self) -> np.ndarray:
        """The texts that are not in the cache, int64 [n]."""
        return np.flatnonzero(self.slots < 0)


class Elsewhere(Protocol):
    """Other processes that run the model."""

    def answered(
        self, questions: Generator[Question, None, None], *, probabilities: bool
    ) -> Generator[tuple[Question, Answers | None], None, None]:
        """Each question with the model's answers to its texts, in order; None without such texts.

        Probabilities are omitted unless requested.
        """


class Answering:
    """Answers chunks of texts in three steps, which can work on three chunks at once.

    Answers from the journal go through the cache too. So the model gets the same batches as in an
    uninterrupted run, and the answers are equal to the last bit. `journal` is used only by
    `answer`. `elsewhere` runs the model in other processes.

    Attributes:
        rows_on_record: rows whose answers the journal had at the start.
    """

    def __init__(
        self,
        predictor: Predictor,
        journal: Journal,
        probabilities: bool,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._predictor, self._journal = predictor, journal
        self._probabilities, self._elsewhere = probabilities, elsewhere
        self._cache = Cache(len(predictor.hierarchy.names) if probabilities else 0)
        self.rows_on_record = journal.rows
        self._asked_about = 0  # rows

    def question(self, rows: list[tuple[str, ...]], texts: list[str], position: int) -> Question:
        """Step 1: look texts up in the cache and tokenize the others."""
        number: dict[str, int] = {}
        indices = [number.setdefault(text, len(number)) for text in texts]
        digests = [
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
            for text in number
        ]
        keys = np.frombuffer(b"".join(digests), np.uint64).reshape(len(digests), 2)
        digest = blake2b(keys[indices].tobytes(), digest_size=DIGEST_BYTES).digest()
        slots, different = self._cache.find(keys), list(number)
        unknown = np.flatnonzero(slots < 0)
        room, whose = self._cache.make_room(keys[unknown])
        on_record = self._asked_about < self.rows_on_record
        self._asked_about += len(rows)
        new_texts = [] if on_record else [different[index] for index in unknown]
        here = bool(new_texts) and self._elsewhere is None
        return Question(
            rows,
            position,
            different,
            indices,
            digest,
            slots,
            (room, unknown[whose]),
            new_texts,
            self._predictor.encode(new_texts) if here else None,
        )

    def computed(
        self, questions: Generator[Question, None, None]
    ) -> Generator[tuple[Question, Output | None], None, None]:
        """Step 2: run the model on the texts that need it, ahead of step 3."""
        if self._elsewhere is not None:
            return self._elsewhere.answered(questions, probabilities=self._probabilities)
        return prefetch(self._run(questions))

    def _run(
        self, questions: Generator[Question, None, None]
    ) -> Generator[tuple[Question, EngineOutput | None], None, None]:
        with closing(questions):
            for question in questions:
                encoded = question.encoded
                yield question, None if encoded is None else self._predictor.run(encoded)

    def answer(self, question: Question, output: Output | None) -> Answers:
        """Step 3: the answers to the distinct texts, after adding them to the journal.

        Raises:
            OtherTextsError: the journal's answers are for other texts.
            OutputError: the journal is not writable.
        """
        frame = self._journal.take(len(question.rows), question.digest)
        if frame is None:
            answers = self._cache.answers(question.slots)
            if isinstance(output, EngineOutput) and question.encoded is not None:
                output = self._predictor.answer_from(question.new_texts, question.encoded, output)
            if isinstance(output, Answers):
                answers.put(question.unknown, output)
            frame = Frame(len(question.rows), question.digest, answers)
            self._journal.append(frame)
        self._cache.keep(frame.answers, *question.kept)
        return frame.answers


class Cache:
    """The answers to recent texts, in arrays of fixed size.

    `cachetools` keeps a Python object per text and looks texts up one by one.

    The cache is set-associative: a text's digest selects a set of 16 slots, and a new text replaces
    the oldest one in its set. So a text is evicted after 16 newer ones in its set, which rarely
    happens before 50,000 newer texts in all (sooner with over 128 probabilities).

    Lookup and storage are separate: `find` and `make_room` need only the texts, and may run ahead
    while answers to earlier chunks are being computed. `answers` and `keep` follow in the same
    chunk order, so each slot is correct when its chunk is reached. The two pairs use different
    arrays, so each may run on its own thread. `width` is the number of probabilities per text; 0 if
    not kept.

    Attributes:
        size: most texts.
    """

    def __init__(self, width: int) -> None:
        self._sets = max(
            1, min(_CACHE_SETS, _CACHED_PROBABILITIES // (_CACHE_WAYS * max(1, width)))
        )
        self.size = self._sets * _CACHE_WAYS
        self._keys = np.zeros((self._sets, _CACHE_WAYS, 2), np.uint64)
        self._next = [0] * self._sets  # next slot to fill in each set
        self._answers = Answers.empty(self.size, width)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The slot of each text, int64; -1 if missing. `keys` are digests, uint64 [texts, 2]."""
        sets = self._set_of(keys)
        same = (self._keys[sets] == keys[:, None]).all(axis=2)  # [texts, ways]
        return np.where(same.any(axis=1), sets * _CACHE_WAYS + same.argmax(axis=1), -1)

    def make_room(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reserve slots for new texts; returns slots and text indices, both int64 [n].

        If a set gets too many texts, the last ones are kept.
        """
        chosen: dict[int, int] = {}  # slot -> index of the text
        for index, own_set in enumerate(self._set_of(keys).tolist()):
            way = self._next[own_set]
            self._next[own_set] = (way + 1) % _CACHE_WAYS
            chosen[own_set * _CACHE_WAYS + way] = index
        slots, texts = np.array(list(chosen), np.int64), np.array(list(chosen.values()), np.int64)
        self._keys.reshape(-1, 2)[slots] = keys[texts]
        return slots, texts

    def answers(self, slots: np.ndarray) -> Answers:
        """A copy of the answers in these slots; undefined for slot -1."""
        return self._answers.at(slots)

    def keep(self, answers: Answers, slots: np.ndarray, texts: np.ndarray) -> None:
        """Store the answers to these texts in these slots."""
        self._answers.put(slots, answers.at(texts))

    def _set_of(self, keys: np.ndarray) -> np.ndarray:
        return (keys[:, 0] % self._sets).astype(np.int64)
