"""Encoders in other layouts: converted once to Hugging Face layout, kept in our cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertcnn.encoders.layout import REQUIRED
from bertcnn.encoders.provenance import (
    Provenance,
    is_sound,
    read_origin,
    record_files,
    write_origin,
)
from bertcnn.errors import EncoderError
from bertcnn.progress import Progress
from bertcnn.storage import put_in_place, resting_place, sha256_of, work_folder


@dataclass(frozen=True)
class OtherLayout:
    """A layout that can be converted.

    Attributes:
        title: description of a folder with this layout.
        prefix: of the names of cached copies.
        read_as: version of the conversion.
        files: returns the source files of a folder.
        convert: converts the encoder in the first folder to Hugging Face layout in the second.
    """

    title: str
    prefix: str
    read_as: str
    files: Callable[[Path], Sequence[Path]]
    convert: Callable[[Path, Path], None]


def use_other_layout(layout: OtherLayout, folder: Path, cache: Path, progress: Progress) -> Path:
    """The cached copy of an encoder in Hugging Face layout; converted again if its files change.

    Raises:
        EncoderError: the encoder is invalid.
        OSError: the cache is not writable.
    """
    try:
        hashes = layout.read_as + "".join(
            f"{path.name} {sha256_of(path)}\n" for path in layout.files(folder)
        )
    except OSError as error:
        raise EncoderError(
            f"{folder} could not be read ({error})",
            expected="files you may read",
            fix="ask for the right to",
        ) from None
    target = (
        cache / "encoders" / f"{layout.prefix}{hashlib.sha256(hashes.encode()).hexdigest()[:16]}"
    )
    cached = sound_copy(target)
    if cached is None:
        with work_folder(target) as work:
            keep_copy(
                lambda new: layout.convert(folder, new), target, work, source=f"the folder {folder}"
            )
        cached = kept_copy(target)
        progress.note(
            f"{folder} is {layout.title}; it was checked and is kept in Hugging Face layout in"
            f" {cached[0]}"
        )
    return cached[0]


def keep_copy(
    convert: Callable[[Path], None], target: Path, work: Path, *, source: str, repository: str = ""
) -> None:
    """Write a copy into the cache, with a record of every file's hash."""
    new = work / "new"
    new.mkdir()
    convert(new)
    write_origin(
        new,
        name=target.name,
        source=source,
        repository=repository,
        revision=None,
        files=record_files(new),
    )
    if sound_copy(target) is None:  # otherwise another process was faster
        put_in_place(new, target, work, replace=True)


def kept_copy(target: Path) -> tuple[Path, Provenance]:
    """The copy that was just written.

    Raises:
        EncoderError: it is damaged.
    """
    cached = sound_copy(target)
    if cached is None:
        raise EncoderError(
            f"{target} changed while it was written",
            expected="a cache nobody else changes",
            fix="try again",
        )
    return cached


def sound_copy(target: Path) -> tuple[Path, Provenance] | None:
    """A cached copy with its record; None if it is missing or damaged."""
    folder = resting_place(target)
    provenance = read_origin(folder)
    if provenance is None or any(name not in provenance.files for name in REQUIRED):
        return None
    return (
        (folder, provenance)
        if all(is_sound(folder / name, record) for name, record in provenance.files.items())
        else None
    )
