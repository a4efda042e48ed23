"""Texts that try to be more than text, on every page and in the log."""

import csv
import json
import re
import shutil
import time
from types import SimpleNamespace

import pytest
from playwright.sync_api import expect
from sqlalchemy import select

from bertcnn.bundle.schemas import Decisions
from bertcnn.review.comparing import compare_models
from bertcnn.review.corrected_rows import hold_out_rows
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.files import add_file
from bertcnn.review.jobs.jobs import job_status, list_jobs
from bertcnn.review.labels import set_guide
from bertcnn.review.models import add_model, promote, roll_back
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.schema import ticket
from bertcnn.review.store import open_review
from bertcnn.wording import visible
from tests.apps.dashboards import APP, in_browser, part, save_model, serving
from tests.apps.payloads import EVIL, MARK, MARKDOWN, PAYLOADS

pytestmark = in_browser

NAMES = tuple(text[:200] for text in PAYLOADS)  # names of labels and people
SECRET = "Xylophone-4711"  # part of an upload; must not appear in the log
# elements that no text may inject into the page; the desk renders in a shadow tree
INJECTED = """
([mark, evil]) => {
  const found = [];
  const look = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) look(element.shadowRoot);
      const shown = element.cloneNode(false).outerHTML.slice(0, 200);
      const address = element.getAttribute("href") ?? element.getAttribute("src") ?? "";
      if (element.matches("iframe, object, embed, base, marquee, math")
          || element.matches("script:not([src^='./static/']):not([src^='/static/'])")
             && element.textContent.trim() !== "window.prerenderReady = false"
          || new URL(address, location.href).host !== location.host
             && !/^(data|blob):/.test(address)
          || element.matches("link[rel=stylesheet], style") && element.textContent.includes(evil)
          || [...element.attributes].some((one) => one.name.startsWith("on"))
          || element.textContent.trim() === mark
             && !element.closest("mark, pre, .guide, [role=option], [data-baseweb=tag]")
          || element.matches("[data-testid=stIconMaterial]") && element.textContent === "skull"
          || element.matches(".katex"))
        found.push(shown);
    }
  };
  look(document);
  return found;
}
"""


class Watched:
    """A page, and everything it did that no page may do.

    Attributes:
        wrong: dialogs, requests to other hosts, and violations of the content security policy.
    """

    def __init__(self, browser, server):
        self.page, self.wrong = browser.new_page(viewport={"width": 1280, "height": 900}), []
        self.page.set_default_timeout(30_000)
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("popup", lambda popup: self.wrong.append(f"popup {popup.url}"))
        self.server = server

    def _dialog(self, dialog):
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _request(self, request):
        if not request.url.startswith((self.server.address, "data:", "blob:")):
            self.wrong.append(f"request {request.url}")

    def _console(self, message):
        if "Content Security Policy" in message.text:
            self.wrong.append(message.text)

    def open(self, name):
        """Open a page and everything on it that can be opened."""
        self.page.goto(f"{self.server.address}/{name}")
        self.settle()
        closed = self.page.locator("details:not([open]) > summary")
        for _ in range(closed.count()):  # one that is opened is no longer among them
            closed.first.click()
        self.settle()

    def settle(self):
        """Wait until the script has run and its output has loaded."""
        self.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached")
        self.page.wait_for_timeout(300)
        self.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached")

    def check(self):
        """Assert that the page did nothing it may not do."""
        assert self.page.evaluate(INJECTED, [MARK, EVIL]) == []
        assert not self.wrong


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store full of payloads, and the dashboard's start options."""
    folder = tmp_path_factory.mktemp("payloads")
    root = Person("<b>root</b>")
    thresholds = Decisions(thresholds=(1.0,) * len(NAMES))
    store = open_review(folder / "review.db")
    models = [
        save_model(folder / "models" / name, labels=labels, decisions=thresholds)
        for name, labels in (("<i>zq7<", NAMES), ("**zq7**", NAMES[::-1]))
    ]
    known = [add_model(store, model, root) for model in models]
    with (folder / "in:red[zq7].csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", *(f"{text} {place}" for place, text in enumerate(NAMES))])
        for place, text in enumerate(PAYLOADS):
            writer.writerow([f"{place} {text[:60]}", f"{text} router", *NAMES])
    add_file(store, folder / "in:red[zq7].csv", identity="id")
    set_guide(store, root, NAMES[0], "\n".join(text for text in PAYLOADS if text not in MARKDOWN))
    decide(store)
    hold_out_rows(store)
    compare_models(store, known[1].id, root)
    promote(store, known[1].id, root, reason=PAYLOADS[0])
    roll_back(store, root, reason=f"[{MARK}](javascript:alert(1))")
    (folder / "files").mkdir()
    (folder / "files" / "<img src=x onerror=alert(1)>.csv").write_text("text\nmy bill\n")
    options = ["--models", folder / "models", "--store", folder / "review.db"]
    options += ["--files", folder / "files", "--person", f"**{MARK}** <b>"]
    return SimpleNamespace(folder=folder, options=options, store=store)


def decide(store):
    """People decide on three quarters of the tickets, and disagree on some."""
    for place, name in enumerate(NAMES[:75]):
        person = Person(name, "reviewer")
        (ticket,) = claim(store, person, most=1)
        record(store, person, [NewDecision(f"a{place}", ticket.id, "label", name)])
        if place % 5 == 0:
            other = NewDecision(f"b{place}", ticket.id, "label", NAMES[place + 1])
            record(store, Person("bob", "reviewer"), [other])


@pytest.fixture(scope="module")
def server(filled):
    """The dashboard on the filled store."""
    with serving(filled.folder / "temporary", filled.options) as started:
        yield started


@pytest.fixture(scope="module")
def watched(browser, server):
    return Watched(browser, server)


def test_there_are_a_hundred_of_them():
    assert len(PAYLOADS) == len(set(PAYLOADS)) == len(set(NAMES)) == 100


def test_no_page_acts_on_a_text_of_the_store(watched):
    for _, address, title, _, _ in part("app").PAGES:
        watched.open(address)
        assert title in watched.page.get_by_test_id("stHeader").inner_text()
        watched.check()


def test_the_desk_shows_all_of_them_as_they_are(watched, filled):
    with filled.store.reading() as connection:
        stored = connection.scalars(select(ticket.c.text)).all()
    watched.open("desk")
    page, seen = watched.page, []
    page.locator(".desk .text").wait_for()
    for key in ("g", "w", "/"):
        page.keyboard.press(key)
        watched.check()
    options = page.locator("#found li").all_inner_texts()
    assert options
    page.keyboard.press("Escape")
    for _ in range(15):
        seen.append(page.locator(".desk .text").inner_text())
        watched.check()
        page.keyboard.press("s")
        expect(page.locator(".desk .text")).not_to_have_text(seen[-1])
    page.get_by_text("All saved").wait_for()  # otherwise the page would ask whether to leave it
    assert len(set(seen)) == len(seen)
    assert set(map(words, seen)) <= set(map(words, stored))


def test_a_complaint_and_an_upload_are_shown_as_they_are(watched, filled):
    watched.open("try")
    box = watched.page.get_by_role("textbox", name="Text")
    for start in range(0, 100, 25):
        box.fill(" router ".join(PAYLOADS[start : start + 25]))
        box.press("Control+Enter")
        watched.settle()
        watched.page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
        watched.check()
    watched.open("tickets")
    watched.check()
    watched.page.get_by_text("Upload", exact=True).click()
    watched.page.locator("input[type=file]").set_input_files(filled.folder / "in:red[zq7].csv")
    watched.page.get_by_text("Only score them").click()
    watched.settle()
    watched.page.get_by_role("button", name="Score", exact=True).click()
    watched.page.get_by_text("is being scored").wait_for()
    watched.check()
    (job,) = list_jobs(filled.store)
    while job.ended_at is None:
        time.sleep(0.2)
        job = job_status(filled.store, job.id)
    assert job.state == "done"
    for name in ("jobs", "tickets"):
        watched.open(name)
        watched.check()


# --- each kind of element ------------------------------------------------------------------------


SERVER = """
import sys
sys.path[:0] = [{dashboard!r}]
import streamlit as st
from protection import Protection, prepared
from starlette.middleware import Middleware

app = st.App("literal_page.py", middleware=[Middleware(Protection)], lifespan=prepared)
"""
LITERAL = """
import json
import streamlit as st
from literal import badge, plain

for place, text in enumerate(json.load(open({texts!r}))):
    with st.container(key=f"text-{{place}}"):
        st.markdown(plain(text))
        st.caption(plain(text))
        st.error(plain(text))
        st.subheader(plain(text), anchor=False)
        st.badge(badge(text))
        st.button(badge(text), key=f"button-{{place}}")
        st.metric("figure", plain(text))
raise ValueError("a programming error that quotes " + "".join({letters!r}))
"""


def test_every_element_shows_texts_literally_and_no_error_quotes_one(browser, tmp_path):
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(PAYLOADS))
    shutil.copytree(APP.parent / ".streamlit", tmp_path / ".streamlit")
    (tmp_path / "server.py").write_text(SERVER.format(dashboard=str(APP.parent)))
    (tmp_path / "literal_page.py").write_text(LITERAL.format(texts=str(texts), letters=[*SECRET]))
    with serving(tmp_path / "temporary", [], app=tmp_path / "server.py") as server:
        watched = Watched(browser, server)
        watched.open("")
        watched.page.get_by_test_id("stException").wait_for()
        watched.page.get_by_test_id("stMetric").last.wait_for()  # loaded later than the others
        watched.check()
        for place, text in enumerate(PAYLOADS):
            expected = visible(" ".join(text.split()))
            shown = watched.page.locator(f".st-key-text-{place}").evaluate(
                "(found) => [...found.querySelectorAll('p, h3, [data-testid=stBadge] span,"
                " [data-testid=stMetricValue]')].map((one) => one.textContent)"
            )
            assert {words(one) for one in shown} == {words(expected), "figure"}, text
        assert SECRET not in watched.page.content()
        log = server.log.read_text()
        assert "An error of a page: ValueError" in log
        assert SECRET not in log


def words(text):
    """A text without the joiners that `plain` inserts and without line ends."""
    return re.sub(r"\s+", " ", text.replace("\u2060", "")).strip()


# --- the log -------------------------------------------------------------------------------------


def test_no_text_reaches_the_log(watched, server):
    watched.open("tickets")
    watched.page.get_by_text("Upload", exact=True).click()
    chooser = watched.page.locator("input[type=file]")
    for name, content in (
        ("good.csv", f"id,text\n1,my {SECRET} is not working\n"),
        ("bad.csv", f"id,text\n1,{SECRET},{SECRET}\n"),
        ("bad.jsonl", '{"text": "' + SECRET + '"\n'),
        ("bad.xlsx", SECRET),
        ("bad.parquet", SECRET),
        (f"{SECRET}.csv", ""),
    ):
        chooser.set_input_files({"name": name, "mimeType": "", "buffer": content.encode()})
        watched.settle()
    watched.open("try")
    box = watched.page.get_by_role("textbox", name="Text")
    box.fill(f"my {SECRET} is not working")
    box.press("Control+Enter")
    watched.page.get_by_test_id("stMetricDelta").wait_for()
    watched.page.goto(f"{server.address}/try?model={SECRET}")
    watched.page.get_by_text("is not a saved model").wait_for()
    assert SECRET not in server.log.read_text()
