"""Downloads from the Hugging Face hub, by its own library in a watched process."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
from bertcnn.encoders.process import PATIENCE, Watched, reason, run_watched
from bertcnn.progress import Progress
from bertcnn.storage import ANSWER_SECONDS, hub_seconds

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

_SHA256 = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 16  # bytes per write; with the library's default, slow downloads would seem to stall


@dataclass(frozen=True)
class HubFiles:
    """The commit that was fetched, and the weights' sha256 according to the hub."""

    revision: str
    announced: str


def fetch_from_hub(entry: CatalogueEntry, folder: Path, progress: Progress) -> HubFiles:
    """Download an encoder's files from one commit into an empty folder.

    Respects the hub library's variables (`HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN`).

    Raises:
        SourceError: the hub cannot be reached, is too slow, or does not have the encoder.
    """
    progress.stage(f"fetching {entry.name} from the hub", entry.download_size, "bytes")
    arguments = [entry.repository, entry.revision or "main", entry.sha256 or ""]
    output = run_watched(
        # -P: do not import the package from the current folder
        [sys.executable, "-P", "-m", __name__, str(folder), *arguments],
        Watched(folder.parent, folder, entry.download_size, PATIENCE),
        progress,
        explain=lambda output: reason(output, "the hub's library failed"),
    )
    shutil.rmtree(folder / ".cache")  # the library's metadata
    for path in folder.iterdir():
        if path.stat().st_size > LARGEST[path.name]:
            raise SourceError(f"{path.name} is larger than {LARGEST[path.name]:,} bytes")
    return HubFiles(*output.splitlines()[-1].split())


def cached_by_hub_library(entry: CatalogueEntry, name: str) -> Path | None:
    """A file in the hub library's own cache on this machine."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(entry.repository, name, revision=entry.revision)
    return Path(path) if isinstance(path, str) else None


def announced_sha256(path: Path) -> str | None:
    """The sha256 of a file in the hub library's cache, which is its name; otherwise None."""
    name = path.resolve().name
    return name if _SHA256.fullmatch(name) else None


# === In the process that downloads ===


def _download(folder: str, repository: str, revision: str, sha256: str) -> str:
    """Fetch the files; returns their commit and the weights' sha256 according to the hub."""
    os.environ["HF_HUB_DISABLE_XET"] = "1"  # it reports no bytes for a long time
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import RemoteEntryNotFoundError

    constants.DOWNLOAD_CHUNK_SIZE = _PIECE
    seconds = hub_seconds("HF_HUB_ETAG_TIMEOUT", ANSWER_SECONDS)

    def about(name: str) -> HfFileMetadata:
        return get_hf_file_metadata(
            hf_hub_url(repository, name, revision=revision), timeout=seconds
        )

    try:
        weights = about(WEIGHTS)
    except RemoteEntryNotFoundError:
        with suppress(RemoteEntryNotFoundError):
            about(PICKLED[0])
            raise SourceError(
                f"{repository} has only pickled weights ({PICKLED[0]}), which are never opened"
            ) from None
        raise SourceError(f"{repository} has no {WEIGHTS}") from None
    announced = weights.etag if _SHA256.fullmatch(weights.etag or "") else sha256
    if weights.commit_hash is None or not announced:
        raise SourceError("the server there is no hub: it announces no sha256")
    if sha256 not in ("", announced):
        raise SourceError(
            f"it announces other weights (sha256 {announced[:12]}..., not {sha256[:12]}...)"
        )
    for name in (CONFIG, VOCABULARY, TOKENIZER_CONFIG, WEIGHTS):
        try:
            hf_hub_download(
                repository,
                name,
                revision=weights.commit_hash,
                local_dir=folder,
                etag_timeout=seconds,
                library_name="bertcnn",
            )
        except RemoteEntryNotFoundError:
            if name != TOKENIZER_CONFIG:
                raise SourceError(f"{repository} has no {name}") from None
    return f"{weights.commit_hash} {announced}"


def _in_few_words(error: Exception) -> str:
    import httpx2
    from huggingface_hub.errors import (
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    match error:
        case SourceError():
            return str(error)
        case OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set"
        case RepositoryNotFoundError():
            return "it does not have the repository"
        case RevisionNotFoundError():
            return "it does not have the revision"
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.NetworkError():
            return "no connection"
    response = getattr(error, "response", None)
    if response is not None:
        return f"it answered {response.status_code}"
    return f"the transfer failed ({type(error).__name__})"


if __name__ == "__main__":
    try:
        print(_download(*sys.argv[1:]))  # noqa: T201 - for the process that watches
    except Exception as error:  # noqa: BLE001 - after any error the next source is tried
        sys.exit(f"error {_in_few_words(error)}")
