"""The worker process: loads the models, answers on an inherited socket, and stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import uvicorn

from bertcnn.errors import BertCNNError
from bertcnn.serving.access import Access
from bertcnn.serving.api import create_app
from bertcnn.serving.connections import KEEP_ALIVE, Connections, LimitedProtocol
from bertcnn.serving.loader import spare_collector
from bertcnn.serving.logs import log
from bertcnn.serving.models import ServedModel
from bertcnn.serving.options import ServeOptions
from bertcnn.serving.service import Service
from bertcnn.serving.supervise import STOPS
from bertcnn.serving.token import read_token

READY: Final = b"ready\n"  # sent to the parent
_BACKLOG: Final = 2048  # connections that are not yet accepted
_REST: Final = 0.5  # seconds to read the request of the last accepted connection
_MOMENT: Final = 0.02  # seconds until uvicorn listens
_PATIENCE: Final = 30  # seconds for the last answers
_SWITCH: Final = 0.0005  # seconds between thread switches; longer ones would delay refusals


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, which close connections at once."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        """Whether the server should stop."""
        self._connections.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


def work(
    options: ServeOptions,
    models: Callable[[], list[ServedModel]],
    loader: ThreadPoolExecutor,
    listener: socket.socket,
    parent: socket.socket,
) -> int:
    """Serve until the parent or a signal stops it; returns the exit code.

    `models` returns the models, which load while this module is imported; `loader` loads others.
    The parent's socket gets a line once the service is ready; the service stops when it is closed.
    """
    sys.setswitchinterval(_SWITCH)
    connections = Connections(options.limits)
    config = uvicorn.Config(
        _not_there,
        http=partial(LimitedProtocol, connections),  # type: ignore[arg-type]
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_PATIENCE,
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        try:
            runner.run(
                _serve(options, models(), loader, _Server(config, connections), listener, parent)
            )
        except BertCNNError as error:
            parts = {"given": error.given, "expected": error.expected, "fix": error.fix}
            parent.sendall(json.dumps(parts).encode() + b"\n")
            return 2
    return 0


async def _not_there(*_: object) -> None:
    """Replaces the application until the models are loaded."""


async def _serve(
    options: ServeOptions,
    models: list[ServedModel],
    loader: ThreadPoolExecutor,
    server: _Server,
    listener: socket.socket,
    parent: socket.socket,
) -> None:
    token = read_token(options.token_file)
    loop = asyncio.get_running_loop()
    service = Service(models, options, loop, loader, _reporter(parent))
    models.clear()  # the shared list would keep replaced models alive
    try:
        server.config.app = Access(
            create_app(service),
            token,
            service.batcher.metrics,
            lambda: service.batcher.check_room(1),
            lambda: service.draining,
            log_requests=options.log_requests,
        )
        _heed_signals(_Control(server, service, listener), options.drain, parent)
        spare_collector()
        log("ready", address=options.address)
        parent.sendall(READY)
        await server.serve(sockets=[listener])
        log("stopped")
    finally:
        service.batcher.stop()


def _reporter(parent: socket.socket) -> Callable[[ServedModel], None]:
    """Reports each model's place to the parent, for the next worker."""

    def report(model: ServedModel) -> None:
        line = json.dumps({"model": model.name, "place": model.place})
        parent.sendall(line.encode() + b"\n")

    return report


class _Control:
    """The actions of signals."""

    def __init__(self, server: _Server, service: Service, listener: socket.socket) -> None:
        self._server, self._service, self._listener = server, service, listener
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop keeps no reference

    def stop(self, drain: float) -> None:
        """Stop gracefully; a second call does nothing."""
        if not self._service.draining:
            self._service.draining = True
            self._begin(self._stop(drain))

    def reload(self) -> None:
        """Reload all models."""
        self._begin(self._reload())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, drain: float) -> None:
        """Report "not ready", answer the requests that uvicorn would drop unread, and stop."""
        log("stopping", drain=drain)
        while not self._server.started:
            await asyncio.sleep(_MOMENT)
        await asyncio.sleep(drain)
        for accepting in self._server.servers:
            accepting.close()
        self._listener.close()
        await asyncio.sleep(_REST)
        self._server.should_exit = True

    async def _reload(self) -> None:
        for model in self._service.models.all:
            try:
                await self._service.load(model.name)
            except BertCNNError as error:
                log("model refused", logging.ERROR, model=model.name, error=str(error))


def _heed_signals(control: _Control, drain: float, parent: socket.socket) -> None:
    loop = asyncio.get_running_loop()

    def parent_ended() -> None:
        if not parent.recv(1):
            loop.remove_reader(parent)
            control.stop(0)

    loop.add_reader(parent, parent_ended)
    loop.add_signal_handler(signal.SIGTERM, control.stop, drain)
    loop.add_signal_handler(signal.SIGINT, control.stop, 0)
    loop.add_signal_handler(signal.SIGHUP, control.reload)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
