"""The Open Inference Protocol, version 2: requests to texts, answers to outputs.

JSON, and the binary form of its extension `binary_tensor_data`, which tritonclient sends by
default. Source: github.com/kserve/open-inference-protocol, and "Binary Tensor Data Extension" of
Triton's documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pydantic

from bertcnn.errors import one_line
from bertcnn.inference.answers import Prediction
from bertcnn.serving.bodies import complaint, refused, to_json

HEADER_LENGTH: Final = "inference-header-content-length"
INPUT: Final = "text"
EXTENSIONS: Final = ("binary_tensor_data", "model_repository")
_LENGTH = struct.Struct("<I")  # before each string


class _Parameters(pydantic.BaseModel):
    """Of a request, an input or an output; others are passed over."""

    binary_data: bool | None = None
    binary_data_size: int | None = None
    binary_data_output: bool = False
    auto_precision: float | str | None = None


class _Input(pydantic.BaseModel):
    name: str
    shape: list[int]
    datatype: str
    data: Any = None
    parameters: _Parameters = _Parameters()


class _Output(pydantic.BaseModel):
    name: str
    parameters: _Parameters = _Parameters()


class InferBody(pydantic.BaseModel):
    """The body of a request, or its first part; parameters that nobody knows are passed over."""

    id: str | None = None
    inputs: list[_Input]
    outputs: list[_Output] | None = None
    parameters: _Parameters = _Parameters()


@dataclass(frozen=True)
class InferRequest:
    """What a client asks.

    Attributes:
        texts: to be answered.
        id: given back with the answer.
        outputs: names of the outputs that are wanted, each with whether in binary form.
        shape: of the input, which the outputs have too.
        auto_precision: how often automatic answers have to be right.
    """

    texts: list[str]
    id: str | None
    outputs: dict[str, bool]
    shape: list[int]
    auto_precision: float | str | None


def _strings(answers: Sequence[Prediction], of: Callable[[Prediction], str | None]) -> list[str]:
    return [of(answer) or "" for answer in answers]


_OUTPUTS: Final[dict[str, tuple[str, Callable[[Sequence[Prediction]], list[Any]]]]] = {
    "label": ("BYTES", lambda answers: _strings(answers, lambda answer: answer.label)),
    "confidence": ("FP32", lambda answers: [answer.confidence or 0.0 for answer in answers]),
    "decision": ("BYTES", lambda answers: _strings(answers, lambda answer: answer.decision)),
    "because": (
        "BYTES",
        lambda answers: [" | ".join(part.words for part in each.because) for each in answers],
    ),
    "probabilities": (
        "FP32",
        lambda answers: [list(each.probabilities.values()) for each in answers],
    ),
}  # of each output, its type and its values
_DEFAULT_OUTPUTS = tuple(name for name in _OUTPUTS if name != "probabilities")


def metadata(name: str, version: str, labels: Sequence[str]) -> dict[str, Any]:
    """What `GET /v2/models/NAME` answers."""
    return {
        "name": name,
        "versions": [version],
        "platform": "bertcnn",
        "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {
                "name": output,
                "datatype": datatype,
                "shape": [-1, len(labels)] if output == "probabilities" else [-1],
            }
            for output, (datatype, _) in _OUTPUTS.items()
        ],
        "parameters": {"labels": list(labels)},
    }


# === Requests ===


def read_request(body: bytes, header_length: str | None) -> InferRequest:
    """The request in a body.

    Args:
        body: JSON, or JSON and binary tensors.
        header_length: bytes of the JSON, by the header of this name; None if there is nothing else.

    Raises:
        RequestError: it is not a request for texts.
    """
    end = len(body) if header_length is None else _end_of_json(header_length, len(body))
    try:
        request = InferBody.model_validate_json(body[:end])
    except pydantic.ValidationError as error:
        raise complaint(error) from None
    if len(request.inputs) != 1 or request.inputs[0].name != INPUT:
        names = ", ".join(given.name for given in request.inputs)
        raise refused(f"the inputs {one_line(names)}", f"one input, {INPUT!r}")
    (given,) = request.inputs
    texts = _texts(given, body[end:])
    if not _fits(given.shape, len(texts)):
        raise refused(
            f"{len(texts):,} texts with the shape {one_line(given.shape)}", "the shape of the data"
        )
    return InferRequest(
        texts, request.id, _wanted(request), given.shape, request.parameters.auto_precision
    )


def _end_of_json(header_length: str, most: int) -> int:
    """What the header says, if it is at most so many bytes."""
    digits = header_length.lstrip("0")
    if header_length.isdecimal() and len(digits) <= len(str(most)):
        end = int(digits or "0")
        if end <= most:
            return end
    raise refused(
        f"Inference-Header-Content-Length: {one_line(header_length)}",
        f"the bytes of the JSON, at most {most:,}",
    )


def _fits(shape: Sequence[int], elements: int) -> bool:
    """Whether a shape has so many elements; huge ones are not multiplied out."""
    if min(shape, default=1) <= 0:
        return elements == 0 and min(shape) == 0
    size = 1
    for places in shape:
        size *= places
        if size > elements:
            return False
    return size == elements


def _texts(given: _Input, binary: bytes) -> list[str]:
    """The texts of the input, in the order of its elements."""
    if given.datatype != "BYTES":
        raise refused(f"an input of the type {one_line(given.datatype)}", "BYTES: strings")
    size = given.parameters.binary_data_size
    if size is not None:
        if size != len(binary):
            raise refused(f"binary_data_size {size:,} of {len(binary):,} bytes", "the same number")
        return unpacked(binary)
    flat: list[Any] = []
    waiting = [given.data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        else:
            flat.append(value)
    for value in flat:
        if not isinstance(value, str):
            raise refused(f"{one_line(value)} among the texts", "strings only")
    return flat


def unpacked(data: bytes) -> list[str]:
    """The strings of a BYTES tensor, each behind its length.

    Raises:
        RequestError: the lengths and the data do not fit.

    Example:
        >>> unpacked(packed(["no signal", ""]))
        ['no signal', '']
    """
    texts, place = [], 0
    while place < len(data):
        start = place + _LENGTH.size
        if start > len(data):
            raise refused("a BYTES tensor that ends within a length", "4 bytes before each string")
        place = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
        if place > len(data):
            raise refused("a BYTES tensor that ends within a string", "as many bytes as its length")
        texts.append(data[start:place].decode("utf-8", "replace"))
    return texts


def packed(texts: Sequence[str]) -> bytes:
    """The strings as a BYTES tensor."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    return b"".join(part for text in encoded for part in (_LENGTH.pack(len(text)), text))


def _wanted(request: InferBody) -> dict[str, bool]:
    binary = request.parameters.binary_data_output
    if request.outputs is None:
        return dict.fromkeys(_DEFAULT_OUTPUTS, binary)
    for output in request.outputs:
        if output.name not in _OUTPUTS:
            raise refused(f"the output {one_line(output.name)}", f"one of {', '.join(_OUTPUTS)}")
    return {
        output.name: binary
        if output.parameters.binary_data is None
        else output.parameters.binary_data
        for output in request.outputs
    }


# === Answers ===


def write_response(
    request: InferRequest, answers: Sequence[Prediction], name: str, version: str
) -> tuple[bytes, int | None]:
    """The body of the answer, and the bytes of its JSON if binary tensors follow it."""
    outputs, tensors = [], []
    for output, binary in request.outputs.items():
        datatype, values_of = _OUTPUTS[output]
        values = values_of(answers)
        shape = request.shape
        if output == "probabilities":
            shape = [*shape, max(map(len, values), default=0)]
            # a blank text has none
            values = [share for row in values for share in row or [0.0] * shape[-1]]
        described = {"name": output, "datatype": datatype, "shape": shape}
        if binary:
            data = packed(values) if datatype == "BYTES" else np.array(values, "<f4").tobytes()
            outputs.append({**described, "parameters": {"binary_data_size": len(data)}})
            tensors.append(data)
        else:
            outputs.append({**described, "data": values})
    response: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": outputs}
    if request.id is not None:
        response["id"] = request.id
    header = to_json(response)
    return b"".join([header, *tensors]), len(header) if tensors else None
