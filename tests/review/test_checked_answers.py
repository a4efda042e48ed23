"""More audits, and the answers that audits found wrong."""

import pytest
from sqlalchemy import select

from bertcnn.errors import RoleError, SettingsError
from bertcnn.review.audits import audit_report
from bertcnn.review.checked_answers import draw_more_audits, wrong_answers
from bertcnn.review.people import Person
from bertcnn.review.queue import claim, waiting_tickets
from bertcnn.review.schema import draw, prediction
from bertcnn.review.statistics import uniform_number
from bertcnn.review.tickets import erase_ticket
from tests.review.desk import ADMIN, ANN, BOB, decide, filled


@pytest.fixture
def answered(store, encoder_folder):
    """Tickets with automatic answers, a tenth of them drawn."""
    filled(store, encoder_folder, 80, audited=0.1)
    assert len(draws(store)) > 20


def draws(store):
    with store.reading() as connection:
        return connection.execute(select(draw).order_by(draw.c.ticket)).all()


def test_more_audits_are_one_sample_with_the_first_ones(store, answered):
    before = {row.ticket for row in draws(store) if row.drawn}
    waiting = waiting_tickets(store)["audits"]
    assert draw_more_audits(store, ANN, 7) == 7
    after = draws(store)
    [rate] = {row.probability for row in after}
    assert before < {row.ticket for row in after if row.drawn}
    for row in after:
        number = uniform_number(store.secret, f"audit/{row.ticket}/{row.model}")
        assert row.drawn == (number < rate)
    assert waiting_tickets(store)["audits"] == waiting + 7
    assert all(one.blind for one in claim(store, BOB, most=len(before) + 7, view="audits"))


def test_all_answers_can_be_audited(store, answered):
    left = sum(not row.drawn for row in draws(store))
    assert draw_more_audits(store, ANN, 1000) == left
    assert {(row.drawn, row.probability) for row in draws(store)} == {(True, 1.0)}
    assert draw_more_audits(store, ANN, 1) == 0
    with pytest.raises(RoleError):
        draw_more_audits(store, Person("vic", "viewer"), 1)
    with pytest.raises(SettingsError, match="0 audits"):
        draw_more_audits(store, ANN, 0)


def test_a_decided_answer_counts_and_does_not_wait(store, answered):
    [chosen, *_] = [row.ticket for row in draws(store) if not row.drawn]
    decide(store, ANN, chosen, "billing")
    waiting = waiting_tickets(store)["audits"]
    drawn = draw_more_audits(store, ANN, 1000)
    assert waiting_tickets(store)["audits"] == waiting + drawn - 1
    assert audit_report(store).all.audits == 1


def test_wrong_answers_have_their_texts_newest_first(store, answered):
    draw_more_audits(store, ANN, 1000)
    tickets = [row.ticket for row in draws(store)][:5]
    with store.reading() as connection:
        label = dict(connection.execute(select(prediction.c.ticket, prediction.c.label)).all())
    decide(store, ANN, tickets[0], label[tickets[0]])
    for number, one in enumerate(tickets[1:], start=1):
        decide(store, ANN, one, None, decided_at=1000.0 + number)
    decide(store, BOB, tickets[1], label[tickets[1]])  # people disagree
    erase_ticket(store, tickets[2], ADMIN)
    found = wrong_answers(store)
    assert [one.ticket for one in found] == [tickets[4], tickets[3]]
    assert (found[0].answer, found[0].decided) == (label[tickets[4]], "")
    assert found[0].text
    assert wrong_answers(store, most=1) == found[:1]
    assert wrong_answers(store, since=2e10) == []
