"""Requests to the Hugging Face hub, with the timeouts and credentials of its library."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

ANSWER_SECONDS: Final = 5.0  # until the response starts, including DNS
READ_SECONDS: Final = 15.0  # between two chunks of a file
_YES = {"1", "on", "yes", "true"}  # values that huggingface_hub accepts as true


def hub_seconds(variable: str, default: float) -> float:
    """The seconds in an environment variable, or the default."""
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return default


def hub_endpoint() -> str | None:
    """The address in `HF_ENDPOINT`; None for the library's default."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def hub_is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` is set now; the library only reads it at import."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES


@contextmanager
def quiet_library() -> Iterator[None]:
    """Silences the library's warnings and progress bars; our errors have the relevant facts."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        logging,
    )

    verbosity, bars = logging.get_verbosity(), not are_progress_bars_disabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    if bars:
        disable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            enable_progress_bars()


@contextmanager
def hub_response(url: str, offset: int = 0) -> Iterator[httpx2.Response]:
    """Requests a file from byte `offset` on; the content is not read yet.

    Raises:
        httpx2.HTTPError: a timeout or an error response; subclasses of the library tell whether the
            repository, the revision or the file is missing.
    """
    import httpx2
    from huggingface_hub import get_session
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status  # type: ignore[attr-defined]

    headers = build_hf_headers(library_name="bertcnn") | {"Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    timeout = httpx2.Timeout(
        hub_seconds("HF_HUB_DOWNLOAD_TIMEOUT", READ_SECONDS),
        connect=hub_seconds("HF_HUB_ETAG_TIMEOUT", ANSWER_SECONDS),
    )
    with ExitStack() as stack:
        for may_be_stale in (True, False):
            try:
                response = stack.enter_context(
                    get_session().stream(
                        "GET", url, headers=headers, timeout=timeout, follow_redirects=True
                    )
                )
                break
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                if not may_be_stale:  # a kept connection that the server has closed
                    raise
        hf_raise_for_status(response)
        yield response


def hub_pieces(url: str, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """A file's bytes from `offset` on, as (position, bytes) chunks.

    If the server does not support ranges, they start at 0.

    Raises:
        httpx2.HTTPError: as in `hub_response`, or the connection breaks.
    """
    import httpx2

    with hub_response(url, offset) as response:
        position = offset if response.status_code == httpx2.codes.PARTIAL_CONTENT else 0
        # yield at once: a buffer would be lost when the connection breaks
        for piece in response.iter_bytes():
            yield position, piece
            position += len(piece)
