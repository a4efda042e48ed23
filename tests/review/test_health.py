"""Detecting changes from the answers alone."""

from collections import defaultdict
from datetime import date, timedelta

import pytest
from sqlalchemy import select, update

from bertcnn import load
from bertcnn.errors import StoreError
from bertcnn.review import daily_figures as counting
from bertcnn.review.daily_figures import day_of, newest_day, read_days, sample_texts, start_of
from bertcnn.review.health import drift_report
from bertcnn.review.models import add_model
from bertcnn.review.schema import prediction, ticket
from bertcnn.review.store import now
from bertcnn.review.tickets import (
    NewTicket,
    add_tickets,
    answer_waiting,
    enqueue,
    erase_ticket,
)
from tests.apps.dashboards import save_model
from tests.review.conftest import refused
from tests.review.desk import ADMIN, filled, serve
from tests.review.history import LAST, daily_figures, with_history
from tests.tickets import tickets
from tests.tiny import saved_with_scope


def found(report):
    return {one.about: one for one in report.report.findings}


def test_the_database_counts_as_python_does(store, encoder_folder, monkeypatch):
    monkeypatch.setattr(counting, "_RUN", 77)  # several transactions
    model = with_history(store, encoder_folder, 5, 30)
    with store.reading() as connection:
        rows = connection.execute(
            select(ticket.c.received_at, ticket.c.text, prediction).join(prediction)
        ).all()
    days = defaultdict(list)
    for row in rows:
        days[day_of(row.received_at)].append(row)
    expected = [
        daily_figures(
            day,
            [len(row.text) for row in found],
            [row.decision == "review:out_of_scope" for row in found],
            [row.label for row in found],
            [row.confidence for row in found],
            {"automatic": [row.decision for row in found].count("auto"), "in another language": 0},
        )
        for day, found in sorted(days.items())
    ]
    assert len(expected) == 5
    assert read_days(store, model.id, LAST - timedelta(days=9), LAST) == expected
    assert read_days(store, model.id, LAST, LAST) == expected[-1:]


def test_the_ends_of_a_day_belong_to_it(store, encoder_folder):
    predictor = filled(store, encoder_folder, 0)
    edges = [start_of(LAST), start_of(LAST) + 86_399.99, start_of(LAST) + 86_400]
    new = [NewTicket(str(place), "no signal", {}, edge) for place, edge in enumerate(edges)]
    add_tickets(store, predictor, new, source="s")
    counted = read_days(store, predictor.bundle.bundle_id, LAST, LAST + timedelta(days=1))
    assert [(one.day, one.texts) for one in counted] == [(LAST, 2), (LAST + timedelta(days=1), 1)]


def test_the_newest_day_is_one_that_is_over(store, encoder_folder):
    assert newest_day(store) is None
    predictor = filled(store, encoder_folder, 0)
    add_tickets(store, predictor, [NewTicket("a", "no signal")], source="s")
    assert newest_day(store) == day_of(now())
    moment = start_of(LAST) + 5
    add_tickets(store, predictor, [NewTicket("b", "no line", {}, moment)], source="s")
    assert newest_day(store) == LAST


def test_a_usual_week_is_no_change(store, encoder_folder):
    with_history(store, encoder_folder)
    report = drift_report(store)
    assert (report.report.day, report.changed) == (LAST, False)
    assert {one.changed for one in report.report.findings} == {False}
    assert [sum(one.texts for one in days) for days in (report.week, report.before)] == [140, 1120]
    said = report.lines()
    assert said[0].startswith("Thursday, 2026-04-30: 20 tickets, and 140 in the seven days")
    assert all(line.startswith("as before: ") for line in said[1:])
    assert report.to_json()["day"] == "2026-04-30"


@pytest.mark.parametrize(
    ("change", "about"),
    [({"outside": 0.6}, "out_of_scope"), ({"words": "fritzbox " * 9}, "words")],
)
def test_each_change_is_found(store, encoder_folder, change, about):
    with_history(store, encoder_folder, **change)
    report = drift_report(store)
    assert about in [one.about for one in report.report.changed]
    assert report.changed
    sentence = found(report)[about].sentence
    assert f"changed: {sentence}" in report.lines()
    if about == "words":
        assert [one.word for one in report.words] == ["fritzbox"]


def test_another_models_answers_do_not_count_but_its_tickets_do(store, encoder_folder, tmp_path):
    model = with_history(store, encoder_folder, words="fritzbox")
    other = add_model(store, save_model(tmp_path / "other"), ADMIN)
    early = prediction.c.predicted_at < start_of(LAST - timedelta(days=20))
    with store.writing() as connection:
        connection.execute(update(prediction).where(early).values(model=other.id))
    report = drift_report(store)
    assert report.model.id == model.id
    assert found(report)["out_of_scope"].changed is None
    assert "only 2 earlier days of this weekday" in found(report)["out_of_scope"].sentence
    assert found(report)["lengths"].changed is not None
    assert found(report)["words"].changed


def test_waiting_tickets_of_earlier_days_do_not_represent_them(store, encoder_folder, tmp_path):
    model = with_history(store, encoder_folder, 70, confidence=0.5)
    second = serve(store, save_model(tmp_path / "second"))
    with store.writing() as connection:
        waiting = select(prediction.c.ticket).where(prediction.c.decision != "auto")
        for number in connection.scalars(waiting).all():
            enqueue(store, connection, number)
    assert answer_waiting(store, load(second.folder)).added > 300
    findings = found(drift_report(store))
    for about in ("out_of_scope", "automatic", "labels", "confidence"):
        assert findings[about].changed is None, findings[about].sentence
    assert findings["lengths"].changed is False
    assert sum(one.texts for one in read_days(store, model.id, LAST, LAST)) == 20


def test_without_earlier_tickets_nothing_is_claimed(store, encoder_folder):
    with_history(store, encoder_folder, 7, words="fritzbox")
    report = drift_report(store)
    assert {one.changed for one in report.report.findings} == {None}
    assert "0 earlier tickets to compare with" in found(report)["words"].sentence
    assert all(line.startswith("not known: ") for line in report.lines()[1:])


def test_a_store_without_model_or_tickets_says_what_to_do(store, encoder_folder):
    with refused(StoreError, "has no model", "bertcnn models add"):
        drift_report(store)
    add_model(store, saved_with_scope(encoder_folder), ADMIN)
    with refused(StoreError, "no tickets in", "bertcnn review add"):
        drift_report(store)
    with_history(store, encoder_folder, 1)
    with refused(StoreError, "no tickets in", "up to 2020-01-01"):
        drift_report(store, day=date(2020, 1, 1))


def test_texts_are_a_sample_without_erased_ones(store, encoder_folder):
    with_history(store, encoder_folder, 3, 30)
    erase_ticket(store, 1, ADMIN)
    every = sample_texts(store, LAST - timedelta(days=2), LAST, 1000)
    assert len(every) == 89
    assert all(text for _, text in every)
    some = sample_texts(store, LAST - timedelta(days=2), LAST, 40)
    assert len(some) == 40
    assert set(some) < set(every)
    assert len({day for day, _ in some}) == 3
    assert {day for day, _ in sample_texts(store, LAST, LAST, 1000)} == {LAST}


def with_answers(store, predictor, days=64, each=15, *, last=("billing", "hardware", "software")):
    """Tickets with the model's own answers; last week's texts are about `last`."""
    texts, labels = tickets(30)
    about = {
        name: [one for one, of in zip(texts, labels, strict=True) if of == name]
        for name in set(labels)
    }
    new = []
    for back in range(days):
        names = last if back < 7 else sorted(about)
        for place in range(each):
            text = about[names[place % len(names)]][(back + place) % 30]
            moment = start_of(LAST - timedelta(days=back)) + place
            new.append(NewTicket(f"{back}-{place}", f"{text} {back}-{place}", {}, moment))
    add_tickets(store, predictor, new, source="s")


def test_the_shares_of_labels_are_estimated_and_compared_with_the_weeks_before(
    store, encoder_folder
):
    predictor = filled(store, encoder_folder, 0)
    with_answers(store, predictor, last=("hardware",))
    assert "label_shift" not in found(drift_report(store))
    shift = found(drift_report(store, predictor=predictor))["label_shift"]
    estimated = {one["label"]: one for one in shift.figures["labels"]}
    assert shift.changed
    assert estimated["hardware"]["share"] > 0.8
    assert estimated["hardware"]["before"] == pytest.approx(1 / 3, abs=0.1)
    assert "'hardware' from " in shift.sentence


def test_missing_data_for_the_estimate_are_reported(store, encoder_folder, tmp_path):
    predictor = filled(store, encoder_folder, 0)
    with_answers(store, predictor, days=9)
    few = found(drift_report(store, predictor=predictor))["label_shift"]
    assert few.changed is None
    assert "earlier tickets to compare with, 300 are needed" in few.sentence
    old = load(save_model(tmp_path / "old"))
    with refused(StoreError, "for an estimate", "the one that serves"):
        drift_report(store, predictor=old)


def test_a_model_saved_before_this_version_is_to_be_trained_again(store, tmp_path):
    folder = save_model(tmp_path / "old")
    add_model(store, folder, ADMIN)
    add_tickets(store, load(folder), [NewTicket("a", "my router", {}, 1e9)], source="s")
    shift = found(drift_report(store, predictor=load(folder)))["label_shift"]
    assert "cannot be estimated: the model was saved without what that takes" in shift.sentence
