"""The saved model: a folder of JSON and safetensors in which any change is noticed. Names, schema, hashes, atomic write."""

# HELPERS: read /work/NOTE_TO_BUNDLE_HELPERS.md before you edit this file (the founder removes this line).
from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, Self, TypeVar

import numpy as np
import pydantic
import safetensors
import safetensors.numpy
from pydantic import Field

from bertcnn.errors import BundleError, OutputError, SettingsError, one_line
from bertcnn.files import output_error, put_in_place, resting_place, work_folder, write_new
from bertcnn.settings import Count, EncoderSettings, HeadSettings, Positive, Recipe, Settings, TokenizerSettings

FORMAT: Final = "bertcnn bundle"
SCHEMA_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
CONFIG: Final = "config.json"

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_LARGEST_MANIFEST = 64 * _KIB
_CONTROL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_TRIES = 5  # reading again because somebody saved a new model over the one being read
_SAVE_AGAIN = "save the model again, or copy the whole folder again from where it came"


@dataclass(frozen=True)
class Member:
    """A file of the bundle and the most bytes we are ready to read of it."""

    name: str
    largest: int
    optional: bool = False


MEMBERS: Final = (
    Member(CONFIG, _MIB),
    Member("vocab.txt", 64 * _MIB),
    Member("labels.json", 16 * _MIB),
    Member("model.safetensors", 8 * _GIB),
    Member("calibration.json", 64 * _KIB),
    Member("metrics.json", 256 * _MIB),
    Member("MODEL_CARD.md", 16 * _MIB),
)
_LARGEST = {member.name: member.largest for member in MEMBERS}
_REQUIRED = {member.name for member in MEMBERS if not member.optional}


class BundleConfig(Settings):
    """`config.json`: what is needed to build the model again, and where it came from."""

    schema_version: int = Field(SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION, description="of this file")
    encoder: EncoderSettings
    encoder_name: str = Field(min_length=1, description="catalogue name or folder the training started from")
    head: HeadSettings
    tokenizer: TokenizerSettings
    text_columns: tuple[str, ...] = Field((), description="columns joined into one text, in this order; none for lists of texts")
    label_column: str | None = None
    recipe: Recipe
    seed: Annotated[int, Field(ge=0)]
    versions: dict[str, str] = Field(description="of bertcnn, keras, its backend and python at training")
    created_at: str = Field(description="ISO 8601")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tokenizer.max_tokens > self.encoder.max_positions:
            raise ValueError(f"max_tokens of at most the encoder's {self.encoder.max_positions} positions, not {self.tokenizer.max_tokens}")
        datetime.fromisoformat(self.created_at)
        return self


class Calibration(Settings):
    """`calibration.json`: how logits become probabilities that can be believed (Guo et al. 2017, section 4.2)."""

    temperature: Positive = Field(description="the logits are divided by it")
    fitted_on_rows: Annotated[int, Field(ge=0)] = Field(description="held-out rows it was fitted on")


class _MemberRecord(Settings):
    """What the manifest says of one member."""

    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    bytes: Annotated[int, Field(ge=0)]


class _Manifest(Settings):
    """`manifest.json`; `bundle_id` is the sha256 of its canonical form without that key."""

    format: str
    schema_version: Count
    members: dict[str, _MemberRecord]
    bundle_id: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A saved model in memory.

    Attributes:
        config: how to build it.
        labels: in the order of the model's outputs.
        vocabulary: WordPieces in the order of their ids.
        tensors: weights by name, float32.
        calibration: of its probabilities.
        metrics: JSON object written by the evaluation.
        model_card: Markdown.
        bundle_id: names this exact model; set by `read_bundle`.
    """

    config: BundleConfig
    labels: tuple[str, ...]
    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    calibration: Calibration
    metrics: Mapping[str, Any]
    model_card: str
    bundle_id: str = ""


# === Canonical JSON ===


def canonical_json(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """The one byte form of a JSON value: sorted keys, two spaces, UTF-8, a newline at the end.

    Raises:
        ValueError: a number is not finite or a string is not Unicode text.
    """
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _parse_json(name: str, data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON in a member; duplicate keys, non-finite numbers, lone surrogates and towers of brackets are refused."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys)
        canonical_json(value)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{name} is not usable JSON ({error})", expected="the JSON that was saved", fix=_SAVE_AGAIN) from None
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found


# === The parts: checks shared by reading and writing ===

SettingsType = TypeVar("SettingsType", bound=Settings)
Result = TypeVar("Result")


def _refuse(given: str, expected: str) -> NoReturn:
    raise BundleError(given, expected=expected, fix=_SAVE_AGAIN)


def _object(name: str, value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    if not isinstance(value, dict):
        _refuse(f"{name} holds a {type(value).__name__}", "a JSON object")
    version = value.get("schema_version", SCHEMA_VERSION)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{name} has schema version {version}: the model was written by a newer bertcnn",
            expected=f"schema version {SCHEMA_VERSION} or older",
            fix="install a newer bertcnn, or train again with this one",
        )
    return value


def _settings(name: str, schema: type[SettingsType], value: Any) -> SettingsType:  # noqa: ANN401 - any JSON value
    """`value` as an object of a closed schema."""
    try:
        return schema(**_object(name, value))
    except SettingsError as error:
        raise BundleError(f"{name}: {error.given}", expected=error.expected, fix=_SAVE_AGAIN) from None


def _checked_labels(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    if not isinstance(value, list | tuple) or not all(isinstance(label, str) and label.strip() for label in value):
        _refuse("labels.json holds something other than labels", "a list of texts that are not blank")
    if len(value) < 2 or len(set(value)) != len(value):
        _refuse(f"labels.json holds {len(value)} labels, {len(set(value))} of them different", "at least 2 labels, all different")
    return tuple(value)


def _checked_vocabulary(pieces: tuple[str, ...], size: int) -> tuple[str, ...]:
    if len(pieces) != size:
        _refuse(f"vocab.txt holds {len(pieces):,} WordPieces", f"the encoder's vocabulary size of {size:,}")
    if len(set(pieces)) != len(pieces):
        _refuse("vocab.txt holds a WordPiece twice", "all WordPieces different")
    if any(not piece or "\n" in piece for piece in pieces):
        _refuse("vocab.txt holds an empty WordPiece or one with a line break", "one WordPiece a line")
    missing = [token for token in _CONTROL_TOKENS if token not in pieces]
    if missing:
        _refuse(f"vocab.txt lacks {', '.join(missing)}", f"{', '.join(_CONTROL_TOKENS)}")
    return pieces


def _checked_tensors(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if not tensors:
        _refuse("model.safetensors holds no tensor", "the model's weights")
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32:
            _refuse(f"model.safetensors holds {one_line(name)} as {tensor.dtype}", "float32")
        if not np.isfinite(tensor).all():
            _refuse(f"model.safetensors holds {one_line(name)} with NaN or infinity in it", "finite numbers")
    return dict(tensors)


# === Parts to bytes and back ===


def _members(bundle: Bundle) -> dict[str, bytes]:
    """Each member's bytes.

    Raises:
        BundleError: a part would not be accepted when it is read again.
    """
    try:
        members = {
            CONFIG: canonical_json(bundle.config.model_dump(mode="json")),
            "vocab.txt": "".join(
                f"{piece}\n" for piece in _checked_vocabulary(tuple(bundle.vocabulary), bundle.config.encoder.vocabulary_size)
            ).encode("utf-8"),
            "labels.json": canonical_json(list(_checked_labels(bundle.labels))),
            "model.safetensors": safetensors.numpy.save(
                {name: np.ascontiguousarray(tensor) for name, tensor in _checked_tensors(bundle.tensors).items()}
            ),
            "calibration.json": canonical_json(bundle.calibration.model_dump(mode="json")),
            "metrics.json": canonical_json(_object("metrics.json", dict(bundle.metrics))),
            "MODEL_CARD.md": bundle.model_card.encode("utf-8"),
        }
    except (ValueError, TypeError) as error:
        raise BundleError(
            f"a part of the model cannot be saved ({error})", expected="Unicode text and finite numbers", fix="correct it"
        ) from None
    for name, data in members.items():
        if len(data) > _LARGEST[name]:
            raise BundleError(
                f"{name} would be {len(data):,} bytes",
                expected=f"at most {_LARGEST[name]:,}",
                fix="train with fewer labels or a smaller encoder",
            )
    return members


def _assemble(members: dict[str, bytes], bundle_id: str) -> Bundle:
    """The parts from members whose hashes are right; a forger could have made those, so every part is checked again."""
    config = _config(members)
    lines = _text("vocab.txt", members["vocab.txt"]).split("\n")
    if lines.pop() != "":
        _refuse("vocab.txt does not end with a line break", "one WordPiece a line")
    return Bundle(
        config=config,
        labels=_checked_labels(_parse_json("labels.json", members["labels.json"])),
        vocabulary=_checked_vocabulary(tuple(lines), config.encoder.vocabulary_size),
        tensors=_parse_tensors(members["model.safetensors"]),
        calibration=_settings("calibration.json", Calibration, _parse_json("calibration.json", members["calibration.json"])),
        metrics=_object("metrics.json", _parse_json("metrics.json", members["metrics.json"])),
        model_card=_text("MODEL_CARD.md", members["MODEL_CARD.md"]),
        bundle_id=bundle_id,
    )


def _config(members: dict[str, bytes]) -> BundleConfig:
    return _settings(CONFIG, BundleConfig, _parse_json(CONFIG, members[CONFIG]))


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleError(f"{name} is not UTF-8 text (byte {error.start})", expected="the text that was saved", fix=_SAVE_AGAIN) from None


def _parse_tensors(data: bytes) -> dict[str, np.ndarray]:
    try:
        found = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise BundleError(
            f"model.safetensors is not a safetensors file ({error})",
            expected="tensors as the safetensors library writes them; other kinds of model files are never opened",
            fix=_SAVE_AGAIN,
        ) from None
    tensors = {}
    for name, tensor in found:
        if tensor["dtype"] != "F32":
            _refuse(f"model.safetensors holds {one_line(name)} as {tensor['dtype']}", "F32")
        tensors[name] = np.frombuffer(tensor["data"], "<f4").reshape(tensor["shape"])
    return _checked_tensors(tensors)


# === Writing ===


def check_bundle_target(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a place where `write_bundle` could not save, before hours of training.

    Args:
        folder: where the model is to be saved.
        overwrite: whether an older model there may be replaced.

    Raises:
        OutputError: a file or a folder with something else is there, a model is there and `overwrite` is off, or the place is not writable.
    """
    target = Path(os.path.realpath(folder))
    place = resting_place(target)
    if place.exists():
        _check_replaceable(target, place, overwrite)
    above = next(path for path in target.parents if path.exists())
    if not above.is_dir():
        raise OutputError(f"{above} is a file", expected=f"a folder to save {target.name} in", fix="choose another place")
    if not os.access(above, os.W_OK | os.X_OK):
        raise OutputError(f"{above} is read-only for you", expected="a folder you may write to", fix="choose another place")


def _check_replaceable(target: Path, place: Path, overwrite: bool) -> None:
    """Only an empty folder, or with `overwrite` a bundle, may give way."""
    if not place.is_dir():
        raise OutputError(f"{target} is a file", expected="a folder that does not exist yet", fix="choose another name")
    try:
        names = {entry.name for entry in os.scandir(place)}
    except OSError as error:
        raise output_error(target, error) from None
    if not names:
        return
    foreign = sorted(names - set(_LARGEST) - {MANIFEST})
    if foreign or not _claims_to_be_bundle(place):
        what = f"holds {one_line(foreign[0])}, which is no part of a model" if foreign else "is not a saved model"
        raise OutputError(
            f"{target} {what}", expected="a new folder, or a model saved by bertcnn", fix="choose another place; it is never overwritten"
        )
    if not overwrite:
        raise OutputError(
            f"{target} holds a saved model already",
            expected="a folder that does not exist yet",
            fix="choose another name, or overwrite it with --force",
        )


def _claims_to_be_bundle(place: Path) -> bool:
    """Whether the manifest says so; the rest may be damaged, the model is to be replaced anyway."""
    try:
        manifest = json.loads(_read_file(place, MANIFEST, _LARGEST_MANIFEST))
    except (BundleError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def write_bundle(bundle: Bundle, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
    """Save a model; a kill or a full disk at any moment leaves at `folder` what was there, or all of the new model.

    Args:
        bundle: the model.
        folder: where to; missing folders above it are made.
        overwrite: replace a model that is there. Anything that is not a model is never replaced.

    Returns:
        The bundle id.

    Raises:
        OutputError: the place cannot be written, or is taken.
        BundleError: a part of the model is not fit to be saved, such as weights with NaN.
    """
    check_bundle_target(folder, overwrite)
    members = _members(bundle)
    records = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items()}
    manifest: dict[str, Any] = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "members": records}
    manifest["bundle_id"] = hashlib.sha256(canonical_json(manifest)).hexdigest()
    target = Path(os.path.realpath(folder))
    try:
        with work_folder(target) as work:
            check_bundle_target(folder, overwrite)  # again: what a killed save had moved away is back now
            new = work / "new"
            new.mkdir()
            for name, data in members.items():
                write_new(new / name, data)
            write_new(new / MANIFEST, canonical_json(manifest))
            put_in_place(new, target, work)
    except OSError as error:
        raise output_error(target, error) from None
    return str(manifest["bundle_id"])


# === Reading ===


def read_bundle(folder: str | os.PathLike[str]) -> Bundle:
    """Load a saved model, or say what is wrong with it. No code of the folder ever runs.

    Args:
        folder: as given to `write_bundle`.

    Raises:
        BundleError: not a model folder, written by a newer version, or not exactly what was saved.
    """
    target = Path(folder)
    manifest, members = _retried(target, lambda place: _read_members(target, place))
    return _assemble(members, manifest.bundle_id)


def read_config(folder: str | os.PathLike[str]) -> BundleConfig:
    """The configuration alone of a saved model, in milliseconds; the other members are not looked at.

    Args:
        folder: as given to `write_bundle`.

    Raises:
        BundleError: as in `read_bundle`, for the manifest and `config.json`.
    """
    target = Path(folder)
    return _retried(target, lambda place: _config(_read_members(target, place, {CONFIG})[1]))


def _retried(target: Path, read: Callable[[Path], Result]) -> Result:
    """Read again when the folder was replaced in the middle of it; what is broken otherwise is broken."""
    real = Path(os.path.realpath(target))
    for _ in range(_TRIES):
        place = resting_place(real)
        identity = _identity(place)
        try:
            return read(place)
        except BundleError as error:
            if identity == _identity(resting_place(real)):
                raise
            latest = error
    raise latest


def _identity(place: Path) -> tuple[int, int] | None:
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_members(target: Path, place: Path, wanted: Collection[str] | None = None) -> tuple[_Manifest, dict[str, bytes]]:
    """The manifest and the bytes of the `wanted` members (of all), each with the hash that was saved."""
    names = _names(target, place)
    manifest = _parse_manifest(_read_file(place, MANIFEST, _LARGEST_MANIFEST))
    _check_names(names, set(manifest.members))
    members = {}
    for name, record in manifest.members.items():
        if wanted is None or name in wanted:
            members[name] = _read_file(place, name, _LARGEST[name], record.bytes)
            if hashlib.sha256(members[name]).hexdigest() != record.sha256:
                _changed(name, "its content is not what was saved")
    return manifest, members


def _names(target: Path, place: Path) -> set[str]:
    """The names in a folder that looks like a bundle."""
    expected, fix = "a folder saved by bertcnn", "give the folder that `bertcnn train --out` or `save` wrote"
    if not place.exists():
        raise BundleError(f"{target} does not exist", expected=expected, fix=fix)
    if not place.is_dir():
        raise BundleError(f"{target} is a file", expected=expected, fix=fix)
    try:
        names = {entry.name for entry in os.scandir(place)}
    except OSError as error:
        raise BundleError(f"{target} cannot be read ({error.strerror})", expected=expected, fix="ask for the right to read it") from None
    if not names:
        raise BundleError(f"{target} is an empty folder", expected=expected, fix=fix)
    if MANIFEST not in names:
        some = ", ".join(sorted(names)[:3])
        raise BundleError(f"{target} is not a model: it has no {MANIFEST} (it holds {one_line(some)})", expected=expected, fix=fix)
    return names


def _check_names(names: set[str], listed: set[str]) -> None:
    """The folder holds exactly what the manifest lists."""
    missing = sorted(listed - names)
    if missing:
        _changed(missing[0], "it is missing")
    unknown = sorted(names - listed - {MANIFEST})
    if unknown:
        raise BundleError(
            f"the model folder holds {one_line(unknown[0])}, which was not saved with the model",
            expected=f"only {MANIFEST} and the files it lists",
            fix="move it elsewhere if you know what it is; otherwise get the model again",
        )


def _changed(name: str, what: str) -> NoReturn:
    _refuse(f"{name} was changed after the model was saved: {what}", "the files exactly as they were saved")


def _read_file(place: Path, name: str, largest: int, expected: int | None = None) -> bytes:
    """All bytes of a member through one open; never more than `largest`, never through a link."""
    try:
        handle = os.open(
            place / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        )
    except OSError as error:
        link = (place / name).is_symlink()
        _changed(name, "it is a symbolic link") if link else _refuse(f"{name} cannot be read ({error.strerror})", "a file you may read")
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            _changed(name, "it is not a file")
        if expected is not None and status.st_size != expected:
            _changed(name, f"it has {status.st_size:,} bytes instead of {expected:,}")
        if status.st_size > largest:
            _refuse(f"{name} has {status.st_size:,} bytes", f"at most {largest:,}")
        try:
            data = file.read(status.st_size + 1)
        except OSError as error:
            _refuse(f"{name} cannot be read ({error.strerror})", "a file you may read")
    if len(data) != status.st_size:
        _changed(name, "its size changed while it was being read")
    return data


def _parse_manifest(data: bytes) -> _Manifest:
    """The manifest, which must be the canonical form of itself and hash to the id it carries."""
    value = _parse_json(MANIFEST, data)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        _refuse(f"{MANIFEST} is not that of a bertcnn model", f"the format {FORMAT!r}")
    manifest = _settings(MANIFEST, _Manifest, value)
    rest = {key: part for key, part in value.items() if key != "bundle_id"}
    if data != canonical_json(value) or hashlib.sha256(canonical_json(rest)).hexdigest() != manifest.bundle_id:
        _changed(MANIFEST, "it no longer agrees with the id it carries")
    listed = set(manifest.members)
    if not _REQUIRED <= listed <= set(_LARGEST):
        odd = sorted((_REQUIRED - listed) | (listed - set(_LARGEST)))
        _refuse(f"{MANIFEST} lists other members than a model has ({one_line(odd[0])})", f"{', '.join(sorted(_REQUIRED))}")
    return manifest
