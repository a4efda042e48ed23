"""Shadow answers of the previous model."""

import shutil

import numpy as np
import pytest
from sqlalchemy import insert, select, update

from bertcnn import load
from bertcnn.evaluation.paired import paired_difference
from bertcnn.review import shadow
from bertcnn.review.audits import audit_report
from bertcnn.review.files import add_file
from bertcnn.review.models import add_model, roll_back
from bertcnn.review.schema import draw, prediction, queue
from bertcnn.review.shadow import answer_in_shadow, last_handover, shadow_report
from bertcnn.review.tickets import BESIDE, NewTicket, add_tickets, answer_waiting, erase_ticket
from tests.apps.dashboards import save_model
from tests.listener import Listener
from tests.review.desk import ADMIN, ANN, BOB, decide, decide_all, filled, serve, texts
from tests.tickets import tickets
from tests.tiny import saved_with_scope


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Another model, saved."""
    return save_model(tmp_path_factory.mktemp("later") / "model")


def beside(store):
    """Shadow answers, by ticket."""
    with store.reading() as connection:
        rows = connection.execute(select(prediction).where(prediction.c.predicted_at == BESIDE))
        return {row.ticket: row for row in rows}


def test_the_first_model_has_none_before_it(store, encoder_folder):
    filled(store, encoder_folder, 3)
    assert last_handover(store) is None
    assert answer_in_shadow(store) == 0
    assert shadow_report(store) is None


def test_new_tickets_are_answered_by_both_and_others_are_not(store, encoder_folder, later):
    first = filled(store, encoder_folder, 6)
    second = load(serve(store, later).folder)
    waiting = select(queue.c.ticket, queue.c.model).order_by(queue.c.ticket)
    new = [NewTicket(f"N-{place}", text) for place, text in enumerate(texts(5))]
    add_tickets(store, second, new, source="new")
    with store.reading() as connection:
        before = connection.execute(waiting).all()
        draws = len(connection.execute(select(draw)).all())
    assert answer_in_shadow(store) == 5
    assert answer_in_shadow(store) == 0
    found = beside(store)
    assert sorted(found) == [7, 8, 9, 10, 11]
    assert {row.model for row in found.values()} == {first.bundle.bundle_id}
    expected = first.classify(texts(5))
    assert [row.label for _, row in sorted(found.items())] == [one.label for one in expected]
    with store.reading() as connection:
        assert connection.execute(waiting).all() == before
        assert len(connection.execute(select(draw)).all()) == draws
    report = shadow_report(store)
    assert (report.answered, report.decided, report.difference) == (5, 0, None)
    assert report.lines()[1] == "Nobody has decided any of them yet."


def test_an_erased_ticket_is_left_out(store, encoder_folder, later):
    filled(store, encoder_folder, 0)
    new = [NewTicket("a", "no signal"), NewTicket("b", "no line")]
    add_tickets(store, load(serve(store, later).folder), new, source="s")
    erase_ticket(store, 1, ADMIN)
    assert answer_in_shadow(store) == 1
    assert sorted(beside(store)) == [2]


def test_after_two_weeks_it_ends(store, encoder_folder, later, monkeypatch):
    filled(store, encoder_folder, 0)
    add_tickets(store, load(serve(store, later).folder), [NewTicket("a", "no signal")], source="s")
    start = last_handover(store).at
    for seconds, answered in ((1, 0), (-1, 1)):
        monkeypatch.setattr(shadow, "now", lambda: start + 14 * 86_400 + seconds)  # noqa: B023
        assert answer_in_shadow(store) == answered


def test_a_missing_previous_model_is_reported_once(store, encoder_folder, later, tmp_path):
    folder = shutil.copytree(saved_with_scope(encoder_folder), tmp_path / "gone")
    add_model(store, folder, ADMIN)
    serve(store, later)
    shutil.rmtree(folder)
    file, notes = tmp_path / "inbox.csv", Listener()
    file.write_text("id,text\n" + "".join(f"{n},{one}\n" for n, one in enumerate(tickets(6)[0])))
    assert add_file(store, file, progress=notes).added == 18
    assert len([line for line in notes.notes if "not in" in line and str(folder) in line]) == 1
    assert beside(store) == {}
    assert shadow_report(store) is None


def answered_by_both(store, encoder_folder, later, automatic=80, reviews=40):
    """Answers of two models with known truth: the later model is right more often."""
    filled(store, encoder_folder, 0)
    serve(store, later)
    change, chance = last_handover(store), np.random.default_rng(0)
    number = automatic + reviews
    drawn = np.arange(number) < automatic // 2
    right = {"before": chance.random(number) < 0.5, "serving": chance.random(number) < 0.9}
    add_tickets(
        store,
        load(saved_with_scope(encoder_folder)),
        [NewTicket(str(n), f"{n} {text}") for n, text in enumerate(texts(number))],
        source="s",
    )
    common = {"confidence": 0.9, "probable": [], "because": [], "reason": ""}
    with store.writing() as connection:
        connection.execute(draw.delete())
        connection.execute(queue.delete())
        connection.execute(prediction.delete())
        for name, moment in (("before", BESIDE), ("serving", change.at + 1)):
            model = getattr(change, name).id
            answers = [
                {
                    "ticket": n + 1,
                    "model": model,
                    "label": "billing" if right[name][n] else "hardware",
                    "decision": "auto" if n < automatic else "review:ambiguous",
                    "predicted_at": moment,
                    **common,
                }
                for n in range(number)
            ]
            connection.execute(insert(prediction), answers)
        lottery = {"model": change.serving.id, "stratum": "billing/1", "probability": 0.5}
        connection.execute(
            insert(draw),
            [{"ticket": n + 1, "drawn": bool(drawn[n]), **lottery} for n in range(automatic)],
        )
    return drawn, right


def test_the_figures_estimate_all_tickets(store, encoder_folder, later):
    drawn, right = answered_by_both(store, encoder_folder, later)
    audits, reviews = np.flatnonzero(drawn)[:20], np.arange(80, 90)
    decide_all(store, ANN, {int(n) + 1: "billing" for n in (*audits, *reviews)})
    decide(store, ANN, 70, "billing")  # automatic but not audited: a person chose to decide it
    decide(store, ANN, 95, "billing")
    decide(store, BOB, 95, "hardware")
    found = shadow_report(store)
    assert (found.answered, found.decided) == (120, 30)
    places = np.concatenate([audits, reviews])
    weights = np.array([40 / 20 / 0.5] * 20 + [40 / 10] * 10)
    for name in ("before", "serving"):
        expected = np.average(right[name][places], weights=weights)
        assert getattr(found, name) == pytest.approx(expected)
    gap = paired_difference(right["before"][places], right["serving"][places], weights=weights)
    assert found.difference == gap
    said = " ".join(found.lines())
    assert f"By 30 decided tickets, {found.serving:.1%} of the serving model's" in said
    assert "The serving model is better." in said
    assert found.to_json()["difference"]["estimate"] == gap.estimate


def test_out_of_scope_is_right_for_a_ticket_without_label(store, encoder_folder, later):
    answered_by_both(store, encoder_folder, later)
    outside = (prediction.c.ticket == 100) & (prediction.c.predicted_at == BESIDE)
    with store.writing() as connection:
        statement = update(prediction).where(outside)
        connection.execute(statement.values(decision="review:out_of_scope"))
    decide(store, ANN, 100, None)
    found = shadow_report(store)
    assert (found.before, found.serving) == (1.0, 0.0)
    assert found.lines()[2] == "It is too early to say which is better."


def test_after_a_rollback_the_newer_model_answers_beside_the_older_one(
    store, encoder_folder, later
):
    first = filled(store, encoder_folder, 0)
    second = load(serve(store, later).folder)
    add_tickets(store, second, [NewTicket("a", "no signal")], source="s")
    answer_in_shadow(store)
    roll_back(store, ADMIN)
    change = last_handover(store)
    assert change.before.id == second.bundle.bundle_id
    assert change.serving.id == first.bundle.bundle_id
    assert shadow_report(store) is None
    add_tickets(store, first, [NewTicket("b", "no line")], source="s")
    assert answer_in_shadow(store) == 1
    assert shadow_report(store).answered == 1
    assert audit_report(store).model.id == first.bundle.bundle_id


def test_shadow_answers_count_when_the_model_serves_again(store, encoder_folder, later):
    first = filled(store, encoder_folder, 0)
    second = load(serve(store, later).folder)
    new = [NewTicket(f"N-{place}", f"zz {place} qq") for place in range(6)]
    add_tickets(store, second, new, source="s", audited=1.0)
    answer_in_shadow(store)
    assert len(beside(store)) == 6
    roll_back(store, ADMIN)
    answered = answer_waiting(store, first).added
    assert answered == 6 - len(beside(store)) > 0
    with store.reading() as connection:
        rows = connection.execute(
            select(prediction.c.decision, prediction.c.embedding).where(
                prediction.c.model == first.bundle.bundle_id, prediction.c.predicted_at != BESIDE
            )
        ).all()
    assert all(row.embedding is not None for row in rows if row.decision != "auto")
