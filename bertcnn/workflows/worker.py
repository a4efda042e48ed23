"""Trainings in a worker process, which is replaced after a number of trainings.

What XLA has compiled stays in memory until its process ends: 25 to 35 MB for each training of a
head, 180 MB for each training of an encoder of 6 layers. A search trains hundreds of times.

`ProcessPoolExecutor(max_tasks_per_child=...)` cannot replace this. It needs the start method
"spawn", which runs the user's script again in the child, so that a script without
`if __name__ == "__main__"` fails. Of a child that ends, it reports neither the signal nor the exit
code nor the last line of its errors. And a result is all that its child can send: progress, and the
answer whether to go on, would need queues and a thread beside it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from bertcnn.errors import BertCNNError
from bertcnn.progress import Progress

if TYPE_CHECKING:
    from bertcnn.training.state import FitResult
    from bertcnn.workflows.repeated import Trial, Trials

_PROGRAM = "from bertcnn.workflows.worker import serve; serve()"
_NEWS, _RESULT, _ERROR, _STOPPED = "news", "result", "error", "stopped"


class OwnProcess:
    """Runs trials in a worker process, with the same results.

    A context manager: the worker ends with it. Progress is reported in this process. If that
    raises, the training stops, and the worker is ready for the next one. Ctrl-C ends the worker.

    Args:
        attempts: what the worker runs.
        trainings: how many one worker runs; starting the next worker takes seconds.
    """

    def __init__(self, attempts: Trials, *, trainings: int) -> None:
        self._attempts, self._trainings, self._left = attempts, trainings, 0
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None

    def __call__(self, attempt: Trial, progress: Progress) -> FitResult:
        """Run one training.

        Raises:
            BertCNNError: the training raises it, or the worker ended before the result.
        """
        if self._process is None or not self._left:
            self._start()
        self._left -= 1
        finished, stop = False, None
        try:
            self._send(attempt)
            while True:
                kind, content = self._receive()
                if kind == _NEWS:
                    stop = _tell(progress, *content)
                    self._send(stop is None)
                    continue
                finished = True
                if kind == _RESULT:
                    return content  # type: ignore[no-any-return]
                raise content if stop is None else stop
        finally:
            if not finished:
                self.close()

    def _start(self) -> None:
        self.close()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path),
            },
        )
        self._left = self._trainings
        self._send(self._attempts)

    def _send(self, content: object) -> None:
        try:
            pickle.dump(content, self._stream("stdin"))
            self._stream("stdin").flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self) -> tuple[str, Any]:
        try:
            return pickle.load(self._stream("stdout"))  # type: ignore[no-any-return] # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError):  # the latter in the middle of a message
            raise self._ended() from None

    def _stream(self, name: str) -> IO[bytes]:
        return getattr(self._process, name)  # type: ignore[no-any-return]

    def _ended(self) -> BertCNNError:
        """What to say of a process that has ended without being asked to."""
        assert self._process is not None
        assert self._complaints is not None
        code = self._process.wait()
        self._complaints.seek(0)
        last = self._complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        how = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with code {code}: {last or 'it did not say why'}"
        )
        return BertCNNError(
            f"the process that trains {how}",
            expected="one that goes on until it has an answer",
            fix="free memory and rerun the command; it resumes",
        )

    def close(self) -> None:
        """End the process; the next attempt starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout, self._complaints):
                if stream is not None:
                    with suppress(OSError):  # what was still to be written has no reader any more
                        stream.close()
            self._process = self._complaints = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _tell(
    progress: Progress, name: str, given: tuple[Any, ...], figures: dict[str, float]
) -> Exception | None:
    """Pass on the news; what that raises, if it does."""
    try:
        getattr(progress, name)(*given, **figures)
    except Exception as error:  # noqa: BLE001 - raised again when the training has stopped
        return error
    return None


# === In the process of its own ===


class _Stopped(Exception):  # noqa: N818 - no error
    """Nobody wants the result any more."""


class _Reporter:
    """Progress, sent to the other process, which says whether to go on."""

    def __init__(self, wanted: IO[bytes], results: IO[bytes]) -> None:
        self._wanted, self._told = wanted, results

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """A stage starts."""
        self._pass_on("stage", name, total, unit)

    def advance(self, done: int, **figures: float) -> None:
        """Part of it is done."""
        self._pass_on("advance", done, **figures)

    def note(self, message: str) -> None:
        """A finding."""
        self._pass_on("note", message)

    def _pass_on(self, name: str, *given: object, **figures: float) -> None:
        _write(self._told, _NEWS, (name, given, figures))
        if not pickle.load(self._wanted):  # noqa: S301 - of our own process
            raise _Stopped


def serve() -> None:
    """Run the attempts that come by standard input, until it ends.

    News and results go to standard output.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the process that reads from this one decides
        if hasattr(signal, name):  # Windows lacks the last one
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    wanted, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints would be taken for news
    run: Trials = pickle.load(wanted)  # noqa: S301 - of our own process
    reporter = _Reporter(wanted, results)
    while True:
        try:
            attempt = pickle.load(wanted)  # noqa: S301
        except EOFError:
            return
        try:
            _write(results, _RESULT, run(attempt, reporter))
        except _Stopped:
            _write(results, _STOPPED, None)
        except BertCNNError as error:
            _write(results, _ERROR, error)


def _write(stream: IO[bytes], kind: str, content: object) -> None:
    pickle.dump((kind, content), stream)
    stream.flush()
