"""Scored files in pages, with filters and counts."""

import csv
import threading
from collections import Counter

import numpy as np
import pytest

from bertcnn.errors import TableError
from bertcnn.scoring import results
from bertcnn.scoring.results import Wanted, answer_columns, index_scored
from bertcnn.tables.writing import TableWriter

HEADER = ("id", "created_at", "text", "decision", *results.OURS[:2], "bertcnn_decision", "because")
LABELS, DECISIONS = ("billing", "=cmd", "tv", ""), ("auto", "review:ambiguous")


def rows_of(number):
    return [
        (
            str(row),
            f"2026-0{1 + row % 9}-15T10:00:00",
            f'a "quoted",\ntext {row}',
            "closed",
            LABELS[row * row % 4],
            f"{row / number:.6f}",
            DECISIONS[row % 3 == 0],
            "",
        )
        for row in range(number)
    ]


@pytest.fixture(params=[".csv", ".jsonl", ".parquet", ".xlsx", ".tsv.gz"])
def scored(request, tmp_path, monkeypatch):
    """A scored file of 100 rows in each format, with row groups of 16."""
    monkeypatch.setattr(results, "_ROWS_OF_GROUP", 16)
    path = tmp_path / f"scored{request.param}"
    with TableWriter(path, HEADER, raw=True) as writer:
        writer.write(rows_of(100))
    return index_scored(path, tmp_path / "index.parquet")


def test_all_rows_are_there_in_order_with_their_counts(scored):
    assert len(scored) == 100
    assert scored.columns == HEADER
    assert scored.rows(np.arange(100)) == rows_of(100)
    assert scored.counts() == Counter((row[4], row[6]) for row in rows_of(100))
    assert scored.days() == ("2026-01-15", "2026-09-15")


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(),
        Wanted(labels=("billing",)),
        Wanted(labels=("",)),
        Wanted(labels=("=cmd", "tv"), decisions=("auto",)),
        Wanted(decisions=("review:language",)),
        Wanted(first_day="2026-03-15", last_day="2026-04-30"),
        Wanted(last_day="2026-01-15", labels=("billing", "=cmd")),
    ],
)
def test_pages_of_what_matches_are_those_of_a_loop_over_all_rows(scored, wanted):
    expected = [
        row
        for row in rows_of(100)
        if (not wanted.labels or row[4] in wanted.labels)
        and (not wanted.decisions or row[6] in wanted.decisions)
        and wanted.first_day <= row[1][:10] <= (wanted.last_day or "9")
    ]
    places = scored.matching(wanted)
    found = [row for first in range(0, 100, 7) for row in scored.rows(places[first : first + 7])]
    assert found == expected


def test_a_time_in_the_first_column_is_found(tmp_path):
    path = tmp_path / "scored.csv"
    with TableWriter(path, ["created_at", "text", *results.OURS]) as writer:
        writer.write(
            (f"2026-05-{day:02}T10:00", "x", "tv", "0.5", "auto", "") for day in range(1, 29)
        )
    assert index_scored(path, tmp_path / "index.parquet").days() == ("2026-05-01", "2026-05-28")


def test_one_of_several_labels_is_enough(tmp_path):
    path = tmp_path / "scored.csv"
    cells = ["billing, tv", "tv", "", "billing"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", *results.OURS])
        writer.writerows(["x", cell, "0.5", "auto", ""] for cell in cells)
    found = index_scored(path, tmp_path / "index.parquet", separator=",")
    assert found.matching(Wanted(labels=("billing",))).tolist() == [0, 3]
    assert found.matching(Wanted(labels=("", "billing"))).tolist() == [0, 2, 3]
    assert (found.time, found.days()) == (None, None)


def test_an_index_is_written_once_and_whole(tmp_path, monkeypatch):
    path, index = tmp_path / "scored.csv", tmp_path / "index.parquet"
    with TableWriter(path, HEADER) as writer:
        writer.write(rows_of(20))

    def broken(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(results, "_sound", broken)
        with pytest.raises(KeyboardInterrupt):
            index_scored(path, index)
    assert [one.name for one in tmp_path.iterdir()] == ["scored.csv"]
    index_scored(path, index)
    path.unlink()
    assert len(index_scored(path, index)) == 20


def test_two_that_look_at_the_same_file_at_once_both_see_it(tmp_path, monkeypatch):
    path, index = tmp_path / "scored.csv", tmp_path / "index.parquet"
    with TableWriter(path, HEADER, raw=True) as writer:
        writer.write(rows_of(100))
    both, write, found = threading.Barrier(2), results._write, []

    def written_by_both(*arguments):
        both.wait(30)
        write(*arguments)
        both.wait(30)

    monkeypatch.setattr(results, "_write", written_by_both)
    looks = [
        threading.Thread(target=lambda: found.append(len(index_scored(path, index))))
        for _ in range(2)
    ]
    for look in looks:
        look.start()
    for look in looks:
        look.join()
    assert found == [100, 100]
    assert sorted(tmp_path.iterdir()) == [index, path]


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("text,label\nmy router,tv\n")
    with pytest.raises(TableError, match="no column predicted_label; expected a file that was"):
        index_scored(path, tmp_path / "index.parquet")
    assert answer_columns(["bertcnn_because", *results.OURS, "bertcnn_bertcnn_because"]) == (
        *results.OURS[:3],
        "bertcnn_bertcnn_because",
    )
