"""axe checks every page in both themes."""

import pytest

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.jobs.jobs import start_job
from bertcnn.review.models import add_model
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.store import open_review
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.apps.dashboards import CHROMIUM, browsing, part, save_model, serving

ROOT, BOB = Person("root"), Person("bob", "reviewer")
# known, minor violations in Streamlit's own file uploader
KNOWN = {"presentation-role-conflict"}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A dashboard with two models, tickets, audits and a failed job."""
    folder = tmp_path_factory.mktemp("axe")
    decisions = Decisions(thresholds=(0.0, 1.0, 1.0))
    for rows, name in enumerate(("first", "second"), start=100):
        save_model(folder / "models" / name, decisions=decisions, metrics={"rows": rows})
    store = open_review(folder / "review.db")
    for name in ("first", "second"):
        add_model(store, folder / "models" / name, ROOT)
    new = [NewTicket(f"T-{row}", f"my router led {'bill ' * (row % 7)}") for row in range(60)]
    add_tickets(store, load(folder / "models" / "first"), new, source="tests", audited=1.0)
    decided = [
        NewDecision(f"k{one.id}", one.id, "label", "billing") for one in claim(store, BOB, most=30)
    ]
    record(store, BOB, decided)
    start_job(store, ["score", "none", "none.csv", "out.csv"], BOB, folder=folder)
    options = ["--models", folder / "models", "--store", store.name, "--person", "root"]
    with serving(folder / "temporary", options) as running:
        yield running


def test_axe_finds_nothing(server):
    from axe_playwright_python.sync_playwright import Axe

    pages = [address for _, address, *_ in part("app").PAGES]
    assert len(pages) == 8
    found = {}
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1200})
        for name in pages:
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
                seen.add(
                    page.locator(".stApp").evaluate("e => getComputedStyle(e).backgroundColor")
                )
            assert len(seen) == 2
    unknown = {place: ids for place, ids in found.items() if ids.keys() - KNOWN}
    assert not unknown


def test_each_page_has_an_address_and_the_menu_a_name_on_a_phone(server):
    first, *_ = [address for _, address, *_ in part("app").PAGES]
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto(server.address)
        page.wait_for_url(f"{server.address}/{first}", timeout=60_000)
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
