"""Tickets and decisions from files."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select

from bertcnn.errors import ColumnError, StoreError, TableError
from bertcnn.review.files import add_file, label_file, serving_predictor
from bertcnn.review.models import add_model
from bertcnn.review.schema import decision, ticket
from tests.review.desk import ADMIN, ANN, texts
from tests.tiny import saved_with_scope


@pytest.fixture
def with_model(store, encoder_folder):
    """A store in which a model serves."""
    add_model(store, saved_with_scope(encoder_folder), ADMIN)
    return store


def tickets_of(store):
    with store.reading() as connection:
        return connection.execute(select(ticket).order_by(ticket.c.id)).all()


def test_equal_texts_without_ids_are_two_tickets_and_once_only(with_model, tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("text\n" + "".join(f"{text}\n" for text in ["the same", *texts(5), "the same"]))
    added = add_file(with_model, path, text="text")
    assert (added.added, added.known) == (7, 0)
    assert (add_file(with_model, path, text="text").known, len(tickets_of(with_model))) == (7, 7)
    path.write_text(path.read_text() + "the same\n")
    assert add_file(with_model, path, text="text").added == 1


def test_ids_times_and_other_columns_are_kept(with_model, tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text(
        "ticket_id,created_at,channel,text\n"
        + "".join(
            f"T-{row},2026-05-0{row + 1}T10:00:00,mail,{text}\n"
            for row, text in enumerate(texts(8))
        )
    )
    add_file(with_model, path, text="text")
    for row, one in enumerate(tickets_of(with_model)):
        assert (one.source, one.external_id) == ("inbox.csv", f"T-{row}")
        assert one.received_at == datetime(2026, 5, row + 1, 10, tzinfo=UTC).timestamp()
        assert one.columns["channel"] == "mail"
        assert "text" not in one.columns


def test_decisions_of_a_file_are_all_recorded_or_none(with_model, tmp_path):
    inbox, decided = tmp_path / "inbox.csv", tmp_path / "decided.csv"
    inbox.write_text("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts(4))))
    add_file(with_model, inbox, text="text", identity="id")
    decided.write_text("ticket,label\n0,billing\n1,\n99,billing\n")
    with pytest.raises(StoreError, match="no ticket '99'"):
        label_file(with_model, decided, ANN)
    with with_model.reading() as connection:
        assert connection.execute(select(decision)).all() == []
    decided.write_text("ticket,label\n0,billing\n1,\n2,none\n")
    assert len(label_file(with_model, decided, ANN).stored) == 3
    with with_model.reading() as connection:
        kinds = connection.scalars(select(decision.c.kind).order_by(decision.c.ticket))
        assert list(kinds) == ["label", "none", "none"]


def test_refusals(with_model, tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("text\nhello router\n")
    with pytest.raises(ColumnError, match="'nr'"):
        add_file(with_model, path, text="text", identity="nr")
    path.write_text("ticket,label\n")
    with pytest.raises(TableError, match="no rows"):
        label_file(with_model, path, ANN)


def test_without_a_model_nothing_answers(store, tmp_path):
    with pytest.raises(StoreError, match="has no model; expected one that answers"):
        serving_predictor(store)
