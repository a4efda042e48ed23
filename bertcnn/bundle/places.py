"""What a model outside of this machine is made of, and what can go wrong with its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from bertcnn.bundle.engine import ENGINE, ENGINE_FILES, read_engine
from bertcnn.errors import BundleError
from bertcnn.progress import Progress
from bertcnn.storage.files import open_regular
from bertcnn.storage.folders import resting_place
from bertcnn.storage.manifest import MANIFEST, FileRecord, Manifest, parse_manifest, refuse

PIECE = 8 << 20  # bytes; every piece of an object is a request

_ENGINE_MANIFEST = f"{ENGINE}/{MANIFEST}"
_LARGEST_MANIFEST = 1 << 16  # bytes


class RemoteError(BundleError):
    """A place of models that refuses what was asked of it, or answers nonsense."""


class MissingError(RemoteError):
    """A place in which there is no such model, or no such file of it."""


class UnreachableError(RemoteError):
    """A place that cannot be reached now: no network, no answer in time, or out of order."""


@dataclass(frozen=True)
class ModelFile:
    """A file of a model.

    Attributes:
        name: path in the model's folder, with "/".
        record: its length and hash.
    """

    name: str
    record: FileRecord


@dataclass(frozen=True)
class ModelFiles:
    """A model as it travels: files, and the manifest that makes a model of them.

    Attributes:
        manifest: parsed.
        data: its bytes.
        files: all others.
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
        """Bytes of all files."""
        return sum(file.record.bytes for file in self.files)


class Source(Protocol):
    """Where a model comes from that is not on this machine.

    Attributes:
        name: its URL, without what nobody needs to see.
        pinned: whether what is there can never change.
    """

    name: str
    pinned: bool

    def read_manifest(self) -> bytes:
        """The bytes of the model's manifest.

        Raises:
            MissingError: there is no model.
            UnreachableError: the place cannot be reached.
            RemoteError: it refuses.
        """

    def pieces(self, identity: str, name: str, offset: int) -> Iterator[tuple[int, bytes]]:
        """A file's bytes, each piece with its place in the file.

        Args:
            identity: the model's.
            name: the file's.
            offset: the bytes before it are not needed; a place may send them all the same.

        Raises:
            MissingError: there is no such file.
            RemoteError: as in `read_manifest`.
        """


class Place(Source, Protocol):
    """Where a model is kept outside of this machine."""

    def write(
        self, folder: Path, files: ModelFiles, replaced: Manifest | None, progress: Progress
    ) -> None:
        """Put a model there; who reads meanwhile gets what was there before, or all of this one.

        Args:
            folder: holds the model.
            files: of it.
            replaced: the manifest of what is there.
            progress: counts the bytes.

        Raises:
            BundleError: the model was changed meanwhile.
            RemoteError: as in `read_manifest`.
        """


def described(data: bytes, engine: bytes | None) -> ModelFiles:
    """The files of a model by its manifests.

    Args:
        data: the manifest's bytes.
        engine: bytes of the engine's manifest, if the model has a compiled engine.

    Raises:
        BundleError: one of them is not a manifest as it was saved.
    """
    manifest = parse_manifest(data)
    files = [ModelFile(name, record) for name, record in sorted(manifest.members.items())]
    if engine is not None:
        files += [
            ModelFile(f"{ENGINE}/{name}", record)
            for name, record in sorted(parse_manifest(engine).members.items())
        ]
        own = FileRecord(sha256=hashlib.sha256(engine).hexdigest(), bytes=len(engine))
        files.append(ModelFile(_ENGINE_MANIFEST, own))
    return ModelFiles(manifest, data, tuple(files))


def engine_manifest(place: Source, identity: str) -> bytes | None:
    """The manifest of the engine that lies with a model; None if it has none."""
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
    """The files of a saved model, each compared with its length and hash.

    Raises:
        BundleError: not a folder that bertcnn saved, or not as it was saved.
    """
    place = resting_place(folder)
    if not place.is_dir():
        raise BundleError(
            f"{folder} is not a folder",
            expected="a folder saved by bertcnn",
            fix="give the folder of a model, such as `bertcnn train --out` wrote",
        )
    engine = _content(place / ENGINE, MANIFEST) if (place / ENGINE).is_dir() else None
    files = described(_content(place, MANIFEST), engine)
    for file in files.files:
        check_file(place, file)
    read_engine(place, files.identity)
    return files


def check_file(folder: Path, file: ModelFile) -> None:
    """Refuse a file that is not what its record says.

    Raises:
        BundleError: it is missing, or another one.
    """
    if not is_sound(folder, file):
        changed(file.name)


def is_sound(folder: Path, file: ModelFile) -> bool:
    """Whether a file is there and has its length and hash."""
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
    """Raise: a file is not what was saved."""
    refuse(f"{name} is not what was saved with the model", "the files exactly as they were saved")


def sent_pieces(folder: Path, file: ModelFile) -> Iterator[bytes]:
    """A file's bytes, compared with its hash once more as they are sent.

    Raises:
        BundleError: it was changed since it was verified.
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
    """Every path beside the manifest that such a model may have in its folder."""
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
