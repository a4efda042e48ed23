"""`bertcnn serve` and other model servers with the same OpenVINO model, under the same load.

    python -m benchmarks.serving_peers MODEL texts.csv [--text COL] [--seconds 5] [--rounds 3]

LitServe and MLServer get the output of `bertcnn export --format openvino`, in environments of their
own. They collect batches of up to 64 requests for 10 ms. Servers are measured in alternating
rounds, one at a time, each after a second of warm-up; figures are medians over rounds. The peers
return label and confidence; ours also returns decision, reason and phrases.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.environment import HERE, peers_python
from benchmarks.inputs import read_input
from benchmarks.load import Answers, Measurement
from benchmarks.serving import CONNECTIONS, FEW_CONNECTIONS, MANY, parts_of, service, whole_request
from bertcnn import export_model
from bertcnn.bundle import read_config

_PATIENCE = 120  # seconds for a peer to start
_WARM_UP = 1.0  # seconds


class Peer(NamedTuple):
    """A server's address, and the format of its requests."""

    place: tuple[str, int]
    path: str

    def request(self, texts: Sequence[str]) -> bytes:
        """A request as bytes."""
        tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}
        body = {"inputs": [tensor]} if "infer" in self.path else {"texts": list(texts)}
        return whole_request(self.place, self.path, body)

    def measure(self, texts: Sequence[str], size: int, connections: int, seconds: float) -> Answers:
        """Send requests of `size` texts each over `connections` connections."""
        requests = [self.request(part) for part in parts_of(texts, size)]

        async def run() -> Answers:
            return await Measurement(self.place, requests, connections, seconds).run()

        return uvloop.run(run())


@contextmanager
def ours(model: Path, _: Path) -> Iterator[Peer]:
    """`bertcnn serve`."""
    with service(model, "--drain", 0) as served:
        yield Peer(served.place, "/classify")


@contextmanager
def litserve(_: Path, exported: Path) -> Iterator[Peer]:
    """LitServe."""
    with _started("litserve", "/predict", exported) as peer:
        yield peer


@contextmanager
def mlserver(_: Path, exported: Path) -> Iterator[Peer]:
    """MLServer."""
    with _started("mlserver", "/v2/models/model/infer", exported) as peer:
        yield peer


@contextmanager
def _started(name: str, path: str, exported: Path) -> Iterator[Peer]:
    """Start a peer and wait until it answers; it is stopped when the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        peer = Peer(("127.0.0.1", free.getsockname()[1]), path)
    command = [str(peers_python(name)), "-m", f"benchmarks.peers.serve_{name}", str(exported)]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*command, str(peer.place[1]), folder],
            cwd=HERE.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait(peer, process)
            yield peer
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(peer: Peer, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers.

    Raises:
        RuntimeError: it ends, or takes too long.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(peer.place, timeout=_PATIENCE) as connection:
                connection.sendall(peer.request(["my router is broken"]))
                if connection.recv(1 << 12)[9:12] == b"200":
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"{peer.path} does not answer")


SERVERS = {"bertcnn serve": ours, "LitServe": litserve, "MLServer": mlserver}


def compare(
    model: Path, exported: Path, texts: Sequence[str], seconds: float, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """The figures of each round, by server."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in SERVERS}
    for _ in range(rounds):
        for name, start in SERVERS.items():
            with start(model, exported) as peer:
                for size, connections in ((MANY, FEW_CONNECTIONS), (1, CONNECTIONS)):
                    peer.measure(texts, size, connections, _WARM_UP)
                    answers = peer.measure(texts, size, connections, seconds)
                    load = f"{size} x {connections}"
                    failed = answers.statuses.total() - answers.statuses[200]
                    figures: dict[str, Any] = {
                        f"{load}, rows/s": answers.rate * size,
                        f"{load}, p50 ms": answers.percentile(50),
                        f"{load}, p99 ms": answers.percentile(99),
                        f"{load}, failed": failed,
                    }
                    for title, figure in figures.items():
                        found[name].setdefault(title, []).append(figure)
    return found


def main() -> None:
    """Measure, and print medians and ranges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--text", help="column of the texts")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    texts = read_input(options.source, read_config(options.model), options.text).texts
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder, "model")
        export_model(options.model, "openvino", exported)
        found = compare(options.model, exported, texts, options.seconds, options.rounds)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for name, figures in found.items():
        for title, values in figures.items():
            span = f"({min(values):.1f} to {max(values):.1f})"
            print(f"{name:<15} {title:<20} {statistics.median(values):9.1f}   {span}")


if __name__ == "__main__":
    main()
