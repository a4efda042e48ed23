"""Dynamic batching: each stream's thread takes all waiting texts, up to a limit, without a timer.

Texts gather while a batch is computed; a single text on an idle service is computed at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from bertcnn.errors import BertCNNError
from bertcnn.inference import Prediction
from bertcnn.serving.logs import log
from bertcnn.serving.metrics import Metrics
from bertcnn.serving.models import Precision, ServedModel
from bertcnn.serving.problems import RequestError
from bertcnn.wording import count

BATCH_TOKENS: Final = 512  # the batch size of a compiled engine
_MOST_BATCHES: Final = 8  # most that a thread takes at a time, if all threads have enough
_AT_A_TIME: Final = 8  # requests that get their answers before the event loop does other work
_CHARACTERS_OF_A_TOKEN, _MARKS = 4, 3  # estimates for English; [CLS], [SEP] and a rest


@dataclass(eq=False)
class Work:
    """The texts of one request.

    Attributes:
        model: answers all texts, even if another model serves later.
        auto_precision: required precision of automatic answers.
        answers: a future with an answer for each text.
        arrived: time by `time.perf_counter`.
        abandoned: whether the client has disconnected.
        taken: number of texts already taken by a thread.
        sizes: estimated tokens of each text.
    """

    model: ServedModel
    texts: Sequence[str]
    auto_precision: Precision
    answers: asyncio.Future[list[Prediction]]
    arrived: float = field(default_factory=time.perf_counter)
    abandoned: bool = False
    taken: int = 0
    sizes: list[int] = field(init=False)
    _found: list[list[Prediction]] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sizes = [_tokens(text, self.model.longest) for text in self.texts]

    def put(self, start: int, answers: list[Prediction]) -> None:
        """Store answers; call on the event loop's thread."""
        self._places.append(start)
        self._found.append(answers)
        if sum(map(len, self._found)) == len(self.texts) and not self.answers.done():
            ordered = sorted(zip(self._places, self._found, strict=True), key=lambda part: part[0])
            self.answers.set_result([answer for _, part in ordered for answer in part])

    def fail(self, error: Exception) -> None:
        """Fail the request; call on the event loop's thread."""
        self.abandoned = True
        if not self.answers.done():
            self.answers.set_exception(error)


class Part(NamedTuple):
    """Some of a request's texts, computed in one batch."""

    work: Work
    start: int
    texts: Sequence[str]


class Batcher:
    """Answers requests of an event loop on its own threads, one per model stream."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, most_waiting: int) -> None:
        self.metrics = Metrics(lambda: self.waiting)
        self.waiting = 0  # texts
        self._waiting_tokens = 0
        self._loop, self._most_waiting = loop, most_waiting
        self._works: deque[Work] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._rate = 0.0  # texts a second, over the last batches
        self._threads = [
            threading.Thread(target=self._serve, name=f"bertcnn-answers-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work) -> None:
        """Queue a request; raise RequestError if the queue is full. Its future gets the answers."""
        self.check_room(len(work.texts))
        with self._changed:
            self.waiting += len(work.texts)
            self._waiting_tokens += sum(work.sizes)
            self._works.append(work)
            self._changed.notify()

    def check_room(self, texts: int) -> None:
        """Raise RequestError if the texts do not fit into the queue."""
        if self.waiting + texts <= self._most_waiting:
            return
        seconds = max(1, math.ceil(self.waiting / self._rate)) if self._rate else 1
        raise RequestError(
            429,
            f"{count(texts, 'more text')} while {self.waiting:,} wait",
            expected=f"at most {self._most_waiting:,} texts that wait",
            fix=f"send them again in {seconds} s, or start more servers",
            headers={"Retry-After": str(seconds)},
        )

    def abandon(self, work: Work) -> None:
        """Drop the remaining texts of a request whose client has disconnected."""
        with self._changed:
            work.abandoned = True

    def stop(self) -> None:
        """End the threads once the queue is empty."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while parts := self._take():
            began = time.perf_counter()
            finishes = self._compute(parts)
            texts = sum(len(part.texts) for part in parts)
            rate = len(self._threads) * texts / (time.perf_counter() - began)
            self._rate = 0.9 * self._rate + 0.1 * rate if self._rate else rate
            self._loop.call_soon_threadsafe(self._finish, finishes)
            self.metrics.batch(texts, [began - part.work.arrived for part in parts])
            del parts, finishes  # frees a replaced model once no request uses it

    def _take(self) -> list[Part]:
        with self._changed:
            while True:
                parts = self._parts()
                if parts or self._stopped:
                    if self._works:
                        self._changed.notify()
                    return parts
                self._changed.wait()

    def _parts(self) -> list[Part]:
        """A thread's share of the waiting texts: at least a batch, the oldest first.

        The rest of a large request comes next, or moves to the back of the queue if it exceeds one
        thread's limit.
        """
        parts: list[Part] = []
        skipped: list[Work] = []
        batches = self._waiting_tokens // BATCH_TOKENS // max(1, len(self._threads))
        room = BATCH_TOKENS * min(max(batches, 1), _MOST_BATCHES)
        rest: Work | None = None
        while self._works and room > 0:
            work = self._works.popleft()
            start = work.taken
            if work.abandoned:
                self._leave(work, len(work.texts))
            elif parts and work.model is not parts[0].work.model:
                skipped.append(work)
            else:
                end = start
                while end < len(work.texts) and room > 0:
                    room -= work.sizes[end]
                    end += 1
                self._leave(work, end)
                parts.append(Part(work, start, work.texts[start:end]))
                rest = work if end < len(work.texts) else None
        self._works.extendleft(reversed(skipped))
        if rest is not None:
            is_next = sum(rest.sizes[rest.taken :]) <= _MOST_BATCHES * BATCH_TOKENS
            (self._works.appendleft if is_next else self._works.append)(rest)
        return parts

    def _leave(self, work: Work, end: int) -> None:
        self.waiting -= end - work.taken
        self._waiting_tokens -= sum(work.sizes[work.taken : end])
        work.taken = end

    def _finish(self, finishes: deque[Callable[[], None]]) -> None:
        """Deliver a few answers at a time, so that the event loop sees new requests."""
        for _ in range(min(_AT_A_TIME, len(finishes))):
            finishes.popleft()()
        if finishes:
            self._loop.call_soon(self._finish, finishes)

    def _compute(self, parts: Sequence[Part]) -> deque[Callable[[], None]]:
        """Answer a batch, or each request alone if it fails; returns event-loop callbacks."""
        model = parts[0].work.model
        texts = [text for part in parts for text in part.texts]
        precisions = [part.work.auto_precision for part in parts for _ in part.texts]
        try:
            answers = model.answer(texts, precisions)
        except Exception as error:  # noqa: BLE001 - a thread that ended would leave all requests waiting
            if len(parts) > 1:
                return deque(finish for part in parts for finish in self._compute([part]))
            return deque([partial(parts[0].work.fail, _failure(error))])
        self.metrics.answered(model.name, [answer.decision for answer in answers])
        rows = iter(answers)
        return deque(
            partial(part.work.put, part.start, list(islice(rows, len(part.texts))))
            for part in parts
        )


def _tokens(text: str, longest: int) -> int:
    return min(len(text) // _CHARACTERS_OF_A_TOKEN + _MARKS, longest)


def _failure(error: Exception) -> Exception:
    if isinstance(error, BertCNNError):
        log("not answered", logging.ERROR, error=str(error))
    else:
        log("not answered", logging.ERROR, error=f"{type(error).__name__}")
    return RequestError(
        500,
        "texts that could not be answered",
        expected="a model and memory that answer any text",
        fix="look at the log of the server",
    )
