"""Files that make a reader use gigabytes or minutes are refused in one line.

Harmless files are read.
"""

import os
import re
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


@pytest.mark.parametrize(
    ("row", "cell", "lines"),
    [
        ("102", text_cell("XFD102", "x"), [100, 101]),
        ("1048576", text_cell("B1048576", "x"), [101, 1_048_576]),
        ("1048576", '<c r="XFD1048576" s="0"/>', [100, 101]),
    ],
    ids=["last column", "last row", "formatted only"],
)
def test_a_cell_at_the_end_of_a_sheet_is_read(tmp_path, row, cell, lines):
    path = workbook(tmp_path / "in.xlsx", [*rows(100), f'<row r="{row}">{cell}</row>'])
    assert read_table(path).line_numbers[-2:] == lines


def test_a_reader_that_was_closed_early_leaves_no_process(tmp_path):
    with open_table(workbook(tmp_path / "in.xlsx", rows(50_000))) as reader:
        reader.peek(10)
        process = reader._source._process
    assert process.returncode is not None


def test_many_columns_of_parquet_are_refused(tmp_path):
    columns = pyarrow.table({f"c{place}": ["a"] for place in range(16_385)})
    pyarrow.parquet.write_table(columns, tmp_path / "in.parquet")
    with pytest.raises(TableError, match="has 16,385 columns"):
        open_table(tmp_path / "in.parquet")


def test_formulas_without_saved_values_are_named_as_the_reason_for_blanks(tmp_path):
    formulas = [
        f'<row r="{row}">{text_cell(f"A{row}", f"no signal {row}")}<c'
        f' r="B{row}"><f>UPPER("a")</f>{"<v></v>" * (row % 2)}</c></row>'
        for row in range(2, 8)
    ]
    header = f'<row r="1">{text_cell("A1", "text")}{text_cell("B1", "label")}</row>'
    table = read_table(workbook(tmp_path / "in.xlsx", [header, *formulas]))
    assert table.column("label") == [""] * 6
    assert re.search("6 cells of the column 'label'.* hold formulas without a saved", table.remark)


def test_merged_cells_are_named_as_the_reason_for_blanks(tmp_path):
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "label"])
        sheet.write_column(1, 0, [f"no signal {row}" for row in range(6)])
        sheet.merge_range("B2:B4", "hardware")
        sheet.merge_range("B5:B7", "billing")
    table = read_table(tmp_path / "in.xlsx")
    assert table.column("label") == ["hardware", "", "", "billing", "", ""]
    assert re.search("4 cells of the column 'label'.* are merged and read as blank", table.remark)


def test_blank_cells_alone_cause_no_remark(tmp_path):
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["text", "label"])
        sheet.write_row(1, 0, ["no signal"])
        sheet.write_formula(2, 0, '=UPPER("a")', None, "A")
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
