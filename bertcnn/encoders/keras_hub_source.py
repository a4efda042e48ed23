"""KerasHub presets, by folder or as `keras_hub:NAME`, cached in Hugging Face layout."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bertcnn.encoders.checkpoint import checkpoint_of
from bertcnn.encoders.converted import OtherLayout, keep_copy, kept_copy, sound_copy
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.encoders.keras_hub import (
    CONFIG,
    TOKENIZER,
    VOCABULARY,
    WEIGHTS,
    preset_files,
    read_preset_lowercase,
    read_preset_settings,
    read_preset_tensors,
    read_preset_vocabulary,
)
from bertcnn.encoders.layout import SourceError
from bertcnn.encoders.process import PATIENCE, Watched, reason, run_watched
from bertcnn.encoders.provenance import Provenance
from bertcnn.errors import EncoderError, one_line
from bertcnn.progress import Progress
from bertcnn.storage import work_folder

PREFIX: Final = "keras_hub:"
_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # valid as a folder name in the cache
_KAGGLE = "kaggle://"
_FLOAT32 = 4  # bytes
_READ_AS = "3"  # version of the conversion
# Calls `keras_hub.src.utils.preset_utils.get_file` for each file, in a separate process because it
# prints and can hang
_DOWNLOAD = """
import sys
handle, *names = sys.argv[1:]
try:
    import kagglehub
    for name in names:
        print("at", kagglehub.model_download(handle, name))
except Exception as error:
    sys.exit(f"error {type(error).__name__}: {error}")
"""


@dataclass(frozen=True)
class Preset:
    """One of KerasHub's presets: name, description, URL and number of parameters."""

    name: str
    description: str
    handle: str
    parameters: int


# === Names ===


def preset_name(name_or_path: str | os.PathLike[str]) -> str | None:
    """NAME if the user typed `keras_hub:NAME`, else None.

    Example:
        >>> preset_name("keras_hub:bert_tiny_en_uncased")
        'bert_tiny_en_uncased'
    """
    if isinstance(name_or_path, str) and name_or_path.strip().lower().startswith(PREFIX):
        return name_or_path.strip()[len(PREFIX) :]
    return None


def find_preset(name: str) -> Preset:
    """KerasHub's BERT preset with this name.

    Raises:
        EncoderError: no preset matches (the message lists the closest names), or its host is not
            supported.
    """
    from keras_hub.models import BertBackbone

    presets: Mapping[str, Any] = BertBackbone.presets
    if name not in presets:
        close = (
            difflib.get_close_matches(name.lower(), presets, n=3, cutoff=0.4) or sorted(presets)[:3]
        )
        raise EncoderError(
            f"KerasHub has no BERT preset {one_line(name)}",
            expected=f"one of its {len(presets)}, such as {', '.join(close)}",
            fix="choose from keras_hub.models.BertBackbone.presets, or give a preset's folder",
        )
    about, handle = presets[name].get("metadata", {}), str(presets[name].get("kaggle_handle", ""))
    if not handle.startswith(_KAGGLE):
        raise _unreachable(name, f"it is kept at {one_line(handle)}, not at Kaggle")
    return Preset(name, str(about.get("description", "")), handle, int(about.get("params", 0)))


# === Use ===


def use_named_preset(name: str, cache: Path, progress: Progress) -> tuple[Path, Provenance]:
    """The cached copy of a KerasHub preset; downloads it if needed.

    Kaggle publishes no sha256 to pin; its client checks the md5 of each download.

    Raises:
        EncoderError: the name is unknown, or the preset cannot be fetched or is damaged.
        OSError: the cache is not writable.
    """
    cached = cached_preset(name, cache)
    if cached is not None:
        return cached
    preset = find_preset(name)
    target = _named_folder(name, cache)
    with work_folder(target) as work:
        try:
            folder = _download(preset, work, progress)
        except SourceError as error:
            raise _unreachable(name, str(error)) from None
        keep_copy(
            lambda new: write_published(folder, new),
            target,
            work,
            source=f"the KerasHub preset {name}",
            repository=preset.handle,
        )
    return kept_copy(target)


def cached_preset(name: str, cache: Path) -> tuple[Path, Provenance] | None:
    """A preset's cached copy with its record; None if it is missing or damaged."""
    return sound_copy(_named_folder(name, cache)) if _NAME.fullmatch(name) else None


def write_published(preset: Path, folder: Path) -> None:
    """Convert a preset to Hugging Face layout, in an empty folder.

    Raises:
        EncoderError: the preset is invalid; see `keras_hub.py`.
        OSError: the folder is not writable.
    """
    preset_files(preset)
    settings, lowercase = read_preset_settings(preset), read_preset_lowercase(preset)
    vocabulary = read_preset_vocabulary(preset, settings.vocabulary_size)
    write_encoder(
        folder,
        checkpoint_of(settings, read_preset_tensors(preset, settings)),
        Pieces(vocabulary, lowercase),
    )


PRESET_LAYOUT: Final = OtherLayout(
    "a KerasHub preset", "keras_hub-folder-", _READ_AS, preset_files, write_published
)


# === The cache ===


def _named_folder(name: str, cache: Path) -> Path:
    return cache / "encoders" / f"keras_hub-{name}"


# === Fetching ===


def _download(preset: Preset, work: Path, progress: Progress) -> Path:
    """Download the files by Kaggle's client, which has its own cache; returns their folder."""
    handle = preset.handle.removeprefix(_KAGGLE)
    root = Path(os.environ.get("KAGGLEHUB_CACHE") or Path.home() / ".cache" / "kagglehub")
    watched = Watched(work, root / "models" / handle, _FLOAT32 * preset.parameters, PATIENCE)
    progress.stage(f"fetching {PREFIX}{preset.name} from Kaggle", watched.total, "bytes")
    # -P: do not import a kagglehub.py from the current folder
    command = [
        sys.executable,
        "-P",
        "-c",
        _DOWNLOAD,
        handle,
        CONFIG,
        TOKENIZER,
        VOCABULARY,
        WEIGHTS,
    ]
    printed = run_watched(command, watched, progress, explain=_complaint)
    paths = [line.removeprefix("at ") for line in printed.splitlines() if line.startswith("at ")]
    return Path(paths[0]).parent


def _complaint(output: str) -> str:
    if (
        "NameResolutionError" in output
        or "ConnectionError" in output
        or "ProxyError" in output
        or "Timeout" in output
    ):
        return "Kaggle cannot be reached"
    if "404 Client Error" in output:
        return f"Kaggle has no such preset, or it lacks {TOKENIZER}, {VOCABULARY} or {WEIGHTS}"
    return reason(output, "Kaggle's client failed")


def _unreachable(name: str, reason: str) -> EncoderError:
    return EncoderError(
        f"the KerasHub preset {name!r} could not be fetched ({reason})",
        expected="an answer from Kaggle, or the preset in its client's cache",
        fix=(
            f"on a machine that reaches it run `bertcnn encoder pull {PREFIX}{name}` or"
            " kagglehub.model_download, and give the folder here"
        ),
    )
