"""Requests share batches: a thread per stream answers whatever texts wait, and never waits itself.

There is no timer. While a batch is computed, the next texts gather; a text that comes alone is
computed alone at once.
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
from bertcnn.inference.answers import Prediction
from bertcnn.serving.logs import log
from bertcnn.serving.metrics import Metrics
from bertcnn.serving.models import Precision, ServedModel
from bertcnn.serving.problems import RequestError
from bertcnn.wording import count

BATCH_TOKENS: Final = 512  # as a compiled engine's batches have
_MOST_BATCHES: Final = 8  # that a thread takes at a time, if so many wait for each
_AT_A_TIME: Final = 8  # requests whose answers are handed out before others are looked at
_CHARACTERS_OF_A_TOKEN, _MARKS = 4, 3  # roughly, of English; [CLS], [SEP] and a rest


@dataclass(eq=False)
class Work:
    """The texts of one request.

    Attributes:
        model: answers them all, whatever serves later.
        texts: at least one.
        auto_precision: how often automatic answers have to be right.
        answers: is done with an answer to each text.
        arrived: `time.perf_counter`.
        abandoned: nobody waits for the answers any more.
        taken: texts that are computed or being computed.
        sizes: roughly the tokens of each text.
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
        """Store answers; on the event loop's thread."""
        self._places.append(start)
        self._found.append(answers)
        if sum(map(len, self._found)) == len(self.texts) and not self.answers.done():
            ordered = sorted(zip(self._places, self._found, strict=True), key=lambda part: part[0])
            self.answers.set_result([answer for _, part in ordered for answer in part])

    def fail(self, error: Exception) -> None:
        """Give up; on the event loop's thread."""
        self.abandoned = True
        if not self.answers.done():
            self.answers.set_exception(error)


class Part(NamedTuple):
    """Some of a request's texts, computed in one batch."""

    work: Work
    start: int
    texts: Sequence[str]


class Batcher:
    """Answers requests on threads of its own.

    Args:
        loop: on which requests wait.
        threads: that answer; as many as models have streams.
        most_waiting: texts that may wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, most_waiting: int) -> None:
        self.metrics = Metrics(lambda: self.waiting)
        self.waiting = 0  # texts
        self._waiting_tokens = 0
        self._loop, self._most_waiting = loop, most_waiting
        self._works: deque[Work] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._rate = 0.0  # texts a second, of the last batches
        self._threads = [
            threading.Thread(target=self._serve, name=f"bertcnn-answers-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work) -> None:
        """Have a request answered; its future is done then.

        Raises:
            RequestError: too many texts wait already.
        """
        self.check_room(len(work.texts))
        with self._changed:
            self.waiting += len(work.texts)
            self._waiting_tokens += sum(work.sizes)
            self._works.append(work)
            self._changed.notify()

    def check_room(self, texts: int) -> None:
        """Refuse texts for which there is no room.

        Raises:
            RequestError: too many wait already.
        """
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
        """Nobody waits for a request any more: what is not yet computed never will be."""
        with self._changed:
            work.abandoned = True

    def stop(self) -> None:
        """End the threads, once nothing waits."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        """What each thread does."""
        while parts := self._take():
            began = time.perf_counter()
            finishes = self._compute(parts)
            texts = sum(len(part.texts) for part in parts)
            rate = len(self._threads) * texts / (time.perf_counter() - began)
            self._rate = 0.9 * self._rate + 0.1 * rate if self._rate else rate
            self._loop.call_soon_threadsafe(self._finish, finishes)
            self.metrics.batch(texts, [began - part.work.arrived for part in parts])
            del parts, finishes  # a model that was exchanged is dropped once nobody waits for it

    def _take(self) -> list[Part]:
        """The texts of the next batch, all of one model; none at the end."""
        with self._changed:
            while True:
                parts = self._parts()
                if parts or self._stopped:
                    if self._works:
                        self._changed.notify()
                    return parts
                self._changed.wait()

    def _parts(self) -> list[Part]:
        """A thread's share of the texts that wait, at least a batch, of those that came first.

        A request with more texts is next with the rest of them, or behind the others if that is
        more than a thread takes at a time.
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
        """The texts of a request before `end` do not wait any more."""
        self.waiting -= end - work.taken
        self._waiting_tokens -= sum(work.sizes[work.taken : end])
        work.taken = end

    def _finish(self, finishes: deque[Callable[[], None]]) -> None:
        """Hand out a few answers at a time: requests that come meanwhile are noticed."""
        for _ in range(min(_AT_A_TIME, len(finishes))):
            finishes.popleft()()
        if finishes:
            self._loop.call_soon(self._finish, finishes)

    def _compute(self, parts: Sequence[Part]) -> deque[Callable[[], None]]:
        """Answer a batch; what the event loop's thread has to do with the answers of each part.

        If it fails, each request is tried alone, so that only the one at fault does.
        """
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
    """Roughly the tokens of a text."""
    return min(len(text) // _CHARACTERS_OF_A_TOKEN + _MARKS, longest)


def _failure(error: Exception) -> Exception:
    """The error that a client gets; what happened is logged."""
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
