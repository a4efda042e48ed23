"""The worker process: loads the models, answers on a socket it is handed, and stops in order."""

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
_REST: Final = 0.5  # seconds after the last connection was accepted, to read its request
_MOMENT: Final = 0.02  # seconds, until uvicorn listens
_PATIENCE: Final = 30  # seconds for the last answers
_SWITCH: Final = 0.0005  # seconds after which threads take turns, or a refusal would wait for them


class _Server(uvicorn.Server):
    """uvicorn without its handlers of signals, which close connections at once.

    Args:
        config: how it listens.
        connections: looked through several times a second.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        """Whether it should end."""
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
    """Serve until the parent or a signal ends it.

    Args:
        options: what to serve.
        models: gives the models, which are loaded while this module is imported.
        loader: loads other models.
        listener: bound and listening.
        parent: gets a line when requests are answered; the service stops when it is closed.

    Returns:
        The exit code of the process.
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
    """In place of the application until the models are loaded."""


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
    models.clear()  # the list, which others have too, would keep models that are exchanged
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
    """Has the parent know where models come from by now, for the next worker."""

    def report(model: ServedModel) -> None:
        line = json.dumps({"model": model.name, "place": model.place})
        parent.sendall(line.encode() + b"\n")

    return report


class _Control:
    """What signals have a service do."""

    def __init__(self, server: _Server, service: Service, listener: socket.socket) -> None:
        self._server, self._service, self._listener = server, service, listener
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself keeps none

    def stop(self, drain: float) -> None:
        """Stop in order; a second time this does nothing."""
        if not self._service.draining:
            self._service.draining = True
            self._begin(self._stop(drain))

    def reload(self) -> None:
        """Load all models again."""
        self._begin(self._reload())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, drain: float) -> None:
        """Have no new requests sent here, answer those that come all the same, and end.

        uvicorn alone would close connections that it has accepted and not yet read.
        """
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
        """A model that is refused leaves the old one serving."""
        for model in self._service.models.all:
            try:
                await self._service.load(model.name)
            except BertCNNError as error:
                log("model refused", logging.ERROR, model=model.name, error=str(error))


def _heed_signals(control: _Control, drain: float, parent: socket.socket) -> None:
    """SIGTERM, SIGINT, SIGHUP, and the parent's end."""
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
