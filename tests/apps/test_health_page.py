"""The page Health."""

from datetime import date, timedelta

import numpy as np
import pytest
from sqlalchemy import select, update

from bertcnn import load
from bertcnn.bundle.schemas import Calibration, LabelShiftCalibration
from bertcnn.review.daily_figures import day_of
from bertcnn.review.jobs.jobs import list_jobs
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import serving_model
from bertcnn.review.schema import prediction, ticket
from bertcnn.review.shadow import answer_in_shadow
from bertcnn.review.store import now
from bertcnn.review.tickets import NewTicket, add_tickets, erase_ticket
from tests.apps.dashboards import LABELS, part, press, said, save_model
from tests.review.desk import ADMIN, ANN, decide_all, serve
from tests.review.history import draw_audits, with_history

SCRIPT = "<script>1</script> ![x](https://example.org/x) solar panel"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two saved models; the first one can estimate label shares."""
    folder = tmp_path_factory.mktemp("models")
    shift = LabelShiftCalibration(
        temperature=1.0, bias=(0.0,) * len(LABELS), shares=(1 / len(LABELS),) * len(LABELS), rows=90
    )
    calibration = Calibration(temperature=1.0, fitted_on_rows=90, label_shift=shift)
    save_model(folder / "first", calibration=calibration)
    save_model(folder / "second")
    return folder


@pytest.fixture
def store(dashboard):
    return dashboard.store


@pytest.fixture
def health(dashboard):
    """Open the page."""
    return lambda: dashboard.page("health")


def yesterday():
    return day_of(now()) - timedelta(days=1)


def filled(store, models, **recent):
    """Nine weeks of tickets up to yesterday."""
    return with_history(store, None, folder=models / "first", last=yesterday(), **recent)


def broken(store, models):
    """The second model's audits are all wrong; the first model served before it."""
    first = serve(store, models / "first")
    second = serve(store, models / "second")
    with_history(store, None, folder=models / "second", last=yesterday(), outside=0.0)
    tickets = range(1201, 1241)
    draw_audits(store, second, tickets)
    decide_all(store, ANN, dict.fromkeys(tickets))
    return first


def states(app, state):
    """The words behind each badge with a state."""
    words = [one.value.replace("\\", "") for one in app.markdown]
    return [words[place + 1] for place, word in enumerate(words) if f"[{state}]" in word]


def test_changes_are_reported_and_drawn(store, models, health):
    filled(store, models, outside=0.7, words="fritzbox")
    app = health()
    assert not app.exception
    assert "is usual on a" in said(app.warning)
    assert "New frequent words: 'fritzbox'" in said(app.warning)
    assert "**first**" in said(app.markdown)
    assert "by root" in said(app.caption)
    assert len(app.get("vega_lite_chart")) == 3
    assert app.dataframe[0].value["word"].tolist() == ["fritzbox"]
    assert not app.error


def test_a_usual_week_is_one_line(store, models, health):
    filled(store, models)
    app = health()
    assert not app.warning
    (tested,) = states(app, "as before")
    assert tested.startswith("tickets that fit no label, tickets answered automatically")
    assert not states(app, "not known yet")[1:], "only the accuracy: nobody has read an audit"


def test_first_days_are_not_known_yet(store, models, health):
    with_history(store, None, 3, folder=models / "first", last=yesterday())
    app = health()
    assert not app.exception
    assert not app.warning
    assert not app.success
    assert not states(app, "as before"), "green is only for what was tested"
    assert "tickets that fit no label" in states(app, "not known yet")[1]
    assert "earlier tickets to compare with" in said(app.markdown)


def test_unanswered_tickets_are_counted_and_not_drawn(store, models, health):
    filled(store, models)
    serve(store, models / "second")
    app = health()
    shown = said(app.markdown)
    assert "140 tickets in the seven days up to" in shown
    assert "140 of them do not count below" in shown
    assert not app.get("vega_lite_chart")
    assert "How sure the model is" not in shown, "no heading without its chart"


def test_the_accuracy_over_time_is_drawn_from_two_weeks_on(store, models, health):
    model = filled(store, models)
    one_day, a_week_before = range(1221, 1241), range(1081, 1101)
    for tickets, charts in ((one_day, 3), (a_week_before, 4)):
        draw_audits(store, model, tickets)
        decide_all(store, ANN, dict.fromkeys(tickets, "billing"))
        assert len(health().get("vega_lite_chart")) == charts


def test_a_broken_promise_is_on_top_and_leads_back_to_the_earlier_model(store, models, health):
    first = broken(store, models)
    app = health()
    assert not app.exception
    assert "The promise no longer holds" in said(app.error)
    assert "40 of 40 audits wrong" in said(app.error)
    app = press(app, "Go back to first")
    assert not app.exception
    assert serving_model(store).id == first.id
    assert "first is in use again." in said(app.success)
    assert [one.arguments for one in list_jobs(store)] == [("review", "answer")]
    assert not app.error


def test_the_earlier_model_is_named_beside_the_serving_one(store, models, health):
    first = serve(store, models / "first")
    second = serve(store, models / "second")
    new = [NewTicket(f"T-{number}", f"my router {'led ' * number}") for number in range(9)]
    add_tickets(store, load(models / "second"), new)
    answer_in_shadow(store)
    assert "first has answered 9 tickets too; none is decided yet." in states(
        health(), "not known yet"
    )
    with store.reading() as connection:
        drawn = select(prediction.c.ticket, prediction.c.label)
        labels = dict(connection.execute(drawn.where(prediction.c.model == second.id)).all())
    decide_all(store, ANN, labels)
    (said_of,) = [one for one in states(health(), "not known yet") if "better" in one]
    assert said_of.startswith("Which one is better: of 9 decided tickets, 100.0% of the serving")
    assert first.id[:8] not in said_of


def test_label_shares_are_estimated_on_request(store, models, health):
    filled(store, models)
    app = health()
    assert not any("label" in one.value.columns for one in app.dataframe)
    app = press(app, "Estimate")
    assert not app.exception
    [table] = [one.value for one in app.dataframe if "label" in one.value.columns]
    assert sorted(table["label"]) == sorted(LABELS)


def with_topic(store, models):
    """Twenty out-of-scope tickets about one topic, including a hostile text."""
    filled(store, models, outside=1.0)
    chance = np.random.default_rng(0)
    centre = chance.normal(size=32)
    with store.writing() as connection:
        for number in range(1121, 1261):
            about = number % 7 == 0
            vector = chance.normal(size=32) * (0.2 if about else 1.0) + (centre if about else 0.0)
            packed = (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()
            connection.execute(
                update(prediction).where(prediction.c.ticket == number).values(embedding=packed)
            )
            if about:
                changed = update(ticket).where(ticket.c.id == number)
                connection.execute(changed.values(text=f"{SCRIPT} {number}"))


def test_a_topic_becomes_a_label_under_the_typed_name(store, models, health):
    with_topic(store, models)
    app = press(health(), "Look for topics")
    assert not app.exception
    assert "1 topic among 140 tickets" in said(app.markdown)
    assert "<script>" in said(app.caption)  # shown as text, see below
    assert all("<script>" not in one.value for one in app.caption)
    [name] = [one for one in app.text_input if one.label == "Name of the label"]
    assert name.value
    name.set_value(" ")
    app = press(app, "Add as a label")
    assert "the label ''; expected 1 to 200 characters" in said(app.error)
    [name] = [one for one in app.text_input if one.label == "Name of the label"]
    name.set_value(" solar panels ")
    app = press(app, "Add as a label")
    assert not app.exception
    assert "The label solar panels was added." in said(app.success)
    assert labels_in_use(store).names == (*LABELS, "solar panels")
    [name] = [one for one in app.text_input if one.label == "Name of the label"]
    app = press(app, "Add as a label")
    assert "was there already" in said(app.success)


def test_examples_of_a_topic_are_gone_once_their_tickets_are_erased(store, models, health):
    with_topic(store, models)
    app = press(health(), "Look for topics")
    assert said(app.caption).count("solar panel") == 3
    with store.reading() as connection:
        about = select(ticket.c.id).where(ticket.c.text.contains("solar panel"))
        numbers = list(connection.scalars(about))
    for number in numbers:
        erase_ticket(store, number, ADMIN)
    assert "solar panel" not in said(app.run().caption)


def drawn(chart):
    """The data rows of a chart."""
    [rows] = chart.to_dict()["datasets"].values()
    return rows


def test_days_without_tickets_are_gaps_and_counts_stand_beside_shares():
    days = [(date(2026, 4, 28), 3, 60), (date(2026, 4, 30), 1, 4)]
    rows = drawn(part("charts").share_by_day(days, "out of scope", {date(2026, 4, 30)}))
    assert [(one["day"], one["share"], one["recent"]) for one in rows] == [
        ("28 Apr", 0.05, False),
        ("29 Apr", None, False),
        ("30 Apr", 0.25, True),
    ]
    assert rows[0]["figure"] == "3 of 60 (5.0%)"


def test_an_axis_of_shares_that_are_all_0_still_has_a_length():
    chart = part("charts").share_by_day([(date(2026, 4, 28), 0, 60)], "out of scope", ())
    assert chart.to_dict()["encoding"]["y"]["scale"]["domain"] == [0, 0.01]


def test_the_ten_most_frequent_labels_are_compared_with_the_weeks_before():
    now = {f"label {number}": number for number in range(1, 13)}
    rows = drawn(part("charts").mix_now_and_before(now, {"label 3": 100, "gone": 50}))
    labels = list(dict.fromkeys(one["label"] for one in rows))
    assert (len(labels), labels[:2]) == (10, ["label 3", "gone"])
    assert [one["figure"] for one in rows[:4]] == [
        "3 of 78 (3.8%)",
        "100 of 150 (66.7%)",
        "0 of 78 (0.0%)",
        "50 of 150 (33.3%)",
    ]
