"""The Models, Audit, Train and Jobs pages."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit.config
from sqlalchemy import select

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.jobs import jobs
from bertcnn.review.jobs.jobs import list_jobs, start_job
from bertcnn.review.models import (
    add_model,
    note_comparison,
    promote,
    roll_back,
    serving_model,
)
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.schema import draw
from bertcnn.review.schema import job as job_table
from bertcnn.review.starting import start_review
from bertcnn.review.store import now, open_review
from bertcnn.review.tickets import NewTicket, add_tickets
from bertcnn.review.training_files import TrainingFile
from tests.apps.dashboards import CHROMIUM, open_app, said, save_model
from tests.tickets import as_csv, tickets

LABELS = ("billing", "hardware", "tv*")
ROOT, BOB, EVE = Person("root"), Person("bob", "reviewer"), Person("eve", "reviewer")
IDLE = (sys.executable, "-S", "-c", "")  # a job process that ends before it takes the job
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with two models."""
    folder = tmp_path_factory.mktemp("models")
    automatic = Decisions(thresholds=(0.0,) * len(LABELS))
    for rows, name in enumerate(("first", "second"), start=100):
        useless = {"verdict": "uninformative", "answer": ["x"], "message": f"By chance {rows}."}
        limits = {"precision": 0.95, "share": 0.6, "possible": 0.7, "limit": "pair", "gain": 0.7}
        limits["labels"] = ["billing", "tv*"]
        metrics = {"rows": rows, "no_information": useless, "automation_limits": limits}
        save_model(folder / name, labels=LABELS, decisions=automatic, metrics=metrics)
    return folder


@pytest.fixture
def made(models, tmp_path, monkeypatch):
    """An empty store for the dashboard."""
    for name, value in (("STORE", tmp_path / "review.db"), ("FILES", tmp_path / "files")):
        monkeypatch.setenv(f"BERTCNN_{name}", str(value))
    monkeypatch.setenv("BERTCNN_PERSON", "root")
    monkeypatch.setattr(
        "streamlit.get_option",
        lambda name: "127.0.0.1" if name == "server.address" else streamlit.config.get_option(name),
    )
    (tmp_path / "files").mkdir()
    store = open_review(tmp_path / "review.db")

    def page(name):
        return open_app(models, monkeypatch, name)

    return SimpleNamespace(folder=tmp_path, models=models, store=store, page=page)


@pytest.fixture
def idle(monkeypatch):
    """Jobs whose processes do nothing."""
    monkeypatch.setattr(jobs, "_RUNNER", IDLE)


def press(app, label):
    """Press the only button with this label."""
    (button,) = [button for button in app.button if label in button.label.replace("\\", "")]
    return button.click().run()


def labels_of(buttons):
    return [button.label.replace("\\", "") for button in buttons]


# --- Classify ---------------------------------------------------------------------------------


def test_classify_begins_with_the_serving_model_after_a_promotion_and_a_rollback(made):
    names = ("second", "first")  # not in the order of the folders
    one, other = (add_model(made.store, made.models / name, ROOT) for name in names)

    def shown():
        box = made.page("classify").selectbox[0]
        marked = [option for option in box.options if option.endswith(" (serving)")]
        assert marked == [f"{made.models.name}/{Path(box.value).name} (serving)"]
        return Path(box.value).name

    assert shown() == "second"
    note_comparison(
        made.store,
        other.id,
        ROOT,
        {"champion": one.id, "verdict": "better", "sentences": "Better.", "result": {}},
    )
    promote(made.store, other.id, ROOT, reason="it is better")
    assert shown() == "first"
    roll_back(made.store, ROOT, reason="complaints")
    assert shown() == "second"
    app = made.page("classify")
    app.selectbox[0].set_value(str(made.models / "first")).run()
    assert Path(app.run().selectbox[0].value).name == "first"  # a choice stays


def test_the_serving_model_is_offered_wherever_its_folder_is(made, tmp_path):
    saved = save_model(tmp_path / "elsewhere" / "live", labels=("x", "y"))
    add_model(made.store, saved, ROOT)
    box = made.page("classify").selectbox[0]
    assert (box.value, box.options[0]) == (str(saved), "live (serving)")
    moved = saved.rename(made.models / "moved")
    try:
        app = made.page("classify")
        assert app.selectbox[0].value == str(moved)
        assert "2 labels: x, y" in said(app.caption)
    finally:
        shutil.rmtree(moved)
    app = made.page("classify")
    assert app.selectbox[0].value is None
    assert "The files of the serving model, live, are gone" in said(app.warning)
    assert not app.text_area


def test_a_model_without_automatic_answers_promises_nothing(made, tmp_path):
    metrics = {"decisions": {"automatic": 0, "rows": 40}}
    add_model(made.store, save_model(tmp_path / "few", metrics=metrics), ROOT)
    for page in ("models", "audit"):
        app = made.page(page)
        words = said([*app.markdown, *app.info, *app.caption])
        assert "It gives no automatic answers: a person decides on every ticket." in words
        assert "95%" not in words


# --- Models ------------------------------------------------------------------------------------


def test_a_model_is_added_promoted_with_a_reason_and_rolled_back(made, idle):
    app = made.page("models")
    assert "There is no model yet" in said(app.info)
    app.selectbox[0].set_value(str(made.models / "first"))
    app = press(app, "Add")
    assert "was added" in said(app.success)
    first = serving_model(made.store)
    second = add_model(made.store, made.models / "second", ROOT)
    app = app.run()
    assert "not compared yet" in said(app.markdown)
    assert said(app.warning) == "By chance 100.\nBy chance 101."
    words = said(app.markdown)
    assert "It answers about 60% of tickets by itself, limited by 'billing' and 'tv" in words
    assert words.count("60%") == 2, "the share of each model stands there once"
    assert "Promote" not in " ".join(labels_of(app.button))
    app = press(app, "Compare with the serving model")
    assert "no decided tickets to compare models on" in said(app.error)
    figures = {"champion": 0.9, "challenger": 0.8, "macro_f1": None, "automated": None}
    note_comparison(
        made.store,
        second.id,
        ROOT,
        {
            "champion": first.id,
            "verdict": "worse",
            "sentences": "Worse by 10 points.",
            "result": {**figures, "difference": {"low": -0.15, "high": -0.05}},
        },
    )
    app = app.run()
    assert "Worse by 10 points." in said(app.markdown)
    assert app.dataframe[0].value.iloc[0].tolist() == [
        "accuracy",
        "90.0%",
        "80.0%",
        "-15.0 to -5.0",
    ]
    app = press(app, "Use second from now on")
    assert "expected a written reason" in said(app.error)
    app.text_input(key=f"reason-{second.id}").set_value("it knows the new tariffs")
    app = press(app, "Use second from now on")
    assert serving_model(made.store).id == second.id
    app.text_input[0].set_value("complaints")
    app = press(app, "Go back to first")
    assert serving_model(made.store).id == first.id
    history = app.dataframe[-1].value
    assert history["what"].tolist()[0] == "rolled back"
    assert history["why"].tolist()[0] == "complaints"
    assert [job.arguments for job in list_jobs(made.store)] == 2 * [("review", "answer")]


# --- Audit -------------------------------------------------------------------------------------


def answered(made, number, audited=1.0):
    """Automatic answers, by default all drawn for audit."""
    predictor = load(made.models / "first")
    add_model(made.store, made.models / "first", ROOT)
    new = [NewTicket(f"T-{row}", f"router {'led ' * row}") for row in range(number)]
    add_tickets(made.store, predictor, new, source="tests", audited=audited)
    found = predictor.classify([one.text for one in new])
    answers = {one.text: answer.label for one, answer in zip(new, found, strict=True)}
    return {one.id: answers[one.text] for one in claim(made.store, BOB, most=number)}


def decide(made, person, decisions):
    record(
        made.store,
        person,
        [
            NewDecision(f"{person.name}-{ticket}", ticket, "label", label)
            for ticket, label in decisions.items()
        ],
    )


def test_the_audit_page_shows_figures_the_alarm_and_disagreements(made):
    assert "There is no model yet" in said(made.page("audit").info)
    answers = answered(made, 40)
    app = made.page("audit")
    assert "Nobody has checked any of 40 automatic answers yet" in said(app.info)
    assert "Read 40 audits" in labels_of(app.button)
    wrong = {ticket: LABELS[label == LABELS[0]] for ticket, label in answers.items()}
    half = list(answers)[:20]
    decide(made, BOB, {ticket: answers[ticket] for ticket in half})
    app = made.page("audit")
    figures = {metric.label: metric.value for metric in app.metric}
    assert "Right" not in figures
    assert figures["Right, with 95% confidence"] == "91.2% to 100.0%"
    assert figures["Audits read"] == "20 of 40 answers"
    assert not app.error
    assert "found none so far" in said(app.markdown)
    decide(made, BOB, {ticket: wrong[ticket] for ticket in answers if ticket not in half})
    decide(made, EVE, {half[0]: wrong[half[0]]})
    app = made.page("audit")
    assert "no longer holds" in said(app.error)
    assert app.dataframe[0].value["decisions"][0].count(": ") == 2
    assert "On 1 ticket" in said(app.markdown)
    shown = said(app.markdown)
    assert shown.count("The model: **") == 10, "a page of wrong answers"
    assert "router led led" in shown


def test_more_audits_are_drawn_with_a_button(made):
    answered(made, 40, audited=0.1)
    app = made.page("audit")
    before = sum(row.drawn for row in draws(made.store))
    app.number_input[0].set_value(5)
    app = press(app, "Draw")
    assert "5 more audits wait on the page Desk." in said(app.success)
    assert sum(row.drawn for row in draws(made.store)) == before + 5


def draws(store):
    with store.reading() as connection:
        return connection.execute(select(draw)).all()


# --- Train -------------------------------------------------------------------------------------


def test_a_labelled_file_of_the_server_trains_a_first_model(made, idle):
    file = made.folder / "files" / "old.csv"
    file.write_text(as_csv(*tickets()))
    app = made.page("train")
    app.radio(key="labelled-place").set_value("On the server").run()
    app = app.selectbox(key="labelled-file").set_value(str(file)).run()
    chosen = {box.label: box.value for box in (*app.selectbox, *app.multiselect)}
    assert (chosen["Text column"], chosen["Label"]) == (["text"], "label")
    app.text_input[0].set_value("../my model").run()
    app = press(app, "Train")
    assert "The training of my-model has begun" in said(app.success)
    (job,) = list_jobs(made.store)
    options = dict(zip(job.arguments[2::2], job.arguments[3::2], strict=True))
    assert job.arguments[:2] == ("retrain", str(file))
    assert options == {
        "--out": str(made.models / "my-model"),
        "--recipe": "auto",
        "--text": "text",
        "--label": "label",
        "--person": "root",
    }
    assert job.folder.startswith(f"{made.store.name}.jobs")


@pytest.mark.parametrize("header", ["Nr,Beschwerde,Kategorie", "Nr,message,Kategorie"])
def test_a_text_column_is_guessed_the_same_way_on_all_pages(made, header):
    file = made.folder / "files" / "new.csv"
    rows = [f'{row},"Der Router blinkt rot, zum Mal {row} schon",tv*' for row in range(12)]
    file.write_text("\n".join([header, *rows]))
    for page, key in (("train", "labelled"), ("tickets", "tickets")):
        app = made.page(page)
        app.radio(key=f"{key}-place").set_value("On the server").run()
        app = app.selectbox(key=f"{key}-file").set_value(str(file)).run()
        [box] = [box for box in app.multiselect if box.label == "Text column"]
        assert box.value == [header.split(",")[1]], page


def test_the_next_training_finds_the_file_of_the_serving_model(made, idle):
    file = made.folder / "files" / "old.csv"
    file.write_text(as_csv(*tickets()))
    known = TrainingFile.of(file, text="text", label="label")
    add_model(made.store, made.models / "first", ROOT, figures={"data": known.to_json()})
    app = made.page("train")
    assert "learned from old.csv" in said(app.markdown)
    assert not app.file_uploader
    app = press(app, "Train")
    (job,) = list_jobs(made.store)
    assert job.arguments[:2] == ("retrain", str(file))
    assert job.arguments[6:10] == ("--text", "text", "--label", "label")
    file.write_text(as_csv(*tickets(18)))
    app = made.page("train")
    assert "is not on the server in that form" in said(app.markdown)
    assert labels_of(app.radio) == ["File that the serving model was trained on"]


def test_a_model_that_learned_from_decisions_alone_needs_no_file(made, idle):
    add_model(made.store, made.models / "first", ROOT, figures={"data": None})
    app = made.page("train")
    assert "The next model learns from all decisions" in said(app.markdown)
    assert not app.file_uploader
    app = press(app, "Train")
    (job,) = list_jobs(made.store)
    assert job.arguments[:2] == ("retrain", "--out")


def test_a_finished_training_shows_how_often_it_is_right_and_leads_to_models(made, idle, models):
    save_model(models / "third", labels=LABELS, metrics={"accuracy": 0.9, "rows": 200})
    start_job(made.store, ["retrain", "--out", str(models / "third")], ROOT)
    with made.store.writing() as connection:
        connection.execute(job_table.update().values(state="done", ended_at=now()))
    for page in ("train", "jobs"):
        app = made.page(page)
        assert "Right on 85% to 93% of tickets (180 of 200 kept aside)" in said(app.markdown)
        assert "Train a model: third" in said(app.markdown)
        assert [link.proto.page for link in app.get("page_link")] == ["models"]


def test_a_training_whose_model_knows_nothing_is_marked(made, idle):
    start_job(made.store, ["retrain", "--out", str(made.models / "second")], ROOT)
    assert not made.page("train").warning
    with made.store.writing() as connection:
        connection.execute(job_table.update().values(state="done", ended_at=now()))
    assert said(made.page("train").warning) == "By chance 101."


def test_unlabelled_tickets_become_groups_then_decisions_then_a_model(made, idle, encoder_folder):
    file = made.folder / "files" / "new.csv"
    file.write_text(as_csv(*tickets()))
    app = made.page("train")
    app = app.radio[0].set_value("Tickets without labels").run()
    assert [link.proto.page for link in app.get("page_link")] == ["tickets"]
    start_review(made.store, file, ROOT, text="text", encoder=encoder_folder)
    app = made.page("train")
    assert "60 tickets wait in 5 groups" in said(app.markdown)
    assert "Train" not in labels_of(app.button)
    batch = claim(made.store, BOB, most=20)
    decide(made, BOB, {one.id: one.label for one in batch})
    app = press(app.run(), "Train")
    job = list_jobs(made.store)[0]
    assert job.arguments[:2] == ("retrain", "--out")
    assert job.arguments[3:5] == ("--recipe", "few-shot")


def test_a_name_that_is_taken_and_one_column_for_both_are_refused(made):
    add_model(made.store, made.models / "first", ROOT)
    app = made.page("train")
    app.text_input[0].set_value("second").run()
    assert "There is a model second already" in said(app.caption)
    assert all(button.disabled for button in app.button if button.label == "Train")


def test_a_name_that_was_typed_stays_while_time_passes(made, monkeypatch):
    add_model(made.store, made.models / "first", ROOT)
    app = made.page("train")
    offered = app.text_input[0].value
    app.text_input[0].set_value("mine").run()
    later = now() + 120
    monkeypatch.setattr("time.time", lambda: later)
    assert app.run().text_input[0].value == "mine"
    assert made.page("train").text_input[0].value != offered


# --- Jobs --------------------------------------------------------------------------------------


def test_jobs_are_shown_cancelled_started_again_and_removed(made, idle):
    assert "No jobs yet" in said(made.page("jobs").info)
    id = start_job(made.store, ["score", "m", "in.csv", "out.csv"], BOB).id

    def change(**values):
        with made.store.writing() as connection:
            connection.execute(job_table.update().where(job_table.c.id == id).values(**values))

    app = made.page("jobs")
    assert "Score a file" in said(app.markdown)
    assert "score m in.csv out.csv" in said(app.caption)
    app = press(app, "Cancel")
    assert list_jobs(made.store)[0].cancelled
    assert "is being cancelled" in said(app.markdown), "at once"
    change(state="failed", ended_at=now(), message="there is *no* file 'in.csv'")
    app = made.page("jobs")
    assert "there is *no* file 'in.csv'" in said(app.error)
    app = press(app, "Start again")
    assert list_jobs(made.store)[0].state == "waiting"
    change(state="done", ended_at=now())
    app = press(made.page("jobs"), "Remove")
    assert list_jobs(made.store) == []
    assert "No jobs yet" in said(app.info)
