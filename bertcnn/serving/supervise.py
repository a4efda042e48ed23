"""The parent process: keeps the socket, whose queue holds new connections, and restarts workers."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import Final

from bertcnn.errors import BertCNNError, SettingsError, missing_package
from bertcnn.serving.logs import log, start_logging
from bertcnn.serving.options import ServeOptions

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_READY: Final = b"ready\n"
_QUEUE: Final = 2048  # connections that are not yet accepted
_LONGEST_PAUSE: Final = 10.0  # seconds between two failed starts
_FIRST_PAUSE: Final = 0.1
# By default, glibc raises the threshold with each large array it frees, and keeps later arrays up
# to that size. A fixed threshold returns all memory of a replaced model.
_ALLOCATOR: Final = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
# NumPy's matrix products are small; its threads would busy-wait on the engine's cores
_PRODUCTS: Final = {"OPENBLAS_NUM_THREADS": "1"}


def check_platform() -> None:
    """Refuse to start where the service cannot run.

    Raises:
        MissingPackageError: a package of the extra is missing.
        SettingsError: on Windows, which cannot pass a socket to another process this way.
    """
    for package in ("fastapi", "uvicorn", "prometheus_client", "fastapi_offline"):
        if find_spec(package) is None:
            raise missing_package(package)
    if os.name == "nt":
        raise SettingsError(
            "bertcnn serve on Windows",
            expected="Linux or macOS",
            fix="run it in WSL or in a container",
        )


def bound_socket(host: str, port: int) -> socket.socket:
    """Create a listening socket at an address of this machine; port 0 means any free port.

    Raises:
        SettingsError: the port is in use or not permitted, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # on Windows it would share the port with another program
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_QUEUE)
    except OSError as error:
        listener.close()
        what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise SettingsError(
            f"port {port} at {host}, which {what}",
            expected="a free port of this machine",
            fix="choose another one with --port, or 0 for any",
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The socket's address as http://HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Supervisor:
    """Keeps a worker process running; `on_ready` is called when the first one is ready."""

    def __init__(
        self, options: ServeOptions, listener: socket.socket, on_ready: Callable[[], None]
    ) -> None:
        self._options, self._listener, self._on_ready = options, listener, on_ready
        self._places = dict(options.models)  # where the models are, updated after replacements
        self._worker: subprocess.Popen[bytes] | None = None
        self._stopping = self._is_ready = self._was_ready = False
        self._refusal: BertCNNError | None = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; BertCNNError if the first worker could not start."""
        start_logging()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._forward)
        pause = _FIRST_PAUSE
        while True:
            code = self._run_worker()
            if self._stopping and (self._is_closed or not self._was_ready):
                return  # else waiting connections need another worker
            if not self._was_ready:
                raise self._refusal or BertCNNError(
                    f"the worker process, which ended with code {code} before it answered",
                    expected="one that answers",
                    fix="look at the messages above",
                )
            log("worker died", logging.ERROR, code=code, reason=str(self._refusal or ""))
            if self._is_ready:
                pause = _FIRST_PAUSE
            else:  # for example, a model was damaged meanwhile
                until = time.monotonic() + pause
                while not self._stopping and time.monotonic() < until:
                    time.sleep(_FIRST_PAUSE)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _run_worker(self) -> int:
        """Run a worker to its end; returns its exit code."""
        self._is_ready, self._refusal = False, None
        changes = {"models": self._places, "after_death": self._was_ready}
        options = self._options.model_copy(update=changes)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            handles = self._listener.fileno(), theirs.fileno()
            # a replacement worker handles signals once it is ready; see `run`
            with _blocked(STOPS if self._was_ready else ()):
                if self._is_closed:
                    return 0
                self._worker = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "bertcnn.serving"),
                        *map(str, handles),
                        options.model_dump_json(),
                    ],
                    stdin=subprocess.DEVNULL,
                    pass_fds=handles,
                    env=_ALLOCATOR | _PRODUCTS | os.environ,
                )
            theirs.close()
            listening = threading.Thread(target=self._listen, args=(ours,), daemon=True)
            listening.start()
            if self._stopping:  # the signal came before there was a worker
                self._listener.close()
                self._worker.terminate()
            code = self._worker.wait()
            self._worker = None
            listening.join()
        return code

    @property
    def _is_closed(self) -> bool:
        return self._listener.fileno() < 0

    def _listen(self, worker: socket.socket) -> None:
        """Handle a worker's messages until it ends."""
        with worker.makefile("rb") as lines:
            for line in lines:
                if line == _READY:
                    self._is_ready = True
                    if not self._was_ready:
                        self._was_ready = True
                        self._on_ready()
                    continue
                said = json.loads(line)
                if "place" in said:
                    self._places[said["model"]] = said["place"]
                else:
                    self._refusal = BertCNNError(**said)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._stopping = True
            if self._worker is not None or number == signal.SIGINT:
                self._listener.close()  # only the worker accepts now, without a time limit
        elif not self._is_ready:  # it loads the models anyway
            return
        if self._worker is not None:
            self._worker.send_signal(number)


@contextmanager
def _blocked(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
