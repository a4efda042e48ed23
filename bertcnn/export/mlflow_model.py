"""MLflow's loader for exported models.

`MLmodel` names this module as its `loader_module`. Nothing is pickled: the model is a folder saved
by bertcnn. This module does not need MLflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertcnn.errors import SettingsError, one_line
from bertcnn.inference import Predictor, load
from bertcnn.tables import given_text, join_texts

TEXT = "text"  # column name for models trained on plain texts


def input_columns(text_columns: Sequence[str]) -> tuple[str, ...]:
    """The input columns in `MLmodel`: the training file's text columns."""
    return tuple(text_columns) or (TEXT,)


class PyFuncModel:
    """A loaded model with MLflow's interface."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - tables, without importing pandas
        """Score texts; returns a pandas table with the columns of `bertcnn score`.

        The columns are `predicted_label`, `confidence`, `decision` and `because`.

        Args:
            model_input: texts, or a pandas table with the training file's text columns, which are
                joined as in training. Missing cells are blank.
            params: `probabilities`: add a column `p_LABEL` for every label.

        Raises:
            SettingsError: the table lacks a text column.
        """
        import pandas as pd

        texts = self._texts(model_input)
        answers = self.predictor.classify(texts)
        table: dict[str, list[Any]] = {
            "predicted_label": [answer.label or "" for answer in answers],
            "confidence": [answer.confidence for answer in answers],
            "decision": [answer.decision for answer in answers],
            "because": [
                " | ".join(phrase.words for phrase in answer.because) for answer in answers
            ],
        }
        if (params or {}).get("probabilities"):
            names = self.predictor.hierarchy.names
            for name in names:
                table[f"p_{name}"] = [answer.probabilities.get(name, 0.0) for answer in answers]
        index = model_input.index if isinstance(model_input, pd.DataFrame | pd.Series) else None
        return pd.DataFrame(table, index=index)

    def _texts(self, model_input: Any) -> list[str]:  # noqa: ANN401 - any input
        columns = getattr(model_input, "columns", None)
        if columns is None:
            cells = [model_input] if isinstance(model_input, str) else list(model_input)
            return [given_text(cell) for cell in cells]
        text_columns = input_columns(self.predictor.bundle.config.text_columns)
        if text_columns[0] not in columns and len(columns) == 1:
            text_columns = (columns[0],)
        missing = [name for name in text_columns if name not in columns]
        if missing:
            raise SettingsError(
                f"a table without the column {one_line(missing[0])}",
                expected=f"the text columns of the training file: {', '.join(text_columns)}",
                fix="rename the column of the texts",
            )
        return _joined([model_input[name] for name in text_columns])


def _joined(columns: Sequence[Iterable[Any]]) -> list[str]:
    return [join_texts(map(given_text, row)) for row in zip(*columns, strict=True)]


def _load_pyfunc(data_path: str) -> PyFuncModel:
    """Load the model; MLflow requires this name."""
    return PyFuncModel(load(data_path))
