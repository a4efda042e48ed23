"""The saved model: a folder of JSON and safetensors that detects any change."""

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
from bertcnn.data import Hierarchy
from bertcnn.errors import BundleError, LabelError
from bertcnn.shapes import Shapes, parameters_of
from bertcnn.storage import (
    MANIFEST,
    FolderFormat,
    Member,
    SettingsType,
    canonical_json,
    check_saved_target,
    check_target,
    new_folder,
    object_of,
    parse_json,
    read_members,
    real_folder,
    refuse,
    settings_of,
    sync_folder,
    write_manifest,
    write_new,
)

CONFIG: Final = "config.json"
_WEIGHTS: Final = "model.safetensors"

_MIB, _GIB = 1 << 20, 1 << 30
_NO_REPORT = (
    "<!DOCTYPE html><title>No report</title><p>This model was saved without a report. bertcnn"
    " evaluate --report makes one.\n"
)


MEMBERS: Final = (  # labels.json has the least room for labels, see `check_room_for_labels`
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
        labels: in the order of the model's outputs.
        vocabulary: WordPieces in the order of their ids.
        tensors: float32 weights by name; empty if not read.
        metrics: JSON object written by the evaluation.
        report: HTML; empty if the model was saved without one.
        bundle_id: identifies this exact model; set by `read_bundle`.
        engine: the compiled model, to be saved with it; not set by `read_bundle`.
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
        """The labels' hierarchy; without parents if a text may have several labels."""
        return hierarchy_of(self.labels, self.config)


# === Parts to bytes and back ===


def _members(bundle: Bundle) -> dict[str, bytes]:
    """Each member's bytes.

    Raises:
        BundleError: `read_bundle` would refuse a part.
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
    """Build the bundle from members with matching hashes.

    A forger could have computed the hashes, so every part is validated again.
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
    metrics = object_of("metrics.json", value, SCHEMA_VERSION)
    shown = {name: metrics[name] for name in Metrics.model_fields if name in metrics}
    settings_of("metrics.json", Metrics, shown, SCHEMA_VERSION)
    return metrics


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"{name} is not UTF-8 text (byte {error.start})", "the text that was saved")


def _tensor_bytes(
    member: str, tensors: Mapping[str, np.ndarray], shapes: Shapes | None = None
) -> bytes:
    checked = check_tensors(member, tensors)
    if shapes is not None:
        check_shapes(member, {name: tensor.shape for name, tensor in checked.items()}, shapes)
    return safetensors.numpy.save(
        {name: np.asarray(tensor, order="C") for name, tensor in checked.items()}
    )


# === Writing ===


def check_room_for_labels(labels: Sequence[str]) -> None:
    """Refuse labels that are too many or too long to be saved, before the training.

    Raises:
        LabelError: the labels exceed the size limit.
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
    """Refuse a folder that `write_bundle` could not write, before the training.

    Raises:
        OutputError: other content is there, or a model without `overwrite`, or it is not writable.
    """
    check_target(folder, lambda target: _check_replaceable(target, overwrite))


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_saved_target(FORMAT, "model", target, overwrite, more=(ENGINE,))


def write_bundle(bundle: Bundle, folder: str | os.PathLike[str], *, overwrite: bool = False) -> str:
    """Save a model atomically and return its bundle id.

    After a kill or with a full disk, `folder` has either its old content or all of the new model.
    Missing parent folders are created. `overwrite` replaces a model, never anything else.

    Raises:
        OutputError: the folder is not writable, or something is there already.
        BundleError: a part cannot be saved, such as weights with NaN.
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
    """Load and verify a saved model. Code from the folder never runs.

    Everything that is read is compared with its hash. With `weights=False` only the weights' length
    is checked, which is enough to run a saved engine.

    Raises:
        BundleError: the folder is not a model, has another schema version, or was changed.
    """
    names = None if weights else set(FORMAT.largest) - {_WEIGHTS}
    bundle_id, members = read_members(Path(folder), FORMAT, names, _check_size)
    return _assemble(members, bundle_id)


def with_weights(bundle: Bundle, folder: str | os.PathLike[str]) -> Bundle:
    """A model that was read without weights, with its weights from `folder`.

    Raises:
        BundleError: the weights were changed after saving, or the folder has another model now.
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
    """Refuse weights whose length does not fit the other members, before reading them."""
    config = _config(members)
    labels = _labels(members, config)
    least = 4 * parameters_of(shapes_of(config, labels))
    if not least <= size <= least + LENGTH_BYTES + LARGEST_HEADER:
        refuse(
            f"{_WEIGHTS} has {size:,} bytes",
            f"the {least:,} of the weights that {CONFIG} and labels.json describe, and a header",
        )


def read_id(folder: str | os.PathLike[str]) -> str:
    """Read only the id of a saved model, in milliseconds.

    Raises:
        BundleError: as in `read_bundle`, for the manifest.
    """
    return read_members(Path(folder), FORMAT, ())[0]


def read_config(folder: str | os.PathLike[str]) -> BundleConfig:
    """Read only the configuration of a saved model, in milliseconds.

    Raises:
        BundleError: as in `read_bundle`, for the manifest and `config.json`.
    """
    return _config(read_members(Path(folder), FORMAT, {CONFIG})[1])


def read_metrics(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read only the figures of a saved model, in milliseconds.

    Raises:
        BundleError: as in `read_bundle`, for the manifest and `metrics.json`.
    """
    members = read_members(Path(folder), FORMAT, {"metrics.json"})[1]
    return _metrics(parse_json("metrics.json", members["metrics.json"]))
