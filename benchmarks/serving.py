"""`bertcnn serve` under load, compared with the same model called in this process.

    python -m benchmarks.serving MODEL texts.csv [--text COL] [--seconds 5] [--rounds 3]

Client and server share the machine's cores. Rounds of the in-process model and of the service
alternate; the ratios are medians over rounds. The clients are `benchmarks.load`, in this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.inputs import read_input
from benchmarks.load import Answers, Measurement
from bertcnn.bundle import read_config
from bertcnn.inference import Predictor, load

MANY, FEW_CONNECTIONS = 64, 8
CONNECTIONS = 64
REST = 3  # seconds until nothing uses a swapped-out model


class Service:
    """A running `bertcnn serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        host, _, port = address.removeprefix("http://").rpartition(":")
        self.place = host, int(port)

    @property
    def worker(self) -> int:
        """The worker's process id."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])

    def request(self, texts: Sequence[str]) -> bytes:
        """A `POST /classify` request, as bytes."""
        return whole_request(self.place, "/classify", {"texts": list(texts)})

    def ask(self, path: str, body: bytes | None = None) -> Any:
        """The JSON answer to one request."""
        with urllib.request.urlopen(f"{self.address}{path}", body, timeout=60) as response:
            return json.load(response)

    def classify(self, parts: Sequence[Sequence[str]]) -> list[Any]:
        """The answers to all texts, requested one after the other on one connection."""
        connection, found = HTTPConnection(*self.place, timeout=60), []
        for part in parts:
            connection.request("POST", "/classify", json.dumps({"texts": list(part)}))
            response = connection.getresponse()
            body = json.load(response)
            if response.status != 200:
                raise RuntimeError(body["error"])
            found += body["answers"]
        connection.close()
        return found

    def measure(self, texts: Sequence[str], size: int, connections: int, seconds: float) -> Answers:
        """Send requests of `size` texts each over `connections` connections."""
        return uvloop.run(self.measured(texts, size, connections, seconds))

    async def measured(
        self, texts: Sequence[str], size: int, connections: int, seconds: float
    ) -> Answers:
        """The same in a running event loop."""
        parts = list(parts_of(texts, size))
        requests = [self.request(part) for part in parts]
        return await Measurement(self.place, requests, connections, seconds).run()


@contextmanager
def service(model: Path, *options: object) -> Iterator[Service]:
    """A service that is ready; stopped at the end."""
    command = [sys.executable, "-m", "bertcnn", "serve", f"model={model}", "--port", "0"]
    process = subprocess.Popen(
        [*command, *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield Service(process, process.stdout.readline().split()[-1])
    finally:
        process.terminate()
        process.wait()


def whole_request(place: tuple[str, int], path: str, value: Mapping[str, Any]) -> bytes:
    """A POST request with a JSON object, as bytes."""
    body = json.dumps(value).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {place[0]}:{place[1]}\r\n"
    kind = "Content-Type: application/json\r\n"
    return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def parts_of(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """Slices of `size` texts, each text equally often."""
    endless = cycle(texts)
    for _ in range(max(64, len(texts) // size)):
        yield list(islice(endless, size))


def in_process(predictor: Predictor, texts: Sequence[str], size: int, seconds: float) -> Answers:
    """The same calls to the model in this process, one after the other."""
    answers, parts = Answers(), cycle(parts_of(texts, size))
    began = time.perf_counter()
    while (start := time.perf_counter()) < began + seconds:
        predictor.classify(next(parts))
        answers.add(200, time.perf_counter() - start)
    answers.elapsed = time.perf_counter() - began
    return answers


def timed(process: int, measure: Callable[[], Answers]) -> tuple[Answers, float]:
    """A measurement, and a process's processor time for each request, in milliseconds.

    On a busy machine the processor time says more than the rate.
    """
    before = _processor_time(process)
    answers = measure()
    return answers, (_processor_time(process) - before) / answers.statuses[200] * 1000


def _processor_time(process: int) -> float:
    """Processor time of all threads of a process, in seconds."""
    status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    fields = status.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answers(model: Path, texts: Sequence[str]) -> None:
    """Compare each text's answer over HTTP with `Predictor.classify` in this process."""
    predicted = load(model).classify(texts)
    own = json.loads(json.dumps([answer.as_json() for answer in predicted]))
    expected = dict(zip(texts, own, strict=True))
    with service(model, "--drain", 0) as served:
        for size, connections in ((MANY, FEW_CONNECTIONS), (1, CONNECTIONS)):
            differing = different_answers(served, expected, size, connections)
            print(
                f"{len(expected):,} texts, {size} a request, {connections} connections:"
                f" {differing or 'no'} answers differ from those in process"
            )


def different_answers(
    served: Service, expected: Mapping[str, Any], size: int, connections: int
) -> int:
    """How many answers differ from the expected ones in any digit.

    Args:
        served: the service.
        expected: the answer to each text.
        size: texts of a request.
        connections: number of concurrent connections.
    """
    texts = list(expected)
    parts = [texts[start : start + size] for start in range(0, len(texts), size)]
    shares = [parts[first::connections] for first in range(connections)]
    with ThreadPoolExecutor(connections) as clients:
        answered = list(clients.map(served.classify, shares))
    return sum(
        answer != expected[text]
        for share, found in zip(shares, answered, strict=True)
        for text, answer in zip((text for part in share for text in part), found, strict=True)
    )


def compare(model: Path, texts: Sequence[str], seconds: float, rounds: int) -> None:
    """Compare throughput and latency with the model in process."""
    predictor = load(model)
    found: dict[str, list[float]] = {}
    with service(model, "--drain", 0) as served:
        here, there = os.getpid(), served.worker
        for _ in range(rounds):
            own, own_time = timed(here, lambda: in_process(predictor, texts, MANY, seconds))
            large, large_time = timed(
                there, lambda: served.measure(texts, MANY, FEW_CONNECTIONS, seconds)
            )
            small, small_time = timed(there, lambda: served.measure(texts, 1, CONNECTIONS, seconds))
            alone = in_process(predictor, texts, 1, seconds)
            single = served.measure(texts, 1, 1, seconds)
            rows = own.rate * MANY
            figures = {
                "in process, rows/s": rows,
                f"{MANY} texts a request, {FEW_CONNECTIONS} connections, rows/s": large.rate * MANY,
                "  ratio": large.rate * MANY / rows,
                f"one text, {CONNECTIONS} connections, rows/s": small.rate,
                "  ratio ": small.rate / rows,
                "  p50, ms": small.percentile(50),
                "  p99, ms": small.percentile(99),
                f"  p99 beside {CONNECTIONS} texts in process": small.percentile(99)
                / (CONNECTIONS / rows * 1000),
                "one text alone, in process p50, ms": alone.percentile(50),
                "one text alone, p50, ms": single.percentile(50),
                "  ratio  ": single.percentile(50) / alone.percentile(50),
                "processor time in process, ms/row": own_time / MANY,
                f"  {MANY} texts a request, ms/row": large_time / MANY,
                "  one text a request, ms/row": small_time,
            }
            for name, figure in figures.items():
                found.setdefault(name, []).append(figure)
    for name, values in found.items():
        span = f"({min(values):.2f} to {max(values):.2f})"
        print(f"{name:<55} {statistics.median(values):10.2f}   {span}")


def overload(model: Path, texts: Sequence[str], seconds: float) -> None:
    """Three times the connections that fill the queue: answers and refusals."""
    queue = 128
    with service(model, "--drain", 0, "--queue", queue, "--most-texts", 64) as served:
        peak = served.measure(texts, 1, queue, seconds)
        much = served.measure(texts, 1, 3 * queue, seconds)
    refused = Answers(seconds=much.refused_seconds)
    print(
        f"goodput at 3 times the load: {much.rate / peak.rate:.2f} of {peak.rate:.0f}/s; statuses"
        f" {dict(much.statuses)}; refusals p50 {refused.percentile(50):.1f} ms,"
        f" p99 {refused.percentile(99):.1f} ms"
    )


def swaps(model: Path, texts: Sequence[str], number: int, requests: int) -> None:
    """Swap models at regular intervals over at least `requests` requests, under load."""

    async def run(served: Service) -> Answers:
        measurement = Measurement(served.place, [served.request(texts[:1])], 16, 3600)
        clients = asyncio.create_task(measurement.run())
        await asyncio.sleep(REST)  # until the first answers
        memory.append(_memory(served.worker))
        for swap in range(number):
            await asyncio.to_thread(served.ask, "/v2/repository/models/model/load", b"{}")
            memory.append(_memory(served.worker))
            while measurement.answers.statuses.total() < requests * (swap + 1) / number:
                await asyncio.sleep(0.1)
        await asyncio.sleep(REST)
        memory.append(_memory(served.worker))
        measurement.stop()
        return await clients

    memory: list[int] = []
    with service(model, "--drain", 0) as served:
        answers = uvloop.run(run(served))
    print(
        f"{number} swaps: statuses {dict(answers.statuses)}; p99 {answers.percentile(99):.0f} ms;"
        f" memory {memory[0]} MiB after the first answers, {memory[-1]} at the end, at most"
        f" {max(memory)} after a swap"
    )


def _memory(process: int) -> int:
    """Its resident memory in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) >> 10


def stop_under_load(model: Path, texts: Sequence[str]) -> None:
    """Send SIGTERM under load; the clients stop when the service is no longer ready."""

    async def run(served: Service) -> Answers:
        measurement = Measurement(served.place, [served.request(texts[:1])], 16, 60)
        clients = asyncio.create_task(measurement.run())
        await asyncio.sleep(1)
        served.process.send_signal(signal.SIGTERM)
        ready = True
        while ready:
            await asyncio.sleep(0.1)
            try:
                await asyncio.to_thread(served.ask, "/v2/health/ready")
            except OSError:
                ready = False
        measurement.stop()
        return await clients

    with service(model, "--drain", 2) as served:
        answers = uvloop.run(run(served))
    print(f"SIGTERM under load: statuses {dict(answers.statuses)}")


def kill(model: Path, rounds: int) -> None:
    """Seconds from `kill -9` of the worker until a request sent right away is answered."""
    seconds = []
    with service(model, "--drain", 0) as served:
        for _ in range(rounds):
            os.kill(served.worker, signal.SIGKILL)
            began = time.perf_counter()
            served.ask("/classify", b'{"texts": ["my router is broken"]}')
            seconds.append(time.perf_counter() - began)
            time.sleep(0.5)
    print(f"answered after kill -9: {min(seconds):.2f} to {max(seconds):.2f} s")


def main() -> None:
    """Run all parts, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--text", help="column of the texts")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000, help="whose answers are compared")
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--requests", type=int, default=0, help="at least, during the swaps")
    parser.add_argument(
        "--only", choices=("answers", "compare", "overload", "swaps", "stop", "kill")
    )
    options = parser.parse_args()
    rows = read_input(options.source, read_config(options.model), options.text)
    texts = rows.texts
    parts: dict[str, Callable[[], None]] = {
        "answers": lambda: answers(options.model, rows.repeated(options.rows).texts),
        "compare": lambda: compare(options.model, texts, options.seconds, options.rounds),
        "overload": lambda: overload(options.model, texts, options.seconds),
        "swaps": lambda: swaps(options.model, texts, options.swaps, options.requests),
        "stop": lambda: stop_under_load(options.model, texts),
        "kill": lambda: kill(options.model, options.rounds),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    main()
