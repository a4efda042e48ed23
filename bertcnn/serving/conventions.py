"""Request formats of KServe v1, TensorFlow Serving, Vertex AI, MLflow and SageMaker.

Sources: "RESTful API" of TensorFlow Serving, "Get online inferences" of Vertex AI, and "Local
Inference Server Specification" of MLflow.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from bertcnn.errors import BertCNNError, one_line
from bertcnn.inference import Prediction
from bertcnn.serving.bodies import Body, refused
from bertcnn.serving.texts import TextColumns, check_number
from bertcnn.tables import read_table

_SIGNATURE: Final = "serving_default"
_OUTPUTS: Final = {"label": "DT_STRING", "confidence": "DT_FLOAT", "decision": "DT_STRING"}


class AnswerOptions(Body):
    """`params` of MLflow and `parameters` of Vertex AI."""

    because: Annotated[bool, Field(description="give the phrases that moved the answer")] = True
    probabilities: Annotated[bool, Field(description="give every label's probability")] = False
    auto_precision: Annotated[
        float | str | None,
        Field(description='share of automatic answers that have to be right: 0.95 or "0.9,a=0.99"'),
    ] = None


class PredictionBody(Body):
    """The body of `POST /v1/models/NAME:predict`: `instances`, or `inputs` by columns."""

    instances: list[Any] | None = None
    inputs: list[Any] | dict[str, Any] | None = None
    parameters: AnswerOptions | None = None
    signature_name: str | None = None


class DataFrame(Body):
    """A data frame by rows."""

    columns: Annotated[list[str] | None, Field(fail_fast=True)] = None
    index: Any = None
    data: Annotated[list[list[Any]], Field(fail_fast=True)]


class InvocationBody(Body):
    """The body of `POST /invocations`; it has one of the first four."""

    inputs: list[Any] | dict[str, Any] | None = None
    instances: list[Any] | None = None
    dataframe_split: DataFrame | None = None
    dataframe_records: Annotated[list[dict[str, Any]] | None, Field(fail_fast=True)] = None
    params: AnswerOptions | None = None


@dataclass(frozen=True)
class PredictionRequest:
    """Texts of a request, and the response format; `by_columns`: one list per field."""

    texts: list[str]
    options: AnswerOptions = field(default_factory=AnswerOptions)
    by_columns: bool = False

    def answers(self, predictions: list[Prediction]) -> dict[str, Any]:
        """The body of the response."""
        options = self.options
        rows = [
            each.as_json(because=options.because, probabilities=options.probabilities)
            for each in predictions
        ]
        if self.by_columns:
            names = rows[0] if rows else ()
            return {"outputs": {name: [row[name] for row in rows] for name in names}}
        return {"predictions": rows}


def read_prediction(body: bytes, columns: TextColumns) -> PredictionRequest:
    """Parse {"instances": [...]}, or TensorFlow Serving's {"inputs": ...}.

    Raises:
        RequestError: the body has another form.

    Example:
        >>> body = b'{"instances": ["no signal", ["a refund"]]}'
        >>> read_prediction(body, TextColumns((), 100)).texts
        ['no signal', 'a refund']
    """
    parsed = PredictionBody.read(body)
    if parsed.signature_name not in (None, "", _SIGNATURE):
        raise refused(f"the signature {one_line(parsed.signature_name)}", _SIGNATURE)
    _one_of(parsed, ("instances", "inputs"))
    options = parsed.parameters or AnswerOptions()
    if parsed.instances is not None:
        return PredictionRequest(columns.from_values(parsed.instances, "instances"), options)
    return PredictionRequest(_inputs(parsed.inputs, columns), options, by_columns=True)


def read_invocation(body: bytes, columns: TextColumns) -> PredictionRequest:
    """Parse the body's one key for inputs; RequestError if it has several, none, or bad values."""
    parsed = InvocationBody.read(body)
    name = _one_of(parsed, ("inputs", "instances", "dataframe_split", "dataframe_records"))
    options = parsed.params or AnswerOptions()
    if parsed.inputs is not None:
        texts = _inputs(parsed.inputs, columns)
    elif parsed.instances is not None:
        texts = columns.from_values(parsed.instances, name)
    elif parsed.dataframe_split is not None:
        texts = _split(parsed.dataframe_split, columns)
    else:
        rows = parsed.dataframe_records or []
        check_number(len(rows), columns.most)
        texts = columns.from_rows(rows, name, is_table=True)
    return PredictionRequest(texts, options)


def _one_of(body: BaseModel, names: tuple[str, ...]) -> str:
    present = [name for name in names if getattr(body, name) is not None]
    if len(present) != 1:
        what = (
            f"a body with {' and '.join(present)}"
            if present
            else f"a body without {' or '.join(names)}"
        )
        raise refused(what, f"one of {', '.join(names)}")
    return present[0]


def _inputs(inputs: list[Any] | dict[str, Any] | None, columns: TextColumns) -> list[str]:
    if isinstance(inputs, dict):
        return columns.from_columns(inputs, "inputs")
    return columns.from_values(inputs, "inputs")


def _split(frame: DataFrame, columns: TextColumns) -> list[str]:
    names = frame.columns
    if names is None and len(columns.names) == 1:
        names = [*columns.names]
    if names is None or len(set(names)) < len(names):
        raise refused("dataframe_split without a name for each column", "columns, each once")
    check_number(len(frame.data), columns.most)
    if any(len(row) != len(names) for row in frame.data):
        raise refused("rows of dataframe_split with other lengths", f"{len(names)} cells in each")
    cells = {name: [row[index] for row in frame.data] for index, name in enumerate(names)}
    return columns.from_columns(cells, "dataframe_split", is_table=True)


def is_csv(content_type: str) -> bool:
    """Whether the header names CSV."""
    return content_type.partition(";")[0].strip().lower() == "text/csv"


def read_csv(body: bytes, content_type: str, columns: TextColumns) -> list[str]:
    """Parse CSV with a header like `bertcnn score`; RequestError if invalid or lacking a column."""
    header = Message()
    header["Content-Type"] = content_type
    encoding = header.get_content_charset() or "utf-8"
    with tempfile.TemporaryDirectory(prefix="bertcnn-") as folder:
        file = Path(folder, "body.csv")
        file.write_bytes(body)
        try:
            table = read_table(file, delimiter=",", quote='"', encoding=encoding)
        except BertCNNError as error:
            what = error.given.replace(repr(str(file)), "the body")
            raise refused(f"CSV that cannot be read: {what}", error.expected) from None
    if table.rejected:
        raise refused(
            f"CSV with {table.rejected:,} rows that cannot be read", "rows as long as the header"
        )
    cells = {name: table.column(name) for name in table.columns}
    return columns.from_columns(cells, "CSV", is_table=True)


def metadata(name: str, version: str, columns: TextColumns) -> dict[str, Any]:
    """The response to TensorFlow Serving's `GET /v1/models/NAME/metadata`."""

    def tensor(name: str, kind: str) -> dict[str, Any]:
        shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
        return {"dtype": kind, "tensor_shape": shape, "name": name}

    signature = {
        "inputs": {column: tensor(column, "DT_STRING") for column in columns.names},
        "outputs": {output: tensor(output, kind) for output, kind in _OUTPUTS.items()},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": version},
        "metadata": {"signature_def": {"signature_def": {_SIGNATURE: signature}}},
    }
