"""Tables in memory: the columns of a scored file, with the table's own type and index."""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from bertcnn import load, score_csv, score_frame
from bertcnn.errors import ColumnError, SettingsError
from bertcnn.tables.tables import read_table
from tests.tiny import saved

TEXTS = ["my router is dead", None, "refund the invoice", "", "the app crashes"]


@pytest.fixture(scope="module")
def model(encoder_folder):
    return load(saved(encoder_folder))


@pytest.fixture
def frame():
    return pd.DataFrame({"body": TEXTS, "number": range(5)}, index=[9, 7, 5, 3, 3])


def test_a_data_frame_keeps_its_index_and_gets_the_columns_of_a_file(model, frame, tmp_path):
    frame.to_csv(tmp_path / "in.csv", index=False)
    score_csv(model, tmp_path / "in.csv", tmp_path / "out.csv", text="body", probabilities=True)
    table = read_table(tmp_path / "out.csv")
    scored = score_frame(model, frame, text="body", probabilities=True)
    assert list(scored.columns) == list(table.columns)
    assert list(scored.index) == list(frame.index)
    pd.testing.assert_frame_equal(scored[["body", "number"]], frame)
    for name in ("predicted_label", "decision", "because"):
        assert list(scored[name]) == table.column(name)
    probability = f"p_{model.labels[0]}"
    for name in ("confidence", probability):
        cells = [float(cell) if cell else np.nan for cell in table.column(name)]
        np.testing.assert_allclose(scored[name], cells)
    assert list(scored["confidence"].isna()) == [False, True, False, True, False]


def test_an_arrow_table_and_a_dict_keep_their_type(model, frame, encoder_folder):
    expected = list(score_frame(model, frame, text="body")["predicted_label"])
    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    scored = score_frame(saved(encoder_folder), table, text="body")
    assert isinstance(scored, pyarrow.Table)
    assert scored.column("predicted_label").to_pylist() == expected
    arrays = score_frame(model, {"body": frame["body"].to_numpy()}, text="body")
    assert list(arrays["predicted_label"]) == expected


def test_an_unusable_frame_is_refused_in_one_line(model, frame, tmp_path):
    with pytest.raises(ColumnError, match="a batch without the column 'subject'"):
        score_frame(model, frame, text="subject")
    with pytest.raises(SettingsError, match="a batch of type list"):
        score_frame(model, TEXTS)
    with pytest.raises(SettingsError, match=r"a DataFrame as the file to score.*score_frame"):
        score_csv(model, frame, tmp_path / "out.csv")
