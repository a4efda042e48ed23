"""The Open Inference Protocol, version 2: parses requests and writes responses.

JSON, and the binary form of its extension `binary_tensor_data`, the default of tritonclient.
Source: github.com/kserve/open-inference-protocol, and "Binary Tensor Data Extension" of Triton's
documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from bertcnn.errors import one_line
from bertcnn.inference import Prediction
from bertcnn.serving.bodies import Body, refused, to_json
from bertcnn.serving.texts import TextColumns, check_number, decoded

HEADER_LENGTH: Final = "inference-header-content-length"
EXTENSIONS: Final = ("binary_tensor_data", "model_repository")
_LENGTH = struct.Struct("<I")  # before each string


_PLAIN: Final = (None, "str", "np", "pd")  # content types of MLServer whose strings are texts
_MOST: Final = 64  # inputs, or outputs


class _Parameters(Body):
    """Parameters of a request, an input or an output."""

    binary_data: bool | None = None
    binary_data_size: int | None = None
    binary_data_output: bool = False
    content_type: str | None = None
    auto_precision: float | str | None = None
    priority: Any = Field(None, description="no meaning here; tritonclient can send it")
    timeout: Any = Field(None, description="no meaning here; tritonclient can send it")


class _Input(Body):
    name: str
    shape: Annotated[list[int], Field(fail_fast=True)]
    datatype: str
    data: Any = None
    parameters: _Parameters = _Parameters()


class _Output(Body):
    name: str
    parameters: _Parameters = _Parameters()


class InferBody(Body):
    """The body of a request, or its first part."""

    id: str | None = None
    inputs: Annotated[list[_Input], Field(min_length=1, max_length=_MOST, fail_fast=True)]
    outputs: Annotated[list[_Output] | None, Field(max_length=_MOST, fail_fast=True)] = None
    parameters: _Parameters = _Parameters()


@dataclass(frozen=True)
class InferRequest:
    """A parsed request; `auto_precision` is the required precision of automatic answers.

    Attributes:
        id: returned with the response.
        outputs: requested outputs by name, each with whether it is binary.
        shape: of each input, and so of each output.
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
}  # type and values of each output
_DEFAULT_OUTPUTS = tuple(name for name in _OUTPUTS if name != "probabilities")


def metadata(
    name: str, version: str, labels: Sequence[str], columns: TextColumns
) -> dict[str, Any]:
    """The response to `GET /v2/models/NAME`."""
    return {
        "name": name,
        "versions": [version],
        "platform": "bertcnn",
        "inputs": [
            {"name": column, "datatype": "BYTES", "shape": [-1]} for column in columns.names
        ],
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


def read_request(body: bytes, header_length: str | None, columns: TextColumns) -> InferRequest:
    """Parse a request of JSON, or of `header_length` bytes of JSON and binary tensors.

    `columns` are the model's text columns; each is an input.

    Raises:
        RequestError: it is not a valid request for texts.
    """
    end = len(body) if header_length is None else _end_of_json(header_length, len(body))
    request = InferBody.read(body[:end])
    for described in (request, *(request.outputs or ())):
        _check_plain(described.parameters.content_type)
    cells: dict[str, list[str]] = {}
    shape = request.inputs[0].shape
    for tensor in request.inputs:
        if tensor.name in cells or tensor.shape != shape:
            raise refused(
                f"the input {one_line(tensor.name)} twice, or inputs of different shapes",
                "one input of the same shape for each text column",
            )
        size = tensor.parameters.binary_data_size
        binary = b"" if size is None else body[end : end + max(size, 0)]
        end += len(binary)
        cells[tensor.name] = _texts(tensor, binary, columns)
    if end < len(body):
        raise refused(f"{len(body) - end:,} bytes behind the last tensor", "nothing more")
    texts = columns.from_columns(cells, "inputs")
    precision = request.parameters.auto_precision
    return InferRequest(texts, request.id, _wanted(request), shape, precision)


def _check_plain(content_type: str | None) -> None:
    if content_type not in _PLAIN:
        raise refused(f"the content type {one_line(content_type)}", "str, or base64 of an input")


def _end_of_json(header_length: str, most: int) -> int:
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
    """Whether a shape has this number of elements; avoids multiplying huge dimensions."""
    if min(shape, default=1) <= 0:
        return elements == 0 and min(shape) == 0
    size = 1
    for dimension in shape:
        size *= dimension
        if size > elements:
            return False
    return size == elements


def _texts(tensor: _Input, binary: bytes, columns: TextColumns) -> list[str]:
    """The texts of an input, in element order."""
    if tensor.datatype != "BYTES":
        raise refused(f"an input of the type {one_line(tensor.datatype)}", "BYTES: strings")
    size = tensor.parameters.binary_data_size
    if size is not None:
        if size != len(binary):
            raise refused(f"binary_data_size {size:,} of {len(binary):,} bytes", "the same number")
        if tensor.data is not None:
            raise refused("an input with data and binary_data_size", "one of them")
        values: list[Any] = unpacked(binary)
    else:
        values = _flat(tensor.data)
    if not _fits(tensor.shape, len(values)):
        raise refused(
            f"{len(values):,} texts with the shape {one_line(tensor.shape)}",
            "the shape of the data",
        )
    check_number(len(values), columns.most)
    is_base64 = tensor.parameters.content_type == "base64"
    if not is_base64:
        _check_plain(tensor.parameters.content_type)
    return [decoded(value, "the texts", is_base64=is_base64) for value in values]


def _flat(data: Any) -> list[Any]:  # noqa: ANN401 - any JSON value
    values = data if isinstance(data, list) else [data]
    while values and isinstance(values[0], list):
        if not all(isinstance(value, list) for value in values):
            raise refused("lists and single elements side by side", "lists of one depth")
        values = list(chain.from_iterable(values))
    return values


def unpacked(data: bytes) -> list[str]:
    """Decode a BYTES tensor: strings, each preceded by its length.

    Raises:
        RequestError: the lengths do not match the data.

    Example:
        >>> unpacked(packed(["no signal", ""]))
        ['no signal', '']
    """
    texts, position = [], 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise refused("a BYTES tensor that ends within a length", "4 bytes before each string")
        position = start + _LENGTH.unpack_from(data, start - _LENGTH.size)[0]
        if position > len(data):
            raise refused("a BYTES tensor that ends within a string", "as many bytes as its length")
        try:
            texts.append(data[start:position].decode("utf-8"))
        except UnicodeDecodeError:
            raise refused("a BYTES tensor whose strings are not UTF-8", "UTF-8") from None
    return texts


def packed(texts: Sequence[str]) -> bytes:
    """Encode strings as a BYTES tensor."""
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
    """The response body, and the length of its JSON if binary tensors follow."""
    outputs, tensors = [], []
    for output, binary in request.outputs.items():
        datatype, values_of = _OUTPUTS[output]
        values = values_of(answers)
        shape = request.shape
        if output == "probabilities":
            shape = [*shape, max(map(len, values), default=0)]
            # a blank text has no shares
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
