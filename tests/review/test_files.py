"""Tickets and decisions from files."""

import re
from datetime import UTC, datetime
from time import time

import pytest
from sqlalchemy import select

from bertcnn.errors import ColumnError, SettingsError, StoreError, TableError
from bertcnn.review.corrected_rows import export_corrections
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.files import add_file, label_file, serving_predictor
from bertcnn.review.labels import add_labels
from bertcnn.review.models import add_model
from bertcnn.review.queue import claim, open_ticket
from bertcnn.review.schema import arrived_at, decision, ticket
from bertcnn.review.ticket_export import export_tickets
from bertcnn.review.ticket_files import TicketFile
from bertcnn.review.ticket_list import TicketView
from bertcnn.review.tickets import find_ticket
from bertcnn.review.uploads import list_uploads
from bertcnn.tables import read_table
from bertcnn.tables.rejects import rejects_of
from tests.listener import Listener
from tests.review.desk import ADMIN, ANN, BOB, decide, texts
from tests.tiny import saved_with_scope


@pytest.fixture
def with_model(store, encoder_folder):
    """A store with a serving model."""
    add_model(store, saved_with_scope(encoder_folder), ADMIN)
    return store


def tickets_of(store):
    with store.reading() as connection:
        return connection.execute(select(ticket).order_by(ticket.c.id)).all()


def test_the_tickets_of_two_days_without_ids_are_added_once_and_stay_decided(with_model, tmp_path):
    monday, tuesday = tmp_path / "monday.csv", tmp_path / "tuesday.csv"
    rows = [f"2026-05-0{day}T10:00:00,{text}" for day, text in enumerate(texts(6), 1)]
    monday.write_text("\n".join(["created_at,text", *rows[:4], rows[0]]))
    tuesday.write_text("\n".join(["created_at,text", *rows[2:]]))
    added = add_file(with_model, monday, text="text")
    assert (added.added, added.known, added.repeated) == (4, 0, 1)
    name = tickets_of(with_model)[3].external_id
    record(with_model, ANN, [NewDecision("k", find_ticket(with_model, name), "label", "billing")])
    added = add_file(with_model, tuesday, text="text")
    assert (added.added, added.known, added.repeated) == (2, 2, 0)
    assert find_ticket(with_model, name) not in {one.id for one in claim(with_model, ANN)}
    assert [one.text for one in tickets_of(with_model)] == texts(6)


def test_labels_of_a_file_become_decisions_where_they_differ(with_model, tmp_path):
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("id,text\n1,my router\n2,my bill\n3,no login\n")
    add_file(with_model, first, text="text")
    for name, label in (("1", "hardware"), ("2", "hardware")):
        decision = NewDecision(name, find_ticket(with_model, name), "label", label)
        record(with_model, ANN, [decision])
    rows = ["1,my router,hardware", "2,my bill,billing", "3,no login,", "4,price,billing", "5,x,tv"]
    second.write_text("\n".join(["id,text,Team", *rows]))
    added = add_file(with_model, second, text="text", label="team", person=BOB)
    assert (added.added, added.known) == (2, 3)
    assert (added.labelled, added.unknown_labels) == (2, 1)
    stands = {one.external_id: (one.state, one.label) for one in tickets_of(with_model)}
    assert stands["1"] == ("decided", "hardware")
    assert stands["2"][0] == "disagreement"
    assert stands["4"] == ("decided", "billing")
    assert add_file(with_model, second, text="text", label="team", person=ANN).labelled == 1
    assert tickets_of(with_model)[1].label == "billing", "Ann has come round"
    with pytest.raises(SettingsError, match="labels in the column 'team', of nobody"):
        add_file(with_model, second, text="text", label="team")
    with pytest.raises(ColumnError, match="no column 'group'"):
        add_file(with_model, second, text="text", label="group", person=BOB)


def test_the_same_id_with_another_text_is_a_further_version(with_model, tmp_path):
    path = tmp_path / "export.csv"
    path.write_text("id,text\n1,my router\n2,my bill\n")
    assert add_file(with_model, path, text="text").added == 2
    path.write_text("id,text\n1,no login\n2,My  bill\n")
    again = add_file(with_model, path, text="text")
    assert (again.added, again.changed, again.known) == (1, 1, 1)
    with pytest.raises(StoreError, match=r"#1 \(source '', 'my router'\), #3 .*such as '#1'"):
        find_ticket(with_model, "1")
    assert add_file(with_model, path, text="text", source="zendesk").added == 2


def test_every_row_counts_once_and_those_without_an_id_are_listed(with_model, tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("nr,text\nT-1,my router\n,my bill\nT-1,My router\nT-2,no login\n ,price\n")
    added = add_file(with_model, path, text="text", identity="NR")
    assert (added.added, added.known, added.repeated, added.without_id) == (2, 0, 1, 2)
    assert rejects_of(path).read_text().splitlines() == [
        "line,reason,content_start",
        "3,no id in the column 'nr',\",my bill\"",
        "6,no id in the column 'nr',\" ,price\"",
    ]


@pytest.mark.parametrize(
    ("last", "note"),
    [
        ("T-0,other words", "by the text, .* not 'id' \\(1 value with several texts\\)"),
        ("T-0,words 0", "'id' \\(by its name; each value has one text\\)"),
    ],
)
def test_a_column_of_ids_is_guessed_from_the_whole_file(with_model, tmp_path, last, note):
    path, notes = tmp_path / "inbox.csv", Listener()
    path.write_text("id,text\n" + "".join(f"T-{n},words {n}\n" for n in range(1500)) + last)
    TicketFile(with_model, path, text="text", progress=notes)
    assert re.search(f"ids: {note}", "\n".join(notes.notes))


def test_unreadable_times_are_counted_and_unknown(with_model, tmp_path):
    path, notes = tmp_path / "inbox.csv", Listener()
    cells = ["2025-03-05 10:00"] * 9 + ["0001-01-01", "2999-01-01", ""]
    rows = [f"{cell},{text}\n" for cell, text in zip(cells, texts(12), strict=True)]
    path.write_text("created,text\n" + "".join(rows))
    before = time()
    added = add_file(with_model, path, text="text", progress=notes)
    assert (added.unread_times, added.unread_time) == (2, "'0001-01-01'")
    assert "2 times not understood, such as '0001-01-01': " in notes.notes[-1]
    found = tickets_of(with_model)
    assert [one.received_at for one in found[9:]] == [None] * 3
    assert all(before <= one.added_at <= time() for one in found)
    with with_model.reading() as connection:
        days = connection.scalars(select(arrived_at).order_by(ticket.c.id)).all()
    assert days[8:] == [found[8].received_at, *(one.added_at for one in found[9:])]


def test_dates_of_ambiguous_order_are_read_once_the_order_is_named(with_model, tmp_path):
    path, notes = tmp_path / "inbox.csv", Listener()
    path.write_text("created,text\n" + "".join(f"05/03/2025,{text}\n" for text in texts(6)))
    assert add_file(with_model, path, text="text", progress=notes).unread_times == 6
    assert "times: not read; 'created' is day first or month first: '05/03/2025'" in notes.notes[2]
    assert "--dates day-first" in notes.notes[2]
    again = add_file(with_model, path, text="text", dates="month-first", source="b")
    assert again.unread_times == 0
    read = {one.received_at for one in tickets_of(with_model)}
    assert read == {None, datetime(2025, 5, 3, tzinfo=UTC).timestamp()}


def test_decisions_of_a_file_are_all_recorded_or_none(with_model, tmp_path):
    inbox, decided = tmp_path / "inbox.csv", tmp_path / "decided.csv"
    inbox.write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts(4))))
    add_file(with_model, inbox, text="text", identity="id")
    decided.write_text("ticket,label\n0,billing\n1,\n99,billing\n")
    with pytest.raises(StoreError, match="no ticket '99'"):
        label_file(with_model, decided, ANN)
    with with_model.reading() as connection:
        assert connection.execute(select(decision)).all() == []
    decided.write_text("ticket,label\n0,billing\n1,\n#3,\n")
    assert len(label_file(with_model, decided, ANN).stored) == 3
    with with_model.reading() as connection:
        kinds = connection.scalars(select(decision.c.kind).order_by(decision.c.ticket))
        assert list(kinds) == ["label", "none", "none"]


def test_a_file_from_the_export_lands_on_the_same_tickets(with_model, tmp_path):
    inbox, decided = tmp_path / "inbox.csv", tmp_path / "decided.csv"
    rows = zip("3124", ("billing", "hardware", "none", ""), texts(4), strict=True)
    inbox.write_text(
        "id,label,text\n" + "".join(f"{n},{label},{text}\n" for n, label, text in rows)
    )
    add_file(with_model, inbox, text="text", identity="id")
    add_labels(with_model, ADMIN, ["none"])
    given = dict(zip("3124", ("billing", "hardware", "none", None), strict=True))
    for own, label in given.items():
        decide(with_model, ANN, find_ticket(with_model, own), label)
    export_corrections(with_model, decided)
    label_file(with_model, decided, BOB)
    with with_model.reading() as connection:
        found = connection.execute(
            select(ticket.c.external_id, decision.c.label)
            .join(decision, decision.c.ticket == ticket.c.id)
            .where(decision.c.actor == "bob")
        )
        assert {row.external_id: row.label for row in found} == given
    decided.write_text("ticket,number,label\n1,#1,billing\n")
    with pytest.raises(
        StoreError, match=r"the ticket '1' with the number '#1', which is '3 \(#1\)'"
    ):
        label_file(with_model, decided, BOB)


def test_refusals(store, encoder_folder, tmp_path):
    with pytest.raises(StoreError, match="has no model; expected one that answers"):
        serving_predictor(store)
    add_model(store, saved_with_scope(encoder_folder), ADMIN)
    path = tmp_path / "inbox.csv"
    path.write_text("text\nhello router\n")
    with pytest.raises(ColumnError, match="'nr'"):
        add_file(store, path, text="text", identity="nr")
    path.write_text("ticket,label\n")
    with pytest.raises(TableError, match="no rows"):
        label_file(store, path, ANN)


def cells(path):
    table = read_table(path)
    return [
        dict(zip(table.columns, row, strict=True))
        for row in zip(*map(table.column, table.columns), strict=True)
    ]


def test_an_uploaded_file_comes_back_in_its_own_columns_with_answers(with_model, tmp_path):
    first, second, out = (tmp_path / name for name in ("first.csv", "second.csv", "out.csv"))
    first.write_text("label,id,text,channel\nold,1,my router,mail\nold,2,=1+1 price,\n")
    second.write_text("text,id,label\nno login,3,x\nmy router,1,y\n")
    for path in (first, second):
        add_file(with_model, path, text="text", person=ANN)
    decide(with_model, ANN, 2, "billing")
    uploads = list_uploads(with_model)
    told = [(one.name, one.actor, one.tickets) for one in uploads]
    assert told == [("second.csv", "ann", 2), ("first.csv", "ann", 2)]
    assert export_tickets(with_model, out, TicketView(upload=uploads[1].id)) == 2
    rows = cells(out)
    assert list(rows[0])[:6] == ["label", "id", "text", "channel", "predicted_label", "confidence"]
    assert [tuple(row.values())[:4] for row in rows] == [
        ("old", "1", "my router", "mail"),
        ("old", "2", "=1+1 price", ""),
    ]
    answers = serving_predictor(with_model).classify(["my router", "=1+1 price"])
    assert [row["predicted_label"] for row in rows] == [one.label for one in answers]
    assert rows[1]["bertcnn_label"] == "billing"
    assert (rows[0]["bertcnn_label"], rows[1]["decided_by"]) == ("", "ann")
    assert export_tickets(with_model, out, TicketView(upload=uploads[0].id), overwrite=True) == 2
    assert {row["id"] for row in cells(out)} == {"1", "3"}
    with pytest.raises(StoreError, match="no file with the number 99"):
        export_tickets(with_model, tmp_path / "no.csv", TicketView(upload=99))


def test_a_filtered_list_is_exported_with_ids_files_and_all_columns(with_model, tmp_path):
    path, out = tmp_path / "inbox.csv", tmp_path / "out.csv"
    path.write_text("id,text,channel\n1,my router,mail\n2,my bill,phone\n3,no login,mail\n")
    add_file(with_model, path, text="text", source="zendesk", name="Monday.csv")
    view = TicketView(columns=(("channel", "mail"),))
    assert export_tickets(with_model, out, view) == 2
    keys = ("ticket", "number", "source", "file", "text", "channel")
    assert [tuple(row[key] for key in keys) for row in cells(out)] == [
        ("1", "#1", "zendesk", "Monday.csv", "my router", "mail"),
        ("3", "#3", "zendesk", "Monday.csv", "no login", "mail"),
    ]


def test_texts_of_several_columns_come_back_as_they_were(with_model, tmp_path):
    path, out = tmp_path / "inbox.csv", tmp_path / "out.csv"
    path.write_text("id,subject,body\n1,router,does not work\n")
    add_file(with_model, path, text=["subject", "body"])
    assert export_tickets(with_model, out, TicketView(upload=1)) == 1
    [row] = cells(out)
    assert (row["subject"], row["body"]) == ("router", "does not work")
    assert open_ticket(with_model, ANN, 1).columns == {}


def test_times_without_a_zone_are_in_the_stores_zone(with_model, tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("id,text,created_at\n1,my router,2026-07-01 12:00\n")
    with_model.set_setting("time_zone", "Europe/Berlin", ADMIN)
    add_file(with_model, path, text="text")
    leased = open_ticket(with_model, ANN, 1)
    assert leased.received_at == datetime(2026, 7, 1, 10, tzinfo=UTC).timestamp()
    assert leased.received_text == "2026-07-01 12:00"
