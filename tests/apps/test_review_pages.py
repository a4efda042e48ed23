"""The pages Models, Audit, Train and Jobs."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import select

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.review.jobs.jobs import list_jobs, start_job
from bertcnn.review.models import add_model, note_comparison, roll_back, serving_model
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.schema import draw
from bertcnn.review.schema import job as job_table
from bertcnn.review.starting import start_review
from bertcnn.review.store import now
from bertcnn.review.tickets import NewTicket, add_tickets
from bertcnn.review.training_files import TrainingFile
from tests.apps.dashboards import labels_of, press, said, save_model
from tests.review.desk import decide_all, serve
from tests.tickets import as_csv, tickets

LABELS = ("billing", "hardware", "tv*")
ROOT, BOB, EVE = Person("root"), Person("bob", "reviewer"), Person("eve", "reviewer")
USELESS = {"verdict": "uninformative", "answer": ["x"]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with two models."""
    folder = tmp_path_factory.mktemp("models")
    automatic = Decisions(thresholds=(0.0,) * len(LABELS))
    for rows, name in enumerate(("first", "second"), start=100):
        useless = {**USELESS, "message": f"By chance {rows}."}
        limits = {"precision": 0.95, "share": 0.6, "possible": 0.7, "limit": "pair", "gain": 0.7}
        limits["labels"] = ["billing", "tv*"]
        metrics = {"rows": rows, "no_information": useless, "automation_limits": limits}
        save_model(folder / name, labels=LABELS, decisions=automatic, metrics=metrics)
    return folder


# --- Classify ---------------------------------------------------------------------------------


def test_classify_begins_with_the_serving_model_after_a_promotion_and_a_rollback(dashboard):
    names = ("second", "first")  # not in the order of the folders
    _, other = (add_model(dashboard.store, dashboard.models / name, ROOT) for name in names)

    def shown():
        box = dashboard.page("classify").selectbox[0]
        marked = [option for option in box.options if option.endswith(" (serving)")]
        assert marked == [f"{dashboard.models.name}/{Path(box.value).name} (serving)"]
        return Path(box.value).name

    assert shown() == "second"
    serve(dashboard.store, other.folder)
    assert shown() == "first"
    roll_back(dashboard.store, ROOT, reason="complaints")
    assert shown() == "second"
    app = dashboard.page("classify")
    app.selectbox[0].set_value(str(dashboard.models / "first")).run()
    assert Path(app.run().selectbox[0].value).name == "first"  # a choice stays


def test_the_serving_model_is_offered_wherever_its_folder_is(dashboard, tmp_path):
    saved = save_model(tmp_path / "elsewhere" / "live", labels=("x", "y"))
    add_model(dashboard.store, saved, ROOT)
    box = dashboard.page("classify").selectbox[0]
    assert (box.value, box.options[0]) == (str(saved), "live (serving)")
    moved = saved.rename(dashboard.models / "moved")
    try:
        app = dashboard.page("classify")
        assert app.selectbox[0].value == str(moved)
        assert "2 labels: x, y" in said(app.caption)
    finally:
        shutil.rmtree(moved)
    app = dashboard.page("classify")
    assert app.selectbox[0].value is None
    assert "The files of the serving model, live, are gone" in said(app.warning)
    assert not app.text_area


def test_a_model_without_automatic_answers_promises_nothing(dashboard, tmp_path):
    metrics = {"decisions": {"automatic": 0, "rows": 40}}
    add_model(dashboard.store, save_model(tmp_path / "few", metrics=metrics), ROOT)
    for page in ("models", "audit"):
        app = dashboard.page(page)
        words = said([*app.markdown, *app.info, *app.caption])
        assert "It gives no automatic answers: a person decides on every ticket." in words
        assert "95%" not in words


# --- Models ------------------------------------------------------------------------------------


def test_a_model_is_added_promoted_with_a_reason_and_rolled_back(dashboard):
    app = dashboard.page("models")
    app.selectbox[0].set_value(str(dashboard.models / "first"))
    app = press(app, "Add")
    assert "was added" in said(app.success)
    first = serving_model(dashboard.store)
    second = add_model(dashboard.store, dashboard.models / "second", ROOT)
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
        dashboard.store,
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
    assert serving_model(dashboard.store).id == second.id
    app.text_input[0].set_value("complaints")
    app = press(app, "Go back to first")
    assert serving_model(dashboard.store).id == first.id
    history = app.dataframe[-1].value
    assert history["what"].tolist()[0] == "rolled back"
    assert history["why"].tolist()[0] == "complaints"
    assert [job.arguments for job in list_jobs(dashboard.store)] == 2 * [("review", "answer")]


# --- Audit -------------------------------------------------------------------------------------


def answered(dashboard, number, audited=1.0):
    """Automatic answers, by default all drawn for audit."""
    predictor = load(dashboard.models / "first")
    add_model(dashboard.store, dashboard.models / "first", ROOT)
    new = [NewTicket(f"T-{row}", f"router {'led ' * row}") for row in range(number)]
    add_tickets(dashboard.store, predictor, new, source="tests", audited=audited)
    found = predictor.classify([one.text for one in new])
    answers = {one.text: answer.label for one, answer in zip(new, found, strict=True)}
    return {one.id: answers[one.text] for one in claim(dashboard.store, BOB, most=number)}


def test_the_audit_page_shows_figures_the_alarm_and_disagreements(dashboard):
    answers = answered(dashboard, 40)
    app = dashboard.page("audit")
    assert "Nobody has checked any of 40 automatic answers yet" in said(app.info)
    assert "Read 40 audits" in labels_of(app.button)
    wrong = {ticket: LABELS[label == LABELS[0]] for ticket, label in answers.items()}
    half = list(answers)[:20]
    decide_all(dashboard.store, BOB, {ticket: answers[ticket] for ticket in half})
    app = dashboard.page("audit")
    figures = {metric.label: metric.value for metric in app.metric}
    assert "Right" not in figures
    assert figures["Right, with 95% confidence"] == "91.2% to 100.0%"
    assert figures["Audits read"] == "20 of 40 answers"
    assert not app.error
    assert "found none so far" in said(app.markdown)
    decide_all(dashboard.store, BOB, {one: wrong[one] for one in answers if one not in half})
    decide_all(dashboard.store, EVE, {half[0]: wrong[half[0]]})
    app = dashboard.page("audit")
    assert "no longer holds" in said(app.error)
    assert app.dataframe[0].value["decisions"][0].count(": ") == 2
    assert "On 1 ticket" in said(app.markdown)
    shown = said(app.markdown)
    assert shown.count("The model: **") == 10, "a page of wrong answers"
    assert "router led led" in shown


def test_more_audits_are_drawn_with_a_button(dashboard):
    answered(dashboard, 40, audited=0.1)
    app = dashboard.page("audit")
    before = sum(row.drawn for row in draws(dashboard.store))
    app.number_input[0].set_value(5)
    app = press(app, "Draw")
    assert "5 more audits wait on the page Desk." in said(app.success)
    assert sum(row.drawn for row in draws(dashboard.store)) == before + 5


def draws(store):
    with store.reading() as connection:
        return connection.execute(select(draw)).all()


# --- Train -------------------------------------------------------------------------------------


def test_a_labelled_file_of_the_server_trains_a_first_model(dashboard):
    file = dashboard.folder / "files" / "old.csv"
    file.write_text(as_csv(*tickets()))
    app = dashboard.page("train")
    app.radio(key="labelled-place").set_value("On the server").run()
    app = app.selectbox(key="labelled-file").set_value(str(file)).run()
    chosen = {box.label: box.value for box in (*app.selectbox, *app.multiselect)}
    assert (chosen["Text column"], chosen["Label"]) == (["text"], "label")
    app.text_input[0].set_value("../my model").run()
    app = press(app, "Train")
    assert "The training of my-model has begun" in said(app.success)
    (job,) = list_jobs(dashboard.store)
    options = dict(zip(job.arguments[2::2], job.arguments[3::2], strict=True))
    assert job.arguments[:2] == ("retrain", str(file))
    assert options == {
        "--out": str(dashboard.models / "my-model"),
        "--recipe": "auto",
        "--text": "text",
        "--label": "label",
        "--person": "root",
    }
    assert job.folder.startswith(f"{dashboard.store.name}.jobs")


def test_a_text_column_is_guessed_the_same_way_on_all_pages(dashboard):
    file = dashboard.folder / "files" / "new.csv"
    rows = [f'{row},"Der Router blinkt rot, zum Mal {row} schon",tv*' for row in range(12)]
    file.write_text("\n".join(["Nr,Beschwerde,Kategorie", *rows]))
    for page, key in (("train", "labelled"), ("tickets", "tickets")):
        app = dashboard.page(page)
        app.radio(key=f"{key}-place").set_value("On the server").run()
        app = app.selectbox(key=f"{key}-file").set_value(str(file)).run()
        [box] = [box for box in app.multiselect if box.label == "Text column"]
        assert box.value == ["Beschwerde"], page


def test_the_next_training_finds_the_file_of_the_serving_model(dashboard):
    file = dashboard.folder / "files" / "old.csv"
    file.write_text(as_csv(*tickets()))
    known = TrainingFile.of(file, text="text", label="label")
    add_model(dashboard.store, dashboard.models / "first", ROOT, figures={"data": known.to_json()})
    app = dashboard.page("train")
    assert "learned from old.csv" in said(app.markdown)
    assert not app.file_uploader
    app = press(app, "Train")
    (job,) = list_jobs(dashboard.store)
    assert job.arguments[:2] == ("retrain", str(file))
    assert job.arguments[6:10] == ("--text", "text", "--label", "label")
    file.write_text(as_csv(*tickets(18)))
    app = dashboard.page("train")
    assert "is not on the server in that form" in said(app.markdown)
    assert labels_of(app.radio) == ["File that the serving model was trained on"]


def test_a_model_trained_on_decisions_alone_needs_no_file(dashboard):
    add_model(dashboard.store, dashboard.models / "first", ROOT, figures={"data": None})
    app = dashboard.page("train")
    assert "The next model learns from all decisions" in said(app.markdown)
    assert not app.file_uploader
    app = press(app, "Train")
    (job,) = list_jobs(dashboard.store)
    assert job.arguments[:2] == ("retrain", "--out")


def test_a_finished_training_shows_how_often_it_is_right_and_leads_to_models(dashboard, models):
    metrics = {"accuracy": 0.9, "rows": 200, "no_information": {**USELESS, "message": "By chance."}}
    save_model(models / "third", labels=LABELS, metrics=metrics)
    start_job(dashboard.store, ["retrain", "--out", str(models / "third")], ROOT)
    assert not dashboard.page("train").warning
    with dashboard.store.writing() as connection:
        connection.execute(job_table.update().values(state="done", ended_at=now()))
    for page in ("train", "jobs"):
        app = dashboard.page(page)
        assert "Right on 85% to 93% of tickets (180 of 200 kept aside)" in said(app.markdown)
        assert "Train a model: third" in said(app.markdown)
        assert said(app.warning) == "By chance."
        assert [link.proto.page for link in app.get("page_link")] == ["models"]


def test_unlabelled_tickets_become_groups_then_decisions_then_a_model(dashboard, encoder_folder):
    file = dashboard.folder / "files" / "new.csv"
    file.write_text(as_csv(*tickets()))
    app = dashboard.page("train")
    app = app.radio[0].set_value("Tickets without labels").run()
    assert [link.proto.page for link in app.get("page_link")] == ["tickets"]
    start_review(dashboard.store, file, ROOT, text="text", encoder=encoder_folder)
    app = dashboard.page("train")
    assert "60 tickets wait in 5 groups" in said(app.markdown)
    assert "Train" not in labels_of(app.button)
    batch = claim(dashboard.store, BOB, most=20)
    decide_all(dashboard.store, BOB, {one.id: one.label for one in batch})
    app = press(app.run(), "Train")
    job = list_jobs(dashboard.store)[0]
    assert job.arguments[:2] == ("retrain", "--out")
    assert job.arguments[3:5] == ("--recipe", "few-shot")


def test_a_model_name_in_use_is_refused(dashboard):
    add_model(dashboard.store, dashboard.models / "first", ROOT)
    app = dashboard.page("train")
    app.text_input[0].set_value("second").run()
    assert "There is a model second already" in said(app.caption)
    assert all(button.disabled for button in app.button if button.label == "Train")


def test_a_name_that_was_typed_stays_while_time_passes(dashboard, monkeypatch):
    add_model(dashboard.store, dashboard.models / "first", ROOT)
    app = dashboard.page("train")
    offered = app.text_input[0].value
    app.text_input[0].set_value("mine").run()
    later = now() + 120
    monkeypatch.setattr("time.time", lambda: later)
    assert app.run().text_input[0].value == "mine"
    assert dashboard.page("train").text_input[0].value != offered


# --- Jobs --------------------------------------------------------------------------------------


def test_jobs_are_shown_cancelled_started_again_and_removed(dashboard):
    id = start_job(dashboard.store, ["score", "m", "in.csv", "out.csv"], BOB).id

    def change(**values):
        with dashboard.store.writing() as connection:
            connection.execute(job_table.update().where(job_table.c.id == id).values(**values))

    app = dashboard.page("jobs")
    assert "Score a file" in said(app.markdown)
    assert "score m in.csv out.csv" in said(app.caption)
    app = press(app, "Cancel")
    assert list_jobs(dashboard.store)[0].cancelled
    assert "is being cancelled" in said(app.markdown), "at once"
    change(state="failed", ended_at=now(), message="there is *no* file 'in.csv'")
    app = dashboard.page("jobs")
    assert "there is *no* file 'in.csv'" in said(app.error)
    app = press(app, "Start again")
    assert list_jobs(dashboard.store)[0].state == "waiting"
    change(state="done", ended_at=now())
    app = press(dashboard.page("jobs"), "Remove")
    assert list_jobs(dashboard.store) == []
    assert "No jobs yet" in said(app.info)
