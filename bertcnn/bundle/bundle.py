"""The saved model: a folder of JSON and safetensors in which any change is noticed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import pydantic
import safetensors.numpy
from pydantic import Field

from bertcnn.bundle.engine import ENGINE, SavedEngine
from bertcnn.bundle.scope import FILE as SCOPE
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.bundle.tensors import (
    LARGEST_HEADER,
    LENGTH_BYTES,
    check_shapes,
    check_tensors,
    parse_tensors,
)
from bertcnn.data.hierarchy import AUTO, LONGEST_SEPARATOR, MOST_LEVELS, Hierarchy
from bertcnn.errors import BundleError, LabelError, one_line
from bertcnn.models.shapes import Shapes, classifier_shapes, parameters_of
from bertcnn.settings import (
    EncoderSettings,
    HeadSettings,
    PrecisionTargets,
    Recipe,
    Settings,
    TokenizerSettings,
)
from bertcnn.storage.files import sync_folder, write_new
from bertcnn.storage.folders import (
    check_replaceable,
    check_target,
    is_debris,
    new_folder,
    real_folder,
)
from bertcnn.storage.manifest import (
    MANIFEST,
    FolderFormat,
    Member,
    SettingsType,
    canonical_json,
    claims_to_be,
    object_of,
    parse_json,
    read_members,
    refuse,
    settings_of,
    write_manifest,
)

SCHEMA_VERSION: Final = 1
CONFIG: Final = "config.json"
_WEIGHTS: Final = "model.safetensors"

_MIB, _GIB = 1 << 20, 1 << 30
_MOST_LABELS, _LONGEST_LABEL = 100_000, 1 << 16  # of which the second is in characters
_MOST_MEMBERSHIPS = 1 << 26  # places in the table of labels and parents
_MOST_HELD_OUT = 1 << 17
_LONGEST_NAME = 1 << 16  # characters of a path
_NO_REPORT = (
    "<!DOCTYPE html><title>No report</title><p>This model was saved without a report. bertcnn"
    " evaluate --report makes one.\n"
)
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_CONTROL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


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


Share = Annotated[float, Field(ge=0.0, le=1.0)]
OfRows = Field((), max_length=_MOST_HELD_OUT)


class BundleConfig(Settings):
    """`config.json`: what is needed to build the model again, and where it came from."""

    schema_version: Literal[1] = Field(SCHEMA_VERSION, description="of this file")
    encoder: EncoderSettings
    encoder_name: str = Field(
        min_length=1,
        max_length=_LONGEST_NAME,
        description="catalogue name or folder the training started from",
    )
    head: HeadSettings
    tokenizer: TokenizerSettings
    text_columns: tuple[str, ...] = Field(
        (),
        max_length=1 << 14,
        description="columns joined into one text, in this order; none for lists of texts",
    )
    label_column: str | None = None
    label_separator: str | None = Field(
        None,
        description=(
            "between the labels of a row, '[]' for lists, if a row may have several; null where"
            " each has one"
        ),
    )
    integer_labels: bool = Field(
        False,
        description=(
            "whether the labels were integers, as which a loaded classifier gives them again"
        ),
    )
    boolean_labels: bool = Field(False, description="whether they were booleans, likewise")
    label_levels: str = Field(
        AUTO,
        min_length=1,
        max_length=LONGEST_SEPARATOR,
        description="between a label's levels; 'no' for none, 'auto' as in `Hierarchy.of`",
    )
    merged_labels: dict[str, str] = Field(
        {},
        max_length=_MOST_LABELS,
        description="labels of the training file that were too rare, and what they became part of",
    )
    recipe: Recipe
    seed: Annotated[int, Field(ge=0)]
    versions: dict[str, str] = Field(
        max_length=64, description="of bertcnn, keras, its backend and python at training"
    )
    created_at: str = Field(max_length=64, description="ISO 8601")

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tokenizer.max_tokens > self.encoder.max_positions:
            raise ValueError(
                f"max_tokens of at most the encoder's {self.encoder.max_positions} positions, not"
                f" {self.tokenizer.max_tokens}"
            )
        if not self.label_levels.strip():
            raise ValueError(f"label_levels that are not blank, not {self.label_levels!r}")
        try:
            datetime.fromisoformat(self.created_at)
        except ValueError:
            raise ValueError(
                f"created_at as an ISO 8601 time, not {one_line(self.created_at)}"
            ) from None
        return self


class Calibration(Settings):
    """`calibration.json`: how logits become probabilities that can be believed (Guo et al. 2017, section 4.2)."""

    temperature: float = Field(
        ge=0.001,
        le=100,
        description="the logits are divided by it; one that was fitted is within 0.05 and 20",
    )
    fitted_on_rows: Annotated[int, Field(ge=0)] = Field(
        description="held-out rows it was fitted on"
    )
    label_thresholds: tuple[Share, ...] = Field(
        (),
        max_length=_MOST_LABELS,
        description=(
            "where a row may have several labels: from which probability on each is given, in the"
            " model's order"
        ),
    )


class HeldOutParents(Settings):
    """The most probable parents of one level, on the rows of `HeldOut` and in their order."""

    confidence: tuple[Share, ...] = OfRows
    right: tuple[bool, ...] = OfRows


class HeldOut(Settings):
    """What the model answered on the held-out rows, the most confident answer first.

    Numbers, and nothing of their texts.
    """

    confidence: tuple[Share, ...] = OfRows
    predicted: tuple[Annotated[int, Field(ge=0, lt=_MOST_LABELS)], ...] = Field(
        (), max_length=_MOST_HELD_OUT, description="places in the model's labels"
    )
    right: tuple[bool, ...] = OfRows
    out_of_scope: int = Field(
        0,
        ge=0,
        description=(
            "further held-out rows, out of scope or without a label, and so never automatic"
        ),
    )
    parents: tuple[HeldOutParents, ...] = Field(
        (),
        max_length=MOST_LEVELS,
        description="of labels with levels: each level's answers, the deepest first",
    )

    @pydantic.model_validator(mode="after")
    def _same_rows(self) -> Self:
        if not len(self.confidence) == len(self.predicted) == len(self.right):
            raise ValueError("confidence, predicted and right of the same rows")
        if any(
            not len(level.confidence) == len(level.right) == len(self.right)
            for level in self.parents
        ):
            raise ValueError("parents of the same rows")
        return self


class Decisions(Settings):
    """`decisions.json`: from which confidence on an answer is automatic.

    Without thresholds nothing is.
    """

    auto_precision: PrecisionTargets = PrecisionTargets()
    error_probability: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.1, description="with which a threshold misses its target"
    )
    thresholds: tuple[Share | None, ...] = Field(
        (),
        max_length=_MOST_LABELS,
        description="of each label, in the model's order; null where no confidence is enough",
    )
    own_rows: tuple[str, ...] = Field(
        (),
        max_length=_MOST_LABELS,
        description="labels whose threshold rests on their own rows, not on all",
    )
    parent_thresholds: tuple[Share | None, ...] = Field(
        (),
        max_length=MOST_LEVELS,
        description=(
            "of each level of parents, the deepest first: for texts whose label is not certain"
            " enough"
        ),
    )
    reachable: float | None = Field(
        None,
        description=(
            "the highest precision that the held-out rows can show, where that is below the target"
        ),
    )
    held_out: HeldOut = HeldOut()

    def limits(self, labels: int) -> np.ndarray:
        """The confidence from which on an answer is automatic, float32 [labels].

        Infinite where none is.
        """
        given = [np.inf if threshold is None else threshold for threshold in self.thresholds]
        return np.array(given or [np.inf] * labels, np.float32)


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


def hierarchy_of(labels: tuple[str, ...], config: BundleConfig) -> Hierarchy:
    """The hierarchy of the labels' names; without parents where a text may have several labels."""
    if config.label_separator is not None:
        return Hierarchy(labels, ())
    found = Hierarchy.of(labels, config.label_levels)
    if len(found.labels) * len(found.parents) > _MOST_MEMBERSHIPS:
        refuse(
            f"labels.json holds {len(found.labels):,} labels with {len(found.parents):,} parents",
            "fewer labels with levels",
        )
    return found


# === The parts: checks shared by reading and writing ===


def _checked_labels(value: Any, config: BundleConfig) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    if not isinstance(value, list | tuple) or not all(
        isinstance(label, str) and label.strip() for label in value
    ):
        refuse(
            "labels.json holds something other than labels", "a list of texts that are not blank"
        )
    if len(value) < 2 or len(set(value)) != len(value):
        refuse(
            f"labels.json holds {len(value)} labels, {len(set(value))} of them different",
            "at least 2 labels, all different",
        )
    if config.integer_labels and not all(_INTEGER.fullmatch(label) for label in value):
        refuse("labels.json holds labels that are no integers", "integers, by config.json")
    if config.boolean_labels and (config.integer_labels or set(value) != {"False", "True"}):
        refuse(
            "labels.json holds labels that are no booleans", "'False' and 'True', by config.json"
        )
    if len(value) > _MOST_LABELS or max(map(len, value)) > _LONGEST_LABEL:
        refuse(
            f"labels.json holds {len(value):,} labels of up to {max(map(len, value)):,} characters",
            f"at most {_MOST_LABELS:,} labels of {_LONGEST_LABEL:,} characters",
        )
    return tuple(value)


def _checked_calibration(
    calibration: Calibration, config: BundleConfig, labels: tuple[str, ...]
) -> Calibration:
    wanted = 0 if config.label_separator is None else len(labels)
    if len(calibration.label_thresholds) != wanted:
        refuse(
            f"calibration.json holds {len(calibration.label_thresholds)} label_thresholds",
            f"{wanted}, by config.json",
        )
    return calibration


def _checked_decisions(
    decisions: Decisions, config: BundleConfig, labels: tuple[str, ...]
) -> Decisions:
    if len(decisions.thresholds) not in (0, len(labels)):
        refuse(
            f"decisions.json holds {len(decisions.thresholds)} thresholds",
            f"one for each of the {len(labels)} labels",
        )
    levels = len(hierarchy_of(labels, config).levels)
    for name, given in (
        ("parent_thresholds", decisions.parent_thresholds),
        ("held_out.parents", decisions.held_out.parents),
    ):
        if len(given) not in (0, levels):
            refuse(
                f"decisions.json holds {len(given)} {name}",
                f"one for each of the {levels} levels of parents that the labels have",
            )
    if max(decisions.held_out.predicted, default=0) >= len(labels):
        refuse(
            "decisions.json names a label that the model does not have",
            f"places in its {len(labels)} labels",
        )
    return decisions


def _checked_vocabulary(pieces: tuple[str, ...], size: int) -> tuple[str, ...]:
    if len(pieces) != size:
        refuse(
            f"vocab.txt holds {len(pieces):,} WordPieces",
            f"the encoder's vocabulary size of {size:,}",
        )
    if len(set(pieces)) != len(pieces):
        refuse("vocab.txt holds a WordPiece twice", "all WordPieces different")
    if any(not piece or "\n" in piece for piece in pieces):
        refuse(
            "vocab.txt holds an empty WordPiece or one with a line break", "one WordPiece a line"
        )
    missing = [token for token in _CONTROL_TOKENS if token not in pieces]
    if missing:
        refuse(f"vocab.txt lacks {', '.join(missing)}", f"{', '.join(_CONTROL_TOKENS)}")
    return pieces


def _shapes(config: BundleConfig, labels: tuple[str, ...]) -> Shapes:
    """The shapes of the model's weights, by name."""
    return classifier_shapes(config.encoder, config.head, len(labels))


def _checked_scope(
    tensors: Mapping[str, np.ndarray], config: BundleConfig, labels: tuple[str, ...]
) -> OutOfScopeDetector:
    return OutOfScopeDetector.of_tensors(
        check_tensors(SCOPE, tensors), len(labels), config.encoder.width
    )


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
                    for piece in _checked_vocabulary(
                        tuple(bundle.vocabulary), bundle.config.encoder.vocabulary_size
                    )
                ).encode("utf-8")
            ),
            "labels.json": canonical_json(list(_checked_labels(bundle.labels, bundle.config))),
            _WEIGHTS: _tensor_bytes(
                _WEIGHTS, bundle.tensors, _shapes(bundle.config, tuple(bundle.labels))
            ),
            SCOPE: _tensor_bytes(
                SCOPE,
                _checked_scope(
                    bundle.scope.tensors(), bundle.config, tuple(bundle.labels)
                ).tensors(),
            ),
            "calibration.json": canonical_json(
                _checked_calibration(
                    bundle.calibration, bundle.config, tuple(bundle.labels)
                ).model_dump(mode="json")
            ),
            "decisions.json": canonical_json(
                _checked_decisions(
                    bundle.decisions, bundle.config, tuple(bundle.labels)
                ).model_dump(mode="json")
            ),
            "metrics.json": canonical_json(
                object_of("metrics.json", dict(bundle.metrics), SCHEMA_VERSION)
            ),
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
        vocabulary=_checked_vocabulary(tuple(lines), config.encoder.vocabulary_size),
        tensors=(
            parse_tensors(_WEIGHTS, members[_WEIGHTS], _shapes(config, labels))
            if _WEIGHTS in members
            else {}
        ),
        calibration=_checked_calibration(
            _settings(members, "calibration.json", Calibration), config, labels
        ),
        metrics=object_of(
            "metrics.json", parse_json("metrics.json", members["metrics.json"]), SCHEMA_VERSION
        ),
        model_card=_text("MODEL_CARD.md", members["MODEL_CARD.md"]),
        decisions=_checked_decisions(
            _settings(members, "decisions.json", Decisions), config, labels
        ),
        scope=_checked_scope(parse_tensors(SCOPE, members[SCOPE]), config, labels),
        report=_text("report.html", members["report.html"]).removeprefix(_NO_REPORT),
        bundle_id=bundle_id,
    )


def _labels(members: Mapping[str, bytes], config: BundleConfig) -> tuple[str, ...]:
    return _checked_labels(parse_json("labels.json", members["labels.json"]), config)


def _config(members: Mapping[str, bytes]) -> BundleConfig:
    return _settings(members, CONFIG, BundleConfig)


def _settings(members: Mapping[str, bytes], name: str, schema: type[SettingsType]) -> SettingsType:
    return settings_of(name, schema, parse_json(name, members[name]), SCHEMA_VERSION)


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
    if len(labels) > _MOST_LABELS or longest > _LONGEST_LABEL:
        raise LabelError(
            f"{len(labels):,} labels of up to {longest:,} characters",
            expected=f"at most {_MOST_LABELS:,} labels of {_LONGEST_LABEL:,} characters",
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
    check_replaceable(
        target,
        overwrite,
        holds="a saved model",
        expected="a model saved by bertcnn",
        stranger=_stranger,
    )


def _stranger(place: Path) -> str | None:
    """What keeps a folder from being a saved model, damaged or not."""
    names = {entry.name for entry in os.scandir(place) if not is_debris(entry.name)}
    foreign = sorted(names - set(FORMAT.largest) - {MANIFEST, ENGINE})
    if foreign:
        return f"holds {one_line(foreign[0])}, which is no part of a model"
    return None if claims_to_be(FORMAT, place) else "is not a saved model"


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
        tensors=parse_tensors(_WEIGHTS, members[_WEIGHTS], _shapes(bundle.config, bundle.labels)),
    )


def _check_size(members: Mapping[str, bytes], size: int) -> None:
    """Refuse weights of another length than the other members ask for, before they are read."""
    config = _config(members)
    labels = _labels(members, config)
    least = 4 * parameters_of(_shapes(config, labels))
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
