"""Security around Streamlit's server: refuses requests and sets security headers."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit
from access import access, check_request
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketClose
from uploads import remove_folders

from bertcnn.errors import BertCNNError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEALTH = "/_stcore/health"  # for health checks; it answers only "ok"
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


class Protection:
    """ASGI middleware: answers requests that `access` refuses with one line, and adds headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._headers = security_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        refused = None if scope["type"] == "lifespan" else _refusal(scope)
        if refused is None:
            await self._app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await WebSocketClose(code=1008)(scope, receive, send)
        else:
            await PlainTextResponse(f"{refused}\n", 403)(scope, receive, send_with_headers)


def _refusal(scope: Scope) -> str | None:
    if scope["path"] == _HEALTH:
        return None
    headers = defaultdict[str, list[str]](list)
    for name, value in scope["headers"]:
        headers[name.decode("latin-1").lower()].append(value.decode("latin-1"))
    try:
        check_request(access(), headers)
    except BertCNNError as error:
        return str(error)
    return None


def security_headers() -> dict[str, str]:
    """The security headers of every response.

    A page may load scripts, pictures and data from its own server only. `blob:` is for scripts of
    components such as the desk; only a running script can create such an address. Streamlit needs
    inline styles, and one inline script, which is allowed by its hash.
    """
    page = Path(streamlit.__file__).with_name("static") / "index.html"
    inline = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in _INLINE_SCRIPT.findall(page.read_text(encoding="utf-8"))
    )
    policy = {
        "default-src": "'self'",
        "script-src": f"'self' blob: {inline}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "frame-src": "'none'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    }


@asynccontextmanager
async def prepared(_app: object) -> AsyncIterator[None]:
    """Keep page errors' messages out of the log, and remove uploads when the server ends.

    If `access` refuses everybody, the terminal shows why. The process ends by a signal, which skips
    exit handlers.
    """
    logging.getLogger("streamlit.error_util").addFilter(without_message)
    try:
        access()
    except BertCNNError as error:
        sys.stderr.write(f"Error: {error}\n")
    yield
    sessions = streamlit.runtime.get_instance()
    sessions.stop()
    await sessions.stopped
    remove_folders()


def without_message(record: logging.LogRecord) -> bool:
    """Log a page error with its type and place only; its message could quote a ticket."""
    if record.exc_info and record.exc_info[0]:
        kind, _, trace = record.exc_info
        frames = "".join(traceback.format_tb(trace))
        record.msg, record.args = f"An error of a page: {kind.__name__}\n{frames}", ()
        record.exc_info = record.exc_text = None
    return True
