"""The reader of labelled tables."""

import pytest

from bertcnn import read_labelled
from bertcnn.errors import LabelError
from tests.listener import Listener
from tests.tickets import as_csv, tickets


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def test_rows_with_several_labels_are_read_as_such(tmp_path):
    rows = (
        "text,label\n"
        + "my bill,billing\nmy router,hardware\nbill for the router,billing; hardware\n,billing\n"
        * 5
    )
    data = read_labelled(write(tmp_path / "tickets.csv", rows))
    assert (data.separator, len(data)) == (";", 20)
    assert data.labels[:3] == [("billing",), ("hardware",), ("billing", "hardware")]
    assert data.texts[:4] == ["my bill", "my router", "bill for the router", ""]


def test_one_label_a_row_is_a_string_and_a_blank_cell_none(tmp_path):
    texts, labels = tickets(2)
    rows = as_csv(texts, labels) + '90,"cable",\n91,"  ",\n'
    data = read_labelled(write(tmp_path / "tickets.csv", rows), text="text", label="label")
    assert data.labels == [*labels, "", ""]
    assert data.texts == [*texts, "cable", ""]


def test_a_split_keeps_every_row_with_a_text_and_those_without_a_label_to_learn_from(tmp_path):
    texts, labels = tickets(6)
    rows = as_csv(texts, labels) + '90,"cable",\n91,,billing\n'
    data = read_labelled(write(tmp_path / "tickets.csv", rows), text="text", label="label")
    kept, held_out = data.split(0.3)
    assert sorted([*kept.texts, *held_out.texts]) == sorted([*texts, "cable"])
    assert (kept.labels[-1], set(held_out.labels)) == ("", set(labels))
    assert [data.texts.index(text) for text in held_out.texts] == [
        int(row[0]) for row in held_out.table.rows
    ]
    with pytest.raises(LabelError, match="1 of 4 labels with a single row: 'parcels'"):
        read_labelled(
            write(tmp_path / "single.csv", rows + "92,a van,parcels\n"), text="text", label="label"
        ).split(0.3)


def test_slices_follow_the_rows_of_a_split(tmp_path):
    texts, labels = tickets(6)
    rows = "".join(
        f"{text},{label},{'web' if row % 2 else 'mail'}\n"
        for row, (text, label) in enumerate(zip(texts, labels, strict=True))
    )
    data = read_labelled(
        write(tmp_path / "tickets.csv", "text,label,channel\n" + rows), text="text", label="label"
    )
    for part in data.split(0.3):
        assert part.slices["channel"] == part.table.column("channel")


def test_left_out_rows_and_chosen_columns_are_reported(tmp_path):
    notes = Listener()
    rows = as_csv(*tickets(6)) + "99\n"
    rejects = tmp_path / "new" / "rejects.csv"
    data = write(tmp_path / "tickets.csv", rows)
    assert len(read_labelled(data, rejects=rejects, progress=notes)) == 18
    assert "99" in rejects.read_text()
    assert notes.notes[0].startswith("text: 'text' (")
    assert any("1 of 19 rows of" in note and str(rejects) in note for note in notes.notes)
