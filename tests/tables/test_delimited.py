"""Rows of delimited files with random damage."""

import csv
import io
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.tables.delimited import Dialect, RowReader

CELL = st.text(st.sampled_from('ab ,"\né1'), max_size=8)
LINE = st.text(st.sampled_from('ab,",;\r\0\té'), max_size=12)


def run(lines, width, dialect=None):
    rejected = []
    reader = RowReader(
        lines,
        dialect or Dialect(","),
        lambda line, reason, content: rejected.append((line, reason, content)),
    )
    return list(reader.rows(width)), rejected


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), max_size=8))
def test_rows_written_by_the_csv_module_are_read_unchanged(rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    got, rejected = run(text.getvalue().split("\n"), 2)
    assert [list(cells) for _, cells in got] == rows
    assert rejected == []


@settings(max_examples=300)
@given(st.lists(LINE, max_size=12), st.integers(1, 4))
def test_every_line_belongs_to_one_row_that_is_accepted_rejected_or_blank(lines, width):
    got, rejected = run(lines, width)
    starts = sorted([line for line, _ in got] + [line for line, _, _ in rejected])
    assert starts == sorted(set(starts))
    covered = set()
    for line, cells in got:
        covered.update(range(line, line + 1 + sum(cell.count("\n") for cell in cells)))
    for line, _, content in rejected:
        covered.update(range(line, line + 1 + content.count("\n")))
    for number, line in enumerate(lines, 1):
        # surplus empty cells may be dropped
        assert number in covered or not line.strip() or not line.strip('," \t\r')
    assert all(len(cells) <= width for _, cells in got)  # short rows are filled with blank cells


@given(
    st.lists(
        st.tuples(
            st.text("ab 1", min_size=1, max_size=6), st.text("xy\nz", min_size=1, max_size=6)
        ),
        min_size=2,
        max_size=8,
    ),
    st.data(),
)
def test_a_broken_quote_anywhere_costs_its_own_row_only(rows, data):
    lines = [f'"{text}","{label}"' for text, label in rows]
    place = data.draw(st.integers(0, len(lines)))
    lines.insert(place, '"broken,x')
    got, rejected = run("\n".join(lines).split("\n"), 2)
    assert [cells for _, cells in got] == rows
    assert [content for _, _, content in rejected] == ['"broken,x']


def test_a_file_of_quotes_that_never_close_takes_linear_time():
    lines = ['x",,"z'] * 20_000
    started = time.process_time()
    got, rejected = run(lines, 3)
    assert time.process_time() - started < 20  # 0.5 s; without a limit, many minutes
    assert got == []
    assert len(rejected) == 20_000


def test_the_rows_behind_a_quote_that_never_closes_do_not_wait_for_the_end_of_the_file():
    lines = iter(['"open,x', *["a,b"] * 1_000_000])
    rejected = []
    rows = RowReader(lines, Dialect(","), lambda *row: rejected.append(row)).rows(2)
    assert next(rows) == (2, ("a", "b"))
    assert rejected == [(1, "a quote that is not closed within 905,668 characters", '"open,x')]
    assert sum(1 for _ in lines) > 500_000
