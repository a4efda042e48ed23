"""What all pages of the dashboard have in common, in the test harness and in a browser."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.review.jobs.jobs import start_job
from bertcnn.review.queue import claim
from bertcnn.review.store import open_review
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.apps.dashboards import (
    APP,
    in_browser,
    labels_of,
    logged_in,
    on_page,
    part,
    said,
    save_model,
    serving,
    set_start,
)
from tests.review.desk import BOB, decide_all, ids, serve

NO_MODEL = "There is no model yet. Train one on the page Train"
# known, minor violations in Streamlit's own file uploader
KNOWN = {"presentation-role-conflict"}


@dataclass(frozen=True)
class Page:
    """A page, and what it shows to whom.

    Attributes:
        name: its file in `pages_`.
        without_model: what it says to an admin whose store is empty.
        without_tickets: the same, in a store with a model.
        of_viewers: the buttons that a viewer sees; None if a viewer does not see the page.
        of_admins: some that only others see.
    """

    name: str
    address: str
    without_model: str = ""
    without_tickets: str = ""
    of_viewers: frozenset[str] | None = frozenset()
    of_admins: frozenset[str] = frozenset()

    def __str__(self):
        return self.address


PAGES = (
    Page(
        "tickets",
        "tickets",
        "No file was uploaded yet",
        "No file was uploaded yet",
        frozenset({"Newer", "Older"}),
        frozenset({"Add the label"}),
    ),
    Page("review", "desk", of_viewers=None),
    Page(
        "audit",
        "audit",
        NO_MODEL,
        "There are no automatic answers in this time",
        of_admins=frozenset({"Draw"}),
    ),
    Page(
        "health",
        "health",
        NO_MODEL,
        "No tickets yet. Upload some on the page Tickets.",
        frozenset({"Estimate", "Look for topics"}),
        frozenset({"Go back to first"}),
    ),
    Page("train", "train", "There is no model yet. What do you have?", "No training yet", None),
    Page("models", "models", NO_MODEL, "second", of_admins=frozenset({"Go back to first"})),
    Page("jobs", "jobs", "No jobs yet", "No jobs yet", of_admins=frozenset({"Remove"})),
    Page("classify", "try", NO_MODEL, "how sure it is", frozenset({"Classify"})),
)
each_page = pytest.mark.parametrize("page", PAGES, ids=str)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store with two models, tickets, wrong audits and a failed job."""
    folder = tmp_path_factory.mktemp("pages")
    decisions = Decisions(thresholds=(0.0, 0.0, 0.0))
    for rows, name in enumerate(("first", "second"), start=100):
        save_model(folder / "models" / name, decisions=decisions, metrics={"rows": rows})
    store = open_review(folder / "review.db")
    _, second = (serve(store, folder / "models" / name) for name in ("first", "second"))
    new = [NewTicket(f"T-{row}", f"my router led {'bill ' * (row % 7)}") for row in range(60)]
    add_tickets(store, load(second.folder), new, source="tests", audited=1.0)
    decide_all(store, BOB, dict.fromkeys(ids(claim(store, BOB, most=30))))
    start_job(store, ["score", "none", "none.csv", "out.csv"], BOB, folder=folder)
    (folder / "people.csv").write_text("person,role\nvic@example.org,viewer\n")
    return SimpleNamespace(folder=folder, models=folder / "models", store=store)


def opened(page):
    """A page, as an admin on this machine sees it."""
    return on_page(AppTest.from_file(str(APP), default_timeout=60).run(), page.name)


def words(app):
    return said([*app.markdown, *app.info, *app.caption])


def test_these_are_all_pages():
    pages = [(name, address) for name, address, *_ in part("app").PAGES]
    assert [(one.name, one.address) for one in PAGES] == pages


@each_page
def test_an_admin_who_opens_a_page_makes_a_missing_store(page, tmp_path, monkeypatch):
    set_start(monkeypatch, models=tmp_path, store=tmp_path / "new.db")
    app = opened(page)
    assert not app.exception
    assert not app.error
    assert page.without_model in words(app)
    assert (tmp_path / "new.db").is_file()


@each_page
def test_a_store_without_tickets_says_what_to_do(page, filled, tmp_path, monkeypatch):
    serve(open_review(tmp_path / "review.db"), filled.models / "second")
    set_start(monkeypatch, models=filled.models, store=tmp_path / "review.db")
    app = opened(page)
    assert not app.exception
    assert not app.error
    assert page.without_tickets in words(app)


@pytest.mark.parametrize("page", [one for one in PAGES if one.name != "classify"], ids=str)
def test_a_store_that_cannot_be_made_is_a_one_line_error(page, tmp_path, monkeypatch):
    set_start(monkeypatch, models=tmp_path, store=tmp_path / "no folder" / "new.db")
    app = opened(page)
    assert not app.exception
    (error,) = app.error
    assert "no folder" in error.value
    assert "\n" not in error.value


@each_page
def test_a_viewer_sees_no_button_that_changes_anything(page, filled, monkeypatch):
    set_start(monkeypatch, models=filled.models, store=filled.store.name, person="root")
    admin = opened(page)
    assert not admin.exception
    assert set(labels_of(admin.button)) >= page.of_admins
    people = filled.folder / "people.csv"
    monkeypatch.delenv("BERTCNN_PERSON")
    set_start(monkeypatch, "0.0.0.0", people=people)
    app = logged_in("vic@example.org").run()
    if page.of_viewers is None:
        with pytest.raises(ValueError, match=page.name):
            on_page(app, page.name)
        return
    app = on_page(app, page.name)
    assert not app.exception
    assert {*labels_of(app.button), *labels_of(app.toggle)} == {"Log out", *page.of_viewers}
    assert not page.of_viewers & page.of_admins
    told = "An admin can go back to the earlier model." in words(app)
    assert told == (page.name == "health")


def test_a_viewer_makes_no_store(filled, tmp_path, monkeypatch):
    people = filled.folder / "people.csv"
    set_start(monkeypatch, "0.0.0.0", models=tmp_path, store=tmp_path / "new.db", people=people)
    app = on_page(logged_in("vic@example.org").run(), "tickets")
    assert "no review store" in said(app.error)
    assert not (tmp_path / "new.db").exists()


# --- in a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(filled):
    """The dashboard of an admin on the filled store."""
    options = ["--models", filled.models, "--store", filled.store.name, "--person", "root"]
    with serving(filled.folder / "temporary", options) as running:
        yield running


@in_browser
def test_axe_finds_nothing_in_either_theme_and_each_page_fits_a_telephone(server, browser):
    from axe_playwright_python.sync_playwright import Axe

    page, found = browser.new_page(), {}
    for name in (one.address for one in PAGES):
        page.set_viewport_size({"width": 1280, "height": 1200})
        page.emulate_media(color_scheme="light")
        page.goto(f"{server.address}/{name}")
        page.locator("h1:visible, .desk .bar").first.wait_for(timeout=60_000)
        page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)
        assert not page.get_by_role("dialog").count(), f"no page has the address {name}"
        seen = set()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(500)  # wait for charts to fade in and colours to change
            violations = Axe().run(page).response["violations"]
            found[name, theme] = {one["id"]: one["nodes"][0]["html"] for one in violations}
            seen.add(page.locator(".stApp").evaluate("e => getComputedStyle(e).backgroundColor"))
        assert len(seen) == 2
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    unknown = {place: ids for place, ids in found.items() if ids.keys() - KNOWN}
    assert not unknown


@in_browser
def test_each_page_has_an_address_and_the_menu_a_name_on_a_telephone(server, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(server.address)
    page.wait_for_url(f"{server.address}/{PAGES[0].address}", timeout=60_000)
    button = page.get_by_test_id("stExpandSidebarButton")
    button.wait_for(timeout=60_000)
    after = "element => getComputedStyle(element, '::after').content"
    assert button.evaluate(after) == '"Menu"'
    button.click()
    menu = page.get_by_test_id("stSidebarNav")
    assert menu.get_by_role("link").all_inner_texts()[-1].endswith("Try a text")
    menu.get_by_role("link", name="Desk (30)").wait_for()
    menu.get_by_role("link", name="Audit").click()
    page.get_by_role("heading", level=1, name="Audit").wait_for(timeout=60_000)
    assert page.url == f"{server.address}/audit"
