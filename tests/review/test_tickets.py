"""Tickets with a model's answers."""

import numpy as np
import pytest
from sqlalchemy import select

from bertcnn.errors import RoleError, StoreError
from bertcnn.review.decisions import history
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.schema import draw, prediction, queue, ticket
from bertcnn.review.statistics.selection import review_order
from bertcnn.review.tickets import NewTicket, add_tickets, erase_ticket, find_ticket, text_hash
from tests.review.desk import ADMIN, ANN, BOB, decide, filled, texts


def rows_of(store, table):
    with store.reading() as connection:
        return connection.execute(select(table).order_by(*table.primary_key)).all()


def test_the_answers_are_those_of_the_model_and_people_get_what_is_not_automatic(
    store, encoder_folder
):
    predictor = filled(store, encoder_folder)
    expected = predictor.classify(texts(40))
    found = rows_of(store, prediction)
    assert [row.label for row in found] == [one.label for one in expected]
    assert [row.decision for row in found] == [one.decision for one in expected]
    np.testing.assert_allclose([row.confidence for row in found], [o.confidence for o in expected])
    for row, one in zip(found, expected, strict=True):
        assert row.probable[0][1] == pytest.approx(max(one.probabilities.values()))
        assert [tuple(span) for span in row.because] == [(p.start, p.end) for p in one.because]
    waiting = {row.ticket for row in rows_of(store, queue)}
    drawn = {row.ticket for row in rows_of(store, draw) if row.drawn}
    people = {row.ticket for row in found if row.decision != "auto"}
    assert waiting == people | drawn
    assert {row.ticket for row in rows_of(store, draw)} == {
        row.ticket for row in found if row.decision == "auto"
    }
    assert {row.ticket for row in found if row.embedding is not None} == waiting


def test_within_an_hour_the_most_useful_ticket_comes_first(store, encoder_folder):
    """The most uncertain ticket does not simply come first: many others resemble the first ones."""
    filled(store, encoder_folder, 60, audited=1e-9, hour=0.0)
    known = {row.ticket: row for row in rows_of(store, prediction)}
    waiting = [row for row in rows_of(store, queue) if not row.audit]
    assert len(waiting) > 5
    shares = [[share for _, share in known[row.ticket].probable] for row in waiting]
    doubt = np.array([1 - (first - second) for first, second, *_ in shares])
    vectors = np.stack(
        [np.frombuffer(known[row.ticket].embedding, np.float16) for row in waiting]
    ).astype(np.float32)
    order = review_order(doubt, vectors, size=len(waiting))
    assert order.tolist() != np.argsort(-doubt, kind="stable").tolist()
    by_queue = sorted(waiting, key=lambda row: row.certainty)
    assert [row.ticket for row in by_queue] == [waiting[place].ticket for place in order]
    assert sorted(row.certainty for row in waiting) == pytest.approx(sorted(1 - doubt))


def test_a_ticket_of_the_year_1970_keeps_its_hour(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    new = [NewTicket("old", "socket price cable", received_at=0.0)]
    add_tickets(store, predictor, new, source="tests", audited=1.0)
    assert rows_of(store, ticket)[-1].received_at == 0.0
    assert all(row.place <= 1 for row in rows_of(store, queue))


def test_adding_again_adds_what_is_missing_only(store, encoder_folder):
    predictor = filled(store, encoder_folder, 10)
    new = [NewTicket(f"T-{place}", text) for place, text in enumerate(texts(12))]
    added = add_tickets(store, predictor, new, source="inbox")
    assert (added.added, added.known) == (2, 10)
    assert add_tickets(store, predictor, new[:1], source="elsewhere").added == 1
    twice = add_tickets(
        store, predictor, [NewTicket("n", "a"), NewTicket("n", "b")], source="inbox"
    )
    assert (twice.added, twice.changed) == (2, 1)
    same = [NewTicket("n", "A"), NewTicket("m", "a"), NewTicket(" m", "a"), NewTicket(" ", "b")]
    added = add_tickets(store, predictor, same, source="inbox")
    assert (added.added, added.known, added.repeated, added.without_id) == (1, 1, 1, 1)


def test_characters_that_databases_refuse_are_replaced(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    odd = NewTicket("i" * 300, "no\0 signal \ud83d here", {"a\0": "b\ud83d"}, 5.0)
    assert add_tickets(store, predictor, [odd], source="s" * 300).added == 1
    assert add_tickets(store, predictor, [odd], source="s" * 300).known == 1
    [row] = rows_of(store, ticket)
    assert row.text == "no\ufffd signal \ufffd here"
    assert dict(row.columns) == {"a\ufffd": "b\ufffd"}
    assert len(row.external_id) <= 200


@pytest.mark.parametrize("share", [0, -0.1, 1.5, float("nan")])
def test_an_invalid_audit_share_is_refused(store, encoder_folder, share):
    predictor = filled(store, encoder_folder, 1)
    with pytest.raises(StoreError, match=r"an audit share of .*; expected above 0"):
        add_tickets(store, predictor, [NewTicket("a", "b")], source="s", audited=share)


def test_a_model_that_was_not_added_cannot_answer(store, encoder_folder):
    from bertcnn import load
    from tests.tiny import saved

    with pytest.raises(StoreError, match="is not in the store"):
        add_tickets(store, load(saved(encoder_folder)), [NewTicket("a", "b")], source="s")


def test_erasing_removes_the_text_everywhere_and_nothing_breaks(
    store, encoder_folder, open_again, place
):
    filled(store, encoder_folder, 10)
    [one, other] = claim(store, ANN, most=2)
    secret = f"{one.text}"
    assert not decide(store, ANN, one.id, "billing").refused
    erase_ticket(store, one.id, ADMIN)
    erase_ticket(store, other.id, ADMIN)
    with store.reading() as connection:
        found = connection.execute(select(ticket).where(ticket.c.id == one.id)).one()
        assert (found.text, found.columns) == ("", {})
        held = connection.execute(
            select(prediction.c.embedding, prediction.c.because).where(
                prediction.c.ticket == one.id
            )
        ).one()
        assert (held.embedding, held.because) == (None, [])
    assert len(history(store, one.id)) == 1
    assert not decide(store, BOB, one.id, "hardware").refused
    assert one.id not in {each.id for each in claim(store, BOB)}
    assert other.id not in {each.id for each in claim(store, BOB)}
    if not isinstance(place, str):
        store.close()
        assert secret.encode() not in place.read_bytes()
    with pytest.raises(StoreError, match="no ticket #999"):
        erase_ticket(store, 999, ADMIN)
    with pytest.raises(RoleError, match="'ann' has the role reviewer and wants to erase a ticket"):
        erase_ticket(store, other.id, ANN)


def test_a_number_in_the_store_is_never_taken_for_an_own_id(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    new = [
        NewTicket(own, text) for own, text in zip(("3", "1", "#1", "a/b"), texts(4), strict=True)
    ]
    add_tickets(store, predictor, new, source="s")
    names = ("3", "1", "s/#1", "a/b", "#1", "s/3", "s/a/b")
    assert [find_ticket(store, name) for name in names] == [1, 2, 3, 4, 1, 1, 4]
    with pytest.raises(StoreError, match=r"no ticket '2'; .*such as #12\. .*write '#2'"):
        find_ticket(store, "2")


def test_an_ambiguous_id_is_refused_with_both_tickets(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    for source in ("mail", "chat", ""):
        add_tickets(store, predictor, [NewTicket("7", f"from {source}")], source=source)
    numbers = r"#1 \(source 'mail', 'from mail'\), #2 .*, #3 .*; expected one ticket"
    with pytest.raises(StoreError, match=f"'7' stands for several tickets: {numbers}"):
        find_ticket(store, "7")
    assert [find_ticket(store, name) for name in ("mail/7", "chat/7", "/7")] == [1, 2, 3]


def test_equal_texts_have_one_hash_that_depends_on_the_store(store, tmp_path):
    from bertcnn.review.store import open_review

    assert text_hash(store, "No  Signal\n") == text_hash(store, "no signal")
    assert text_hash(store, "no signal") != text_hash(open_review(tmp_path / "b.db"), "no signal")


def test_audits_and_one_review_in_ten_are_shown_without_the_answer(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    strange = [NewTicket(str(place), f"zz {place} qq") for place in range(300)]
    add_tickets(store, predictor, strange, source="s", audited=1.0)
    waiting = rows_of(store, queue)
    reviews = [row for row in waiting if row.place > 0]
    assert all(row.blind for row in waiting if row.place == 0)
    assert len(reviews) > 200
    share = np.mean([row.blind for row in reviews])
    assert 0.02 < share < 0.2  # more than four standard errors to either side


def test_a_person_needs_a_name_and_a_role():
    from bertcnn.errors import SettingsError

    for name, role in ((" ", "admin"), ("x" * 201, "admin"), ("ann", "boss")):
        with pytest.raises(SettingsError):
            Person(name, role)
