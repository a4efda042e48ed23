"""Writing tables: safe in a spreadsheet, and complete or absent."""

import csv
import errno
import os
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.errors import OutputError
from bertcnn.tables.cells import unique_names
from bertcnn.tables.formulas import escape_formula, unescape_formula
from bertcnn.tables.tables import open_table, read_table
from bertcnn.tables.writing import TableWriter, check_output, clean_leftovers

FORMATS = [
    "a.csv",
    "a.TSV",
    "a.jsonl",
    "a.csv.gz",
    "a.tsv.gz",
    "a.ndjson.gz",
    "a.parquet",
    "a.xlsx",
]
CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"), max_size=20
)
TRICKY = st.sampled_from(
    [
        *("NA", "null", "007", "1e5", "=1+1", "-5", "'", "''=", '"', 'a"b', "a\rb", "\r\n"),
        *("\0", "_x0041_", "\ufeff", "\t", ",;|"),
    ]
)
REUSE = settings(max_examples=40)


def write(path, rows, **options):
    with TableWriter(path, ["text", "label"], **options) as writer:
        writer.write(rows)


FORMULAS = ["=1+1", "+A1", "-2+3", "@SUM(A1)", "-1+cmd|' /C calc'!A0", "=", "- item", "@somebody"]
FORMULAS += ["-2-3", "-USD5", "--1", "=-5"]
HIDDEN = [
    *"\t\r\n\0\x0b\ufeff\u200b\u200d\u2060\xad\xa0\u3000\u202e ",
    "\r\n",
    "   ",
]


@pytest.mark.parametrize("cell", [*FORMULAS, "\tx", "\rx", "\nx", "\0x"])
def test_formulas_are_escaped(cell):
    assert escape_formula(cell) == "'" + cell


@pytest.mark.parametrize("cell", FORMULAS)
def test_full_width_signs_and_invisible_characters_do_not_hide_a_formula(cell):
    for sign, wide, small in zip("=+-@", "＝＋－＠", "﹦﹢﹣﹫", strict=True):
        for other in (wide, small):
            if cell.startswith(sign):
                assert escape_formula(other + cell[1:]) == "'" + other + cell[1:]
    for hidden in HIDDEN:
        assert escape_formula(hidden + cell) == "'" + hidden + cell
        assert escape_formula(2 * hidden + "\ufeff" + cell) == "'" + 2 * hidden + "\ufeff" + cell


NUMBERS = ["-5", "+1", "-3,5 %", "-12.5e3", "-1.234,56 €", "-$1,234.56", "-€5.00", "-.5", "-1 000"]
NUMBERS += ["-5 EUR", "-20 °C", "－５", "−5", "+02:00"]
PHONES = [
    "+49 30 123456",
    "+1-555-0100",
    "+1 (555) 010-0100",
    "+49 (0)30 123456-0",
    "+15550100 ext. 5",
    "+49 30 123456, +49 170 1234567",
]


OTHERS = ["-", "--", "-----", "@", "+", "-33.8688, 151.2093", "", "a=1", "5", "'tis", "0.5", "NA"]
OTHERS += ["\n", " ", "\ufeff", "2024-01-05"]


@pytest.mark.parametrize("cell", [*OTHERS, *NUMBERS, *PHONES])
def test_everything_else_is_unchanged(cell):
    assert escape_formula(cell) == unescape_formula(cell) == cell


@given(CELLS | TRICKY | st.text("'=+-@\t\ra", max_size=5))
def test_unescaping_restores_every_cell(cell):
    escaped = escape_formula(cell)
    assert unescape_formula(escaped) == cell
    assert not escaped.startswith("=")
    assert escape_formula(unescape_formula(escaped)) == escaped


def as_written(path):
    with open_table(path, as_written=True) as reader:
        return [reader.header, *(row for chunk in reader.chunks() for row in chunk.rows)]


@pytest.mark.parametrize("name", FORMATS)
def test_formulas_are_escaped_in_csv_and_tsv_unless_raw_and_read_as_they_were(tmp_path, name):
    columns = ("@text", "label")
    rows = [("=cmd()", "-5"), ("plain", "007"), ("'=cmd()", "'-5"), ("''tis", "＝1")]
    quoted = [("'=cmd()", "-5"), ("plain", "007"), ("''=cmd()", "'-5"), ("''tis", "'＝1")]
    is_text = name.lower().startswith(("a.csv", "a.tsv"))
    for raw in (False, True):
        with TableWriter(tmp_path / name, columns, raw=raw, overwrite=True) as writer:
            writer.write(rows)
        escaped = is_text and not raw
        assert as_written(tmp_path / name) == (
            [("'@text", "label"), *quoted] if escaped else [columns, *rows]
        )
        if not raw:
            table = read_table(tmp_path / name)
            assert (table.columns, table.rows) == (columns, rows)


@pytest.mark.parametrize("name", FORMATS)
def test_a_name_that_comes_twice_or_is_empty_stays_where_the_format_can_hold_it(tmp_path, name):
    columns = ("Labels", "", "text ", "Labels", "")
    with TableWriter(tmp_path / name, columns) as writer:
        writer.write([("a", "b", "c", "d", "e")])
    needs_names = name.startswith(("a.jsonl", "a.ndjson", "a.parquet"))
    last = "_2" if needs_names else "column_5"
    with open_table(tmp_path / name) as reader:
        assert reader.columns == ("Labels", "column_2", "text", "Labels_2", last)
        assert reader.header == (unique_names(columns) if needs_names else columns)
        assert next(reader.chunks()).rows == [("a", "b", "c", "d", "e")]


@pytest.mark.parametrize("name", FORMATS)
@REUSE
@given(rows=st.lists(st.tuples(CELLS | TRICKY, CELLS | TRICKY), min_size=1, max_size=8))
def test_any_cells_survive_writing_and_reading(tmp_path, name, rows):
    rows = [(str(number), *row) for number, row in enumerate(rows)]
    with TableWriter(tmp_path / name, ["id", "text", "label"], overwrite=True) as writer:
        writer.write(rows)
    table = read_table(tmp_path / name)
    assert (table.rows, table.rejected) == (rows, 0)


def test_csv_is_read_alike_by_pythons_csv_module(tmp_path):
    rows = [["a\rb", 'say "x", y'], ["", "c\nd"]]
    write(tmp_path / "a.csv", rows, raw=True)
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [["text", "label"], *rows]


def test_excel_cells_are_strings_never_formulas_links_or_numbers(tmp_path):
    import zipfile

    write(tmp_path / "a.xlsx", [("=1+1", "http://example.org"), ("007", "1e5")], raw=True)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    assert sheet.count('t="inlineStr"') == 6
    assert "<f>" not in sheet
    assert "hyperlink" not in sheet


def test_lone_surrogates_are_replaced(tmp_path):
    for name in FORMATS:
        write(tmp_path / name, [("cut \ud83d", "a")])
        assert read_table(tmp_path / name).rows == [("cut \ufffd", "a")]


def test_excel_refuses_cells_it_cannot_hold(tmp_path):
    with pytest.raises(
        OutputError,
        match=r"row 1 has a cell of 32,768 characters, .* expected at most 32,767, Excel's limit",
    ):
        write(tmp_path / "a.xlsx", [("x" * 32_768, "a")])
    write(tmp_path / "a.xlsx", [("x" * 32_767, "a")])


def test_excel_refuses_rows_it_cannot_hold(tmp_path):
    with TableWriter(tmp_path / "a.xlsx", ["text"]) as writer:
        writer._sink._next = 1_048_575  # as after that many rows
        writer.write([("the last row",)])
        with pytest.raises(
            OutputError, match=r"more than 1,048,575 rows; .* write a \.csv or \.parquet file"
        ):
            writer.write([("one more",)])


def test_a_row_of_another_width_is_refused(tmp_path):
    with pytest.raises(ValueError, match="row 2 has 1 cells, the table has 2 columns"):
        write(tmp_path / "a.csv", [("a", "b"), ("c",)])


# === The place ===


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, name, error):
    (tmp_path / name).write_bytes(b"old")

    def rows():
        yield from [("a", "b")] * 1000
        raise error

    with pytest.raises(error):
        write(tmp_path / name, rows(), overwrite=True)
    assert (tmp_path / name).read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_new_file_gets_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "a.csv", [])
        assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)
    (tmp_path / "a.csv").chmod(0o604)
    write(tmp_path / "a.csv", [], overwrite=True)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o604


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write(tmp_path / "link.csv", [], overwrite=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "text,label\n"


def test_an_output_that_exists_is_refused_before_any_work(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(
        OutputError, match=r"the output '.*a\.csv' exists; .* overwrite it with --force"
    ):
        TableWriter(tmp_path / "a.csv", ["text"])
    check_output(tmp_path / "a.csv", overwrite=True)


def test_places_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "a.csv").mkdir()
    (tmp_path / "b.csv").symlink_to("/dev/null")
    (tmp_path / "file").write_text("")
    for place, message in (
        (tmp_path / "none" / "a.csv", r"there is no folder '.*none'; expected an existing folder"),
        (tmp_path / "file" / "a.csv", "there is no folder"),
        (tmp_path / "a.csv", "is a folder; expected the name of a file"),
        (tmp_path / "a.docx", r"has the extension \.docx; expected \.csv"),
        (tmp_path / "out.json.gz", r"has the extension .*expected \.csv, \.tsv, \.jsonl"),
        (tmp_path / "b.csv", "is a pipe or a device"),
    ):
        with pytest.raises(OutputError, match=message):
            check_output(place, overwrite=True)
    check_output(tmp_path / "out.json.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_folder_that_cannot_be_written_is_refused():
    with pytest.raises(OutputError, match=r"nothing can be written .*'/proc.*write permission"):
        check_output("/proc/self/a.csv")


@pytest.mark.parametrize("name", FORMATS)
def test_the_file_appears_only_when_it_is_complete(tmp_path, name):
    with TableWriter(tmp_path / name, ["text"]) as writer:
        writer.write([("a",)])
        writer.finish()
        (unnamed,) = [entry for entry in tmp_path.iterdir() if entry.is_file()]
        complete = unnamed.read_bytes()
        with pytest.raises(ValueError, match="after `finish`"):
            writer.write([("b",)])
        assert not (tmp_path / name).exists()
    assert writer.rows_written == 1
    assert (tmp_path / name).read_bytes() == complete
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", FORMATS)
def test_equal_tables_are_equal_files_whenever_they_are_written(tmp_path, name):
    files = []
    for _ in range(2):
        write(tmp_path / name, [("a", "b")] * 5, overwrite=True)
        files.append((tmp_path / name).read_bytes())
        if name.endswith((".gz", ".xlsx")):
            time.sleep(1.1)  # gzip and Excel store timestamps in seconds
    assert files[0] == files[1]


# === What killed processes leave ===


def leave(tmp_path, process):
    """Leftovers of two tables, of a process of this number; no process on Linux has 2**22 + 1."""
    name = f".a.xlsx.{process}"
    (tmp_path / f"{name}-0123abcd.tmp").write_text("half")
    (tmp_path / f"{name}-0123abcd.tmp.d").mkdir()
    (tmp_path / f"{name}-0123abcd.tmp.d" / "rows").write_text("")
    (tmp_path / f"{name}-99999999.tmp.d").mkdir()  # its file has its final name
    others = [
        f".a.xlsx.rejects.csv.{process}-0123abcd.tmp",
        f".b.xlsx.{process}-0123abcd.tmp",
        ".a.xlsx.tmp",
        f"{name}-x.tmp",
    ]
    for other in others:
        (tmp_path / other).write_text("")
    return sorted(others)


@pytest.mark.skipif(sys.platform != "linux", reason="locks")
@pytest.mark.parametrize("locks", [True, False])
def test_leftovers_of_the_same_table_are_removed_and_all_else_stays(tmp_path, monkeypatch, locks):
    import fcntl

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    if not locks:  # then the number of the process decides
        monkeypatch.setattr(fcntl, "flock", no_locks)
    others = leave(tmp_path, os.getpid() if locks else 2**22 + 1)
    with TableWriter(tmp_path / "a.xlsx", ["text"]) as writer:
        clean_leftovers(tmp_path / "a.xlsx")
        assert len(list(tmp_path.iterdir())) == len(others) + 2  # its own file and folder stay
        writer.write([("a",)])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*others, "a.xlsx"])


# === The disk fills up ===

FILL = """
    import resource, sys
    from bertcnn.tables.writing import TableWriter
    from bertcnn.errors import OutputError
    import pyarrow.parquet, xlsxwriter
    sys.dont_write_bytecode = True  # Python would keep the first bytes of a module's code for ever
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    rows = int(sys.argv[2])
    state = 1
    def random_rows():
        global state
        for _ in range(rows):
            state = state * 6364136223846793005 % 2**512
            yield (str(state), "a")
    try:
        with TableWriter(sys.argv[1], ["text", "label"], overwrite=True) as writer:
            writer.write(random_rows())
    except OutputError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="file size limits")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rows", [1400, 20_000])  # the limit is hit on closing, on writing
def test_a_full_disk_is_reported_and_the_old_file_stays(tmp_path, name, rows):
    (tmp_path / name).write_bytes(b"old")
    command = [sys.executable, "-c", textwrap.dedent(FILL), str(tmp_path / name), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    if done.stdout or rows == 20_000:  # in a compressed format, the fewer rows may fit
        assert done.stdout.startswith(
            f"the disk is full: '{tmp_path / name}' could not be written (File too large); expected"
            " enough free"
        )
        assert (tmp_path / name).read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
