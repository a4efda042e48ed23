"""The page Tickets: uploads, the list with its filters, actions on several tickets, settling."""

import csv
import gzip
import itertools
import json
import os
from pathlib import Path

import pytest
import xlsxwriter

from bertcnn import load, score_folder
from bertcnn.bundle.schemas import Decisions
from bertcnn.review import (
    NewDecision,
    NewTicket,
    Person,
    TicketView,
    add_labels,
    add_model,
    add_tickets,
    count_tickets,
    disagreements,
    label_guide,
    list_tickets,
    note_many,
    now,
    record,
    serving_model,
)
from bertcnn.review.jobs import job_status, list_jobs, start_job
from bertcnn.review.schema import job as job_table
from tests.apps.dashboards import in_browser, labels_of, press, said, save_model, serving

LABELS = ("billing", "hardware", "tv*")
ROOT, BOB, EVE = Person("root"), Person("bob", "reviewer"), Person("eve", "reviewer")
CSV = "id,text,channel\n" + "".join(f"T-{row},my router led {row},mail\n" for row in range(3))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with a model that gives no automatic answers."""
    folder = tmp_path_factory.mktemp("models")
    never = Decisions(thresholds=(1.0,) * len(LABELS))
    save_model(folder / "first", labels=LABELS, decisions=never)
    return folder


@pytest.fixture
def served(dashboard):
    """The store with a serving model."""
    add_model(dashboard.store, dashboard.models / "first", ROOT)
    return dashboard


@pytest.fixture
def filled(served):
    """The store with ten tickets."""
    predictor = load(served.models / "first")
    tickets = [
        NewTicket(f"T-{row}", f"my router led {row}", {"channel": "mail" if row % 2 else "phone"})
        for row in range(10)
    ]
    add_tickets(served.store, predictor, tickets)
    return served


def upload(app, name, content):
    content = content if isinstance(content, bytes) else content.encode()
    return app.file_uploader[0].set_value((name, content, "")).run()


def open_upload(app):
    return app.toggle(key="upload tickets").set_value(True).run()


def shown(app):
    """The rows of the list."""
    return app.dataframe[0].value


# --- Uploads ------------------------------------------------------------------------------------


def test_an_uploaded_file_goes_to_the_store_with_the_serving_model(served):
    app = upload(open_upload(served.page("tickets")), "in.csv", CSV)
    app = press(app, "Add the tickets")
    assert "in.csv: the tickets are being added" in said(app.success)
    (job,) = list_jobs(served.store)
    assert job.arguments == (
        *("review", "add", "uploads/in.csv", "--text", "text"),
        "--person",
        "root",
    )
    assert Path(job.folder, "uploads", "in.csv").read_text() == CSV


def test_labels_of_an_uploaded_file_become_decisions_if_their_column_is_chosen(served):
    content = "id,text,team\nT-1,my router led,billing\n"
    app = upload(open_upload(served.page("tickets")), "in.csv", content)
    (box,) = [box for box in app.selectbox if box.label == "Label column"]
    assert (box.value, box.options) == (None, ["id", "team"])
    app = press(box.set_value("team").run(), "Add the tickets")
    options = dict(itertools.pairwise(list_jobs(served.store)[0].arguments))
    assert (options["--text"], options["--label"]) == ("text", "team")


def test_a_job_shows_what_its_upload_has_added(served):
    start_job(served.store, ["review", "add", "in.csv"], ROOT)
    with served.store.writing() as connection:
        values = {"state": "done", "ended_at": now(), "message": "3 tickets *added*."}
        connection.execute(job_table.update().values(values))
    assert "3 tickets *added*." in said(open_upload(served.page("tickets")).markdown)


def test_without_a_model_an_upload_starts_the_store(dashboard):
    app = upload(
        dashboard.page("tickets"), "in.csv", CSV
    )  # an empty store shows the upload at once
    assert "There is no model yet" in said(app.markdown)
    assert not app.radio(key="tickets-place").label.startswith("What")
    app = press(app, "Add the tickets")
    (job,) = list_jobs(dashboard.store)
    assert job.arguments == (
        *("review", "start", "uploads/in.csv", "--text", "text"),
        "--person",
        "root",
    )


def test_a_saved_model_can_serve_from_the_first_visit(dashboard):
    app = press(dashboard.page("tickets"), "Use this model")
    assert "first answers the tickets" in said(app.success)
    assert serving_model(dashboard.store).folder == str(dashboard.models / "first")


def test_a_file_is_scored_without_being_kept(served):
    app = upload(open_upload(served.page("tickets")), "in.csv", CSV)
    app = app.radio[1].set_value("Only score them").run()
    app.checkbox[-1].check()
    app = press(app, "Score")
    (job,) = list_jobs(served.store)
    model = str(served.models / "first")
    options = ("--text", "text", "--reasons", "--probabilities")
    assert job.arguments == ("score", model, "uploads/in.csv", "scored-in.csv", *options)


def test_the_files_of_a_folder_are_scored_by_one_job(served):
    folder = served.folder / "files" / "drop"
    (folder / "north").mkdir(parents=True)
    for name, rows in (("a.csv", 1), ("north/b.csv", 2)):
        (folder / name).write_text("text\n" + "my router led\n" * rows)
    app = open_upload(served.page("tickets"))
    app.radio(key="tickets-place").set_value("On the server").run()
    app.selectbox(key="tickets-file").set_value(f"{folder}{os.sep}").run()
    assert "2 files." in said(app.caption)
    app = press(app, "Score")
    (job,) = list_jobs(served.store)
    assert job.arguments[2:] == (str(folder), "scored-drop", "--reasons")
    score_folder(served.models / "first", folder, Path(job.folder, "scored-drop"))
    with served.store.writing() as connection:
        connection.execute(job_table.update().values(state="done", ended_at=now()))
    app = open_upload(served.page("tickets"))
    (box,) = [box for box in app.selectbox if box.label == "File"]
    assert box.options == ["a.csv", "north/b.csv"]


def test_a_folder_with_links_to_other_places_is_not_scored(served):
    folder = served.folder / "files" / "drop"
    folder.mkdir()
    (folder / "a.csv").write_text("text\nmy router led\n")
    (served.folder / "secret.csv").write_text("text\nmy router led\n")
    (folder / "b.csv").symlink_to(served.folder / "secret.csv")
    app = open_upload(served.page("tickets"))
    app.radio(key="tickets-place").set_value("On the server").run()
    app.selectbox(key="tickets-file").set_value(f"{folder}{os.sep}").run()
    assert "no links to other places" in said(app.error)
    assert "Score" not in labels_of(app.button)


def test_a_corrected_export_is_recorded_as_decisions(filled):
    tickets = list_tickets(filled.store, TicketView()).tickets[:2]
    rows = "".join(f"{one.external_id},#{one.id},billing\n" for one in tickets)
    app = upload(open_upload(filled.page("tickets")), "done.csv", f"ticket,number,label\n{rows}")
    app = app.radio[1].set_value("Record its labels as decisions").run()
    app = press(app, "Record the decisions")
    assert "2 decisions recorded" in said(app.success)
    assert count_tickets(filled.store, TicketView()).states["decided"] == 2


def test_a_file_without_an_obvious_text_asks_for_the_column(served):
    app = upload(open_upload(served.page("tickets")), "in.csv", "a,b\n1,2\n3,4\n")
    (box,) = [box for box in app.multiselect if box.label == "Text column"]
    assert box.value == []
    assert "Choose the column with the texts first" in said(app.caption)
    box.set_value(["b"]).run()
    app = press(app, "Add the tickets")
    assert list_jobs(served.store)[0].arguments[4] == "b"


def test_unread_sheets_are_reported(served, tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    for name in ("2025", "2024"):
        book.add_worksheet(name).write_column(0, 0, ["text", "my bill", "the router"])
    book.close()
    app = upload(
        open_upload(served.page("tickets")), "in.xlsx", (tmp_path / "in.xlsx").read_bytes()
    )
    assert "only the sheet '2025' of 'in.xlsx' is read; other sheets: '2024' (3 rows)" in said(
        app.warning
    )


def test_an_unreadable_file_is_a_one_line_error_without_our_folder(served):
    content = gzip.compress(CSV.encode() * 99, mtime=0)[:-30]
    app = upload(open_upload(served.page("tickets")), "broken.csv.gz", content)
    assert not app.exception
    assert "broken.csv.gz" in said(app.error)
    assert "bertcnn-dashboard" not in said(app.error)


def test_long_cells_are_cut_and_half_characters_replaced_on_the_page(served):
    rows = [{"text": "a" * 10_000}, {"text": "half \ud83d a character"}]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    app = upload(open_upload(served.page("tickets")), "in.jsonl", content)
    assert not app.exception
    texts = list(app.dataframe[0].value["text"])
    assert texts[0] == "a" * 497 + "..."
    assert "\ud83d" not in texts[1]


# --- The list -----------------------------------------------------------------------------------


def test_tickets_are_listed_newest_first_with_their_state(filled):
    rows = shown(filled.page("tickets"))
    assert list(rows["Ticket"]) == [f"T-{row} (#{row + 1})" for row in reversed(range(10))]
    assert set(rows["State"]) == {"waiting: not certain enough"} | (
        {"waiting"} & set(rows["State"])
    )
    assert rows["Text"].iloc[0] == "my router led 9"
    assert "Received" not in rows, "no ticket has a time"


def test_the_search_finds_tickets_or_says_that_none_match(filled):
    app = filled.page("tickets")
    app = app.text_input[0].set_value("LED 7").run()
    assert [name.split()[0] for name in shown(app)["Ticket"]] == ["T-7"]
    app = app.text_input[0].set_value("fax").run()
    assert "No ticket matches" in said(app.info)


def test_a_view_is_an_address(filled):
    app = filled.page("tickets")
    (box,) = [box for box in app.selectbox if box.label == "channel"]
    app = box.set_value("mail").run()
    assert len(shown(app)) == 5
    assert app.query_params["column.channel"] == "mail"
    again = filled.page("tickets")
    assert len(shown(again)) == 10
    again.query_params["column.channel"] = "mail"  # somebody follows a link
    again = again.run()
    assert len(shown(again)) == 5
    assert [box.value for box in again.selectbox if box.label == "channel"] == ["mail"]
    again.query_params["first_day"] = "yesterday"
    assert "first_day='yesterday' in the address" in said(again.run().error)


def test_a_long_list_has_pages(served):
    predictor = load(served.models / "first")
    new = [NewTicket(f"T-{row}", f"my router led {row}") for row in range(70)]
    add_tickets(served.store, predictor, new)
    app = served.page("tickets")
    assert len(shown(app)) == 50
    app = press(app, "Older")
    assert list(shown(app)["Ticket"]) == [f"T-{row} (#{row + 1})" for row in reversed(range(20))]
    app = press(app, "Newer")
    assert len(shown(app)) == 50
    app = app.text_input[0].set_value("led 69").run()
    assert len(shown(app)) == 1


def test_notes_that_name_a_person_are_in_their_view(filled):
    note_many(filled.store, BOB, [2, 3], "@root what is this?")
    app = filled.page("tickets")
    (box,) = [box for box in app.checkbox if box.label == "Notes that name me"]
    app = box.check().run()
    assert [name.split()[0] for name in shown(app)["Ticket"]] == ["T-2", "T-1"]
    assert list(shown(app)["Notes"]) == [1, 1]


# --- Settling, labels, settings -------------------------------------------------------------------


def test_a_disagreement_shows_both_people_and_is_settled(filled):
    for person, label in ((BOB, "billing"), (EVE, "hardware")):
        record(filled.store, person, [NewDecision(person.name, 4, "label", label)])
    app = filled.page("tickets")
    app.query_params["state"] = "disagreement"
    app = app.run()
    assert "bob: billing / eve: hardware" in said(app.markdown)
    assert "my router led 3" in said(app.text)
    app = press(app, "hardware")
    assert "is settled: hardware" in said(app.success)
    assert disagreements(filled.store) == []
    assert list_tickets(filled.store, TicketView(number="#4")).tickets[0].label == "hardware"


def test_labels_and_their_guide_are_edited_in_place(filled):
    app = filled.page("tickets")
    next(box for box in app.text_input if box.label == "Name").set_value("parcels")
    app = press(app, "Add the label")
    assert "parcels" in label_guide(filled.store)
    app = app.selectbox(key="shown label").set_value("parcels").run()
    next(box for box in app.text_area if box.label == "Guide").set_value("A *parcel* is late.")
    app = next(one for one in app.button if one.label == "Save").click().run()
    assert label_guide(filled.store)["parcels"].text == "A *parcel* is late."
    add_labels(filled.store, ROOT, ["more"])


def test_settings_of_the_team_are_changed_by_an_admin(filled, monkeypatch):
    app = filled.page("tickets")
    next(box for box in app.text_input if box.label.startswith("Time zone")).set_value("Mars/North")
    (save,) = [one for one in app.button if one.label == "Save"]
    assert "a zone such as Europe/Berlin" in said(save.click().run().error)
    app = filled.page("tickets")
    next(box for box in app.text_input if box.label.startswith("Time zone")).set_value(
        "Europe/Rome"
    )
    next(one for one in app.button if one.label == "Save").click().run()
    assert filled.store.setting("time_zone") == "Europe/Rome"


# --- In a browser ---------------------------------------------------------------------------------


@in_browser
def test_tickets_are_decided_together_undone_opened_and_scored(filled, browser, tmp_path):
    """A job that scores a file outlives the page."""
    file = tmp_path / "my inbox.csv"
    file.write_text(CSV)
    options = ["--models", filled.models, "--store", filled.store.name, "--person", "root"]
    with serving(tmp_path / "temporary", options) as server:
        page = browser.new_page(viewport={"width": 1280, "height": 1600})
        page.set_default_timeout(60_000)
        page.goto(f"{server.address}/tickets?column.channel=mail")
        select_rows(page, 0, 1)
        page.get_by_role("button", name="Decide 2 tickets").click()
        page.get_by_role("combobox", name="Label").last.click()
        page.get_by_role("option", name="hardware").click()
        page.get_by_role("button", name="Decide", exact=True).click()
        page.get_by_text("2 tickets: hardware.").wait_for()
        assert count_tickets(filled.store, TicketView()).states["decided"] == 2
        page.get_by_role("button", name="Undo").click()
        page.get_by_text("Taken back: 2 tickets: hardware.").wait_for()
        assert count_tickets(filled.store, TicketView()).states["decided"] == 0

        page.goto(f"{server.address}/tickets?number=T-3")
        select_rows(page, 0)
        page.get_by_role("button", name="Open on the desk").click()
        page.locator(".desk .text").get_by_text("my router led 3").wait_for()

        page.goto(f"{server.address}/tickets")
        page.get_by_text("Upload", exact=True).click()
        page.locator("input[type=file]").set_input_files(file)
        page.get_by_text("Only score them").click()
        page.get_by_role("button", name="Score", exact=True).click()
        page.get_by_text("my inbox.csv is being scored.").wait_for()
        page.reload()  # as if the tab had been closed
        page.get_by_text("Upload", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "scored.csv")
        (job,) = list_jobs(filled.store)
        assert job_status(filled.store, job.id).state == "done"
        page.get_by_role("button", name="Remove", exact=True).click()
        page.get_by_text("No file was uploaded yet").wait_for()
    rows = list(csv.DictReader((tmp_path / "scored.csv").open()))
    assert [row["id"] for row in rows] == ["T-0", "T-1", "T-2"]
    assert all(row["predicted_label"] in LABELS for row in rows)
    assert count_tickets(filled.store, TicketView()).states["waiting"] == 10  # nothing was kept


def select_rows(page, *rows):
    """Select rows of the list, which is drawn on a canvas."""
    grid = page.get_by_test_id("stDataFrame").first
    grid.wait_for()
    page.locator("[data-test-script-state=notRunning]").wait_for()
    for row in rows:
        grid.click(position={"x": 17, "y": 35 * (row + 1) + 17})
        page.locator("[data-test-script-state=notRunning]").wait_for()
