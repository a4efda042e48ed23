"""Bodies of other model servers: KServe v1, TensorFlow Serving, Vertex AI, MLflow, SageMaker."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from bertcnn.errors import one_line
from bertcnn.serving.bodies import from_json, refused


class PredictionBody(BaseModel):
    """The body of `POST /v1/models/NAME:predict`, for its documentation."""

    instances: list[str | dict[str, str]]


class DataFrame(BaseModel):
    """A data frame with one column of texts, by rows."""

    columns: list[str] = []
    data: list[tuple[str]]


class InvocationBody(BaseModel):
    """The body of `POST /invocations`, for its documentation; it has one of the four."""

    inputs: list[str] | dict[str, list[str]] | None = None
    instances: list[str | dict[str, str]] | None = None
    dataframe_split: DataFrame | None = None
    dataframe_records: list[dict[str, str]] | None = None


def read_prediction(body: bytes) -> list[str]:
    """The texts of {"instances": [...]}, each a string or an object with one string.

    Raises:
        RequestError: it has another form.

    Example:
        >>> read_prediction(b'{"instances": ["no signal", {"text": "a refund"}]}')
        ['no signal', 'a refund']
    """
    return _strings(_object(body, ("instances",))[1], "instances")


def read_invocation(body: bytes) -> list[str]:
    """The texts of `inputs`, `instances`, `dataframe_split` or `dataframe_records`.

    Raises:
        RequestError: it has another form.

    Example:
        >>> read_invocation(b'{"dataframe_split": {"columns": ["text"], "data": [["no signal"]]}}')
        ['no signal']
    """
    names = ("inputs", "instances", "dataframe_split", "dataframe_records")
    name, value = _object(body, names)
    if name == "dataframe_split":
        value = value.get("data") if isinstance(value, dict) else None
    return _strings(value, name)


def _object(body: bytes, names: tuple[str, ...]) -> tuple[str, Any]:
    """The first of these keys that the body has, and its value."""
    expected = f"a JSON object with {' or '.join(names)}"
    value = from_json(body)
    for name in names:
        if isinstance(value, dict) and name in value:
            return name, value[name]
    raise refused(f"a body without {' or '.join(names)}", expected)


def _strings(value: Any, name: str) -> list[str]:  # noqa: ANN401 - any JSON value
    """One string of each element."""
    if isinstance(value, dict) and len(value) == 1:  # of a column
        (value,) = value.values()
    if not isinstance(value, list):
        raise refused(f"{name} that are no list", "a list of texts")
    texts = []
    for element in value:
        parts = list(element.values()) if isinstance(element, dict) else element
        text = parts[0] if isinstance(parts, list) and len(parts) == 1 else parts
        if not isinstance(text, str):
            raise refused(f"{one_line(element)} in {name}", "a text, or one column of texts")
        texts.append(text)
    return texts
