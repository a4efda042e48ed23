"""Scorers for batches: the columns of a scored file, any kind of batch, pickling, threads."""

import csv
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bertcnn import BatchScorer, score_csv
from bertcnn.errors import ColumnError, SettingsError
from bertcnn.scoring import batches

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "golden" / "saved" / "model"
ROWS = {
    "id": ["1", "2", "3", "4"],
    "text": ["the router is off", "refund my bill", "", "the app crashes"],
    "decision": ["open", "open", "closed", "open"],  # one of our column names
}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The names and columns that `score_csv` writes."""
    folder = tmp_path_factory.mktemp("scored")
    pd.DataFrame(ROWS).to_csv(folder / "in.csv", index=False)
    score_csv(
        MODEL, folder / "in.csv", folder / "out.csv", text="text", probabilities=True, reasons=True
    )
    with (folder / "out.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def as_written(values):
    """A column as a scored file has it."""
    return tuple(
        value
        if isinstance(value, str)
        else ""
        if value is None or value != value
        else f"{value:.6f}"
        for value in values
    )


SCORER = BatchScorer(MODEL, "text", probabilities=True, reasons=True)


def test_a_data_frame_gets_the_columns_of_a_scored_file_and_keeps_its_index(scored):
    frame = pd.DataFrame(ROWS, index=[9, 7, 5, 3])
    answered = SCORER(frame)
    assert {name: as_written(answered[name]) for name in answered} == scored
    assert [*answered.index] == [9, 7, 5, 3]
    assert "bertcnn_decision" in answered
    assert answered["confidence"].dtype == np.float64
    assert answered["predicted_label"].dtype == "str"


def test_a_dict_of_arrays_does_too(scored):
    answered = SCORER({name: np.array(cells, object) for name, cells in ROWS.items()})
    assert {name: as_written(cells.tolist()) for name, cells in answered.items()} == scored


@pytest.mark.parametrize("kind", [pa.table, pa.record_batch])
def test_an_arrow_table_gets_the_same_columns(scored, kind):
    answered = SCORER(kind(ROWS))
    found = {name: as_written(answered.column(name).to_pylist()) for name in answered.column_names}
    assert found == scored
    assert answered.column("confidence").null_count == 1


def test_an_empty_batch_has_the_same_columns_and_types():
    frame = pd.DataFrame(ROWS)
    answered, empty = SCORER(frame), SCORER(frame.iloc[:0])
    assert (empty.dtypes == answered.dtypes).all()
    table = pa.table(ROWS)
    assert SCORER(table.slice(0, 0)).schema == SCORER(table).schema


def test_dask_takes_a_scorer():
    frame = pd.concat([pd.DataFrame(ROWS)] * 3, ignore_index=True)
    answered = dask.dataframe.from_pandas(frame, npartitions=3).map_partitions(SCORER)
    expected = SCORER(pd.DataFrame(ROWS))
    assert [*answered.columns] == [*expected.columns]
    found = answered.compute()
    for name in expected:
        assert as_written(found[name]) == as_written(expected[name]) * 3


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series([None, float("nan"), pd.NaT, pd.NA], dtype=object),
        pd.Series([None, pd.NA], dtype="string"),
        np.array([np.nan], np.float32),
        np.array(["NaT"], "M8[ns]"),
    ],
    ids=["objects", "strings", "numbers", "times"],
)
def test_missing_cells_are_blank(cells):
    for batch in ({"text": np.array(cells)}, pd.DataFrame({"text": cells})):
        assert set(SCORER(batch)["decision"]) == {"review:empty"}


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (np.array([0.1], np.float32), "0.1"),
        (np.array(["2024-01-05T10"], "M8[ns]"), "2024-01-05 10:00:00"),
        (np.array([b"my router is off"], object), "my router is off"),
    ],
)
def test_cells_of_any_type_are_read_as_in_a_file(cells, text):
    expected = [*map(str, SCORER({"text": np.array([text], object)})["p_billing"])]
    for batch in ({"text": cells}, pd.DataFrame({"text": cells}), pa.table({"text": cells})):
        assert [*map(str, SCORER(batch)["p_billing"])] == expected


def test_all_copies_and_threads_of_a_process_load_the_model_once(monkeypatch):
    loads, load = [], batches.load
    monkeypatch.setattr(batches, "load", lambda *args, **kw: loads.append(1) or load(*args, **kw))
    batches._load.cache_clear()
    copies = [pickle.loads(pickle.dumps(SCORER)) for _ in range(4)]  # noqa: S301 - our own
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda copy: copy(pd.DataFrame(ROWS)), copies))
    assert len(loads) == 1
    assert all(answer.equals(answers[0]) for answer in answers)


def test_a_scorer_is_made_without_loading_anything():
    code = (
        "import sys; from bertcnn import BatchScorer; import pickle;"
        "pickle.dumps(BatchScorer('not/there'));"
        "print([name for name in ('ray', 'pandas', 'keras') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_mistakes_are_explained():
    with pytest.raises(ColumnError, match=r"a batch without the column 'body'; expected it among"):
        BatchScorer(MODEL, "body")(pd.DataFrame(ROWS))
    with pytest.raises(SettingsError, match=r"a batch of type list; expected a pandas DataFrame"):
        SCORER([1, 2])
    with pytest.raises(SettingsError, match="bytes are not UTF-8"):
        SCORER({"text": np.array([b"\xff"], object)})
    with pytest.raises(SettingsError, match="engine 'gpu'"):
        BatchScorer(MODEL, engine="gpu")
