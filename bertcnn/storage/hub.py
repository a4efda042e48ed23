"""Requests to the Hugging Face hub, with the limits and the access that its library has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

ANSWER_SECONDS: Final = 5.0  # until the first answer, with the look-up of the address
READ_SECONDS: Final = 15.0  # between two pieces of a file
_YES = {"1", "on", "yes", "true"}  # as the hub's library reads its variables


def hub_seconds(variable: str, default: float) -> float:
    """The seconds that an environment variable gives, else the default."""
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return default


def hub_endpoint() -> str | None:
    """The address in `HF_ENDPOINT`; None for the library's own."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def hub_is_offline() -> bool:
    """Whether `HF_HUB_OFFLINE` is set; the library reads it only once, when it is imported."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _YES


@contextmanager
def quiet_library() -> Iterator[None]:
    """The library's warnings and bars stay off the user's screen; what matters is in our error."""
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
    """The answer to a request for a file from byte `offset` on; its content is still to be read.

    Raises:
        httpx2.HTTPError: no answer in time, or one that is an error; the library has subclasses of
            it for a repository, a revision or a file that is not there.
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
                if not may_be_stale:  # a kept connection that the server closed meanwhile
                    raise
        hf_raise_for_status(response)
        yield response


def hub_pieces(url: str, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """A file's bytes from `offset` on, each piece with its place.

    A server that cannot skip starts again at 0.

    Raises:
        httpx2.HTTPError: as in `hub_response`, and for a connection that breaks.
    """
    import httpx2

    with hub_response(url, offset) as response:
        place = offset if response.status_code == httpx2.codes.PARTIAL_CONTENT else 0
        # as they arrive: collecting them would lose some when the connection breaks
        for piece in response.iter_bytes():
            yield place, piece
            place += len(piece)
