"""The compiled engine of a saved model: the folder `engine/` with its own manifest."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from bertcnn.errors import BundleError
from bertcnn.settings import MOST, Settings, Share, Whole
from bertcnn.storage.manifest import (
    MANIFEST,
    FolderFormat,
    Member,
    canonical_json,
    parse_json,
    read_members,
    refuse,
    settings_of,
    write_manifest,
)

ENGINE: Final = "engine"
ENGINE_SCHEMA_VERSION: Final = 1
_RECORD, _GRAPH, _WEIGHTS = "engine.json", "model.xml", "model.bin"
_MODEL_WEIGHTS = (  # the engine's weights are another form of these, of the same size or smaller
    "model.safetensors"
)
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_MEMBERS = (Member(_RECORD, 64 * _KIB), Member(_GRAPH, 64 * _MIB), Member(_WEIGHTS, 8 * _GIB))
_FORMAT = FolderFormat("bertcnn engine", ENGINE_SCHEMA_VERSION, _MEMBERS, bulk=_WEIGHTS)

ENGINE_FILES: Final = tuple(
    f"{ENGINE}/{name}" for name in (MANIFEST, _RECORD, _GRAPH, _WEIGHTS)
)  # in the model's folder

Precision = Literal["int8", "bfloat16", "float32"]
WeightBits = Literal[7, 8]


class EngineRecord(Settings):
    """`engine.json`: the engine, and the figures that admitted it."""

    schema_version: Literal[1] = Field(ENGINE_SCHEMA_VERSION, description="of this file")
    bundle_id: str = Field("", description="of the model it computes; set when the model is saved")
    precision: Precision = Field(
        description="of the matrix products; bfloat16 is float32 on a CPU without it"
    )
    weight_bits: WeightBits = Field(
        7,
        description=(
            "of the weights if it is int8; with 8, products would saturate on a CPU without VNNI"
        ),
    )
    reason: str = Field(description="why this precision, in words")
    calibrated_on_rows: Whole = Field(
        0, description="training rows whose activations set the ranges of int8"
    )
    compared_on_rows: Annotated[int, Field(ge=1, le=MOST)] = Field(
        description="validation rows on which it was compared with float32"
    )
    agreement: Share = Field(
        description=(
            "share of these on which it gave the label of float32 (of several: of their labels);"
            " where it is float32, of int8"
        )
    )
    macro_f1_loss: float = Field(
        ge=-1,
        le=1,
        description=(
            "macro-F1 of float32 less its own, on these; where it is float32, less that of int8"
        ),
    )
    versions: dict[str, str] = Field(description="of openvino and nncf")


@dataclass(frozen=True, eq=False)
class SavedEngine:
    """A saved engine: an OpenVINO model and its record.

    Attributes:
        read: returns the model's XML and constants; reads the folder only when called, because a
            cached compiled copy makes them unnecessary.
        engine_id: identifies this exact engine; set by `read_engine`.
    """

    record: EngineRecord
    read: Callable[[], tuple[bytes, bytes]]
    engine_id: str | None = None

    def files(self, bundle_id: str) -> dict[str, bytes]:
        """The files of the folder `engine/` by name."""
        record = self.record.model_copy(update={"bundle_id": bundle_id})
        graph, weights = self.read()
        members = {
            _RECORD: canonical_json(record.model_dump(mode="json")),
            _GRAPH: graph,
            _WEIGHTS: weights,
        }
        return {**members, MANIFEST: write_manifest(_FORMAT, members)[1]}


def read_engine(folder: Path, bundle_id: str) -> SavedEngine | None:
    """The engine saved with a model; None if it has none.

    Only the lengths of graph and constants are checked here. `read` of the result compares them
    with their hashes, and raises a BundleError if they were changed.
    `bertcnn.inference.openvino_engine.checked` checks the graph.

    Raises:
        BundleError: the record was changed after saving, or belongs to another model.
    """
    place = folder / ENGINE
    if not os.path.lexists(place):  # a broken link is an error, not a missing engine
        return None
    engine_id, members = read_members(place, _FORMAT, {_RECORD})
    record = settings_of(
        _RECORD, EngineRecord, parse_json(_RECORD, members[_RECORD]), ENGINE_SCHEMA_VERSION
    )
    if record.bundle_id != bundle_id:
        raise _not_of_this_model(record.bundle_id, bundle_id)

    def read() -> tuple[bytes, bytes]:
        found, parts = read_members(
            place,
            _FORMAT,
            {_GRAPH, _WEIGHTS},
            lambda _, size: _check_size(size, folder / _MODEL_WEIGHTS),
        )
        if found != engine_id:  # another model was saved there meanwhile
            raise _not_of_this_model("saved since", bundle_id)
        return parts[_GRAPH], parts[_WEIGHTS]

    return SavedEngine(record, read, engine_id)


def engine_in_memory(folder: Path, bundle_id: str) -> SavedEngine | None:
    """The engine saved with a model, to be saved again; None if it is missing or was changed.

    `load` has already reported a changed engine.
    """
    try:
        saved = read_engine(folder, bundle_id)
        if saved is None:
            return None
        files = saved.read()
    except BundleError:
        return None
    return SavedEngine(saved.record, lambda: files)


def _check_size(size: int, weights: Path) -> None:
    """Refuse more constants than the model has weights, before reading them."""
    try:
        most = weights.stat().st_size + _MIB
    except OSError as error:
        refuse(f"{weights.name} cannot be read ({error.strerror})", "a file you may read")
    if size > most:
        refuse(
            f"{ENGINE}/{_WEIGHTS} has {size:,} bytes",
            f"at most {most:,}, by the size of {weights.name}",
        )


def _not_of_this_model(found: str, bundle_id: str) -> BundleError:
    return BundleError(
        f"{ENGINE}/ belongs to the model {found[:12]}, not to {bundle_id[:12]}",
        expected="the engine that was saved with the model",
        fix=f"remove the folder {ENGINE}, or save the model again",
    )
