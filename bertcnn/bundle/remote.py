"""Models by URL: push a saved model to a store, and fetch it from there into the cache."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bertcnn.bundle.addresses import folder_of, is_url, place_of, shown, text_of
from bertcnn.bundle.model_cache import Pull
from bertcnn.bundle.places import (
    MissingError,
    ModelFiles,
    Place,
    names_in_folder,
    sent_pieces,
    verified,
)
from bertcnn.errors import BundleError, OutputError, SettingsError, one_line
from bertcnn.progress import Progress, Silent
from bertcnn.storage.cache import cache_folder
from bertcnn.storage.files import open_regular, sync_folder, write_new
from bertcnn.storage.folders import (
    check_replaceable,
    check_target,
    is_debris,
    new_folder,
    real_folder,
    resting_place,
)
from bertcnn.storage.manifest import MANIFEST, Manifest, parse_manifest


@dataclass(frozen=True)
class PushReport:
    """What a push did.

    Attributes:
        url: where the model is, as it may be shown.
        bundle_id: the model's.
        size: its bytes.
        pushed: False if this very model was there already.
    """

    url: str
    bundle_id: str
    size: int
    pushed: bool


# === Pulling ===


def local_folder(
    model: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """The folder of a model that is named by a folder or by a URL.

    A model at a URL is fetched into the cache once for each bundle id; a later call reads only its
    manifest, to see that it is still the same. Every file's length and hash are compared with the
    manifest's. If the URL cannot be reached, the last model from it is used, with a warning. A
    commit of the hub never changes, so a later call makes no request.

    Args:
        model: a folder, which is returned as it is, or a URL: s3://BUCKET/FOLDER,
            gs://BUCKET/FOLDER, hf://ORGANISATION/NAME@REVISION or file:///FOLDER.
        cache: where fetched models are kept; see `cache_folder`.
        progress: counts the bytes.

    Raises:
        SettingsError: an unknown scheme, or a password in the URL.
        BundleError: there is no model, it is damaged, or its store refuses or cannot be reached.
        OutputError: the cache cannot be written.
    """
    text = text_of(model)
    if not is_url(text):
        return Path(model)
    if text.startswith("file://"):
        folder = folder_of(text)
        if not resting_place(folder).is_dir():
            raise MissingError(
                f"{folder} does not exist, or is no folder",
                expected="a folder saved by bertcnn",
                fix="correct the URL, or push the model there",
            )
        return folder
    return Pull(text, cache_folder(cache), progress or Silent()).folder()


# === Pushing ===


def push_model(
    model: str | os.PathLike[str],
    url: str,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PushReport:
    """Copy a saved model to a URL.

    Every file is compared with the model's manifest first. A reader gets the model that was there
    before or all of this one, also when the push is killed; the same push then continues.

    Args:
        model: a folder, or a URL.
        url: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, hf://ORGANISATION/NAME@BRANCH or file:///FOLDER.
        overwrite: replace another model that is there, or send the same one again.
        progress: counts the bytes.

    Raises:
        SettingsError: an unknown scheme, or a password in the URL.
        OutputError: another model is there and `overwrite` is off.
        BundleError: the model is damaged, or the store refuses or cannot be reached.
    """
    if not is_url(url):
        raise SettingsError(
            f"{one_line(url)} as the place to push to",
            expected="a URL that begins s3://, gs://, hf:// or file://",
            fix="give such a URL; to copy a model on this machine, copy its folder",
        )
    progress = progress or Silent()
    place = None if url.startswith("file://") else place_of(url)
    folder = real_folder(local_folder(model, progress=progress))
    files = verified(folder)
    if place is None:
        pushed = _push_to_folder(folder, files, folder_of(url), overwrite)
    else:
        pushed = _push_to_place(folder, files, place, overwrite, progress)
    return PushReport(shown(url), files.identity, files.size, pushed)


def _push_to_place(
    folder: Path, files: ModelFiles, place: Place, overwrite: bool, progress: Progress
) -> bool:
    """Whether anything had to be sent."""
    there: Manifest | None = None
    try:
        data = place.read_manifest()
    except MissingError:
        data = None
    if data is not None:
        if data == files.data and not overwrite:
            return False
        there = _replaceable(data, place.name, overwrite)
    place.write(folder, files, there, progress)
    return True


def _replaceable(data: bytes, name: str, overwrite: bool) -> Manifest | None:
    """The manifest of a model that may be replaced; None of a damaged one.

    Raises:
        OutputError: `overwrite` is off, or what is there is not a model of ours.
    """
    try:
        manifest = parse_manifest(data)
    except BundleError:
        if b'"bertcnn ' not in data:
            raise OutputError(
                f"{name} holds a {MANIFEST} that bertcnn has not written",
                expected="an empty place, or a model that was pushed by bertcnn",
                fix="choose another place; it is never overwritten",
            ) from None
        manifest = None
    if not overwrite:
        other = "a damaged model" if manifest is None else f"the model {manifest.bundle_id[:12]}"
        raise OutputError(
            f"{name} holds {other} already",
            expected="a place without another model",
            fix="choose another place, or replace the model with --force",
        )
    return manifest


def _push_to_folder(folder: Path, files: ModelFiles, target: Path, overwrite: bool) -> bool:
    """Copy a model to a folder, which appears whole or not at all."""
    with suppress(BundleError):
        if verified(target).data == files.data and not overwrite:
            return False
    check_target(target, lambda place: _check_replaceable(place, overwrite))
    with new_folder(real_folder(target), overwrite=overwrite, check=_check_replaceable) as new:
        for file in files.files:
            (new / file.name).parent.mkdir(exist_ok=True)
            write_new(new / file.name, b"".join(sent_pieces(folder, file)))
        write_new(new / MANIFEST, files.data)
        for path in {(new / file.name).parent for file in files.files}:
            sync_folder(path)
    return True


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_replaceable(
        target,
        overwrite,
        holds="another model",
        expected="a model saved by bertcnn",
        stranger=_stranger,
    )


def _stranger(place: Path) -> str | None:
    """What keeps a folder from being a saved model, damaged or not."""
    try:
        with open_regular(place / MANIFEST) as stream:
            manifest = parse_manifest(stream.read())
    except (OSError, BundleError):
        return "is not a saved model"
    known = {*names_in_folder(manifest), MANIFEST}
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir()}
    foreign = sorted(name for name in found - known if not is_debris(name))
    return f"holds {one_line(foreign[0])}, which is no part of a model" if foreign else None
