"""`score_frame` scores a table in memory, `BatchScorer` batches of distributed data frameworks."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from bertcnn.errors import ColumnError, SettingsError, one_line
from bertcnn.inference import EngineName, Predictor, check_engine, load, loaded
from bertcnn.scoring.columns import OutputColumns
from bertcnn.settings import PrecisionTargets
from bertcnn.tables import given_text, join_texts

_MODELS = 2  # models kept per process
_CONFIDENCE = 1  # index of the confidence column
_IN_WORDS = 4  # number of columns before the reason and the probabilities


class FrameKeywords(TypedDict, total=False):
    """The options of `score_frame`."""

    text: str | Sequence[str] | None
    probabilities: bool
    reasons: bool
    auto_precision: float | str | PrecisionTargets | None
    engine: EngineName


def score_frame(
    model: str | Path | Predictor,
    frame: Any,  # noqa: ANN401 - pandas, a dict of arrays, or Arrow
    **options: Unpack[FrameKeywords],
) -> Any:  # noqa: ANN401 - of the same type
    """Classify every row of a table in memory, as `score_csv` does with a file.

    Args:
        model: a saved model's folder or URL, or a loaded one.
        frame: a pandas DataFrame, a pyarrow Table or a dict of NumPy arrays.
        options: those of `BatchScorer` by name, such as `text="body"`.

    Returns:
        The table with the columns of `score_csv` added: a DataFrame keeps its index. `confidence`
        and `p_<label>` are numbers, NaN or null for rows without text.

    Raises:
        BundleError: the folder is not a model.
        ColumnError: a text column is missing.
        SettingsError: the table has another type, or bytes that are not UTF-8.

    Example:
        scored = score_frame("models/triage", pandas.read_csv("inbox.csv"))
    """
    return BatchScorer(model, **options)(frame)


@dataclass(frozen=True)
class BatchScorer:
    """Adds the answers of a saved model to a batch of rows, as `score_csv` does to a file.

    A batch is a pandas DataFrame, a dict of NumPy arrays or a pyarrow Table; the result has the
    same type. It works with `map_batches` of Ray Data, `map_partitions` of Dask and `mapInPandas`
    of Spark. The scorer can be pickled, and each process loads the model once, at its first batch.
    Columns are as in `score_csv`, but `confidence` and `p_<label>` are numbers, NaN or null for
    rows without text.

    Args:
        model: a saved model's URL, or its folder, visible to all machines. A loaded model serves
            this process only.
        text: the text column or columns; by default the training file's.
        probabilities: add the probability of every label.
        reasons: add the reason for each decision.
        auto_precision: required precision of automatic answers; see `bertcnn.load`.
        engine: see `bertcnn.load`.

    Example:
        answered = dataset.map_batches(BatchScorer("models/triage"))
    """

    model: str | Path | Predictor
    text: str | Sequence[str] | None = None
    probabilities: bool = False
    reasons: bool = False
    auto_precision: float | str | PrecisionTargets | None = None
    engine: EngineName = "auto"

    def __post_init__(self) -> None:
        check_engine(self.engine)

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - of the kinds above
        """The batch with the answers in new columns.

        Raises:
            BundleError: the folder is not a model.
            ColumnError: a text column is missing.
            SettingsError: the batch has another type, or bytes that are not UTF-8.
        """
        if isinstance(batch, Mapping):
            return {**batch, **self._answers([*batch], lambda name: [*batch[name]])}
        if hasattr(batch, "append_column"):
            return self._to_arrow(batch)
        if hasattr(batch, "assign"):
            return self._to_pandas(batch)
        raise SettingsError(
            f"a batch of type {type(batch).__name__}",
            expected="a pandas DataFrame, a dict of NumPy arrays or a pyarrow Table",
            fix="convert it to one of them",
        )

    def _to_arrow(self, batch: Any) -> Any:  # noqa: ANN401 - a pyarrow Table or RecordBatch
        import pyarrow

        from bertcnn.tables import python_values

        answers = self._answers(batch.column_names, lambda name: python_values(batch.column(name)))
        for name, values in answers.items():
            kind = pyarrow.string() if values.dtype == object else pyarrow.float64()
            batch = batch.append_column(name, pyarrow.array(values, kind, from_pandas=True))
        return batch

    def _to_pandas(self, batch: Any) -> Any:  # noqa: ANN401 - a pandas DataFrame
        import pandas as pd

        def cells(name: Any) -> list[Any]:  # noqa: ANN401 - any column's name
            return [*batch[name].to_numpy()]

        answers = self._answers([*batch.columns], cells)
        kinds = {
            name: "str" if values.dtype == object else None for name, values in answers.items()
        }
        return batch.assign(
            **{
                name: pd.Series(values, batch.index, dtype=kinds[name])
                for name, values in answers.items()
            }
        )

    def _answers(
        self, names: Sequence[Any], cells: Callable[[Any], list[Any]]
    ) -> dict[str, np.ndarray]:
        """Our columns for a batch: texts of dtype object, numbers of dtype float64.

        `names` are the batch's columns; `cells` returns the cells of a column.
        """
        predictor = _loaded(self.model, self.engine, self.auto_precision)
        header = _Header(tuple(map(str, names)))
        columns = OutputColumns(
            header, predictor, probabilities=self.probabilities, reasons=self.reasons
        )
        text_cells = [map(given_text, cells(name)) for name in self._texts(predictor, names)]
        texts = [join_texts(row) for row in zip(*text_cells, strict=True)]
        ours = columns.all[len(names) :]
        rows = columns.cells(texts, predictor.answer(texts))
        table = np.array(rows, object).reshape(len(texts), len(ours))
        numbers = {_CONFIDENCE, *range(_IN_WORDS + self.reasons, len(ours))}
        return {
            name: _numbers(table[:, index]) if index in numbers else table[:, index]
            for index, name in enumerate(ours)
        }

    def _texts(self, predictor: Predictor, names: Sequence[Any]) -> list[str]:
        """The text columns.

        Raises:
            ColumnError: a column is missing.
        """
        text = predictor.bundle.config.text_columns if self.text is None else self.text
        columns = [name.strip() for name in text.split(",")] if isinstance(text, str) else [*text]
        for name in columns:
            if name not in names:
                raise ColumnError(
                    f"a batch without the column {one_line(name)}",
                    expected=f"it among {one_line(', '.join(map(str, names)), 200)}",
                    fix="name the text columns: BatchScorer(model, text=...)",
                )
        return columns


class _Header:
    """The names of a batch's columns, without duplicates."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.columns = self.header = names


_lock = threading.Lock()


def _loaded(
    model: str | Path | Predictor,
    engine: EngineName,
    auto_precision: float | str | PrecisionTargets | None,
) -> Predictor:
    """The model, shared by all scorers and threads of this process."""
    targets = None if auto_precision is None else PrecisionTargets.of(auto_precision)
    if isinstance(model, Predictor):
        return loaded(model, engine=engine, auto_precision=targets)
    with _lock:
        return _load(str(model), engine, None if targets is None else targets.model_dump_json())


@lru_cache(_MODELS)
def _load(model: str, engine: EngineName, targets: str | None) -> Predictor:
    precision_targets = None if targets is None else PrecisionTargets.of_json(json.loads(targets))
    return load(model, engine=engine, auto_precision=precision_targets)


atexit.register(_load.cache_clear)  # drop engines before Python shuts down


def _numbers(cells: np.ndarray) -> np.ndarray:
    return np.array([float(cell) if cell else np.nan for cell in cells], np.float64)
