"""Answers to the texts of a query: equal to a file's, written all at once, once for each id."""

import csv
from collections import Counter

import pytest

from bertcnn import score_csv, score_table
from bertcnn.errors import ColumnError, DatabaseError
from bertcnn.scoring.run import ScoringInterrupted
from tests.listener import Listener, interrupt
from tests.tables.sql.conftest import CHUNK_ROWS, LITE, POSTGRES, ROWS, refused, ticket_rows

QUERY = "select id, text from tickets order by id"


def answers(desk, table="answers"):
    """The table's rows by id, with cells as in a scored file."""
    rows = desk.execute(f"SELECT * FROM {table} ORDER BY id")
    return [
        tuple(
            "" if cell is None else f"{cell:.6f}" if isinstance(cell, float) else str(cell)
            for cell in row
        )
        for row in rows
    ]


def answers_of_a_file(folder, model, rows, **options):
    """What `score_csv` writes for the same rows: the header, and the rows without texts."""
    source, target = folder / "in.csv", folder / "out.csv"
    with source.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("id", "text"), *(row[:2] for row in rows)])
    score_csv(model, source, target, raw=True, **options)
    with target.open(newline="", encoding="utf-8") as stream:
        header, *found = csv.reader(stream)
    return header[:1] + header[2:], [(row[0], *row[2:]) for row in found]


def test_the_answers_are_those_of_a_file_to_the_last_bit(tickets, predictor, tmp_path):
    options = {"probabilities": True, "reasons": True}
    report = score_table(predictor, tickets.address, query=QUERY, into="answers", **options)
    header, rows = answers_of_a_file(tmp_path, predictor, ticket_rows(), **options)
    assert answers(tickets) == rows
    assert (report.rows, report.blank, report.rejected) == (ROWS, 2 * (ROWS // 97 + 1), 0)
    assert report.decisions == dict(Counter(row[3] for row in rows))
    with tickets.connect() as connection:
        found = connection.execute("SELECT * FROM answers LIMIT 0").description
    assert [name for name, *_ in found] == header


def test_a_real_network_gives_equal_answers_and_the_text_column_is_guessed(desk, model, tmp_path):
    texts = [("refund my bill please", "the router is off")[row % 2] for row in range(60)]
    rows = [(row, f"{text} {row}", "web") for row, text in enumerate(texts)]
    desk.execute("CREATE TABLE tickets (id integer, body text, channel text)")
    desk.execute("INSERT INTO tickets VALUES (?, ?, ?)", rows)
    told = Listener()
    query = "select * from tickets order by id;  "
    score_table(model, desk.address, query=query, into="answers", progress=told)
    assert told.notes[0].startswith("text: 'body' (")
    assert answers(desk) == answers_of_a_file(tmp_path, model, rows, text="text")[1]


def test_ids_keep_their_type_and_are_the_key(desk, predictor):
    types = {"integer": 7, "text": "x-7", "numeric": 7.5}
    if desk.kind == POSTGRES:
        types |= {
            "char(3)": "abc",
            "bigint": 7,
            "uuid": "9f4c7a1e-0000-4000-8000-000000000007",
            "date": "2026-11-27",
        }
    for kind, value in types.items():
        desk.execute(f"CREATE TABLE tickets (number {kind}, text text)")
        desk.execute("INSERT INTO tickets VALUES (?, ?)", [(value, "router")])
        query = "select number, text from tickets"
        score_table(predictor, desk.address, query=query, into="answers", id="Number")
        (found,) = desk.execute(
            "SELECT number, predicted_label FROM answers JOIN tickets USING (number)"
        )
        assert str(found[0]) == str(value)
        assert found[1] in predictor.labels
        with pytest.raises(Exception, match=r"(?i)unique"):
            desk.execute("INSERT INTO answers SELECT * FROM answers")
        desk.execute("DROP TABLE answers")
        desk.execute("DROP TABLE tickets")


def test_the_same_call_replaces_the_rows_with_the_same_ids_and_leaves_others(tickets, predictor):
    score_table(predictor, tickets.address, query=QUERY, into="answers")
    before = answers(tickets)
    score_table(predictor, tickets.address, query=QUERY, into="answers")
    assert answers(tickets) == before
    tickets.execute("UPDATE tickets SET text = '' WHERE id = 7")
    tickets.execute("DELETE FROM tickets WHERE id = 8")
    few = "select * from tickets where id between 7 and 9"
    report = score_table(predictor, tickets.address, query=few, into="answers")
    after = answers(tickets)
    assert report.rows == 2
    assert after[7] == ("7", "", "", "review:empty", "")
    assert [row[0] for row in after] == [row[0] for row in before]
    assert (after[:7], after[8], after[10:]) == (before[:7], before[8], before[10:])


def test_a_query_without_rows_makes_an_empty_table(tickets, predictor):
    query = "select * from tickets where id < 0"
    report = score_table(predictor, tickets.address, query=query, into="answers")
    assert (report.rows, report.labels, answers(tickets)) == (0, {}, [])


def test_nothing_is_seen_before_the_end(tickets, predictor):
    seen = []
    told = Listener(lambda: seen.append(tickets.tables()), 0, stage="writing")
    score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    assert seen == [{"tickets"}]
    assert len(answers(tickets)) == ROWS


@pytest.mark.parametrize(
    ("stage", "after", "kept"),
    [("reading", 1, 0), ("scoring", 2, 2 * CHUNK_ROWS), ("writing", 0, ROWS)],
)
def test_an_interrupted_run_goes_on_with_its_answers(tickets, predictor, stage, after, kept):
    stop = ScoringInterrupted if kept else KeyboardInterrupt
    told = Listener(interrupt, after, stage=stage)
    with pytest.raises(stop) as stopped:
        score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    assert tickets.tables() == {"tickets"}
    assert getattr(stopped.value, "rows", 0) == kept
    told = Listener()
    score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    on_record = [note for note in told.notes if "already answered by an interrupted run" in note]
    assert [int(note.split()[0].replace(",", "")) for note in on_record] == [kept] * bool(kept)
    broken = answers(tickets)
    score_table(predictor, tickets.address, query=QUERY, into="whole")
    assert broken == answers(tickets, "whole")


def test_answers_to_other_texts_are_not_taken(tickets, predictor, cache):
    told = Listener(interrupt, 1, stage="scoring")
    with pytest.raises(ScoringInterrupted):
        score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    tickets.execute("UPDATE tickets SET text = 'refund' WHERE id = 5")
    told = Listener()
    score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    assert [note for note in told.notes if "the texts of the query have changed" in note]
    broken = answers(tickets)
    score_table(predictor, tickets.address, query=QUERY, into="whole")
    assert broken == answers(tickets, "whole")
    assert list((cache / "databases").iterdir()) == []


# === What is refused ===


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select nullif(id, 5) as id, text from tickets", ["null 'id' in 1 of 434 rows"]),
        ("select id / 2 as id, text from tickets", ["the 'id' '", "' in 2 rows", "--id"]),
        ("select text from tickets", ["there is no column 'id'", "'text'"]),
        ("select id, team from tickets", ["there is no column 'text'", "'id', 'team'"]),
        ("select id, text from inbox", ["inbox"]),
        ("select id, text form tickets", ["syntax error"]),
        ("delete from tickets returning id, text", ["syntax error"]),
        ("select id, text from tickets; drop table tickets", ["syntax error"]),
        ("select 1) as query; drop table tickets; --", []),
        (" ; ", ["one SELECT", "--query"]),
    ],
)
def test_an_unusable_query_is_refused_in_one_line(tickets, predictor, query, words):
    with pytest.raises((DatabaseError, ColumnError)) as caught:
        score_table(predictor, tickets.address, query=query, into="answers")
    message = str(caught.value)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message
    assert not caught.value.passes
    assert tickets.tables() == {"tickets"}
    assert tickets.execute("SELECT count(*) FROM tickets") == [(ROWS,)]


@pytest.mark.parametrize("desk", [POSTGRES], indirect=True)
@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (
            "select a.id, b.id, a.text from tickets a join tickets b using (id)",
            *(ColumnError, ("has 2 columns 'id'", "AS")),
        ),
        (
            "select id, sneaky(id) as text from tickets",
            *(DatabaseError, ("cannot execute DELETE in a read-only transaction",)),
        ),
        (
            "select id, (1 / (id - 400))::text as text from tickets",
            *(DatabaseError, ("the query cannot be run", "'division by zero'")),
        ),
    ],
)
def test_queries_that_only_postgresql_refuses_are_refused(tickets, predictor, query, error, words):
    tickets.execute(
        "CREATE FUNCTION sneaky(number integer) RETURNS text LANGUAGE sql VOLATILE AS"
        " $$ DELETE FROM tickets WHERE id = number RETURNING text $$"
    )
    with refused(error, *words):
        score_table(predictor, tickets.address, query=query, into="answers")
    assert tickets.execute("SELECT count(*) FROM tickets") == [(ROWS,)]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("id integer PRIMARY KEY, predicted_label text", ["is there and lacks 'because', 'conf"]),
        ("%, more integer, PRIMARY KEY (id)", ["is there and also has 'more'", "--into"]),
        ("%", ["cannot be written", "ON CONFLICT"]),
    ],
)
def test_an_unusable_table_is_refused_before_inference(tickets, predictor, table, words):
    ours = "id integer, predicted_label text, confidence real, decision text, because text"
    tickets.execute(f"CREATE TABLE answers ({table.replace('%', ours)})")
    told = Listener()
    with refused(DatabaseError, *words):
        score_table(predictor, tickets.address, query=QUERY, into="answers", progress=told)
    assert told.stages == []
    assert answers(tickets) == []


def test_any_table_or_column_name_is_quoted(desk, predictor):
    desk.execute('CREATE TABLE tickets ("a ""b"" id" integer, "the; text" text)')
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [(1, "router"), (2, "refund")])
    options = {"id": 'a "b" id', "text": "the; text", "query": "select * from tickets"}
    names = ['we"ird', "x; drop table tickets", "a'b", "Größe 1", "select"]
    for name in names * 2:  # made, then replaced
        score_table(predictor, desk.address, into=name, **options)
        quoted = name.replace('"', '""')
        found = desk.execute(f'SELECT "a ""b"" id" FROM "{quoted}" ORDER BY 1')
        assert found == [(1,), (2,)]
    assert desk.tables() == {"tickets", *names}


def test_an_id_named_like_an_output_column_keeps_its_name(desk, predictor):
    desk.execute("CREATE TABLE tickets (decision integer, text text)")
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [(1, "router")])
    report = score_table(
        predictor, desk.address, query="select * from tickets", into="answers", id="decision"
    )
    assert report.renamed == {"decision": "bertcnn_decision"}
    (found,) = desk.execute("SELECT decision, bertcnn_decision FROM answers")
    assert (found[0], found[1] in report.decisions) == (1, True)


def test_a_schema_may_be_named_in_postgresql_only(tickets, predictor):
    few = "select * from tickets where id < 5"
    if tickets.kind == LITE:
        with refused(DatabaseError, "desk.answers", "without a schema"):
            score_table(predictor, tickets.address, query=few, into="desk.answers")
        return
    with refused(DatabaseError, "the table desk.answers cannot be written", "does not exist"):
        score_table(predictor, tickets.address, query=few, into="desk.answers")
    tickets.execute("CREATE SCHEMA desk")
    score_table(predictor, tickets.address, query=few, into='Desk."Answers"')
    assert len(answers(tickets, 'desk."Answers"')) == 5


@pytest.mark.parametrize("desk", [POSTGRES], indirect=True)
def test_a_name_that_postgresql_would_cut_off_is_refused(tickets, predictor):
    with refused(DatabaseError, "has 64 bytes", "at most 63"):
        score_table(predictor, tickets.address, query=QUERY, into="a" * 64)


@pytest.mark.parametrize("desk", [LITE], indirect=True)
def test_the_types_of_sqlite_may_change_from_row_to_row_but_no_text_is_a_blob(desk, predictor):
    desk.execute("CREATE TABLE tickets (id, text)")
    odd = [("x", "router"), (b"\xff", "refund"), (2.5, 7)]
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [*((row, None) for row in range(2000)), *odd])
    query = "select * from tickets"
    report = score_table(predictor, desk.address, query=query, into="answers")
    assert (report.rows, report.blank) == (2003, 2000)
    found = desk.execute("SELECT id FROM answers WHERE typeof(id) <> 'integer' ORDER BY id")
    assert found == [(2.5,), ("x",), (b"\xff",)]
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [(-2, b"\xff\x00")])
    with refused(DatabaseError, "the column 'text' has a BLOB in the row of '-2'", "CAST"):
        score_table(predictor, desk.address, query=query, into="answers")


@pytest.mark.parametrize(
    ("kind", "id_type", "key", "ids", "words"),
    [
        (LITE, "", "INTEGER", [1, "1"], "the 'id' '1' in 2 rows"),
        (LITE, "TEXT", "TEXT COLLATE NOCASE", ["A", "a"], "the 'id' 'A' in 2 rows"),
        (POSTGRES, "numeric", None, ["1.0", "1.00"], "'1.0' and '1.00', which are equal"),
        (POSTGRES, "numeric", "integer", ["1.2", "1.4"], "'1.2' and '1.4', which are equal"),
        (POSTGRES, "text", "text COLLATE any_case", ["A", "a"], "'A' and 'a', which are equal"),
    ],
)
def test_ids_that_are_equal_to_the_key_are_refused_before_a_text_is_scored(
    desk, predictor, kind, id_type, key, ids, words
):
    if desk.kind != kind:
        pytest.skip("a type of the other database")
    if kind == POSTGRES:
        desk.execute(
            "CREATE COLLATION any_case"
            " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    desk.execute(f"CREATE TABLE tickets (id {id_type}, text text)")
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [(one, "router") for one in ids])
    if key is not None:
        ours = "predicted_label text, confidence real, decision text, because text"
        desk.execute(f"CREATE TABLE answers (id {key} PRIMARY KEY, {ours})")
    told, query = Listener(), "select id, text from tickets"
    with refused(DatabaseError, words, "nothing was written", "--id"):
        score_table(predictor, desk.address, query=query, into="answers", progress=told)
    assert [name for name, *_ in told.stages] == ["reading the query"]


def test_different_ids_of_such_a_type_are_scored(desk, predictor):
    desk.execute("CREATE TABLE tickets (id numeric, text text)")
    desk.execute("INSERT INTO tickets VALUES (?, ?)", [(row / 2, "router") for row in range(300)])
    query = "select id, text from tickets"
    for _ in range(2):
        assert score_table(predictor, desk.address, query=query, into="answers").rows == 300
    assert desk.execute("SELECT count(*), sum(id) FROM answers") == [(300, 22425)]


@pytest.mark.parametrize("desk", [POSTGRES], indirect=True)
@pytest.mark.parametrize("column", ["'a'::bytea", "'{}'::json", "'{}'::jsonb", "'{a}'::text[]"])
def test_a_column_that_holds_no_text_is_refused_with_its_type(desk, predictor, column):
    kind = column.partition("::")[2]
    with refused(ColumnError, "the column 'text'", f"is of the type {kind}", "--text"):
        query = f"select 1 as id, {column} as text"
        score_table(predictor, desk.address, query=query, into="answers")
    assert desk.tables() == set()


@pytest.mark.parametrize("desk", [POSTGRES], indirect=True)
def test_row_and_bytea_columns_are_not_candidates_for_the_text(desk, model):
    desk.execute("CREATE TABLE tickets (id integer, file bytea, body text)")
    rows = [(row, b"a file of many words", f"router is off {row}") for row in range(20)]
    desk.execute("INSERT INTO tickets VALUES (?, ?, ?)", rows)
    told = Listener()
    query = "select tickets.*, tickets as whole from tickets"
    score_table(model, desk.address, query=query, into="answers", progress=told)
    assert told.notes[0].startswith("text: 'body' (")
