"""Limits on connections: their number, memory and time before a request is complete.

With its fast parser, httptools, uvicorn has no such limits: headers grow without end, and a silent
client keeps its connection for ever.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertcnn.serving.bodies import to_json
from bertcnn.serving.logs import log
from bertcnn.serving.options import Limits
from bertcnn.serving.problems import RequestError

KEEP_ALIVE: Final = 75  # seconds; longer than proxies keep connections, to avoid closing one in use
_UNSENT: Final = 5  # extra seconds for a client that reads its response slowly
_OWN_FILES: Final = 128  # file descriptors for everything but connections
_FEWEST: Final = 16
_PIPELINED: Final = 100  # requests behind the current one
_LOG_PAUSE: Final = 60.0  # seconds between two log lines about the same limit


@dataclass(eq=False)
class _Stage:
    """A deadline, and the connections under it with their start times, the oldest first."""

    name: str
    seconds: float
    since: dict[LimitedProtocol, float] = field(default_factory=dict)


class Connections:
    """The open connections that wait for their clients; `most` overrides the limit."""

    def __init__(self, limits: Limits, most: int | None = None) -> None:
        self.limits = limits
        self.most = most_connections(limits.connections) if most is None else most
        self.head = _Stage("head_seconds", limits.head_seconds)
        self.idle = _Stage("keep_alive", KEEP_ALIVE + _UNSENT)
        self.body = _Stage("body_seconds", limits.body_seconds)
        self.answer = _Stage("answer_seconds", limits.body_seconds)
        self._stages = self.head, self.idle, self.body, self.answer  # in the order of eviction
        self._met = Counter[str]()
        self._quiet_until: dict[str, float] = {}

    def met(self, limit: str) -> None:
        """Count a hit limit for the next log line."""
        self._met[limit] += 1

    def make_room(self) -> bool:
        """Close the connection that has waited longest; False if there is none."""
        self.met("connections")
        for stage in self._stages:
            for connection in stage.since:
                connection.drop()
                return True
        return False

    def sweep(self, now: float) -> None:
        """Close overdue connections, and log hit limits; `now` is the event loop's time."""
        for stage in self._stages:
            for connection, since in [*stage.since.items()] if _is_overdue(stage, now) else ():
                if now - since < stage.seconds:
                    break
                connection.overdue()
        for limit in [name for name in self._met if self._quiet_until.get(name, 0) <= now]:
            self._quiet_until[limit] = now + _LOG_PAUSE
            most = self.most if limit == "connections" else getattr(self.limits, limit, None)
            times = self._met.pop(limit)
            log("limit met", logging.WARNING, limit=limit, most=most, times=times)


def _is_overdue(stage: _Stage, now: float) -> bool:
    return now - next(iter(stage.since.values()), now) >= stage.seconds


def most_connections(wanted: int) -> int:
    """The most connections that the open-file limit allows; raises the limit if possible."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(_FEWEST, soft - _OWN_FILES)
    return wanted


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with limits on incomplete requests."""

    def __init__(self, connections: Connections, **arguments: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(**arguments)
        self._all, self._limits = connections, connections.limits
        self._stage: _Stage | None = None
        self._unparsed = self._fields = 0  # bytes of the head, or of a trailer
        self._refusal: RequestError | None = None
        self._is_head = True

    def _enter(self, stage: _Stage | None) -> None:
        """Start the deadline of a stage; None if the client waits for the service."""
        if self._stage is not None:
            del self._stage.since[self]
        self._stage = stage
        if stage is not None:
            stage.since[self] = self.loop.time()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # === Connections ===

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn's
        """Add a connection; above the maximum, another one is closed."""
        super().connection_made(transport)
        if len(self.connections) > self._all.most and not self._all.make_room():
            self._refuse(_problem(503, "one connection more", f"at most {self._all.most:,}"))
            return
        self._enter(self._all.head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._enter(None)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, without a response."""
        self._enter(None)
        self.transport.abort()

    def overdue(self) -> None:
        """Close the connection, with an error response if a request has begun."""
        if self._stage is None:
            return
        name, seconds = self._stage.name, self._stage.seconds
        self._all.met(name)
        if name in ("head_seconds", "body_seconds") and self.scope is not None:
            self._refuse(_problem(408, "a request that is not whole", f"it within {seconds:g} s"))
        else:
            self.drop()

    def pause_writing(self) -> None:
        """The client does not read its response."""
        super().pause_writing()
        self._enter(self._all.answer)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._stage is self._all.answer:
            self._enter(None)

    # === Requests ===

    def data_received(self, data: bytes) -> None:
        """Parse data, if it is within the limits."""
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        self._is_head = True
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self.parser.get_method() == b"CONNECT":
                self._refuse(_problem(405, "CONNECT", "another method"))
            else:
                self._pass_over_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            if self._refusal is None:
                self._all.met("not HTTP")
            self._refuse(self._refusal or _problem(400, "what is not HTTP/1.1", "a request"))
            return
        if self._is_head:  # httptools buffers a field until it is complete
            self._unparsed += len(data)
            if self._unparsed > self._limits.head_bytes:
                self._refuse(self._too_large())

    def _pass_over_upgrade(self, rest: bytes) -> None:
        """Parse the head again without its Upgrade, because httptools drops the body behind it."""
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in (b"upgrade", b"connection"):
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"".join([*head, b"\r\n", rest]))

    def on_message_begin(self) -> None:
        """Start the deadline of a request's head."""
        super().on_message_begin()
        self._unparsed = self._fields = 0
        if not self._is_answering:
            self._enter(self._all.head)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a field of the head or the trailer."""
        self._fields += len(name) + len(value)
        many = len(self.headers) >= self._limits.head_fields
        if many or self._fields + len(self.url) > self._limits.head_bytes:
            self._refusal = self._too_many() if many else self._too_large()
            raise self._refusal
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the application and the deadline of the body."""
        if self.parser.should_upgrade():
            return
        if len(self.pipeline) >= _PIPELINED:
            self._all.met("pipelined")
            self._refusal = _problem(400, "one more request", f"{_PIPELINED} before their answers")
            raise self._refusal
        if not self._is_answering:
            self._enter(self._all.body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Part of a body; the application limits its size."""
        self._is_head = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._is_head = False
        if self.parser.should_upgrade():
            return
        if self._stage is self._all.body:
            self._enter(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless one is already there."""
        super().on_response_complete()
        if not self._is_answering and not self.transport.is_closing():
            self._enter(self._all.idle)

    # === Refusals ===

    def _too_large(self) -> RequestError:
        self._all.met("head_bytes")
        most = self._limits.head_bytes
        return _problem(431, f"headers of more than {most:,} bytes", "fewer")

    def _too_many(self) -> RequestError:
        self._all.met("head_fields")
        most = self._limits.head_fields
        return _problem(431, f"more than {most:,} headers", "fewer")

    def _refuse(self, error: RequestError) -> None:
        """Send an error response and close, unless another response has begun."""
        cycle = self.cycle
        if self._is_answering:
            cycle.disconnected = True  # its response is not sent
            cycle.message_event.set()
        if self.pipeline or (
            self._is_answering and (cycle.response_started or not cycle.more_body)
        ):
            self.drop()
            return
        body = to_json({"error": str(error)})
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head % len(body) + body)
        self._enter(self._all.idle)  # until the client has read it
        self.transport.close()


def _problem(status: int, given: str, expected: str) -> RequestError:
    return RequestError(
        status, given, expected=expected, fix="correct the client, or try again later"
    )
