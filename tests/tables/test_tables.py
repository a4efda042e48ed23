"""Reading tables: every format, every kind of damage, and no lost rows."""

import csv
import datetime
import gzip
import io
import json
import os
import re
import time
import tracemalloc
import zipfile
from contextlib import suppress

import pyarrow
import pyarrow.parquet
import pytest
import xlsxwriter

from bertcnn.errors import ColumnError, OutputError, SettingsError, TableError
from bertcnn.tables.cells import name_columns
from bertcnn.tables.columns import guess_columns
from bertcnn.tables.lines import LONGEST_LINE, TextFile
from bertcnn.tables.tables import MAX_CELL_CHARACTERS, check_outcome, open_table, read_table
from bertcnn.tables.writing import TableWriter, check_output

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def save(folder, content, name="in.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def save_sheet(path, rows):
    """A workbook with one sheet of these rows."""
    with xlsxwriter.Workbook(str(path)) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
    return path


def read(path, **options):
    """The rows, their lines, and the reasons of rejected rows by line."""
    rejects = path.with_name("rejects.csv")
    with open_table(path, rejects=rejects, **options) as reader:
        rows, lines = [], []
        for chunk in reader.chunks(rows=3):
            rows += chunk.rows
            lines += chunk.line_numbers
    assert (reader.accepted, len(rows)) == (len(rows), len(lines))
    refused = {}
    if rejects.exists():
        with rejects.open(newline="", encoding="utf-8") as stream:
            refused = {int(row["line"]): row["reason"] for row in csv.DictReader(stream)}
    assert reader.rejected == len(refused)
    return rows, lines, refused


# === Cells ===


def test_json_numbers_keep_their_spelling_and_null_becomes_empty(tmp_path):
    lines = ['{"a": "NA", "b": 1e5, "c": null}', "", '{"a": 1.10, "b": true, "d": {"x": [1, "y"]}}']
    rows, numbers, _ = read(save(tmp_path, "\n".join(lines), "in.jsonl"))
    assert rows == [("NA", "1e5", "", ""), ("1.10", "true", "", '[1, "y"]')]
    assert numbers == [1, 3]


def test_parquet_values_become_plain_text(tmp_path):
    table = pyarrow.table(
        {
            "text": ["NA", None, "007"],
            "n": [1.0, 2.5, float("nan")],
            "b": [True, None, False],
            "i": [10**18, 2, 3],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    rows, lines, _ = read(tmp_path / "in.parquet")
    assert rows == [
        ("NA", "1", "true", str(10**18)),
        ("", "2.5", "", "2"),
        ("007", "", "false", "3"),
    ]
    assert lines == [1, 2, 3]


def test_long_numbers_and_single_precision_keep_the_digits_that_were_written(tmp_path):
    cards = [1234567890123456.0, 98765432109876543210.0, -1e300, float("inf")]
    single = pyarrow.array([0.1, None, 7.0, float("nan")], pyarrow.float32())
    table = pyarrow.table({"card": cards, "share": single})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    cards, shares = zip(*read(tmp_path / "in.parquet")[0], strict=True)
    assert cards == ("1234567890123456", "98765432109876543488", "-1e+300", "inf")
    assert shares == ("0.1", "", "7", "")
    path = save_sheet(tmp_path / "in.xlsx", [["text", "card"], ["router", 1234567890123456]])
    assert read(path)[0] == [("router", "1234567890123456")]


def test_a_column_of_parquet_with_values_that_python_does_not_have_spoils_no_other(tmp_path):
    mars = pyarrow.timestamp("us", tz="Mars/Olympus")
    days = pyarrow.array([[3_000_000], [0]], pyarrow.list_(pyarrow.int32()))
    columns = {
        "text": ["router", "bill"],
        "at": pyarrow.array([0, 10**15], mars),
        "never": pyarrow.array([253402300799000000 * 2, 0], mars),
        "days": days.cast(pyarrow.list_(pyarrow.date32())),
        "name": pyarrow.array(["\ufffd", "ok"]),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    first, second = read(tmp_path / "in.parquet")[0]  # the whole file was refused as damaged
    never, began = "18029-12-30 23:59:58.000000", "1970-01-01 00:00:00"
    assert first == ("router", began, never, '["10183-09-21"]', "\ufffd")
    assert second == ("bill", "2001-09-09 01:46:40", began, '["1970-01-01"]', "ok")


def test_excel_values_become_plain_text_and_lines_are_sheet_rows(tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    sheet = book.add_worksheet()
    sheet.write_row(1, 0, ["text", "number", "day"])
    sheet.write_string(2, 0, "007")
    sheet.write_number(2, 1, 7)
    sheet.write_datetime(
        2, 2, datetime.date(2024, 1, 5), book.add_format({"num_format": "yyyy-mm-dd"})
    )
    sheet.write_string(4, 0, "NA")
    sheet.write_boolean(4, 1, True)
    book.close()
    rows, lines, _ = read(tmp_path / "in.xlsx")
    assert rows == [("007", "7", "2024-01-05"), ("NA", "true", "")]
    assert lines == [3, 5]


def test_other_sheets_of_a_workbook_are_named_and_hidden_or_empty_ones_are_passed_over(tmp_path):
    sheets = {
        "codes": [["code"], ["7"]],
        "notes": [],
        "2025": [["text"], ["no signal"]],
        "2024": [["text"], ["too slow"], ["broken"]],
    }
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        made = {name: book.add_worksheet(name) for name in sheets}
        for name, rows in sheets.items():
            for number, row in enumerate(rows):
                made[name].write_row(number, 0, row)
        made["2025"].activate()
        made["2025"].set_first_sheet()
        made["codes"].hide()
    table = read_table(tmp_path / "in.xlsx")
    assert table.rows == [("no signal",)]
    assert re.fullmatch(
        "only the sheet '2025' of .* is read; other sheets: '2024' .3 rows.", table.remark
    )


def test_a_cell_far_to_the_right_does_not_make_16_384_columns(tmp_path):
    far = ["no signal", "a", *[None] * 16_381, "x"]
    path = save_sheet(tmp_path / "in.xlsx", [["text", "label"], far, ["dead", "b"]])
    table = read_table(path)
    assert (table.columns, table.rows) == (("text", "label"), [("no signal", "a"), ("dead", "b")])
    assert table.remark.startswith("16,382 columns without a name right of 'label' in ")


# === Dialect and encoding ===


CONTENTS = {  # name: content, rows, lines, and the lines of rejected rows
    "cells that look like values": (
        'text,label\nNA,null\n007,1e5\n"",None\n -5 ,=1+1\nnan,\\N\n',
        [("NA", "null"), ("007", "1e5"), ("", "None"), (" -5 ", "=1+1"), ("nan", "\\N")],
        [2, 3, 4, 5, 6],
    ),
    "one column": (
        'text\nHello, world\n"quoted, too"\n""\n',
        [("Hello, world",), ("quoted, too",), ("",)],
        [2, 3, 4],
    ),
    "sep": ("sep=;\r\ntext;label\r\na,b;c\r\n", [("a,b", "c")], [3]),
    "backslashes": (
        'text,label\n"he said \\"no\\", twice",a\n"x",b\n',
        [('he said "no", twice', "a"), ("x", "b")],
        [2, 3],
    ),
    "spaces before quotes": (
        'id, "text", label\n1, "no signal, again" , hardware\n2, plain, billing\n'
        '3, "two\nlines, ""quoted""", billing\n',
        [
            ("1", "no signal, again", " hardware"),
            ("2", " plain", " billing"),
            ("3", 'two\nlines, "quoted"', " billing"),
        ],
        [2, 3, 4],
    ),
    "a quoted word": (
        'id,text,label\n1, "Error 5" on the box,a\n2,none,b\n',
        [("1", ' "Error 5" on the box', "a"), ("2", "none", "b")],
        [2, 3],
    ),
    "tabs without quoting": (
        'text\tlabel\n"no he said\ta\nb\tc\n',
        [('"no he said', "a"), ("b", "c")],
        [2, 3],
    ),
    "old Macintosh": (
        'text,label\r"no signal\nsince today",a\r"dead\nred led\nnoise",b\r',
        [("no signal\nsince today", "a"), ("dead\nred led\nnoise", "b")],
        [2, 3],
    ),
    "pasted line ends": (
        "text,label\nno\rsignal\rtoday,a\ndead\r\r\rnow,b\n",
        [("no\rsignal\rtoday", "a"), ("dead\r\r\rnow", "b")],
        [2, 3],
    ),
    "blank lines": ("\n\ntext,label\n\n  \na,b\n\r\n,\n\n", [("a", "b"), ("", "")], [6, 8]),
    "a quote that is never closed": (
        'text,label\n"never closed,x\n",odd","b"\n"","c"\nlast,d\n',
        [(",odd", "b"), ("", "c"), ("last", "d")],
        [3, 4, 5],
        [2],
    ),
    "a quote that a later row closes": (
        'id,text,label\n1,"open,a\n2,plain,b\n3,ends here"\n4,last,c\n',
        [("4", "last", "c")],
        [5],
        [2],
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_delimited_text_gives_its_rows_and_their_lines(tmp_path, name):
    content, rows, lines, *rejected = CONTENTS[name]
    path = save(tmp_path, content, "in.tsv" if "\t" in content else "in.csv")
    found, numbers, refused = read(path)
    assert (found, numbers, [list(refused)]) == (rows, lines, rejected or [[]])


def test_delimiter_quote_and_encoding_can_be_given(tmp_path):
    path = save(tmp_path, "text#label\n'caf\xe9#x'#a\n", encoding="latin-1")
    assert read(path, delimiter="#", quote="'", encoding="latin-1")[0] == [("café#x", "a")]
    with pytest.raises(SettingsError, match="encoding was 'utf-9'; expected a text encoding"):
        open_table(path, encoding="utf-9")


ACCENTS = "naïve café, très cher"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        *(
            (encoding, ACCENTS)
            for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252")
        ),
        ("cp1250", "Mój ruter nie działa proszę"),
        ("cp1251", "Мой роутер не работает с утра"),
        ("cp932", "ルーターが動きません。助けてください"),
    ],
)
def test_encodings_are_found(tmp_path, encoding, text, newline):
    content = newline.join(["text,label", f'"{text}",a', f'"{text}",b', ""])
    rows, lines, _ = read(save(tmp_path, content, encoding=encoding))
    assert (rows, lines) == ([(text, "a"), (text, "b")], [2, 3])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp932", "回線が朝から不安定で、動画が途中で止まります"),
        ("gb18030", "路由器坏了，请帮忙，谢谢"),
        ("cp949", "라우터가 작동하지 않습니다 도와주세요"),
    ],
)
def test_a_large_file_in_an_asian_encoding_is_not_cut_inside_a_character(tmp_path, encoding, text):
    for shift in ("", "x"):  # one of the two has its 65,536th byte inside a character
        rows = [(f"{shift}{text}{row % 3 * text[-1]}", "ab"[row % 2]) for row in range(4000)]
        content = "\n".join(["text,label", *map(",".join, rows)])
        assert read(save(tmp_path, content, encoding=encoding))[0] == rows


@pytest.mark.parametrize("name", ["in.csv", "in.csv.gz"])
def test_an_accent_beyond_the_sample_of_a_large_file_is_seen(tmp_path, name):
    row, other = b"no signal at all,a\n", "café,b\n".encode("cp1252")
    content = b"text,label\n" + row * 1_000_000 + other + row * 10_000
    path = save(tmp_path, gzip.compress(content, 1) if name.endswith("gz") else content, name)
    with open_table(path) as reader:
        assert reader.encoding == "cp1252"  # the sample was UTF-8, in which that row cannot be read


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "c’est pénible, je n’ai plus d’accès, zeigt kein grünes Licht"),
        ("cp1253", "Το ρούτερ δεν λειτουργεί από χθες, ο λογαριασμός είναι λάθος"),
        ("cp932", "ルーターの電源が入りません。困っています。"),
        ("cp949", "어제부터 공유기가 작동하지 않습니다. 빨리 도와주세요."),
    ],
)
def test_one_broken_line_does_not_change_the_encoding(tmp_path, encoding, text):
    cells = [text.encode(encoding)] * 40
    # a quote pasted from UTF-8, and two undefined bytes
    cells[20] = b"\xe2\x80\x9d \xff\x81 " + cells[20]
    content = b"text,label\n" + b"".join(cell + b",a\n" for cell in cells)
    with open_table(save(tmp_path, content)) as reader:
        assert reader.encoding == encoding


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.csv.gz"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_utf_8_lines_in_a_file_of_another_encoding_are_read_with_a_remark(tmp_path, name, newline):
    texts = [
        ("Café fermé — à bientôt", "Zug fällt aus, schöne Grüße")[row % 3 > 0] for row in range(30)
    ]
    rows = [(f"{text} {row}", str(row)) for row, text in enumerate(texts)]
    if "csv" in name:
        lines = ["text;n", *map(";".join, rows)]
    else:
        lines = [json.dumps({"text": text, "n": n}, ensure_ascii=False) for text, n in rows]
    encoded = [(line + newline).encode("utf-8" if "—" in line else "latin-1") for line in lines]
    content = b"".join(encoded)
    path = save(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    with open_table(path) as reader:
        assert [row for chunk in reader.chunks() for row in chunk.rows] == rows
    assert (reader.encoding, reader.rejected) == ("cp1252", 0)
    assert "10 are UTF-8 and the others cp1252" in reader.remark
    with open_table(path, encoding="latin-1") as reader:
        next(reader.chunks())
    assert reader.remark == ""


def test_a_file_with_old_macintosh_line_ends_has_several_lines(tmp_path):
    lines = ["text,label", *[f"café {row},été" for row in range(100)]]
    content = "\r".join(lines).encode("utf-8").replace("café 50".encode(), b"caf\xe9 50")
    with open_table(save(tmp_path, content)) as reader:
        assert reader.encoding == "utf-8"  # a single broken line garbled all others


def test_parquet_with_a_column_name_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "zzzzlabel": ["b"]}), path)
    path.write_bytes(path.read_bytes().replace(b"zzzzlabel", b"\xff\xfezzlabel"))
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        read(path)


def test_a_look_at_the_first_rows_ends_where_cells_are_long(tmp_path):
    with open_table(save(tmp_path, "text,label\n" + ("x" * 900_000 + ",a\n") * 60)) as reader:
        assert len(reader.peek(1000)) == 19  # without the limit all 60; 1,000 such rows take a GB
        assert len(reader.peek(1000)) == 19
        assert sum(map(len, reader.chunks())) == 60


def test_headers_without_names_or_with_the_same_name_get_one(tmp_path):
    with open_table(save(tmp_path, "text,text,, id ,column_3\na,b,c,d,e\n")) as reader:
        assert reader.columns == ("text", "text_2", "column_3_2", "id", "column_3")
        assert reader.header == ("text", "text", "", " id ", "column_3")


# === Rows that cannot be read ===


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ('"open,x', "quote"),
        ('"5" pipe leaks,x', "text after the quote"),
        ("a,b,c", "3 cells where the header has 2"),
        ("\0\0\0", "nothing but NUL"),
        ("caf\udce9,x", "bytes that are not text"),
        ("y" * 1_000_001 + ",x", "a cell of 1,000,001 characters, more than 1,000,000"),
        ("y" * 5_000_000 + ",x", "a line of more than 4,000,000 characters"),
    ],
)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_broken_row_is_reported_with_line_and_reason_and_no_other_is_lost(
    tmp_path, broken, reason, quoted
):
    good = [f'"text é {n}",a' if quoted else f"text é {n},a" for n in range(6)]
    content = "\n".join(["text,label", *good[:3], broken, *good[3:]]).encode(
        "utf-8", "surrogateescape"
    )
    rows, numbers, refused = read(save(tmp_path, content))
    assert rows == [(f"text é {n}", "a") for n in range(6)]
    assert numbers == [2, 3, 4, 6, 7, 8]
    assert list(refused) == [5]
    assert reason in refused[5]


def test_a_quoted_cell_of_10_mb_is_one_rejected_row(tmp_path):
    cell = ("x" * 99 + "\n") * 100_000
    rows, numbers, refused = read(save(tmp_path, f'text,label\none,a\n"{cell}",b\nthree,c\n'))
    assert (rows, numbers) == ([("one", "a"), ("three", "c")], [2, 100_004])
    assert refused == {3: f"a cell of 10,000,000 characters, more than {MAX_CELL_CHARACTERS:,}"}


def test_surplus_blank_cells_are_dropped(tmp_path):
    for name, mark in (("in.csv", ","), ("in.tsv", "\t")):
        lines = ["text,label", "a,b,,", "c,d,", 'e,f, ,""', "g,h,i"]
        rows, _, refused = read(save(tmp_path, "\n".join(lines).replace(",", mark), name))
        assert rows == [("a", "b"), ("c", "d"), ("e", "f")]
        assert refused == {5: "3 cells where the header has 2"}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_missing_cells_at_the_end_of_a_row_are_blank_and_counted(tmp_path, mark):
    lines = ["id,text,label,note,", "1,no signal,network", '2,"dead;\nred"', "3,bill,billing,paid,"]
    content = "\n".join([*lines, "4,,", ""]).replace(",", mark)
    path = save(tmp_path, content, "in.tsv" if mark == "\t" else "in.csv")
    with open_table(path) as reader:
        assert reader.delimiter == mark
        assert next(reader.chunks()).rows == [
            ("1", "no signal", "network", "", ""),
            ("2", "dead;\nred", "", "", ""),
            ("3", "bill", "billing", "paid", ""),
            ("4", "", "", "", ""),
        ]
    assert (reader.accepted, reader.padded, reader.rejected) == (4, 3, 0)


@pytest.mark.parametrize("peeked", [0, 3, 100])
def test_a_row_that_ends_before_its_text_is_rejected_in_its_place(tmp_path, peeked):
    content = 'id,state,text,label\n1,x,a,b\n2\n3,x,"open\n4,x,c\n5,x\n6,x,d,e,f\n7,x,e,g\n'
    with open_table(save(tmp_path, content), rejects=tmp_path / "rejects.csv") as reader:
        if peeked:
            reader.peek(peeked)
        reader.require(["text", "label"])
        assert [row[0] for chunk in reader.chunks() for row in chunk.rows] == ["1", "4", "7"]
    assert (reader.accepted, reader.padded, reader.rejected) == (3, 1, 4)
    rejects = read_table(tmp_path / "rejects.csv")
    assert rejects.column("line") == ["3", "4", "6", "7"]
    assert rejects.column("reason")[0] == "1 cell where the header has 4"
    assert rejects.column("content_start") == ["2", '3,x,"open', "5,x", "6,x,d,e,f"]


def test_lines_of_one_cell_below_a_header_of_thousands_make_no_huge_table(tmp_path):
    header = ",".join(f"c{place}" for place in range(16_000))
    with open_table(save(tmp_path, header + "\n" + "a\n" * 100_000)) as reader:
        cells = sum(len(row) for chunk in reader.chunks() for row in chunk.rows)
    assert reader.accepted + reader.rejected == 100_000
    assert cells < 5_000_000


def test_invalid_json_lines_are_rejected_with_a_reason(tmp_path):
    lines = [
        '{"a": "1"}',
        '{"a": "2"',
        "[1]",
        '{"a": 1, "a": 2}',
        "7",
        "[" * 100_000,
        '{"a": "\\ud83d cut"}',
        '{"a": [1' + "0" * 5000 + "]}",
        '{"a": "é"}',
    ]
    rows, numbers, refused = read(save(tmp_path, "\n".join(lines), "in.jsonl"))
    assert rows == [("1",), ("\ufffd cut",), ("é",)]
    assert numbers == [1, 7, 9]
    assert refused[2].startswith("invalid JSON: ")
    assert refused[3] == "JSON, but not an object: it is a list"
    assert refused[4] == "invalid JSON: a key that comes twice"
    assert set(refused) == {2, 3, 4, 5, 6, 8}


def test_utf_16_with_half_a_character_and_an_odd_byte_rejects_those_rows(tmp_path):
    before, after = "text,label\nok,a\n".encode("utf-16"), "fine,c\nlast,d".encode("utf-16-le")
    rows, _, refused = read(save(tmp_path, before + b"\x3d\xd8,\0b\0\n\0" + after + b"\x00"))
    assert rows == [("ok", "a"), ("fine", "c")]
    assert list(refused) == [3, 5]


def test_long_cells_of_parquet_are_rejected(tmp_path):
    cells = pyarrow.table({"a": ["x", "y" * 1_000_001, "z"]})
    pyarrow.parquet.write_table(cells, tmp_path / "in.parquet")
    rows, numbers, refused = read(tmp_path / "in.parquet")
    assert (rows, numbers, list(refused)) == ([("x",), ("z",)], [1, 3], [2])


def test_rejected_rows_are_kept_unchanged_and_escaped(tmp_path):
    broken = '=cmd(),"no ""signal""\nsince today",' + "x" * 70_000 + ",surplus"
    read(save(tmp_path, f"text,label,note\n{broken}\nok,a,b\n" + "y" * 200_000 + ",a,b,surplus\n"))
    with (tmp_path / "rejects.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["line", "reason", "content_start"]
    assert rows[1][2] == "'" + broken
    assert rows[2][2] == "y" * 100_000


def test_without_rejects_no_file_is_made(tmp_path):
    path = save(tmp_path, "text,label\na,b\n")
    with open_table(path, rejects=tmp_path / "rejects.csv") as reader:
        list(reader.chunks())
    assert [entry.name for entry in tmp_path.iterdir()] == ["in.csv"]
    with pytest.raises(OutputError, match="there is no folder"):
        open_table(path, rejects=tmp_path / "none" / "rejects.csv")


def test_an_earlier_list_of_rejected_rows_goes_once_the_whole_table_was_read_without_any(tmp_path):
    rejects = tmp_path / "out.csv.rejects.csv"
    read_table(save(tmp_path, "text,label\na,b\nbroken,c,d\n"), rejects=rejects)
    earlier = rejects.read_text()
    path = save(tmp_path, "text,label\na,b\nc,d\n")
    with open_table(path, rejects=rejects) as reader:
        reader.peek(1)
    with suppress(KeyboardInterrupt), open_table(path, rejects=rejects) as reader:
        list(reader.chunks())
        raise KeyboardInterrupt
    assert rejects.read_text() == earlier
    read_table(path, rejects=rejects)
    assert not rejects.exists()


def test_rejected_rows_left_by_a_killed_process_are_removed(tmp_path):
    leftover = tmp_path / f".rejects.csv.{2**22 + 1}-0123abcd.tmp"
    leftover.write_text("half")
    read_table(save(tmp_path, "text,label\na,b\n"), rejects=tmp_path / "rejects.csv")
    assert not leftover.exists()


def test_neither_an_output_nor_its_rejected_rows_may_be_the_input(tmp_path):
    source = save(tmp_path, "text\na\n", "out.csv.rejects.csv")
    with pytest.raises(
        OutputError,
        match=r"as input and file of rejected rows; .*choose another name for --fix",
    ):
        check_outcome(source, tmp_path / "out.csv", overwrite=True, option="--fix")
    (tmp_path / "link.csv").symlink_to(source)
    with pytest.raises(
        OutputError, match=r"link.csv as input and output; .*choose another name for the output"
    ):
        check_outcome(source, tmp_path / "link.csv", overwrite=True)
    check_outcome(source, tmp_path / "other.csv", overwrite=False)


# === Reading in parts ===


def test_chunks_are_bounded_by_rows_and_by_text(tmp_path):
    path = save(tmp_path, "text\n" + "a\n" * 10)
    with open_table(path) as reader:
        assert [len(chunk) for chunk in reader.chunks(rows=4)] == [4, 4, 2]
        assert reader.position == reader.total_bytes
    path = save(tmp_path, "text\n" + ("a" * 999_999 + "\n") * 40)
    with open_table(path) as reader:
        assert [len(chunk) for chunk in reader.chunks()] == [17, 17, 6]


@pytest.mark.parametrize("name", ["big.csv", "big.csv.gz", "big.jsonl", "big.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    def peak(rows):
        with TableWriter(tmp_path / name, ["text", "label"], overwrite=True) as writer:
            writer.write((f"ticket {n}: " + "no signal " * 30, "hardware") for n in range(rows))
        tracemalloc.start()
        with open_table(tmp_path / name) as reader:
            count = sum(len(chunk) for chunk in reader.chunks(rows=256))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == rows
        return highest

    peak(100)  # imports
    assert peak(40_000) < peak(10_000) + 2 * 1024**2  # 13 MB and 3 MB of text


# === Files that cannot be read at all ===


def broken_gzip(at=None):
    """A gzip file that ends at a byte, or has a wrong checksum."""
    packed = bytearray(gzip.compress(b"text,label\n" + b"a,b\n" * (2**19 - 3) + b"\n"))
    packed[-8] ^= 1
    return bytes(packed[:at])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv.gz", broken_gzip(at=1000), "damaged or cut off"),
        ("in.csv.gz", broken_gzip(), "damaged or cut off"),
        ("in.parquet", b"PAR1 and no more PAR1", "as Parquet"),
        ("in.xlsx", b"PK\x03\x04 and no more", "as Excel"),
        ("in.csv", bytes(range(256)) * 20, "is not text: it holds binary data"),
        ("in.jsonl", b'["a", 1]', "holds no line that is a JSON object"),
        ("in.csv", b'"text,label\na,b\n', "header of .* cannot be read: a quote that is never"),
    ],
)
def test_files_without_a_readable_table_are_refused(tmp_path, name, content, message):
    with pytest.raises(TableError, match=message):
        read_table(save(tmp_path, content, name))


def test_a_missing_file_is_reported_with_the_name_that_may_be_meant(tmp_path):
    save(tmp_path, "a,b\n", "tickets.csv")
    with pytest.raises(TableError, match=r"no file '.*tikets\.csv'; .* mean 'tickets\.csv'\?$"):
        open_table(tmp_path / "tikets.csv")


@pytest.mark.parametrize("name", ["nul\0.csv", "x" * 300 + ".csv"])
def test_impossible_names_are_refused(tmp_path, name):
    with pytest.raises(TableError, match=r"there is no file|cannot be read|is too long"):
        open_table(tmp_path / name)
    with pytest.raises(OutputError, match=r"nothing can be written|is too long"):
        check_output(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_pipes_and_folders_are_refused_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(TableError, match="is a pipe or a device; expected a file"):
        open_table(tmp_path / "pipe.csv")
    with pytest.raises(TableError, match="is a folder; expected one file"):
        open_table(tmp_path)
    with pytest.raises(TableError, match="there is no file"):
        open_table(save(tmp_path, "text\na\n") / "in.csv")


NO_ROWS = {  # files without a row, and what a reader that needs rows says
    "in.csv": (b"\n \n", "blank lines only"),
    "bom.csv": (b"\xef\xbb\xbf", "blank lines only"),
    "in.csv.gz": (gzip.compress(b"", mtime=0), "blank lines only"),
    **{
        f"empty.{form}": (b"", "is empty; expected (a header|lines such as)")
        for form in ("csv", "json", "jsonl", "parquet", "xlsx", "csv.gz")
    },
    "in.jsonl": (b"\n\n  \n", "blank lines only"),
    "in.json": (b"[ ]\n", "holds an empty list"),
    "data.json": (b'{"data": []}', "holds an empty list"),
}


@pytest.mark.parametrize("name", NO_ROWS)
def test_a_file_without_rows_is_refused_unless_its_columns_are_known(tmp_path, name):
    content, message = NO_ROWS[name]
    path = save(tmp_path, content, name)
    with pytest.raises(TableError, match=message):
        read_table(path)
    for known in (("text",), ()):
        with open_table(path, expected_columns=known) as reader:
            assert (reader.columns, list(reader.chunks())) == (("text",), [])


def test_a_workbook_in_which_nothing_can_be_seen_is_refused_or_has_the_known_columns(tmp_path):
    with xlsxwriter.Workbook(str(tmp_path / "in.xlsx")) as book:
        book.add_worksheet().write_blank(2, 2, None, book.add_format({"bold": True}))
    with pytest.raises(TableError, match="has no visible sheet with any cell filled in"):
        open_table(tmp_path / "in.xlsx")
    with open_table(tmp_path / "in.xlsx", expected_columns=("text",)) as reader:
        assert (reader.columns, list(reader.chunks())) == (("text",), [])


def zipped(member):
    """A ZIP archive with one member."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr(member, "<a/>")
    return archive.getvalue()


OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
WEB_PAGE = b"<html><body><table><tr><td>text</td></tr></table></body></html>"
MISNAMED = [  # extension, content, and what the message calls it
    ("docx", b"abc", r"extension \.docx and seems to be text, such as CSV; expected \.csv,"),
    ("csv", PNG, "fit its extension: it seems to be a PNG image"),
    ("csv", b"PK\x03\x04rest", "a ZIP archive, as Excel"),
    ("csv", b"%PDF-1.7", "a PDF"),
    ("csv", gzip.compress(b"a,b\n", mtime=0), "a gzip file"),
    ("csv", zipped("xl/workbook.xml"), r"an Excel workbook; .* name the file \.xlsx"),
    ("parquet", b"text,label\na,b\n", "text, such as CSV"),
    ("csv.gz", b"text,label\na,b\n", "text, such as CSV"),
    ("parquet", WEB_PAGE, "a web page"),
    ("csv.gz", WEB_PAGE, "a web page"),
    ("xlsx", WEB_PAGE, "a web page"),
    ("xlsx", "\ufeff\n<!DOCTYPE html>\n<p>".encode(), "a web page"),
    ("xlsx", b'<html xmlns:x="urn:schemas-microsoft-com:office:excel"><meta><table>', "a web page"),
    ("xlsx", b"<table><tr><td>text", "a web page"),
    ("xlsx", b'<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?><Workbook', "XML"),
    ("xlsx", b'{"error": "not allowed"}', "JSON"),
    (
        "xlsx",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
        "a pointer of Git LFS",
    ),
    ("xlsx", "text;label\r\nno signal;hardware\r\n".encode("utf-16"), "text, such as CSV"),
    ("xlsx", "text;label\nkein Anschluß;Leitung\n".encode("cp1252"), "text, such as CSV"),
    ("xlsx", OLD_EXCEL, "an old Excel .xls"),
    ("xlsx", OLD_EXCEL + "EncryptedPackage".encode("utf-16-le"), "a workbook with a password"),
    ("xlsx", b"\x09\x08\x08\x00\x00\x05\x10\x00" + bytes(100), "a very old Excel file"),
    ("xlsx", zipped("word/document.xml"), "a Word document"),
    ("xlsx", zipped("content.xml"), "an OpenDocument file"),
    ("xls", WEB_PAGE, "a web page .HTML.; .* open it in Excel or LibreOffice"),
    ("xls", b"text,label\na,b\n", "text, such as CSV; .* name the file .csv"),
    ("xls", OLD_EXCEL, "an old Excel .* open it in Excel"),
    ("xls", b"", "an empty file; .* export the table again"),
]


@pytest.mark.parametrize(("extension", "content", "message"), MISNAMED)
def test_a_file_with_a_wrong_extension_is_named_by_its_real_type(
    tmp_path, extension, content, message
):
    with pytest.raises(TableError, match=message):
        open_table(save(tmp_path, content, f"in.{extension}"))


def test_a_header_alone_opens_but_is_not_a_table(tmp_path):
    path = save(tmp_path, "text,label\n")
    with open_table(path) as reader:
        assert (reader.columns, list(reader.chunks())) == (("text", "label"), [])
    with pytest.raises(TableError, match=r"a header but no rows \(columns 'text', 'label'\); exp"):
        read_table(path)


def test_a_table_of_rejected_rows_only_is_refused_with_the_first_reason(tmp_path):
    path = save(tmp_path, "id,text\none\ntwo\n")
    with pytest.raises(TableError, match=r"none of the 2 rows of .* \(line 2: 1 cell where the"):
        read_table(path, rejects=tmp_path / "rejects.csv", required=["text"])
    assert (tmp_path / "rejects.csv").read_text().count("\n") == 3


def test_a_missing_column_is_reported_with_the_closest(tmp_path):
    table = read_table(save(tmp_path, "Text,label\na,b\n"))
    with pytest.raises(ColumnError, match=r"no column 'texts'; .*'Text', 'label'.*mean 'Text'"):
        table.column("texts")


def test_equal_column_names_are_numbered_thousands_of_them_too():
    assert name_columns(["a", "a_2", "a", "", "a", "column_4"]) == (
        "a",
        "a_2",
        "a_3",
        "column_4_2",
        "a_4",
        "column_4",
    )
    # this took hours when numbering restarted for each name
    assert len(set(name_columns(["0"] * 16_000))) == 16_000


NESTED = [
    {
        "id": 1.50,
        "ticket": {"subject": "router", "body": "no signal", "from": {"name": "Ann"}},
        "tags": ["a", 2.50],
    },
    {"id": 2, "ticket": "by phone", "tags": [], "meta": {}},
    {"id": 3, "ticket": {"body": "red led"}, "ticket.body": "taken"},
]


def test_objects_in_objects_are_columns_of_their_own(tmp_path):
    table = read_table(save(tmp_path, "\n".join(map(json.dumps, NESTED)), "in.jsonl"))
    ticket = ("ticket", "ticket.subject", "ticket.body", "ticket.from.name")
    assert table.columns == ("id", *ticket, "tags", "meta", "ticket.body_2")
    assert table.rows == [
        ("1.5", "", "router", "no signal", "Ann", '["a", 2.5]', "", ""),
        ("2", "by phone", "", "", "", "[]", "{}", ""),
        ("3", "", "", "red led", "", "", "", "taken"),
    ]
    line = '{"ticket": {"body": "no signal"}, "meta": {"team": "network"}}\n'
    choice = guess_columns(read_table(save(tmp_path, line * 3, "in.jsonl")))
    assert (choice.text, choice.label) == (("ticket.body",), "meta.team")


def test_objects_far_inside_objects_stay_json(tmp_path):
    row: dict = {"a": 1}
    for _ in range(500):
        row = {"a": row}
    table = read_table(save(tmp_path, json.dumps(row) + "\n", "in.jsonl"))
    assert table.columns == (".".join("a" * 9),)
    assert table.rows[0][0].startswith('{"a": {"a":')


def test_objects_whose_keys_are_data_stay_one_cell_of_json(tmp_path):
    rows = [
        {"text": f"no signal {n}", "seen": {f"2024-{n}": 1.50, "by": {"name": "Ann"}}, "team": "x"}
        for n in range(3000)
    ]
    table = read_table(save(tmp_path, "\n".join(map(json.dumps, rows)), "in.jsonl"))
    assert table.columns == ("text", "seen", "team")  # this gave 3,003 columns and 3,000 rows
    assert table.rows[2999] == ("no signal 2999", '{"2024-2999": 1.5, "by": {"name": "Ann"}}', "x")


def test_with_too_many_columns_the_widest_objects_stay_one_cell(tmp_path):
    users = [
        {
            "text": "a",
            "user": {"name": "Ann"},
            "log": {f"u{place}": {f"k{key}": "x" for key in range(20)}},
        }
        for place in range(900)
    ]
    path = save(tmp_path, "\n".join(map(json.dumps, users)), "in.jsonl")
    rows, lines, refused = read(path)
    assert (len(lines), refused) == (900, {})  # more than 16,384 different keys used to be refused
    assert {len(row) for row in rows} == {3}
    assert rows[899][1:] == ("Ann", json.dumps(users[899]["log"]))


def test_structures_of_parquet_are_columns_of_their_own(tmp_path):
    rows = [
        {"text": "no signal", "meta": {"team": "network", "at": {"day": 7.0}}, "tags": ["x"]},
        {"text": "bill", "meta": None, "tags": None},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "in.parquet")
    table = read_table(tmp_path / "in.parquet")
    assert table.columns == ("text", "meta.team", "meta.at.day", "tags")
    assert table.rows == [("no signal", "network", "7", '["x"]'), ("bill", "", "", "")]


def test_keys_of_a_jsonl_object_beyond_the_last_column_are_together_in_one_cell(tmp_path):
    many = json.dumps({f"k{place}": place for place in range(20_000)})
    path = save(tmp_path, f'{{"text": "a"}}\n{many}\n{{"text": "b", "k3": "y"}}\n', "in.jsonl")
    rows, lines, refused = read(path)
    assert ([row[0] for row in rows], lines, refused) == (["a", "", "b"], [1, 2, 3], {})
    assert len(rows[0]) == 16_384
    assert json.loads(rows[1][-1]) == {f"k{place}": place for place in range(16_382, 20_000)}
    with open_table(path) as reader:
        assert reader.columns[-1] == "other_keys"
        assert (
            "16,383 have one, all others are together in the column 'other_keys'" in reader.remark
        )


@pytest.mark.parametrize("place", ["root", "inside"])
def test_a_new_key_in_each_of_many_jsonl_lines_makes_no_column(tmp_path, place):
    """This took over 100 s for 30,000 lines, and made 500 million cells."""
    lines = []
    for number in range(30_000):
        record = {"text": f"no signal {number}", "label": ["a", "b"][number % 2]}
        if number % 50 == 0:
            record["rare"] = "yes"
        key = number if place == "root" else number % 900
        record |= {f"key {key}": number} if place == "root" else {"meta": {f"key {key}": number}}
        lines.append(json.dumps(record))
    started = time.process_time()
    with open_table(save(tmp_path, "\n".join(lines), "in.jsonl")) as reader:
        rows = [row for chunk in reader.chunks() for row in chunk.rows]
    assert time.process_time() - started < 30  # 1 s
    own = "other_keys" if place == "root" else "meta"
    assert set(reader.columns) == {"text", "label", "rare", own}
    assert ("more different keys" in reader.remark) == (place == "root")
    assert (len(rows), reader.rejected) == (30_000, 0)
    assert json.loads(rows[7][reader.columns.index(own)]) == {"key 7": 7}


def test_a_full_jsonl_table_of_thousands_of_keys_keeps_its_columns(tmp_path):
    line = json.dumps({f"k{place}": "x" for place in range(5_000)})
    with open_table(save(tmp_path, f"{line}\n" * 1_000, "in.jsonl")) as reader:
        assert (len(reader.columns), reader.remark) == (5_000, "")


def test_a_line_that_is_too_long_is_cut_where_it_becomes_so(tmp_path):
    long = ["A" * 4_500_000, "b", "C" * 4_100_000 + "D" * 3_000_000 + "END", "e" * 4_200_000]
    path = save(tmp_path, "\n".join(long), "in.txt")
    with TextFile(path, gzipped=False, encoding="utf-8") as lines:
        found = [(line[0], line[-1], len(line)) for line in lines]
    most = LONGEST_LINE + 1
    assert found == [("A", "A", most), ("b", "b", 1), ("C", "C", most), ("e", "e", most)]
