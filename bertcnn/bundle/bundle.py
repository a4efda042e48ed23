"""The saved model: a folder of JSON and safetensors in which any change is noticed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy

from bertcnn.bundle.checks import (
    LONGEST_LABEL,
    checked_calibration,
    checked_decisions,
    checked_labels,
    checked_scope,
    checked_vocabulary,
    hierarchy_of,
    shapes_of,
)
from bertcnn.bundle.engine import ENGINE, SavedEngine
from bertcnn.bundle.schemas import (
    MOST_LABELS,
    SCHEMA_VERSION,
    BundleConfig,
    Calibration,
    Decisions,
    Metrics,
)
from bertcnn.bundle.scope import FILE as SCOPE
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.bundle.tensors import (
    LARGEST_HEADER,
    LENGTH_BYTES,
    check_shapes,
    check_tensors,
    parse_tensors,
)
from bertcnn.data.hierarchy import Hierarchy
from bertcnn.errors import BundleError, LabelError
from bertcnn.models.shapes import Shapes, parameters_of
from bertcnn.storage.files import sync_folder, write_new
from bertcnn.storage.folders import check_target, new_folder, real_folder
from bertcnn.storage.manifest import (
    MANIFEST,
    FolderFormat,
    Member,
    SettingsType,
    canonical_json,
    check_saved_target,
    object_of,
    parse_json,
    read_members,
    refuse,
    settings_of,
    write_manifest,
)

CONFIG: Final = "config.json"
_WEIGHTS: Final = "model.safetensors"

_MIB, _GIB = 1 << 20, 1 << 30
_NO_REPORT = (
    "<!DOCTYPE html><title>No report</title><p>This model was saved without a report. bertcnn"
    " evaluate --report makes one.\n"
)


MEMBERS: Final = (  # what labels.json holds, the others have room for, see `check_room_for_labels`
    Member(CONFIG, 16 * _MIB),
    Member("vocab.txt", 32 * _MIB),
    Member("labels.json", 16 * _MIB),
    Member(_WEIGHTS, 8 * _GIB),
    Member("calibration.json", 16 * _MIB),
    Member("decisions.json", 32 * _MIB),
    Member(SCOPE, 64 * _MIB),
    Member("metrics.json", 64 * _MIB),
    Member("MODEL_CARD.md", 64 * _MIB),
    Member("report.html", 128 * _MIB),
)
FORMAT: Final = FolderFormat("bertcnn bundle", SCHEMA_VERSION, MEMBERS, bulk=_WEIGHTS)


@dataclass(frozen=True, eq=False)
class Bundle:
    """A saved model in memory.

    Attributes:
        config: how to build it.
        labels: in the order of the model's outputs.
        vocabulary: WordPieces in the order of their ids.
        tensors: weights by name, float32; empty if they were not asked for.
        calibration: of its probabilities.
        metrics: JSON object written by the evaluation.
        model_card: Markdown.
        decisions: which answers are automatic.
        scope: which texts are out of scope.
        report: HTML; empty in a model saved without one.
        bundle_id: names this exact model; set by `read_bundle`.
        engine: the same model compiled, to be saved with it; not read by `read_bundle`.
    """

    config: BundleConfig
    labels: tuple[str, ...]
    vocabulary: tuple[str, ...]
    tensors: Mapping[str, np.ndarray]
    calibration: Calibration
    metrics: Mapping[str, Any]
    model_card: str
    decisions: Decisions = field(default_factory=Decisions)
    scope: OutOfScopeDetector = field(default_factory=OutOfScopeDetector)
    report: str = ""
    bundle_id: str = ""
    engine: SavedEngine | None = None

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels."""
        return self.config.label_separator is not None

    @property
    def hierarchy(self) -> Hierarchy:
        """Of the labels; one without parents where a text may have several labels."""
        return hierarchy_of(self.labels, self.config)


# === Parts to bytes and back ===


def _members(bundle: Bundle) -> dict[str, bytes]:
    """Each member's bytes.

    Raises:
        BundleError: a part would not be accepted when it is read again.
    """
    try:
        members = {
            CONFIG: canonical_json(bundle.config.model_dump(mode="json")),
            "vocab.txt": (
                "".join(
                    f"{piece}\n"
                    for piece in checked_vocabulary(
                        tuple(bundle.vocabulary), bundle.config.encoder.vocabulary_size
                    )
                ).encode("utf-8")
            ),
            "labels.json": canonical_json(list(checked_labels(bundle.labels, bundle.config))),
            _WEIGHTS: _tensor_bytes(
                _WEIGHTS, bundle.tensors, shapes_of(bundle.config, tuple(bundle.labels))
            ),
            SCOPE: _tensor_bytes(
                SCOPE,
                checked_scope(
                    bundle.scope.tensors(), bundle.config, tuple(bundle.labels)
                ).tensors(),
            ),
            "calibration.json": canonical_json(
                checked_calibration(
                    bundle.calibration, bundle.config, tuple(bundle.labels)
                ).model_dump(mode="json")
            ),
            "decisions.json": canonical_json(
                checked_decisions(bundle.decisions, bundle.config, tuple(bundle.labels)).model_dump(
                    mode="json"
                )
            ),
            "metrics.json": canonical_json(_metrics(dict(bundle.metrics))),
            "MODEL_CARD.md": bundle.model_card.encode("utf-8"),
            "report.html": (bundle.report or _NO_REPORT).encode("utf-8"),
        }
    except (ValueError, TypeError) as error:
        raise BundleError(
            f"a part of the model cannot be saved ({error})",
            expected="Unicode text and finite numbers",
            fix="correct it",
        ) from None
    for name, data in members.items():
        if len(data) > FORMAT.largest[name]:
            raise BundleError(
                f"{name} would be {len(data):,} bytes",
                expected=f"at most {FORMAT.largest[name]:,}",
                fix="train with fewer labels or a smaller encoder",
            )
    return members


def _assemble(members: dict[str, bytes], bundle_id: str) -> Bundle:
    """The parts from members whose hashes are right.

    A forger could have made those, so every part is checked again.
    """
    config = _config(members)
    if (count := members["vocab.txt"].count(b"\n")) > config.encoder.vocabulary_size:
        refuse(
            f"vocab.txt holds {count:,} WordPieces",
            f"the encoder's vocabulary size of {config.encoder.vocabulary_size:,}",
        )
    lines = _text("vocab.txt", members["vocab.txt"]).split("\n")
    if lines.pop() != "":
        refuse("vocab.txt does not end with a line break", "one WordPiece a line")
    labels = _labels(members, config)
    return Bundle(
        config=config,
        labels=labels,
        vocabulary=checked_vocabulary(tuple(lines), config.encoder.vocabulary_size),
        tensors=(
            parse_tensors(_WEIGHTS, members[_WEIGHTS], shapes_of(config, labels))
            if _WEIGHTS in members
            else {}
        ),
        calibration=checked_calibration(
            _settings(members, "calibration.json", Calibration), config, labels
        ),
        metrics=_metrics(parse_json("metrics.json", members["metrics.json"])),
        model_card=_text("MODEL_CARD.md", members["MODEL_CARD.md"]),
        decisions=checked_decisions(
            _settings(members, "decisions.json", Decisions), config, labels
        ),
        scope=checked_scope(parse_tensors(SCOPE, members[SCOPE]), config, labels),
        report=_text("report.html", members["report.html"]).removeprefix(_NO_REPORT),
        bundle_id=bundle_id,
    )


def _labels(members: Mapping[str, bytes], config: BundleConfig) -> tuple[str, ...]:
    return checked_labels(parse_json("labels.json", members["labels.json"]), config)


def _config(members: Mapping[str, bytes]) -> BundleConfig:
    return _settings(members, CONFIG, BundleConfig)


def _settings(members: Mapping[str, bytes], name: str, schema: type[SettingsType]) -> SettingsType:
    return settings_of(name, schema, parse_json(name, members[name]), SCHEMA_VERSION)


def _metrics(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """The object of `metrics.json`, if the figures that are shown are figures."""
    found = object_of("metrics.json", value, SCHEMA_VERSION)
    shown = {name: found[name] for name in Metrics.model_fields if name in found}
    settings_of("metrics.json", Metrics, shown, SCHEMA_VERSION)
    return found


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"{name} is not UTF-8 text (byte {error.start})", "the text that was saved")


def _tensor_bytes(
    member: str, tensors: Mapping[str, np.ndarray], wanted: Shapes | None = None
) -> bytes:
    checked = check_tensors(member, tensors)
    if wanted is not None:
        check_shapes(member, {name: tensor.shape for name, tensor in checked.items()}, wanted)
    return safetensors.numpy.save(
        {name: np.asarray(tensor, order="C") for name, tensor in checked.items()}
    )


# === Writing ===


def check_room_for_labels(labels: Sequence[str]) -> None:
    """Refuse, before hours of training, more or longer labels than a model can be saved with.

    Raises:
        LabelError: they take more room than there is.
    """
    largest = FORMAT.largest["labels.json"]
    longest = max(map(len, labels), default=0)
    if len(labels) > MOST_LABELS or longest > LONGEST_LABEL:
        raise LabelError(
            f"{len(labels):,} labels of up to {longest:,} characters",
            expected=f"at most {MOST_LABELS:,} labels of {LONGEST_LABEL:,} characters",
            fix="train with fewer or shorter labels; is it the column of the labels?",
        )
    size = sum(
        len(json.dumps(label, ensure_ascii=False).encode("utf-8", "replace")) + len(",\n  ")
        for label in labels
    )
    if size + len("[\n\n]\n") > largest:
        raise LabelError(
            f"{len(labels):,} labels whose names take {size:,} bytes",
            expected=f"at most {largest:,} bytes",
            fix="train with fewer or shorter labels; is it the column of the labels?",
        )


def check_bundle_target(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse a place where `write_bundle` could not save, before hours of training.

    Args:
        folder: where the model is to be saved.
        overwrite: whether an older model there may be replaced.

    Raises:
        OutputError: a file or a folder with something else is there, a model is there and
            `overwrite` is off, or the place is not writable.
    """
    check_target(folder, lambda target: _check_replaceable(target, overwrite))


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_saved_target(FORMAT, "model", target, overwrite, more=(ENGINE,))


def write_bundle(bundle: Bundle, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
    """Save a model, all of it or nothing.

    A kill or a full disk leaves at `folder` what was there, or all of the new model.

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
    bundle_id, manifest = write_manifest(FORMAT, members)
    with new_folder(real_folder(folder), overwrite=overwrite, check=_check_replaceable) as new:
        for name, data in members.items():
            write_new(new / name, data)
        write_new(new / MANIFEST, manifest)
        if bundle.engine is not None:
            (new / ENGINE).mkdir()
            for name, data in bundle.engine.files(bundle_id).items():
                write_new(new / ENGINE / name, data)
            sync_folder(new / ENGINE)
    return bundle_id


# === Reading ===


def read_bundle(folder: str | os.PathLike[str], *, weights: bool = True) -> Bundle:
    """Load a saved model, or say what is wrong with it. No code of the folder ever runs.

    What is read is compared with its hash. Weights that are not read only have the right length
    then, by the manifest and by `config.json`.

    Args:
        folder: as given to `write_bundle`.
        weights: whether to read and check the weights too; an engine that was saved with the model
            does not need them.

    Raises:
        BundleError: not a model folder, of another schema version, or not exactly what was saved.
    """
    wanted = None if weights else set(FORMAT.largest) - {_WEIGHTS}
    bundle_id, members = read_members(Path(folder), FORMAT, wanted, _check_size)
    return _assemble(members, bundle_id)


def with_weights(bundle: Bundle, folder: str | os.PathLike[str]) -> Bundle:
    """A model that was read without its weights, with them.

    Args:
        bundle: the model.
        folder: from which it was read.

    Raises:
        BundleError: the weights are not exactly what was saved, or another model was saved there
            since.
    """
    bundle_id, members = read_members(Path(folder), FORMAT, {_WEIGHTS})
    if bundle_id != bundle.bundle_id:
        raise BundleError(
            f"another model was saved in {folder} meanwhile",
            expected="the same model",
            fix="load it again",
        )
    return replace(
        bundle,
        tensors=parse_tensors(_WEIGHTS, members[_WEIGHTS], shapes_of(bundle.config, bundle.labels)),
    )


def _check_size(members: Mapping[str, bytes], size: int) -> None:
    """Refuse weights of another length than the other members ask for, before they are read."""
    config = _config(members)
    labels = _labels(members, config)
    least = 4 * parameters_of(shapes_of(config, labels))
    if not least <= size <= least + LENGTH_BYTES + LARGEST_HEADER:
        refuse(
            f"{_WEIGHTS} has {size:,} bytes",
            f"the {least:,} of the weights that {CONFIG} and labels.json describe, and a header",
        )


def read_config(folder: str | os.PathLike[str]) -> BundleConfig:
    """The configuration alone of a saved model, in milliseconds.

    The other members are not looked at.

    Args:
        folder: as given to `write_bundle`.

    Raises:
        BundleError: as in `read_bundle`, for the manifest and `config.json`.
    """
    return _config(read_members(Path(folder), FORMAT, {CONFIG})[1])


def read_metrics(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The figures alone of a saved model, in milliseconds; other members are not looked at.

    Args:
        folder: as given to `write_bundle`.

    Raises:
        BundleError: as in `read_bundle`, for the manifest and `metrics.json`.
    """
    members = read_members(Path(folder), FORMAT, {"metrics.json"})[1]
    return _metrics(parse_json("metrics.json", members["metrics.json"]))
