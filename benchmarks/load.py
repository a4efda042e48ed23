"""HTTP clients for measuring a server: many connections in one process, with little overhead."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_END_OF_HEADERS = b"\r\n\r\n"
_REFUSED = 429
_PAUSE = 0.1  # seconds before a refused client asks again
_STAGGERED = 0.002  # seconds between two clients' first requests


@dataclass
class Answers:
    """The answers that clients received.

    Attributes:
        statuses: count of each status; 0 for broken connections.
        seconds: latency of each request answered with 200.
        refused_seconds: latency of each request refused with 429.
        elapsed: seconds of the whole measurement.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    refused_seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Requests a second that were answered with 200."""
        return self.statuses[200] / self.elapsed

    def percentile(self, share: float) -> float:
        """A percentile of the latency, in milliseconds."""
        return float(np.percentile(self.seconds or [np.nan], share)) * 1000

    def add(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        if status == 200:
            self.seconds.append(seconds)
        elif status == _REFUSED:
            self.refused_seconds.append(seconds)


class _Client(asyncio.Protocol):
    """One connection that sends the next request as soon as the last one is answered."""

    def __init__(self, measured: Measurement) -> None:
        self._measured, self._buffer, self._missing = measured, b"", 0
        self._status, self._began, self._closing = 0, 0.0, False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        if self._measured.is_over:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(self._measured.next_request())

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._buffer += data
            head, found, body = self._buffer.partition(_END_OF_HEADERS)
            if not found:
                return
            lowered = head.lower()
            self._status = int(head[9:12])
            self._closing = b"connection: close" in lowered
            length = int(lowered.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            self._buffer, self._missing = b"", length - len(body)
        if not self._missing:
            self._measured.answers.add(self._status, time.perf_counter() - self._began)
            self._began = 0.0
            if self._closing:
                self._transport.close()
            elif self._status == _REFUSED:
                asyncio.get_running_loop().call_later(_PAUSE, self._send)
            else:
                self._send()

    def connection_lost(self, _: Exception | None) -> None:
        if self._began:  # a request was in progress
            self._measured.answers.add(0, time.perf_counter() - self._began)
        self._measured.lost(self)


class Measurement:
    """Sends requests over several connections for some seconds.

    Args:
        place: host and port.
        requests: whole HTTP requests, sent in turn.
        connections: how many at the same time.
        seconds: after this time no new request is sent.
    """

    def __init__(
        self, place: tuple[str, int], requests: list[bytes], connections: int, seconds: float
    ) -> None:
        self.answers = Answers()
        self._place, self._requests = place, requests
        self._connections, self._seconds = connections, seconds
        self._sent, self._until = 0, 0.0
        self._open: set[_Client] = set()
        self._all_closed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether no new requests are sent."""
        return time.perf_counter() >= self._until

    def stop(self) -> None:
        """Send no new requests."""
        self._until = 0.0

    def next_request(self) -> bytes:
        """The next request's bytes."""
        self._sent += 1
        return self._requests[self._sent % len(self._requests)]

    async def run(self) -> Answers:
        """Run the measurement."""
        gc.freeze()  # otherwise garbage collection would pause this process for up to 0.1 s
        began = time.perf_counter()
        self._until = began + self._seconds
        for _ in range(self._connections):
            await self._connect()
            await asyncio.sleep(_STAGGERED)
        await self._all_closed.wait()
        self.answers.elapsed = time.perf_counter() - began
        return self.answers

    async def _connect(self) -> None:
        client = _Client(self)
        self._open.add(client)
        try:
            await asyncio.get_running_loop().create_connection(lambda: client, *self._place)
        except OSError:
            self._open.discard(client)

    def lost(self, client: _Client) -> None:
        """Replace a closed connection while requests are still sent."""
        self._open.discard(client)
        if not self.is_over:
            asyncio.get_running_loop().create_task(self._connect())
        elif not self._open:
            self._all_closed.set()
