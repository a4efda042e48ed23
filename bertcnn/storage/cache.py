"""The cache of reproducible files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from bertcnn.errors import OutputError
from bertcnn.storage.files import open_regular, temporary_name

_DIGEST_BYTES = 16  # at the start of each cache file
_ABANDONED_AFTER = 24 * 3600.0  # seconds since the last change of an unfinished file


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The cache folder: `cache`, else $BERTCNN_CACHE, else `bertcnn` in the user's cache folder.

    Raises:
        OutputError: the user has no home folder, or `~` precedes an unknown user name.
    """
    chosen = cache or os.environ.get("BERTCNN_CACHE")
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    try:  # platformdirs agrees on Linux, but uses other folders on macOS and Windows
        if chosen:
            return Path(chosen).expanduser().absolute()
        return Path(os.environ.get(variable) or Path.home() / ".cache") / "bertcnn"
    except RuntimeError as error:
        raise OutputError(
            f"no folder for encoders and compiled engines ({error})",
            expected="a home folder, or a folder named in the variable BERTCNN_CACHE",
            fix="set BERTCNN_CACHE to a folder you may write to",
        ) from None


def read_kept(path: Path) -> bytes | None:
    """The content that `keep` wrote; None if it is missing or was changed."""
    try:
        with open_regular(path) as file:
            digest, content = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    return content if _digest(content) == digest else None


def keep(path: Path, content: bytes, most: int) -> None:
    """Writes a cache file, which starts with its digest, and removes the oldest of its kind.

    At most `most` files with this extension stay in the folder. Raises OSError on failure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name(path))
    try:
        temporary.write_bytes(_digest(content) + content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    for old in sorted(
        path.parent.glob(f"*{path.suffix}"), key=lambda file: file.stat().st_mtime, reverse=True
    )[most:]:
        old.unlink(missing_ok=True)
    for half in path.parent.glob("*.tmp"):  # left by killed processes
        with suppress(FileNotFoundError):
            if time.time() - half.stat().st_mtime > _ABANDONED_AFTER:
                half.unlink()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
