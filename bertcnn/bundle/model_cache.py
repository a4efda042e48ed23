"""Cache of models from URLs, one folder per bundle id."""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from bertcnn.bundle.addresses import is_url, place_of, shown
from bertcnn.bundle.engine import read_engine
from bertcnn.bundle.places import (
    ModelFile,
    ModelFiles,
    Source,
    UnreachableError,
    changed,
    described,
    engine_manifest,
    is_sound,
    verified,
)
from bertcnn.errors import BundleError
from bertcnn.progress import Progress, Silent
from bertcnn.storage import (
    MANIFEST,
    BusyError,
    held_folder,
    keep,
    output_error,
    parse_manifest,
    put_in_place,
    read_kept,
    sync_folder,
    work_folder,
    write_new,
)

logger = logging.getLogger(__name__)

_TRIES = 5  # attempts of a pull while others push to the same URL
_ATTEMPTS = 3  # attempts in a row without a new byte of a file
_MOST_URLS = 1000  # most URLs whose latest model is remembered
_LOOKS_EVERY = 0.2  # seconds between checks of another process that fetches the same model
_PATIENCE = 120.0


def keep_model(source: Source, cache: Path) -> Path:
    """Put a model from a source without a URL into the cache.

    Returns the model's folder, after verifying the hash of every file. Messages show `source.name`.

    Raises:
        BundleError: a file does not arrive as it was saved.
        OutputError: the cache is not writable.
    """
    return Pull(source.name, cache, Silent()).fetched(source, source.read_manifest())


class Pull:
    """Fetches one model into the cache.

    `patience` is the seconds to wait for another process that fetches it without progress.
    """

    def __init__(
        self, url: str, cache: Path, progress: Progress, *, patience: float = _PATIENCE
    ) -> None:
        self._patience = patience
        self._shown = shown(url) if is_url(url) else url
        self._url, self._models, self._progress = url, cache / "models", progress
        digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self._note = self._models / "urls" / f"{digest}.id"

    def folder(self) -> Path:
        """The model's folder in the cache; fetches a missing or changed model."""
        try:
            source = place_of(self._url)
            if source.pinned and (cached := self._known()) is not None:
                return cached
            data = source.read_manifest()
        except UnreachableError as error:
            return self._kept(error)
        return self.fetched(source, data)

    def fetched(self, place: Source, data: bytes) -> Path:
        """The folder of the model with this manifest; fetches it from `place` if missing."""
        try:
            return self._fetched(place, data)
        except OSError as error:
            raise output_error(Path(error.filename or self._models), error) from None

    def _fetched(self, source: Source, data: bytes) -> Path:
        """Fetch the model with this manifest, or the new one if it is replaced meanwhile."""
        for _ in range(_TRIES):
            try:
                folder = self._in_cache(source, data)
            except UnreachableError:
                raise
            except BundleError as error:
                now = source.read_manifest()
                if now == data:
                    raise
                data, latest = now, error
                continue
            self._remember(folder.name)
            return folder
        raise latest

    def _in_cache(self, source: Source, data: bytes) -> Path:
        identity = parse_manifest(data).bundle_id
        target = self._models / identity
        if _is_whole(target):
            return target
        with ExitStack() as stack:
            user = getattr(os, "getuid", int)()  # users cannot write to each other's folders
            partial = self._alone(stack, target.with_name(f"{identity}.{user}.partial"))
            if not _is_whole(target):  # another process may have fetched it meanwhile
                files = described(data, engine_manifest(source, identity))
                self._fill(source, files, partial)
                if not _is_whole(target):
                    with work_folder(target) as work:
                        put_in_place(partial, target, work, replace=True)
            shutil.rmtree(partial, ignore_errors=True)  # damaged, if it existed
        return target

    def _alone(self, stack: ExitStack, partial: Path) -> Path:
        """The folder for a partial model; waits for another process that uses it.

        Raises:
            BusyError: the other process has made no progress for a while.
        """
        grew, size = time.monotonic(), -1
        while True:
            try:
                return stack.enter_context(held_folder(partial, does="fetches a model into"))
            except BusyError:
                if size < 0:
                    self._progress.note(f"another process is fetching {self._shown}; waiting")
                before, size = size, _bytes_in(partial)
                if size != before:
                    grew = time.monotonic()
                elif time.monotonic() - grew > self._patience:
                    raise
                time.sleep(_LOOKS_EVERY)

    def _fill(self, source: Source, files: ModelFiles, partial: Path) -> None:
        """Fetch all files, the manifest last; keeps files of an interrupted pull."""
        self._progress.stage(f"fetching {self._shown}", files.size, "bytes")
        _remove_others(partial, files)
        for file in files.files:
            (partial / file.name).parent.mkdir(exist_ok=True)
            self._fetch(source, files.identity, file, partial)
        write_new(partial / MANIFEST, files.data)
        for folder in {(partial / file.name).parent for file in files.files}:
            sync_folder(folder)
        read_engine(partial, files.identity)  # refuses the engine of another model

    def _fetch(self, source: Source, identity: str, file: ModelFile, partial: Path) -> None:
        """Fetch or resume one file; a damaged file is fetched once more."""
        path = partial / file.name
        continued = path.exists()
        self._append(source, identity, file, path)
        if continued and not is_sound(partial, file):
            self._progress.advance(-path.stat().st_size)
            path.unlink()
            self._append(source, identity, file, path)
        if not is_sound(partial, file):
            path.unlink()
            changed(f"{self._shown}: {file.name}")

    def _append(self, source: Source, identity: str, file: ModelFile, path: Path) -> None:
        """Append a file's missing bytes; resumes after lost connections."""
        with path.open("ab") as stream:
            have = stream.seek(0, os.SEEK_END)
            self._progress.advance(have)
            failures = 0
            while have < file.record.bytes and failures < _ATTEMPTS:
                before = have
                try:
                    for start, piece in source.pieces(identity, file.name, have):
                        if start < have:  # the store started from 0
                            self._progress.advance(start - have)
                            stream.truncate(start)
                        stream.write(piece)
                        have = start + len(piece)
                        self._progress.advance(len(piece))
                        if have > file.record.bytes:
                            break
                except UnreachableError:
                    failures = 1 if have > before else failures + 1
                    if failures == _ATTEMPTS:
                        raise
                else:
                    break
            stream.flush()
            os.fsync(stream.fileno())

    # === The last model of a URL ===

    def _remember(self, identity: str) -> None:
        with suppress(OSError):  # only convenience is lost
            keep(self._note, identity.encode(), _MOST_URLS)

    def _known(self) -> Path | None:
        """The last model from this URL, if still cached."""
        content = read_kept(self._note)
        folder = None if content is None else self._models / content.decode()
        return folder if folder is not None and _is_whole(folder) else None

    def _kept(self, error: UnreachableError) -> Path:
        """The last model from this URL, with a warning.

        Raises:
            UnreachableError: none is cached.
        """
        cached = self._known()
        if cached is None:
            raise error
        seen = datetime.fromtimestamp(self._note.stat().st_mtime, UTC)
        logger.warning(
            "%s; the model %s is used, which was there at %s",
            error.given,
            cached.name[:12],
            seen.isoformat(" ", "minutes"),
        )
        return cached


def _bytes_in(folder: Path) -> int:
    """The total file size of a folder that another process is filling."""
    size = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):  # already deleted
                size += path.stat().st_size
    return size


def _remove_others(folder: Path, files: ModelFiles) -> None:
    """Remove files of an interrupted pull that the model no longer has."""
    names = {file.name for file in files.files}
    for path in folder.rglob("*"):
        if not path.is_dir() and path.relative_to(folder).as_posix() not in names:
            path.unlink()
    for path in (path for path in folder.iterdir() if path.is_dir()):
        with suppress(OSError):  # not empty
            path.rmdir()


def _is_whole(folder: Path) -> bool:
    """Whether a cached model is unchanged; hashing takes 0.1 s for 90 MB."""
    try:
        files = verified(folder)
    except BundleError:
        return False
    return files.identity == folder.name
