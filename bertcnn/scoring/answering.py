"""The answers to a file's texts, in chunks: from a journal, a cache, or the model."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import numpy as np

from bertcnn.data.prefetch import prefetch
from bertcnn.inference.answers import Answers
from bertcnn.inference.engines import EngineOutput
from bertcnn.inference.predictor import Predictor
from bertcnn.scoring.journal import DIGEST_BYTES, Frame, Journal
from bertcnn.text.wordpiece import EncodedTexts

_CACHE_SETS, _CACHE_WAYS = 8192, 16  # 131,072 texts
_CACHED_PROBABILITIES = 16 * 1024**2  # numbers, 64 MiB


Output = EngineOutput | Answers  # of this process's engine, or of other processes


@dataclass(frozen=True)
class Question:
    """A chunk of rows, and what the model has to be asked for them.

    Attributes:
        rows: as they were read.
        position: bytes of the input that were read by then.
        texts: the different texts, in the order in which they appear first.
        places: for each row, which of the texts is its own.
        digest: of the rows' texts, in their order.
        slots: int64 [texts], where the cache has the answer; -1 where the model is asked.
        kept: where the cache is to keep which new answers: slots and places of texts, each int64
            [n].
        asked: the texts that the model is asked for; none if the answers are on record.
        encoded: their tokens; None if there are none, or other processes compute.
    """

    rows: list[tuple[str, ...]]
    position: int
    texts: list[str]
    places: list[int]
    digest: bytes
    slots: np.ndarray
    kept: tuple[np.ndarray, np.ndarray]
    asked: list[str]
    encoded: EncodedTexts | None

    @property
    def unknown(self) -> np.ndarray:
        """Which of the texts the cache does not have, int64 [n]."""
        return np.flatnonzero(self.slots < 0)


class Elsewhere(Protocol):
    """Other processes that run the model."""

    def answered(
        self, questions: Generator[Question, None, None], *, probabilities: bool
    ) -> Generator[tuple[Question, Answers | None], None, None]:
        """Each question with the answers to the texts that the model is asked for, in order.

        None where there are no such texts. Probabilities are left out unless they are wanted.
        """


class Answering:
    """Answers texts, a chunk at a time, in three steps.

    They may work on three chunks at the same time, each in the file's order.

    What the model is asked for depends on all chunks before, so answers from the journal go through
    the cache too: then the rest is asked for in the same batches as in an unbroken run, and comes
    out the same to the last bit.

    Args:
        predictor: the model.
        journal: of this run; `answer` alone touches it.
        probabilities: whether all of them are kept.
        elsewhere: runs the model; by default this process does.

    Attributes:
        rows_on_record: rows whose answers the journal had from the start.
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
        """The first step: which texts the cache knows, and the tokens of the others.

        Args:
            rows: of the chunk.
            texts: one for each row.
            position: bytes read.
        """
        number: dict[str, int] = {}
        places = [number.setdefault(text, len(number)) for text in texts]
        digests = [
            blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
            for text in number
        ]
        keys = np.frombuffer(b"".join(digests), np.uint64).reshape(len(digests), 2)
        digest = blake2b(keys[places].tobytes(), digest_size=DIGEST_BYTES).digest()
        slots, different = self._cache.find(keys), list(number)
        unknown = np.flatnonzero(slots < 0)
        room, whose = self._cache.make_room(keys[unknown])
        on_record = self._asked_about < self.rows_on_record
        self._asked_about += len(rows)
        asked = [] if on_record else [different[place] for place in unknown]
        here = bool(asked) and self._elsewhere is None
        return Question(
            rows,
            position,
            different,
            places,
            digest,
            slots,
            (room, unknown[whose]),
            asked,
            self._predictor.encode(asked) if here else None,
        )

    def computed(
        self, questions: Generator[Question, None, None]
    ) -> Generator[tuple[Question, Output | None], None, None]:
        """The second step: each with what comes of its texts, if the model is asked for any.

        It goes on ahead of the third step.
        """
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
        """The third step: the answers to the different texts, from now on on record.

        Raises:
            OtherTextsError: the record is of other texts.
            OutputError: it cannot be written.
        """
        frame = self._journal.take(len(question.rows), question.digest)
        if frame is None:
            answers = self._cache.answers(question.slots)
            if isinstance(output, EngineOutput) and question.encoded is not None:
                output = self._predictor.answer_from(question.asked, question.encoded, output)
            if isinstance(output, Answers):
                answers.put(question.unknown, output)
            frame = Frame(len(question.rows), question.digest, answers)
            self._journal.append(frame)
        self._cache.keep(frame.answers, *question.kept)
        return frame.answers


class Cache:
    """The answers to texts seen lately, in arrays whose size never changes.

    `cachetools` keeps a Python object for each text, and looks texts up one by one.

    The digest of a text says which set of 16 slots it may use; a new text takes the slot of its set
    that was filled longest ago. So a text is forgotten after 16 newer ones of its set, hardly ever
    after fewer than 50,000 newer ones in all (sooner with over 128 probabilities).

    Texts may be looked for and given room while the answers to chunks before are still on their
    way: `find` and `make_room` go by the texts alone, and `answers` and `keep` come in the same
    order, chunk after chunk, so that each slot holds the right answer when it is its chunk's turn.
    The two pairs touch different arrays, so each may have a thread of its own.

    Args:
        width: probabilities of a text; 0 if they are not kept.

    Attributes:
        size: how many texts there is room for.
    """

    def __init__(self, width: int) -> None:
        self._sets = max(
            1, min(_CACHE_SETS, _CACHED_PROBABILITIES // (_CACHE_WAYS * max(1, width)))
        )
        self.size = self._sets * _CACHE_WAYS
        self._keys = np.zeros((self._sets, _CACHE_WAYS, 2), np.uint64)
        self._next = [0] * self._sets  # way to fill
        self._answers = Answers.empty(self.size, width)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Where the answer to each text is, int64; -1 for those that are not there.

        `keys` are their digests, uint64 [texts, 2].
        """
        sets = self._set_of(keys)
        same = (self._keys[sets] == keys[:, None]).all(axis=2)  # [texts, ways]
        return np.where(same.any(axis=1), sets * _CACHE_WAYS + same.argmax(axis=1), -1)

    def make_room(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots for new texts, and which of the texts each is for; both int64 [n].

        Of too many in one set, the last ones get room.
        """
        chosen: dict[int, int] = {}  # slot -> which of the texts
        for index, own_set in enumerate(self._set_of(keys).tolist()):
            way = self._next[own_set]
            self._next[own_set] = (way + 1) % _CACHE_WAYS
            chosen[own_set * _CACHE_WAYS + way] = index
        slots, texts = np.array(list(chosen), np.int64), np.array(list(chosen.values()), np.int64)
        self._keys.reshape(-1, 2)[slots] = keys[texts]
        return slots, texts

    def answers(self, slots: np.ndarray) -> Answers:
        """A copy of the answers in these slots; whatever for slot -1."""
        return self._answers.at(slots)

    def keep(self, answers: Answers, slots: np.ndarray, texts: np.ndarray) -> None:
        """Put the answers to these texts into these slots."""
        self._answers.put(slots, answers.at(texts))

    def _set_of(self, keys: np.ndarray) -> np.ndarray:
        return (keys[:, 0] % self._sets).astype(np.int64)
