"""Files that make a reader use gigabytes or minutes are refused in one line.

Harmless files are read.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import xlsxwriter

from bertcnn.errors import TableError
from bertcnn.tables.tables import open_table, read_table
from tests.tables.hostile import EXCEL, GZIP, PARQUET, rows, text_cell, workbook

resource = pytest.importorskip("resource")  # only where the system has such limits
READ = """
import sys
from bertcnn.tables.tables import read_table
from bertcnn.errors import TableError
try:
    print(len(read_table(sys.argv[1])), "rows")
except TableError as error:
    print("refused:", error)
"""
ALL = [
    pytest.param(make, id=name) for kind in (EXCEL, PARQUET, GZIP) for name, make in kind.items()
]


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (600_000_000, 600_000_000))


@pytest.mark.parametrize("make", ALL)
def test_a_small_file_that_swells_is_refused_in_one_line_within_600_megabytes(tmp_path, make):
    done = subprocess.run(
        [sys.executable, "-c", READ, str(make(tmp_path))],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit_memory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("refused: "), done.stdout
    assert done.stdout.count("\n") == 1


def test_a_cell_far_from_a_short_table_is_read_and_told(tmp_path):
    path = workbook(
        tmp_path / "in.xlsx", [*rows(100), f'<row r="102">{text_cell("XFD102", "x")}</row>']
    )
    table = read_table(path)
    assert len(table) == 100
    assert "columns without a name right of 'label'" in table.remark


def test_a_cell_in_the_last_row_is_read(tmp_path):
    table = read_table(
        workbook(
            tmp_path / "in.xlsx",
            [*rows(100), f'<row r="1048576">{text_cell("B1048576", "x")}</row>'],
        )
    )
    assert table.line_numbers[-2:] == [101, 1_048_576]


def test_a_formatted_cell_at_the_end_of_the_sheet_costs_nothing(tmp_path):
    assert (
        len(
            read_table(
                workbook(
                    tmp_path / "in.xlsx",
                    [*rows(100), '<row r="1048576"><c r="XFD1048576" s="0"/></row>'],
                )
            )
        )
        == 100
    )


def test_a_reader_that_was_closed_early_leaves_no_process(tmp_path):
    with open_table(workbook(tmp_path / "in.xlsx", rows(50_000))) as reader:
        reader.peek(10)
        process = reader._source._process
    assert process.returncode is not None


def test_many_columns_of_parquet_are_refused(tmp_path):
    pyarrow.parquet.write_table(
        pyarrow.table({f"c{place}": ["a"] for place in range(16_385)}), tmp_path / "in.parquet"
    )
    with pytest.raises(TableError, match="has 16,385 columns"):
        open_table(tmp_path / "in.parquet")


def test_formulas_without_saved_values_are_the_reason_for_blanks_that_is_told(tmp_path):
    formulas = [
        f'<row r="{row}">{text_cell(f"A{row}", f"no signal {row}")}<c'
        f' r="B{row}"><f>UPPER("a")</f>{"<v></v>" * (row % 2)}</c></row>'
        for row in range(2, 8)
    ]
    header = f'<row r="1">{text_cell("A1", "text")}{text_cell("B1", "label")}</row>'
    table = read_table(workbook(tmp_path / "in.xlsx", [header, *formulas]))
    assert table.column("label") == [""] * 6
    assert "6 cells of the column 'label'" in table.remark
    assert "hold formulas without a saved value" in table.remark


def test_merged_cells_are_the_reason_for_blanks_that_is_told(tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    sheet = book.add_worksheet()
    sheet.write_row(0, 0, ["text", "label"])
    for row in range(1, 7):
        sheet.write(row, 0, f"no signal {row}")
    sheet.merge_range("B2:B4", "hardware")
    sheet.merge_range("B5:B7", "billing")
    book.close()
    table = read_table(tmp_path / "in.xlsx")
    assert table.column("label") == ["hardware", "", "", "billing", "", ""]
    assert "4 cells of the column 'label'" in table.remark
    assert "are merged and read as blank" in table.remark


def test_blank_cells_alone_are_no_remark(tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    book.add_worksheet().write_row(0, 0, ["text", "label"])
    book.worksheets()[0].write_row(1, 0, ["no signal"])
    book.worksheets()[0].write_formula(2, 0, '=UPPER("a")', None, "A")
    book.close()
    assert read_table(tmp_path / "in.xlsx").remark == ""


def _children() -> set[str]:
    """The child processes of this thread, including those of other tests."""
    listed = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return set(listed.split())


def test_a_worker_that_sleeps_for_good_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("bertcnn.tables.worker._ASLEEP", 1)
    pyarrow.parquet.write_table(
        pyarrow.table({"text": [f"no signal {row}" for row in range(200_000)]}),
        tmp_path / "in.parquet",
    )
    before = _children()
    with open_table(tmp_path / "in.parquet") as table:
        (worker,) = _children() - before
        # like native code that waits for a lock that is never released
        os.kill(int(worker), signal.SIGSTOP)
        with pytest.raises(
            TableError, match=r"in.parquet.* cannot be read within 3\d\d MB of memory"
        ):
            list(table.chunks())
