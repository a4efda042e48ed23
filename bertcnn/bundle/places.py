"""The files of a remote model, interfaces of stores, and their errors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from bertcnn.bundle.engine import ENGINE, ENGINE_FILES, read_engine
from bertcnn.errors import BundleError
from bertcnn.progress import Progress
from bertcnn.storage import (
    MANIFEST,
    FileRecord,
    Manifest,
    open_regular,
    parse_manifest,
    refuse,
    resting_place,
)

PIECE = 8 << 20  # bytes; each piece of an object is one request

_ENGINE_MANIFEST = f"{ENGINE}/{MANIFEST}"
_LARGEST_MANIFEST = 1 << 16  # bytes


class RemoteError(BundleError):
    """A store refused a request, or gave an invalid response."""


class MissingError(RemoteError):
    """The store does not have the model or the file."""


class UnreachableError(RemoteError):
    """The store cannot be reached now: no network, a timeout, or a server error."""


@dataclass(frozen=True)
class ModelFile:
    """A file of a model.

    Attributes:
        name: path in the model's folder, with "/".
        record: length and hash.
    """

    name: str
    record: FileRecord


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, and its manifest.

    Attributes:
        manifest: parsed.
        data: the manifest's bytes.
        files: all other files.
    """

    manifest: Manifest
    data: bytes
    files: tuple[ModelFile, ...]

    @property
    def identity(self) -> str:
        """The bundle id."""
        return self.manifest.bundle_id

    @property
    def size(self) -> int:
        """Total size in bytes."""
        return sum(file.record.bytes for file in self.files)


class Source(Protocol):
    """A remote model to read from.

    Attributes:
        name: its URL for messages.
        pinned: whether the content can never change.
    """

    name: str
    pinned: bool

    def read_manifest(self) -> bytes:
        """The bytes of the model's manifest.

        Raises:
            MissingError: there is no model.
            UnreachableError: the store cannot be reached.
            RemoteError: the store refuses.
        """

    def pieces(self, identity: str, name: str, offset: int) -> Iterator[tuple[int, bytes]]:
        """A file's bytes in pieces, each with its offset in the file.

        `offset` is the first byte needed; a store may send earlier bytes too.

        Raises:
            MissingError: there is no such file.
            RemoteError: as in `read_manifest`.
        """


class Place(Source, Protocol):
    """A remote location that models can be written to."""

    def write(
        self, folder: Path, files: ModelFiles, replaced: Manifest | None, progress: Progress
    ) -> None:
        """Write a model; readers see the old or the new model.

        `replaced` is the manifest of the current model.

        Raises:
            BundleError: the model was changed meanwhile.
            RemoteError: as in `read_manifest`.
        """


def described(data: bytes, engine: bytes | None) -> ModelFiles:
    """A model's files according to the bytes of its manifest and its engine's manifest.

    Raises:
        BundleError: a manifest is damaged.
    """
    manifest = parse_manifest(data)
    files = [ModelFile(name, record) for name, record in sorted(manifest.members.items())]
    if engine is not None:
        files += [
            ModelFile(f"{ENGINE}/{name}", record)
            for name, record in sorted(parse_manifest(engine).members.items())
        ]
        engine_record = FileRecord(sha256=hashlib.sha256(engine).hexdigest(), bytes=len(engine))
        files.append(ModelFile(_ENGINE_MANIFEST, engine_record))
    return ModelFiles(manifest, data, tuple(files))


def engine_manifest(place: Source, identity: str) -> bytes | None:
    """The manifest of a model's engine; None if it has none."""
    data = bytearray()
    try:
        for _, piece in place.pieces(identity, _ENGINE_MANIFEST, 0):
            data += piece
            if len(data) > _LARGEST_MANIFEST:
                refuse(f"{_ENGINE_MANIFEST} is larger than {_LARGEST_MANIFEST:,} bytes", "less")
    except MissingError:
        return None
    return bytes(data)


def verified(folder: Path) -> ModelFiles:
    """The files of a saved model, after checking lengths and hashes.

    Raises:
        BundleError: the folder was not saved by bertcnn, or was changed after saving.
    """
    resolved = resting_place(folder)
    if not resolved.is_dir():
        raise BundleError(
            f"{folder} is not a folder",
            expected="a folder saved by bertcnn",
            fix="give the folder of a model, such as `bertcnn train --out` wrote",
        )
    engine = _content(resolved / ENGINE, MANIFEST) if (resolved / ENGINE).is_dir() else None
    files = described(_content(resolved, MANIFEST), engine)
    for file in files.files:
        check_file(resolved, file)
    read_engine(resolved, files.identity)
    return files


def check_file(folder: Path, file: ModelFile) -> None:
    """Check a file's length and hash.

    Raises:
        BundleError: the file is missing or differs.
    """
    if not is_sound(folder, file):
        changed(file.name)


def is_sound(folder: Path, file: ModelFile) -> bool:
    """Whether a file exists with the expected length and hash."""
    try:
        with open_regular(folder / file.name) as stream:
            return (
                stream.seek(0, 2) == file.record.bytes
                and stream.seek(0) == 0
                and hashlib.file_digest(stream, "sha256").hexdigest() == file.record.sha256
            )
    except OSError:
        return False


def changed(name: str) -> NoReturn:
    """Raise the error for a changed file."""
    refuse(f"{name} is not what was saved with the model", "the files exactly as they were saved")


def sent_pieces(folder: Path, file: ModelFile) -> Iterator[bytes]:
    """A file's bytes, hashed again while they are sent.

    Raises:
        BundleError: the file was changed since it was verified.
    """
    digest = hashlib.sha256()
    try:
        stream = open_regular(folder / file.name)
    except OSError:
        changed(file.name)
    with stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != file.record.sha256:
        changed(file.name)


def names_in_folder(manifest: Manifest) -> Sequence[str]:
    """All paths that such a model may have in its folder, except the manifest."""
    return (*manifest.members, *ENGINE_FILES)


def _content(folder: Path, name: str) -> bytes:
    try:
        with open_regular(folder / name) as stream:
            data = stream.read(_LARGEST_MANIFEST + 1)
    except OSError as error:
        raise BundleError(
            f"{folder} is not a model: its {name} cannot be read ({error.strerror})",
            expected="a folder saved by bertcnn",
            fix="give the folder of a model, such as `bertcnn train --out` wrote",
        ) from None
    return data
