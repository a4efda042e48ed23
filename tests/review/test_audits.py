"""The accuracy of automatic answers."""

from datetime import UTC, datetime

import numpy as np
import pytest
from sqlalchemy import insert, update

from bertcnn.errors import StoreError
from bertcnn.review.audits import audit_report, is_right
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.models import add_model, model_history, note_alarm
from bertcnn.review.schema import draw, prediction, ticket
from bertcnn.review.statistics.audit import Stratum, audit_accuracy
from bertcnn.review.tickets import erase_ticket
from tests.review.desk import ADMIN, ANN, BOB, decide, decide_all
from tests.tiny import saved


def answered(store, encoder_folder, answers: int, drawn: int, *, right=0.9):
    """Automatic answers "billing"; `drawn` of them are audited, and a share `right` is right."""
    model = add_model(store, saved(encoder_folder), ADMIN)
    chance = np.random.default_rng(0)
    truth = chance.random(answers) < right
    with store.writing() as connection:
        common = {"source": "s", "text": "t", "columns": {}, "received_at": 1.0}
        rows = [
            {**common, "id": n + 1, "external_id": str(n), "text_hash": str(n)}
            for n in range(answers)
        ]
        connection.execute(insert(ticket), rows)
        shown = {"label": "billing", "confidence": 0.97, "decision": "auto", "probable": []}
        more = {"because": [], "reason": "", "predicted_at": 100.0, "model": model.id}
        connection.execute(
            insert(prediction), [{"ticket": n + 1, **shown, **more} for n in range(answers)]
        )
        rate = {"model": model.id, "stratum": "billing/1", "probability": drawn / answers}
        draws = [{"ticket": n + 1, "drawn": n < drawn, **rate} for n in range(answers)]
        connection.execute(insert(draw), draws)
    return model, truth


def labels_of(truth):
    """What people decide on the first tickets."""
    return {n: "billing" if right else "hardware" for n, right in enumerate(truth, start=1)}


def test_the_report_has_the_figures_of_the_estimator(store, encoder_folder):
    _, truth = answered(store, encoder_folder, 400, 60)
    decide_all(store, ANN, labels_of(truth[:60]))
    found = audit_report(store)
    stratum = Stratum("billing", 1)
    expected = audit_accuracy(truth[:60], [0.15] * 60, [stratum] * 60, {stratum: 400})
    assert found.all == expected
    assert found.labels == {"billing": expected}
    assert (found.waiting, found.disputed) == (0, 0)
    assert list(found.needed) == [0.03, 0.02, 0.015]
    assert found.lines()[0].startswith(f"{truth[:60].mean():.1%} of 400 automatic")


def test_waiting_skipped_and_disputed_audits_do_not_count(store, encoder_folder):
    answered(store, encoder_folder, 200, 40)
    decide_all(store, ANN, dict.fromkeys(range(1, 21), "billing"))
    decide(store, BOB, 1, "hardware")
    decide(store, BOB, 2, "billing")
    record(store, ANN, [NewDecision("s", 30, "skip")])
    found = audit_report(store)
    assert (found.all.audits, found.disputed, found.waiting) == (19, 1, 20)
    said = " ".join(found.lines())
    assert "20 audits wait" in said
    assert "People disagree on 1 audit" in said


def test_the_audit_of_an_erased_ticket_no_longer_waits(store, encoder_folder):
    answered(store, encoder_folder, 20, 5)
    decide(store, ANN, 1, "billing")
    record(store, BOB, [NewDecision("s", 2, "skip")])
    for number in (1, 2, 3, 20):
        erase_ticket(store, number, ADMIN)
    found = audit_report(store)
    assert (found.all.audits, found.waiting) == (1, 2)


def test_a_stratum_whose_audits_wait_counts_as_much_as_before(store, encoder_folder):
    answered(store, encoder_folder, 400, 0)
    other = draw.c.ticket > 200
    with store.writing() as connection:
        connection.execute(update(draw).where(other).values(stratum="billing/2"))
        drawn = (draw.c.ticket % 5) == 0  # 40 of each stratum
        connection.execute(update(draw).where(drawn).values(drawn=True))
        connection.execute(update(draw).values(probability=0.2))
    decide_all(store, ANN, dict.fromkeys(range(5, 201, 5), "billing"))
    decide_all(store, ANN, dict.fromkeys(range(205, 255, 5), "hardware"))  # 10 of the other 40
    found = audit_report(store)
    assert (found.all.audits, found.waiting) == (50, 30)
    assert found.all.accuracy == pytest.approx(0.5)


def test_the_first_alarm_is_kept_whatever_is_decided_later(store, encoder_folder):
    model, _ = answered(store, encoder_folder, 200, 60)
    decide_all(store, ANN, dict.fromkeys(range(1, 61)))
    assert audit_report(store, since=50.0).alarm is None  # only some of the answers
    assert [one.kind for one in model_history(store, model.id)] == ["added", "promoted"]
    first = audit_report(store).alarm
    assert (first.kind, first.actor, first.model) == ("alarm", "audits", model.id)
    assert first.reason.startswith("60 of 60 audits wrong, ")
    decide_all(store, ANN, dict.fromkeys(range(1, 61), "billing"))  # instead
    found = audit_report(store)
    assert found.alarm == first
    assert found.watch.alarm is None
    assert found.broken
    noticed = datetime.fromtimestamp(first.at, UTC).date().isoformat()
    assert f"no longer holds (noticed on {noticed})" in " ".join(found.lines())
    told = found.to_json()
    assert (told["alarm_at"], told["broken"]) == (first.at, True)
    kinds = [one.kind for one in model_history(store, model.id)]
    assert kinds == ["added", "promoted", "alarm"]
    assert note_alarm(store, model.id, "again", {}) == first


def test_each_week_has_figures_of_its_own(store, encoder_folder):
    _, truth = answered(store, encoder_folder, 400, 60)
    monday = datetime(2026, 4, 27, tzinfo=UTC).timestamp()
    with store.writing() as connection:
        for first, moment in ((0, monday - 1), (30, monday), (60, monday + 7 * 86_400)):
            later = prediction.c.ticket > first
            connection.execute(update(prediction).where(later).values(predicted_at=moment))
    decide_all(store, ANN, labels_of(truth[:60]))
    found = audit_report(store)
    starts = [one.start.isoformat() for one in found.weeks]
    assert starts == ["2026-04-20", "2026-04-27", "2026-05-04"]
    for week, right in zip(found.weeks, (truth[:30], truth[30:60]), strict=False):
        assert week.accuracy.accuracy == pytest.approx(right.mean())
        assert (week.accuracy.audits, week.accuracy.population) == (30, 30)
    assert found.weeks[2].accuracy.accuracy is None
    assert found.all.accuracy == pytest.approx(truth[:60].mean())
    assert found.to_json()["weeks"][0]["start"] == "2026-04-20"
    assert len(audit_report(store, since=monday).weeks) == 2


def test_without_audits_nothing_is_claimed(store, encoder_folder):
    with pytest.raises(StoreError, match="has no model"):
        audit_report(store)
    answered(store, encoder_folder, 10, 2)
    found = audit_report(store)
    assert found.all.accuracy is None
    assert "their accuracy is not known" in found.lines()[0]
    assert audit_report(store, since=200.0).all.population == 0


@pytest.mark.parametrize(
    ("decided", "answer", "separator", "expected"),
    [
        ("a", "a", None, True),
        ("a", "b", None, False),
        ("", "a", None, False),
        ("", None, None, False),
        ("a > b", "a", None, True),
        ("a", "a > b", None, False),
        ("ab", "a", None, False),
        ("a; b", "b; a", ";", True),
        ("a; b", "a", ";", False),
        ("", "", ";", True),
    ],
)
def test_an_answer_is_right_if_it_matches_the_decision(decided, answer, separator, expected):
    assert is_right(decided, answer, separator) is expected
