"""Models by URL: push a saved model to a store, or fetch it into the cache."""

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
from bertcnn.storage import (
    MANIFEST,
    Manifest,
    cache_folder,
    check_replaceable,
    check_target,
    is_debris,
    new_folder,
    open_regular,
    parse_manifest,
    real_folder,
    resting_place,
    sync_folder,
    write_new,
)


@dataclass(frozen=True)
class PushReport:
    """The result of a push.

    Attributes:
        url: for messages.
        size: in bytes.
        pushed: False if the same model was already there.
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
    """The local folder of a model given by a folder or a URL.

    A model at a URL is fetched into the cache once per bundle id, and each file's length and hash
    are checked. A later call only reads the manifest to detect changes; for a commit of the hub it
    makes no request. If the URL cannot be reached, the last model from it is used, with a warning.

    Args:
        model: a folder, which is returned unchanged, or a URL: s3://BUCKET/FOLDER,
            gs://BUCKET/FOLDER, hf://ORGANISATION/NAME@REVISION or file:///FOLDER.
        cache: the cache folder; see `cache_folder`.
        progress: counts bytes.

    Raises:
        SettingsError: the scheme is unknown, or the URL has a password.
        BundleError: there is no model, it is damaged, or the store refuses or cannot be reached.
        OutputError: the cache is not writable.
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

    Every file is checked against the manifest first. Readers see the old or the new model, even if
    the push is killed; repeat the push to continue it.

    Args:
        model: a folder or a URL.
        url: s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, hf://ORGANISATION/NAME@BRANCH or
            file:///FOLDER.
        overwrite: replace another model, or send the same model again.
        progress: counts bytes.

    Raises:
        SettingsError: the scheme is unknown, or the URL has a password.
        OutputError: another model is there and `overwrite` is False.
        BundleError: the model is damaged, or the store refuses or cannot be reached.
    """
    if not is_url(url):
        raise SettingsError(
            f"{one_line(url)} as the place to push to",
            expected="a URL that begins s3://, gs://, hf:// or file://",
            fix="give such a URL; to copy a model on this machine, copy its folder",
        )
    progress = progress or Silent()
    store = None if url.startswith("file://") else place_of(url)
    folder = real_folder(local_folder(model, progress=progress))
    files = verified(folder)
    if store is None:
        pushed = _push_to_folder(folder, files, folder_of(url), overwrite)
    else:
        pushed = _push_to_place(folder, files, store, overwrite, progress)
    return PushReport(shown(url), files.identity, files.size, pushed)


def _push_to_place(
    folder: Path, files: ModelFiles, store: Place, overwrite: bool, progress: Progress
) -> bool:
    """Push to a store; False if the model was already there."""
    replaced: Manifest | None = None
    try:
        data = store.read_manifest()
    except MissingError:
        data = None
    if data is not None:
        if data == files.data and not overwrite:
            return False
        replaced = _replaceable(data, store.name, overwrite)
    store.write(folder, files, replaced, progress)
    return True


def _replaceable(data: bytes, name: str, overwrite: bool) -> Manifest | None:
    """The manifest of a model that may be replaced; None if it is damaged.

    Raises:
        OutputError: `overwrite` is False, or the content is not one of our models.
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
    with suppress(BundleError):
        if verified(target).data == files.data and not overwrite:
            return False
    check_target(target, lambda existing: _check_replaceable(existing, overwrite))
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


def _stranger(folder: Path) -> str | None:
    """Why a folder is not a saved model, not even a damaged one; None if it is."""
    try:
        with open_regular(folder / MANIFEST) as stream:
            manifest = parse_manifest(stream.read())
    except (OSError, BundleError):
        return "is not a saved model"
    listed = {*names_in_folder(manifest), MANIFEST}
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    foreign = sorted(name for name in names - listed if not is_debris(name))
    return f"holds {one_line(foreign[0])}, which is no part of a model" if foreign else None
