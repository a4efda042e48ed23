"""Columns used as slices in a report."""

from bertcnn.tables.columns import guess_columns
from bertcnn.tables.slices import months_of, slice_columns
from bertcnn.tables.tables import read_table


def table(tmp_path, rows):
    path = tmp_path / "data.csv"
    path.write_text(
        "id,created,channel,customer_name,text,label\n"
        + "".join(f"{','.join(row)}\n" for row in rows)
    )
    return read_table(path)


def test_channel_and_month_are_taken_and_people_are_not(tmp_path):
    rows = [
        [
            *(f"{row}", f"2026-0{1 + row % 2}-03", ("mail", "chat")[row % 2], f"Miller {row % 2}"),
            *(f"router {row} is dead", "ab"[row % 2]),
        ]
        for row in range(12)
    ]
    found = table(tmp_path, rows)
    slices = slice_columns(found, guess_columns(found))
    assert list(slices) == ["channel", "month of created"]
    assert slices["channel"][:2] == ["mail", "chat"]
    assert slices["month of created"][:2] == ["2026-01", "2026-02"]


def test_a_column_with_one_value_is_not_a_slice(tmp_path):
    rows = [
        (str(row), "2026-01-03", "chat", "Miller", f"router {row} is dead", "ab"[row % 2])
        for row in range(12)
    ]
    found = table(tmp_path, rows)
    assert slice_columns(found, guess_columns(found)) == {}


def test_months_of_dates_that_could_be_read_both_ways_are_not_guessed():
    assert months_of(["13/2/2026", "1/3/2026"]) == ["2026-02", "2026-03"]
    assert months_of(["1/2/2026", "3/4/2026"]) == ["", ""]
    assert months_of(["2026-13-01", "soon", ""]) == ["", "", ""]
