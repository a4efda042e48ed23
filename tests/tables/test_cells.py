"""Conversion of any value to the text of a cell or to a whole number."""

import datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from bertcnn.errors import SettingsError
from bertcnn.tables.cells import given_text, whole_number
from bertcnn.tables.tables import open_table
from bertcnn.values import is_missing, plain_text

MOMENT = datetime.datetime(2024, 1, 5, 10)
MISSING = [
    None,
    float("nan"),
    np.float32("nan"),
    np.datetime64("NaT"),
    np.ma.masked,
    pd.NA,
    pd.NaT,
    Decimal("NaN"),
    pa.scalar(None),
]


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_missing_values_of_any_library_are_empty(value):
    assert plain_text(value) == ""
    assert whole_number(value) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.str_("a"), "a"),
        (True, "true"),
        (np.False_, "false"),
        (7.0, "7"),
        (np.float64(0.1), "0.1"),
        (np.float32(0.1), "0.1"),
        (np.float32(7), "7"),
        (np.int64(-3), "-3"),
        (Decimal("1E+2"), "100"),
        (Decimal("7.50"), "7.50"),
        (MOMENT, "2024-01-05 10:00:00"),
        (pd.Timestamp(MOMENT), "2024-01-05 10:00:00"),
        (np.datetime64("2024-01-05T10", "ns"), "2024-01-05 10:00:00"),
        (np.datetime64("2024-01-05"), "2024-01-05"),
        (datetime.date(2024, 1, 5), "2024-01-05"),
        ("é".encode(), "é"),
        (bytearray(b"a"), "a"),
        (pa.scalar("a"), "a"),
        (np.array(["a", "b"]), '["a", "b"]'),
        (["a", np.int64(1), b"b"], '["a", "1", "b"]'),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
    ids=repr,
)
def test_values_of_any_library_are_texts(value, expected):
    found = given_text(value)
    assert (found, type(found)) == (expected, str)


def test_bytes_that_are_not_utf_8_are_refused():
    with pytest.raises(SettingsError, match=r"b'\\xe9' as a text, .* not UTF-8; .* decode"):
        given_text("é".encode("latin-1"))


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_rows_of_parquet_with_bytes_that_are_not_utf_8_are_rejected(tmp_path, kind):
    path = tmp_path / "in.parquet"
    cells = pa.array(["é".encode(), b"\xff\xfe", b"ok"], pa.binary())
    pa.parquet.write_table(pa.table({"text": cells.view(kind)}), path)
    with open_table(path, rejects=tmp_path / "rejects.csv") as reader:
        assert reader.whole().rows == [("é",), ("ok",)]
        assert reader.rejected == 1
    assert "not text in UTF-8" in (tmp_path / "rejects.csv").read_text(errors="replace")


def test_a_column_of_parquet_with_images_is_left_empty_with_a_remark(tmp_path):
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(pa.table({"text": ["a", "b"], "image": [b"\xff\xd8", b"\x89PNG"]}), path)
    with open_table(path) as reader:
        assert reader.whole().rows == [("a", ""), ("b", "")]
        assert "bytes that are no text are left empty" in reader.remark


@pytest.mark.parametrize("value", [3, 3.0, "3", " 3.0 ", np.int32(3), np.float32(3), Decimal(3)])
def test_whole_numbers_of_any_kind_are_read(value):
    assert whole_number(value) == 3


@pytest.mark.parametrize("value", [3.5, "3.5", True, np.True_, "", "three", "1e3", [3]])
def test_other_values_are_not_whole_numbers(value):
    assert whole_number(value) is None


def test_arrays_are_not_missing():
    assert not is_missing(np.array([np.nan, 1.0]))
