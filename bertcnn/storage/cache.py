"""The cache of what can be made again."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from bertcnn.errors import OutputError
from bertcnn.storage.files import open_regular, temporary_name

_DIGEST_BYTES = 16  # before what is kept in the cache
_ABANDONED_AFTER = 24 * 3600.0  # seconds without a change, of a file half written


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """Where encoders and compiled engines are kept.

    `cache`, else $BERTCNN_CACHE, else `bertcnn` in the user's cache folder.

    Raises:
        OutputError: the user has no home folder, or `~` stands before a name that is no user's.
    """
    given = cache or os.environ.get("BERTCNN_CACHE")
    variable = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    try:  # platformdirs has the same rule on Linux, and moves the cache on macOS and Windows
        if given:
            return Path(given).expanduser().absolute()
        return Path(os.environ.get(variable) or Path.home() / ".cache") / "bertcnn"
    except RuntimeError as error:
        raise OutputError(
            f"no folder for encoders and compiled engines ({error})",
            expected="a home folder, or a folder named in the variable BERTCNN_CACHE",
            fix="set BERTCNN_CACHE to a folder you may write to",
        ) from None


def read_kept(path: Path) -> bytes | None:
    """What `keep` put there; None if there is nothing, or if it was changed since."""
    try:
        with open_regular(path) as file:
            digest, content = file.read(_DIGEST_BYTES), file.read()
    except OSError:
        return None
    return content if _digest(content) == digest else None


def keep(path: Path, content: bytes, most: int) -> None:
    """Write a cache file, which begins with its digest, and remove the oldest of its kind.

    Args:
        path: in a folder for files of this kind, which all have its extension.
        content: what to keep; it can be made again.
        most: how many files stay.

    Raises:
        OSError: the cache cannot be written.
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
    for half in path.parent.glob("*.tmp"):  # of killed processes
        with suppress(FileNotFoundError):
            if time.time() - half.stat().st_mtime > _ABANDONED_AFTER:
                half.unlink()


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
