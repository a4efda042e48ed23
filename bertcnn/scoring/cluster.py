"""Scores on a Ray cluster.

This process keeps the reader, the cache, the journal and the writer. It sends chunks of texts to
the nodes and takes the answers in input order. An answer depends only on its chunk, so a chunk lost
with a node is sent to another one. A chunk may be computed twice, but is written once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from bertcnn.bundle import local_folder, read_bundle
from bertcnn.errors import BertCNNError, ClusterError
from bertcnn.inference import (
    Answers,
    EngineName,
    EngineOutput,
    Predictor,
    check_engine,
    loaded,
    read_output_layer,
)
from bertcnn.progress import Progress
from bertcnn.scoring.answering import Question
from bertcnn.scoring.node import Load, SentModel
from bertcnn.scoring.ray_connection import LOCAL, check_address, connected
from bertcnn.scoring.ray_workers import LOOKS_EVERY, Worker, Workers, ready_of
from bertcnn.settings import PrecisionTargets

_WINDOW = 8  # chunks per node that are read ahead
_MOST_LOSSES = 8  # lost workers per chunk


@dataclass(eq=False)
class _Chunk:
    """A chunk of texts in progress.

    Attributes:
        is_out: whether a worker has it.
        answers: None until they arrive.
        losses: number of workers lost while computing it.
    """

    question: Question
    is_out: bool = False
    answers: Answers | None = None
    losses: int = 0

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to compute."""
        return not self.question.new_texts or self.answers is not None


class _ElsewhereEngine:
    """Placeholder for the nodes' engine in this process."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Not supported: this process computes nothing."""
        raise NotImplementedError("the nodes of the cluster compute")


class Cluster:
    """A model on the nodes of a Ray cluster.

    `address` is "auto", HOST:PORT, or "local" to start Ray on this machine until this object is
    closed. `load` loads the model on a node; `model` is the same model, not used for computing.

    Raises:
        SettingsError: the address is invalid.
    """

    def __init__(self, address: str, load: Load, model: Predictor, progress: Progress) -> None:
        check_address(address)
        self._address, self._load, self._model, self._progress = address, load, model, progress
        self._stack, self._engine = ExitStack(), ""
        self._running: dict[ray.ObjectRef, tuple[_Chunk, Worker]] = {}

    @classmethod
    def of_folder(
        cls,
        model: str | Path,
        address: str,
        *,
        engine: EngineName = "auto",
        auto_precision: PrecisionTargets | None = None,
        progress: Progress,
    ) -> Self:
        """A cluster for a saved model.

        Raises:
            BundleError: it is not a model, or was changed after saving.
            SettingsError: the engine or address is unknown, or the decisions are not available.
        """
        check_engine(engine)
        check_address(address)
        folder = local_folder(model, progress=progress)
        bundle = read_bundle(folder, weights=False)
        layer = read_output_layer(folder, bundle)
        here = Predictor(bundle, _ElsewhereEngine(""), layer, folder=folder)
        decided = loaded(here, auto_precision=auto_precision)
        sent = SentModel.of_folder(folder, engine, auto_precision)
        return cls(address, sent, decided, progress)

    def __enter__(self) -> Self:
        """Connect, and load the model on all nodes.

        Raises:
            BertCNNError: no cluster, a node cannot load the model, or the nodes' answers differ.
        """
        with ExitStack() as stack:
            self._progress.stage("starting Ray" if self._address == LOCAL else "joining Ray", 0)
            stack.enter_context(connected(self._address))
            self._workers = Workers(ray.put(self._load), self._progress)
            stack.callback(self._workers.end)
            self._engine = self._workers.start().engine
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all workers, and Ray if it was started for them."""
        self._running.clear()
        self._stack.close()

    @property
    def predictor(self) -> Predictor:
        """The model, with the name of the nodes' engine."""
        model = self._model
        return Predictor(
            model.bundle,
            _ElsewhereEngine(self._engine),
            model.output_layer,
            decisions=model.decisions,
            folder=model.folder,
        )

    def answered(
        self, questions: Generator[Question, None, None], *, probabilities: bool
    ) -> Generator[tuple[Question, Answers | None], None, None]:
        """Each question with its answers; see `bertcnn.scoring.answering.Elsewhere`.

        Raises:
            BertCNNError: no node is left, or none can answer.
        """
        window: deque[_Chunk] = deque()
        with closing(questions):
            while True:
                self._workers.look()
                self._hand_out(window, questions, probabilities)
                if not window:
                    return
                self._collect(0 if window[0].is_done else LOOKS_EVERY)
                if window[0].is_done:
                    chunk = window.popleft()
                    yield chunk.question, chunk.answers
                else:
                    self._progress.advance(0)

    def _hand_out(
        self,
        window: deque[_Chunk],
        questions: Generator[Question, None, None],
        probabilities: bool,
    ) -> None:
        """Give chunks to workers in order, and read ahead while workers are free."""
        waiting = deque(chunk for chunk in window if not chunk.is_done and not chunk.is_out)
        while (worker := self._workers.free()) is not None:
            if not waiting:
                question = next(questions, None) if self._has_room(window) else None
                if question is None:
                    return
                window.append(_Chunk(question))
                waiting.extend(chunk for chunk in [window[-1]] if not chunk.is_done)
                continue
            chunk = waiting.popleft()
            reference = worker.answer(chunk.question.new_texts, probabilities)
            self._running[reference] = chunk, worker
            chunk.is_out = True

    def _has_room(self, window: deque[_Chunk]) -> bool:
        return len(window) < _WINDOW * len(self._workers)

    def _collect(self, timeout: float) -> None:
        """Collect finished chunks; waits up to `timeout` seconds for the first."""
        for reference in ready_of([*self._running, *self._workers.loading], timeout):
            if reference in self._workers.loading:
                self._workers.join(reference)
            elif reference in self._running:  # not lost meanwhile
                self._take(reference)

    def _take(self, reference: ray.ObjectRef) -> None:
        chunk, worker = self._running[reference]
        try:
            chunk.answers = ray.get(reference)
        except RayTaskError as error:
            if not isinstance(error.cause, BertCNNError):
                raise
            self._give_back(worker)
            self._workers.fail(worker, error.cause)
        except RayError:
            self._workers.lose(worker)
            self._count_losses(self._give_back(worker))
        else:
            del self._running[reference]
            self._workers.done(worker)

    def _give_back(self, worker: Worker) -> list[_Chunk]:
        lost = [one for one, (_, owner) in self._running.items() if owner is worker]
        chunks = [self._running.pop(reference)[0] for reference in lost]
        for chunk in chunks:
            chunk.is_out = False
        return chunks

    def _count_losses(self, chunks: list[_Chunk]) -> None:
        """Detect chunks that crash every worker.

        Raises:
            ClusterError: a chunk was lost too often.
        """
        for chunk in chunks:
            chunk.losses += 1
            if chunk.losses > _MOST_LOSSES:
                raise ClusterError(
                    f"{chunk.losses} processes have ended while they answered the same texts",
                    expected="nodes with memory enough for the model",
                    fix="look into Ray's logs of the nodes, then run this again, which resumes",
                    passes=True,
                )
