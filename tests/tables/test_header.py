"""Headers below titles, dates and blank lines.

Headers in the first line must stay the header.
"""

import pytest

from bertcnn.tables.header import header_place
from bertcnn.tables.tables import open_table
from bertcnn.tables.writing import TableWriter
from tests.tables.test_tables import read, save, save_sheet

ROWS = [
    (f"T-{row}", f"the router number {row} is dead, again", ("hardware", "billing")[row % 2])
    for row in range(12)
]


def table(delimiter=",", names=("ticket_id", "text", "label")):
    lines = [names, *((row[0], f'"{row[1]}"', row[2]) for row in ROWS)]
    return "".join(delimiter.join(line) + "\n" for line in lines)


ABOVE = {  # kind: lines, and the table's delimiter
    "title": ("Ticket export\n", ","),
    "title and blank line": ("Ticket export\n\n", ";"),
    "block": ("Company: ACME\nUser: ann@example.com\nPeriod: 2024\nFilter: open, mine\n\n", ","),
    "padded": ("Ticket export,,\n,,\n", ","),
    "pairs": ("Date,2024-05-01\nAuthor,Ann\n", ","),
    "PowerShell": ("#TYPE Selected.System.Object\n", ","),
    "comments": ("# made by a tool\n# 2024, x\n", ","),
    "sep": ("sep=;\nTicket export\n", ";"),
    "quoted": ('"Ticket export, May"\n', "\t"),
}


@pytest.mark.parametrize("kind", ABOVE)
def test_lines_above_the_header_are_reported_and_rows_keep_their_lines(tmp_path, kind):
    above, delimiter = ABOVE[kind]
    path = save(tmp_path, above + table(delimiter) + delimiter * 5 + "x\n")
    rows, lines, refused = read(path)
    first = above.count("\n") + 2
    assert (rows, lines, list(refused)) == (ROWS, list(range(first, first + 12)), [first + 12])
    with open_table(path) as reader:
        assert reader.columns == ("ticket_id", "text", "label")
        assert "above the header" in reader.remark


@pytest.mark.parametrize("known", [("Was war",), ("WOHIN", "was_war")])
def test_a_line_with_the_columns_looked_for_is_the_header(tmp_path, known):
    path = save(
        tmp_path,
        "Report;Tickets\nAuthor;Ann\n\n" + "Was war;Wohin\n" + "no signal;net\ntoo dear;bill\n",
    )
    with open_table(path, expected_columns=known) as reader:
        assert reader.columns == ("Was war", "Wohin")
        assert next(reader.chunks()).line_numbers == [5, 6]


def test_a_header_without_rows_is_found_below_a_title(tmp_path):
    path = save(tmp_path, "Ticket export\n\nid,text\n")
    with open_table(path, expected_columns=["text"]) as reader:
        assert (reader.columns, list(reader.chunks())) == (("id", "text"), [])


def test_a_title_above_the_header_of_a_sheet_is_reported(tmp_path):
    above = [["Tickets of May"], ["2024-05-01"], [], ["ticket_id", "text", "label"]]
    rows, lines, _ = read(save_sheet(tmp_path / "in.xlsx", [*above, *ROWS]))
    assert (rows, lines[0]) == (ROWS, 5)
    with open_table(tmp_path / "in.xlsx") as reader:
        told = "2 lines above the header are not read: 'Tickets of May', '2024-05-01'"
        assert reader.remark == told


BENIGN = [
    "text\nhello, world, foo\nbill, refund, money\n" + "router, modem, signal\n" * 9,
    "keywords\nrouter,modem,signal\n" + "bill,refund,money\n" * 9,
    "foo,bar\nid,text\n" + "label,no\n" * 4 + "id,text\n",
    "text,label\n" + '"1","the router is dead","hardware"\n' * 5,  # as R writes it
    "Kunde,Wohin\nAnn,the router number 7 is dead\n" + "Bob,the bill of 2024 is wrong\n" * 6,
    "2023,2024\n1,2\n" * 1 + "3,4\n" * 5,
    "what happened?\n" + "the router, it is dead\nno, it works, again\n" * 5,
]


@pytest.mark.parametrize("content", BENIGN)
def test_a_first_line_that_may_be_the_header_stays_it(tmp_path, content):
    with open_table(save(tmp_path, content)) as reader:
        assert reader.remark == ""
        read_all = sum(len(chunk) for chunk in reader.chunks())
        assert read_all + reader.rejected == content.count("\n") - 1


def test_a_scored_file_is_read_as_written(tmp_path):
    with TableWriter(tmp_path / "out.csv", ("x", "text", "confidence")) as writer:
        writer.write([("a", "b, c", "0.5"), ("text", "label", "id")])
    with open_table(tmp_path / "out.csv") as reader:
        assert (reader.columns[0], len(next(reader.chunks()))) == ("x", 2)


def test_the_header_of_nothing_is_the_first_row():
    assert header_place([]) == 0
    assert header_place([["", ""], ["", ""]], ["text"]) == 0


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_exports_joined_end_to_end_repeat_their_header(tmp_path, mark):
    path = save(tmp_path, mark + table() + mark + table())
    rows, _, refused = read(path)
    assert rows == ROWS * 2
    assert refused == {14: "the header once more"}
    with open_table(path) as reader:
        list(reader.chunks())
        assert (reader.accepted, reader.rejected, reader.repeated_headers) == (24, 1, 1)
        assert not reader.is_mostly_rejected


def test_a_first_message_taken_for_a_header_costs_no_row_like_it(tmp_path):
    assert read(save(tmp_path, "Refund\nno signal\nRefund\n"))[0] == [("no signal",), ("Refund",)]


def test_a_row_of_json_lines_with_its_keys_as_values_is_the_header_once_more(tmp_path):
    lines = '{"text": "a", "label": "b"}\n{"text": "text", "label": "label"}\n'
    assert read(save(tmp_path, lines, "in.jsonl"))[2] == {2: "the header once more"}
