"""Access control, counting and logging of requests: the outermost layer of the application."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from bertcnn.errors import one_line
from bertcnn.serving.bodies import to_json
from bertcnn.serving.logs import log
from bertcnn.serving.metrics import Metrics
from bertcnn.serving.problems import RequestError
from bertcnn.serving.token import LOOPBACK

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN: Final = ("/v2/health/", "/ping", "/docs", "/openapi.json")  # without a token
_PROXIED: Final = (b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip")
_REPOSITORY: Final = "/v2/repository/"


class Access:
    """Authorizes requests, counts them and logs them.

    Without a token, only programs on this machine may call the service. Web pages in a browser are
    refused by their Host and Origin headers.

    Args:
        app: the wrapped application.
        token: required from clients; None allows only requests from this machine.
        check_room: raises a RequestError if the queue is full; called before the body is read, so
            that a refusal is cheap.
        is_draining: whether the service is about to stop.
        log_requests: log every request, not only internal errors.
    """

    def __init__(
        self,
        app: Application,
        token: bytes | None,
        metrics: Metrics,
        check_room: Callable[[], None],
        is_draining: Callable[[], bool],
        *,
        log_requests: bool,
    ) -> None:
        self._app, self._token, self._metrics = app, token, metrics
        self._check_room, self._is_draining = check_room, is_draining
        self._log_requests = log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 499  # the client has disconnected

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._is_draining():
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        # uvicorn omits the body of a response to HEAD
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            self._check(scope)
            await self._app(inner, receive, noted)
        except RequestError as error:
            await _refuse(noted, error)
        finally:
            self._note(inner, status, time.perf_counter() - began)

    def _check(self, scope: Scope) -> None:
        """Raise RequestError for an unauthorized request, or for texts if the queue is full."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._token is None:
            _check_origin(headers)
        elif not scope["path"].startswith(_OPEN):
            _check_token(headers, self._token)
        if scope["method"] == "POST" and not scope["path"].startswith(_REPOSITORY):
            self._check_room()

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.request(route, status, seconds)
        if self._log_requests or status == 500:  # 503 only means that the service is not ready
            level = logging.ERROR if status == 500 else logging.INFO
            log(
                "request",
                level,
                method=scope["method"],
                route=route,
                status=status,
                seconds=round(seconds, 6),
            )


def _check_origin(headers: dict[bytes, bytes]) -> None:
    """Raise RequestError for a proxy, another host, or a browser page of another site."""
    if any(name in headers for name in _PROXIED):
        raise RequestError(
            403,
            "a request through a proxy",
            expected="requests of this machine, since the server has no token",
            fix="start the server with a token, and let the proxy send it",
        )
    host = headers.get(b"host", b"").decode("latin-1")
    if _split(f"//{host}")[1] not in LOOPBACK:
        raise RequestError(
            403,
            f"the host {one_line(host)}",
            expected=f"{LOOPBACK[0]} or {LOOPBACK[1]}, since the server has no token",
            fix="ask for that, or start the server with a token",
        )
    origin = headers.get(b"origin")
    if origin is not None and _split(origin.decode("latin-1"))[0] != host:
        raise RequestError(
            403,
            f"a page of {one_line(origin.decode('latin-1'))}",
            expected="the server's own pages, since it has no token",
            fix="ask from a program, or start the server with a token",
        )


def _check_token(headers: dict[bytes, bytes], token: bytes) -> None:
    client_token = headers.get(b"x-api-key", b"")
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        client_token = credentials.strip()
    if not hmac.compare_digest(client_token, token):
        raise RequestError(
            401,
            "no token, or a wrong one",
            expected="the server's token",
            fix="send it as Authorization: Bearer TOKEN, or as X-API-Key",
            headers={"WWW-Authenticate": "Bearer"},
        )


def _split(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        return parts.netloc, parts.hostname or ""
    except ValueError:
        return "", ""


async def _refuse(send: Send, error: RequestError) -> None:
    body = to_json({"error": str(error)})
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **error.headers,
    }
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
