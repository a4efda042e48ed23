"""The engine of a saved model: the folder `engine/` with its own manifest.

It holds numbers only; graphs are always built by this package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import numpy as np
import safetensors.numpy
from pydantic import Field

from bertcnn.bundle.tensors import parse_tensors
from bertcnn.errors import BundleError
from bertcnn.settings import MOST, EncoderSettings, HeadSettings, Settings, Share, Whole
from bertcnn.shapes import int8_shapes
from bertcnn.storage import (
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
ENGINE_SCHEMA_VERSION: Final = 2
INT8_TENSORS: Final = "engine.safetensors"
_RECORD = "engine.json"
_MODEL_WEIGHTS = (  # the engine's weights are another form of these, of the same size or smaller
    "model.safetensors"
)
_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_MEMBERS = (Member(_RECORD, 64 * _KIB), Member(INT8_TENSORS, 8 * _GIB))
_FORMAT = FolderFormat("bertcnn engine", ENGINE_SCHEMA_VERSION, _MEMBERS, bulk=INT8_TENSORS)

ENGINE_FILES: Final = tuple(
    f"{ENGINE}/{name}" for name in (MANIFEST, _RECORD, INT8_TENSORS)
)  # in the model's folder

Precision = Literal["int8", "bfloat16", "float32"]
WeightBits = Literal[7, 8]


class EngineRecord(Settings):
    """`engine.json`: the engine, and the figures that admitted it."""

    schema_version: Literal[2] = Field(ENGINE_SCHEMA_VERSION, description="of this file")
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
        description="validation rows that compared it with float32"
    )
    agreement: Share = Field(
        description=(
            "share of these rows with the same label as in float32 (with several labels: of their"
            " labels); if the precision is float32, the share of int8"
        )
    )
    macro_f1_loss: float = Field(
        ge=-1,
        le=1,
        description=(
            "macro-F1 of float32 minus its own on these rows; if the precision is float32, minus"
            " that of int8"
        ),
    )
    versions: dict[str, str] = Field(description="of openvino and nncf")


@dataclass(frozen=True, eq=False)
class SavedEngine:
    """A saved engine: its record and its int8 tensors.

    Attributes:
        read: returns the bytes of `engine.safetensors`; reads the folder only when called, because
            a cached compiled copy makes them unnecessary.
        engine_id: identifies this exact engine; set by `read_engine`.
    """

    record: EngineRecord
    read: Callable[[], bytes]
    engine_id: str | None = None

    def int8_tensors(
        self, encoder: EncoderSettings, head: HeadSettings
    ) -> dict[str, np.ndarray] | None:
        """The tensors of `int8_shapes` by name; None if the engine is not int8.

        Raises:
            BundleError: the engine was changed after saving, or is of another network.
        """
        if self.record.precision != "int8":
            return None
        return parse_int8(f"{ENGINE}/{INT8_TENSORS}", self.read(), encoder, head)

    def files(self, bundle_id: str) -> dict[str, bytes]:
        """The files of the folder `engine/` by name."""
        record = self.record.model_copy(update={"bundle_id": bundle_id})
        members = {
            _RECORD: canonical_json(record.model_dump(mode="json")),
            INT8_TENSORS: self.read(),
        }
        return {**members, MANIFEST: write_manifest(_FORMAT, members)[1]}


def int8_bytes(tensors: Mapping[str, np.ndarray] | None) -> bytes:
    """The bytes of `engine.safetensors`; None is an engine without int8, which has no tensors."""
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(values) for name, values in (tensors or {}).items()}
    )


def parse_int8(
    member: str, data: bytes, encoder: EncoderSettings, head: HeadSettings | None = None
) -> dict[str, np.ndarray]:
    """The tensors of `int8_shapes` by name, from `int8_bytes`.

    Raises:
        BundleError: names, shapes, types or values are not those of this network in int8.
    """
    shapes = int8_shapes(encoder, head)
    weights = {name for name in shapes if name.endswith("/weights")}
    tensors = parse_tensors(member, data, shapes, int8=weights)
    for name, values in tensors.items():
        if name.endswith("_range") and not all(
            low <= 0 <= high and low < high for low, high in values.reshape(2, 2)
        ):
            refuse(f"{member} holds {name} as {values.tolist()}", "bounds below and above 0")
    return tensors


def read_engine(folder: Path, bundle_id: str) -> SavedEngine | None:
    """The engine saved with a model; None if it has none.

    Only the length of the tensors is checked here. `read` of the result compares them with their
    hash, and raises a BundleError if they were changed.

    Raises:
        BundleError: the record was changed after saving, or belongs to another model.
    """
    engine_folder = folder / ENGINE
    if not os.path.lexists(engine_folder):  # a broken link is an error, not a missing engine
        return None
    engine_id, members = read_members(engine_folder, _FORMAT, {_RECORD})
    record = settings_of(
        _RECORD, EngineRecord, parse_json(_RECORD, members[_RECORD]), ENGINE_SCHEMA_VERSION
    )
    if record.bundle_id != bundle_id:
        raise _not_of_this_model(record.bundle_id, bundle_id)

    def read() -> bytes:
        parts_id, parts = read_members(
            engine_folder,
            _FORMAT,
            {INT8_TENSORS},
            lambda _, size: _check_size(size, folder / _MODEL_WEIGHTS),
        )
        if parts_id != engine_id:  # another model was saved there meanwhile
            raise _not_of_this_model("saved since", bundle_id)
        return parts[INT8_TENSORS]

    return SavedEngine(record, read, engine_id)


def engine_in_memory(folder: Path, bundle_id: str) -> SavedEngine | None:
    """The engine saved with a model, to be saved again; None if it is missing or was changed.

    `load` has already reported a changed engine.
    """
    try:
        saved = read_engine(folder, bundle_id)
        if saved is None:
            return None
        tensors = saved.read()
    except BundleError:
        return None
    return SavedEngine(saved.record, lambda: tensors)


def _check_size(size: int, weights: Path) -> None:
    """Refuse more tensors than the model has weights, before reading them."""
    try:
        most = weights.stat().st_size + _MIB
    except OSError as error:
        refuse(f"{weights.name} cannot be read ({error.strerror})", "a file you may read")
    if size > most:
        refuse(
            f"{ENGINE}/{INT8_TENSORS} has {size:,} bytes",
            f"at most {most:,}, by the size of {weights.name}",
        )


def _not_of_this_model(model_id: str, bundle_id: str) -> BundleError:
    return BundleError(
        f"{ENGINE}/ belongs to the model {model_id[:12]}, not to {bundle_id[:12]}",
        expected="the engine that was saved with the model",
        fix=f"remove the folder {ENGINE}, or save the model again",
    )
