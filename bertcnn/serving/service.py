"""The service behind the routes: checks and answers requests, and notices disconnected clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request

from bertcnn.errors import one_line
from bertcnn.inference import Prediction
from bertcnn.serving.batching import Batcher, Work
from bertcnn.serving.bodies import decompressed, too_large
from bertcnn.serving.loader import give_back_memory
from bertcnn.serving.logs import log
from bertcnn.serving.models import Models, Precision, ServedModel, answering_streams
from bertcnn.serving.options import ServeOptions
from bertcnn.serving.problems import RequestError
from bertcnn.serving.texts import TextColumns, check_number

_PATIENCE: Final = 0.05  # seconds between checks for a disconnected client
_REST: Final = 1.0  # seconds for the running batches to end
_GONE: Final = 499


class Service:
    """The models and the threads that run them.

    Args:
        models: the default one first.
        loop: the event loop of the requests.
        loader: from `loader_thread`; loads models.
        on_exchange: called with each model that replaces another.

    Attributes:
        draining: whether the service stops soon; it still answers requests.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        options: ServeOptions,
        loop: asyncio.AbstractEventLoop,
        loader: ThreadPoolExecutor,
        on_exchange: Callable[[ServedModel], None],
    ) -> None:
        self.limits, self._folders = options.limits, options.folders
        self._loop, self._loader = loop, loader
        self._on_exchange = on_exchange
        self.batcher = Batcher(loop, answering_streams(), self.limits.waiting_texts)
        self.models = Models(models, self._loaded)
        self.draining = False
        if options.after_death:
            for served in models:
                loader.submit(served.warm)

    def _loaded(self, model: ServedModel, previous: str | None) -> None:
        engine = model.predictor.engine.name
        self.batcher.metrics.model(model.name, model.version, engine, previous)
        log(
            "model loaded",
            model=model.name,
            version=model.version,
            previous=previous,
            engine=engine,
            labels=len(model.predictor.labels),
        )
        if previous is not None:
            self._on_exchange(model)

    @property
    def is_ready(self) -> bool:
        """Whether clients should send requests here."""
        return not self.draining

    async def load(
        self, name: str, place: str | None = None, *, other_labels: bool = False
    ) -> ServedModel:
        """`Models.load` without blocking other requests."""
        load = partial(self.models.load, name, place, other_labels=other_labels)
        try:
            return await self._loop.run_in_executor(self._loader, load)
        finally:  # once no batch needs the old model
            self._loop.call_later(_REST, self._loader.submit, give_back_memory)

    def check_place(self, path: str | None) -> None:
        """Raise RequestError for a path outside the model folders, whether it exists or not."""
        if path is None:
            return
        with suppress(OSError, ValueError):  # a path that is too long or has a NUL
            resolved = Path(path).resolve()
            if "://" not in path and any(folder in resolved.parents for folder in self._folders):
                return
        raise RequestError(
            403,
            f"the model {one_line(path)}",
            expected="a folder below those of the models, or of --models",
            fix="copy it there, or start the server with --models FOLDER",
        )

    async def read_body(self, request: Request) -> bytes:
        """Read and decompress a body; RequestError if too large, damaged, or disconnected."""
        most, length = self.limits.body_bytes, request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            raise too_large(f"a body of {int(length):,} bytes", f"at most {most:,}")
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large(f"a body of more than {most:,} bytes", "fewer")
        except ClientDisconnect:
            raise _gone() from None
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding == "identity":
            return bytes(body)
        return await asyncio.to_thread(decompressed, bytes(body), encoding, most)

    def columns(self, model: ServedModel) -> TextColumns:
        """The text columns of a model."""
        names = model.predictor.bundle.config.text_columns
        return TextColumns(names, self.limits.texts)

    async def answer(
        self,
        request: Request,
        texts: Sequence[str],
        *,
        model: str | None = None,
        version: str | None = None,
        auto_precision: Precision = None,
    ) -> tuple[ServedModel, list[Prediction]]:
        """Answer a request's texts; also returns the model.

        Raises:
            RequestError: an unknown model, too many or too long texts, or a full queue.
            SettingsError: an invalid precision.
        """
        served = self.models.get(model, version)
        self._check(texts)
        if not texts:
            return served, []
        if auto_precision is not None:
            await asyncio.to_thread(served.decisions_for, auto_precision)
        future = asyncio.get_running_loop().create_future()
        work = Work(served, texts, auto_precision, future)
        self.batcher.submit(work)
        return served, await self._answers(request, work)

    def _check(self, texts: Sequence[str]) -> None:
        check_number(len(texts), self.limits.texts)
        longest = max(map(len, texts), default=0)
        if longest > self.limits.characters:
            raise too_large(
                f"a text of {longest:,} characters", f"at most {self.limits.characters:,}"
            )

    async def _answers(self, request: Request, work: Work) -> list[Prediction]:
        watching: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        watch = self._watch(request, work)
        later = loop.call_later(_PATIENCE, lambda: watching.append(loop.create_task(watch())))
        try:
            return await work.answers
        finally:
            later.cancel()
            for task in watching:
                task.cancel()

    def _watch(self, request: Request, work: Work) -> Callable[[], Any]:
        async def watch() -> None:
            with suppress(asyncio.CancelledError):
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                self.batcher.abandon(work)
                work.fail(_gone())

        return watch


def _gone() -> RequestError:
    return RequestError(
        _GONE,
        "a client that has gone",
        expected="one that waits for its answer",
        fix="send the request again",
    )
