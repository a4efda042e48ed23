"""Reads safetensors files of unknown origin; validates the header before using it."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import Settings
from bertcnn.shapes import Shapes
from bertcnn.storage import refuse

LENGTH_BYTES: Final = 8  # hold the header's length
LARGEST_HEADER: Final = 16 << 20
_MOST_TENSORS = 1 << 16
_METADATA: Final = "__metadata__"
_ITEM_BYTES: Final = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL"), 1),
}
_LONGEST: Final = 1 << 40
_Length = Annotated[int, Field(ge=0, le=_LONGEST)]


class TensorRecord(Settings):
    """A tensor in the header: type, shape, and byte range after the header."""

    dtype: str
    shape: tuple[_Length, ...] = Field(max_length=8)
    data_offsets: tuple[_Length, _Length]


@dataclass(frozen=True)
class Header:
    """The tensors of a file by name in byte order, and whether the header has text."""

    tensors: Mapping[str, TensorRecord]
    has_metadata: bool


def parse_header(header: bytes, data_bytes: int) -> Header:
    """Parse a safetensors header whose tensors fill the file's `data_bytes` without gaps.

    Raises:
        ValueError: the header is invalid, with the reason.
    """
    if header.count(b"{") > _MOST_TENSORS:
        raise ValueError(f"more than {_MOST_TENSORS:,} tensors")
    try:
        parsed = json.loads(header.decode("utf-8"))
        if not isinstance(parsed, dict):
            raise ValueError("a header that is not a JSON object")
        has_metadata = parsed.pop(_METADATA, None) is not None
        records = {name: TensorRecord.of_json(record) for name, record in parsed.items()}
    except (TypeError, RecursionError, SettingsError) as error:
        raise ValueError(str(error)) from None
    end = 0
    ordered = sorted(records.items(), key=lambda item: item[1].data_offsets)
    for name, record in ordered:
        if record.dtype not in _ITEM_BYTES:
            raise ValueError(f"{one_line(name)} of the unknown type {one_line(record.dtype)}")
        # a length of 0 hides other lengths, but NumPy still multiplies them
        if math.prod(length or 1 for length in record.shape) > _LONGEST:
            raise ValueError(f"{one_line(name)} of shape {record.shape}, too large for any memory")
        size = math.prod(record.shape) * _ITEM_BYTES[record.dtype]
        if record.data_offsets != (end, end + size):
            where = f"at the bytes {record.data_offsets}, where {end} to {end + size} are expected"
            raise ValueError(f"{one_line(name)} of shape {record.shape} {where}")
        end += size
    if end != data_bytes:
        raise ValueError(f"{data_bytes:,} bytes of data for tensors of {end:,}")
    return Header(dict(ordered), has_metadata)


def read_header(path: Path) -> Header:
    """Read the header of a safetensors file.

    Raises:
        ValueError: the file is not valid safetensors, with the reason.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        data_bytes = path.stat().st_size - LENGTH_BYTES - length
        if length > LARGEST_HEADER or data_bytes < 0:
            raise ValueError(f"its header would have {length:,} bytes")
        return parse_header(file.read(length), data_bytes)


def parse_tensors(
    member: str, data: bytes, wanted: Shapes | None = None, *, int8: Container[str] = ()
) -> dict[str, np.ndarray]:
    """The tensors of a member, as views of `data`; float32 but those named in `int8`.

    `wanted` has the expected shapes by name; by default any are accepted.

    Raises:
        BundleError: the data is not safetensors, or has unexpected or non-finite tensors.
    """
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    begin = LENGTH_BYTES + length
    try:
        if length > LARGEST_HEADER or begin > len(data):
            raise ValueError(f"its header would have {length:,} bytes")
        header = parse_header(data[LENGTH_BYTES:begin], len(data) - begin)
    except ValueError as error:
        refuse(
            f"{member} is not a safetensors file ({error})",
            "tensors as the safetensors library writes them; other kinds of model files are never"
            " opened",
        )
    if header.has_metadata:
        refuse(f"{member} holds the unknown key {_METADATA!r}", "tensors and nothing else")
    for name, record in header.tensors.items():
        expected = "I8" if name in int8 else "F32"
        if record.dtype != expected:
            refuse(f"{member} holds {one_line(name)} as {record.dtype}", expected)
    if wanted is not None:
        check_shapes(
            member, {name: record.shape for name, record in header.tensors.items()}, wanted
        )
    views = {
        name: (record.shape, begin + record.data_offsets[0])
        for name, record in header.tensors.items()
    }
    tensors = {
        name: np.frombuffer(
            data, "i1" if name in int8 else "<f4", math.prod(shape), offset
        ).reshape(shape)
        for name, (shape, offset) in views.items()
    }
    return check_tensors(member, tensors, int8=int8)


def check_shapes(member: str, shapes: Shapes, wanted: Shapes) -> None:
    """Compare the shapes of tensors with the expected ones.

    Raises:
        BundleError: a tensor is missing, unknown or misshapen; names the first one.
    """
    if shapes == wanted:
        return
    name = next(
        name
        for name in sorted(shapes.keys() | wanted.keys())
        if shapes.get(name) != wanted.get(name)
    )
    refuse(
        (
            f"{member} holds {one_line(name)} of shape {shapes[name]}"
            if name in shapes
            else f"{member} lacks {one_line(name)}"
        ),
        f"the shape {wanted[name]}" if name in wanted else "no tensor of that name",
    )


def check_tensors(
    member: str, tensors: Mapping[str, np.ndarray], *, int8: Container[str] = ()
) -> dict[str, np.ndarray]:
    """The tensors, if all are finite, and float32 but those named in `int8`.

    Raises:
        BundleError: names the first tensor that is not.
    """
    if not tensors:
        refuse(f"{member} holds no tensor", "the model's weights")
    for name, tensor in tensors.items():
        expected = np.int8 if name in int8 else np.float32
        if tensor.dtype != expected:
            refuse(f"{member} holds {one_line(name)} as {tensor.dtype}", expected.__name__)
        if not np.isfinite(tensor).all():
            refuse(f"{member} holds {one_line(name)} with NaN or infinity in it", "finite numbers")
    return dict(tensors)
