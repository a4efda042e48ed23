"""The Hugging Face hub as a source: gives up fast, resumes broken downloads.

`hf_hub_download` of huggingface-hub 2.4 cannot do this. It deletes a partial file when a download
fails, so the next try starts at byte 0. Its time limits apply to one read of a socket: a server
that sends a byte now and then is never given up, and looking up an address has no limit. So this
module downloads by itself, and takes addresses, metadata and errors from the library.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bertcnn.encoders.catalogue import CatalogueEntry
from bertcnn.encoders.layout import (
    CONFIG,
    LARGEST,
    PICKLED,
    TOKENIZER_CONFIG,
    VOCABULARY,
    WEIGHTS,
    SourceError,
)
from bertcnn.encoders.pace import Pace, SlowError, in_pace
from bertcnn.progress import Progress
from bertcnn.storage.files import sha256_of, try_lock, write_new
from bertcnn.storage.hub import (
    ANSWER_SECONDS,
    READ_SECONDS,
    hub_endpoint,
    hub_is_offline,
    hub_pieces,
    hub_seconds,
    quiet_library,
)

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

_WINDOW = 4  # times READ_SECONDS: in each such window the download must keep its pace
_ATTEMPTS = 4  # in a row at one file without a new byte
_FORGOTTEN_AFTER = 7 * 24 * 3600.0  # seconds until a partial download is removed
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class HubFiles:
    """What was fetched: its commit, and the sha256 that the hub announced for the weights."""

    revision: str
    announced: str


def fetch_from_hub(
    entry: CatalogueEntry, folder: Path, partials: Path, progress: Progress
) -> HubFiles:
    """Download an encoder's files, all of one commit, into `folder`.

    `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN`, `HF_HUB_ETAG_TIMEOUT` and `HF_HUB_DOWNLOAD_TIMEOUT`
    are honoured; within four times the seconds of the last one, 1 kB a second has to arrive on
    average.

    Args:
        entry: which encoder.
        folder: an empty folder.
        partials: the folder of partial downloads, each named by the sha256 of the whole file. A
            later call continues them.
        progress: counts the bytes.

    Raises:
        SourceError: the hub cannot be reached, is too slow, does not have the encoder, or sends
            wrong bytes.
    """
    import httpx2
    from huggingface_hub import (
        get_session,
    )
    from huggingface_hub.errors import OfflineModeIsEnabled

    if hub_is_offline():
        raise SourceError("HF_HUB_OFFLINE is set")
    with quiet_library():
        try:
            get_session()  # reads certificates, likewise
            weights = _in_time(lambda: _about(entry, WEIGHTS, entry.revision or "main"))
            revision = weights.commit_hash or entry.revision
            announced = weights.etag if _SHA256.fullmatch(weights.etag or "") else entry.sha256
            if revision is None or announced is None or weights.size is None:
                raise SourceError("what answers there is no hub: it announces no sha256")
            if entry.sha256 not in (None, announced):
                raise SourceError(
                    f"it announces other weights (sha256 {announced[:12]}..., not"
                    f" {entry.sha256[:12]}...)"
                )
            for name in (CONFIG, VOCABULARY, TOKENIZER_CONFIG):
                _fetch_small(entry, name, revision, folder)
            progress.stage(f"fetching {entry.name} from the hub", weights.size, "bytes")
            with _partial_file(partials, announced, folder / WEIGHTS) as (path, file):
                _fetch_large(
                    _Download(_url(entry, WEIGHTS, revision), weights.size, announced),
                    path,
                    file,
                    progress,
                )
                path.replace(folder / WEIGHTS)
        except OfflineModeIsEnabled:
            raise SourceError("HF_HUB_OFFLINE is set") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise SourceError(_in_few_words(error)) from None
    return HubFiles(revision, announced)


def cached_by_hub_library(entry: CatalogueEntry, name: str) -> Path | None:
    """A file that another program has fetched with the hub's own library on this machine."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(entry.repository, name, revision=entry.revision)
    return Path(found) if isinstance(found, str) else None


def announced_sha256(path: Path) -> str | None:
    """The sha256 that the hub announced for a file in its library's cache.

    It is the file's name there. None where the name is no sha256.
    """
    name = path.resolve().name
    return name if _SHA256.fullmatch(name) else None


# === Asking ===


def _in_time(ask: Callable[[], HfFileMetadata]) -> HfFileMetadata:
    """What `ask` returns, within seconds whatever hangs.

    No timeout of a socket covers looking up its address.
    """
    answers: list[HfFileMetadata] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001 - raised again below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="bertcnn asks the hub", daemon=True)
    thread.start()
    thread.join(hub_seconds("HF_HUB_ETAG_TIMEOUT", ANSWER_SECONDS))
    if errors:
        raise errors[0]
    if not answers:
        raise SourceError("no answer in time")
    return answers[0]


def _url(entry: CatalogueEntry, name: str, revision: str) -> str:
    from huggingface_hub import hf_hub_url

    return hf_hub_url(entry.repository, name, revision=revision, endpoint=hub_endpoint())


def _about(entry: CatalogueEntry, name: str, revision: str) -> HfFileMetadata:
    """Commit, sha256 (as ETag) and size of a file in the repository."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.errors import RemoteEntryNotFoundError

    def ask(file: str) -> HfFileMetadata:
        return get_hf_file_metadata(
            _url(entry, file, revision),
            timeout=hub_seconds("HF_HUB_ETAG_TIMEOUT", ANSWER_SECONDS),
            library_name="bertcnn",
            endpoint=hub_endpoint(),
        )

    try:
        return ask(name)
    except RemoteEntryNotFoundError:
        try:
            ask(PICKLED[0])
        except RemoteEntryNotFoundError:
            raise SourceError(f"{entry.repository} has no {name}") from None
        raise SourceError(
            f"{entry.repository} has only pickled weights ({PICKLED[0]}), which are never opened"
        ) from None


def _in_few_words(error: Exception) -> str:
    import httpx2
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    if isinstance(error, RepositoryNotFoundError):
        return "it does not have the repository"
    if isinstance(error, RevisionNotFoundError):
        return "it does not have the revision"
    if isinstance(error, httpx2.HTTPStatusError) or getattr(error, "response", None) is not None:
        return f"it answered {error.response.status_code}"  # type: ignore[attr-defined]
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx2.NetworkError):
        return "no connection"
    return f"the transfer failed ({type(error).__name__})"


# === Fetching ===


def _pace() -> Pace:
    """What one file's download has to keep to, over all attempts."""
    return Pace(_WINDOW * hub_seconds("HF_HUB_DOWNLOAD_TIMEOUT", READ_SECONDS))


def _pieces(url: str, offset: int, pace: Pace) -> Iterator[tuple[int, bytes]]:
    """`hub_pieces`, as long as it keeps the pace.

    Raises:
        SlowError: it does not.
    """
    return in_pace(lambda: hub_pieces(url, offset), pace, lambda piece: len(piece[1]))


def _fetch_small(entry: CatalogueEntry, name: str, revision: str, folder: Path) -> None:
    """A file small enough for memory; `tokenizer_config.json` may be absent."""
    import httpx2
    from huggingface_hub.errors import RemoteEntryNotFoundError

    pace = _pace()
    for attempt in range(1, _ATTEMPTS + 1):
        data = bytearray()
        try:
            for _, piece in _pieces(_url(entry, name, revision), 0, pace):
                data += piece
                if len(data) > LARGEST[name]:
                    raise SourceError(f"{name} is larger than {LARGEST[name]:,} bytes")
        except RemoteEntryNotFoundError:
            if name == TOKENIZER_CONFIG:
                return
            raise SourceError(f"{entry.repository} has no {name}") from None
        except httpx2.RemoteProtocolError:
            if attempt == _ATTEMPTS:
                raise
            continue
        write_new(folder / name, bytes(data))
        return


@dataclass(frozen=True)
class _Download:
    url: str
    size: int
    sha256: str


def _fetch_large(download: _Download, path: Path, file: BinaryIO, progress: Progress) -> None:
    """Fill `file` up to its size, going on where it ends.

    A continued file with the wrong hash is fetched once more from the start.
    """
    if download.size > LARGEST[WEIGHTS]:
        raise SourceError(f"{WEIGHTS} is larger than {LARGEST[WEIGHTS]:,} bytes")
    continued = file.seek(0, os.SEEK_END) > 0
    progress.advance(file.tell())
    _fill(download, file, progress)
    found = sha256_of(path)
    if found != download.sha256 and continued:
        progress.advance(-download.size)
        file.truncate(0)
        _fill(download, file, progress)
        found = sha256_of(path)
    if found != download.sha256:
        path.unlink()
        raise SourceError(
            f"it sent other weights than it announced (sha256 {found[:12]}..., not"
            f" {download.sha256[:12]}...)"
        )


def _fill(download: _Download, file: BinaryIO, progress: Progress) -> None:
    import httpx2

    failures, pace = 0, _pace()
    while (have := file.seek(0, os.SEEK_END)) < download.size:
        try:
            for place, piece in _pieces(download.url, have, pace):
                if place < file.tell():  # the server started again
                    progress.advance(-file.tell())
                    file.truncate(place)
                    file.seek(place)
                file.write(piece)
                progress.advance(len(piece))
                if file.tell() > download.size:
                    break
            failure: Exception | None = None
        except SlowError as error:
            raise SourceError(
                f"{error}; it broke off at {file.tell():,} of {download.size:,} bytes and can be"
                " continued"
            ) from None
        except (httpx2.TimeoutException, httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            failure = error
        failures = 1 if file.seek(0, os.SEEK_END) > have else failures + 1
        if failures == _ATTEMPTS or isinstance(
            failure, httpx2.TimeoutException | httpx2.ConnectError
        ):
            raise SourceError(
                f"the download broke off at {file.tell():,} of {download.size:,} bytes and can be"
                " continued"
            ) from None
    if file.tell() > download.size:
        file.truncate(0)
        raise SourceError(f"it sent more than the {download.size:,} bytes it announced")
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _partial_file(partials: Path, sha256: str, spare: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """The half download of this content, locked.

    `spare` where another process is at work on it, or where it is another user's.
    """
    partials.mkdir(parents=True, exist_ok=True)
    _forget_old(partials)
    path = partials / sha256
    while True:
        file = None
        with suppress(PermissionError):
            file = path.open("ab+", buffering=0)
        if file is None or os.name == "nt" or not try_lock(file.fileno()):
            if file is not None:
                file.close()
            path, file = spare, spare.open("xb+", buffering=0)
        # its last owner has just finished it and moved it to the cache
        elif not _still_there(path, file):
            file.close()
            continue
        break
    with file:
        yield path, file  # type: ignore[misc]


def _still_there(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _forget_old(partials: Path) -> None:
    """Remove half downloads that nobody came back for."""
    for path in partials.iterdir():
        # its owner may just have finished it, or be another user
        with suppress(FileNotFoundError, PermissionError):
            if time.time() - path.stat().st_mtime > _FORGOTTEN_AFTER:
                path.unlink()
