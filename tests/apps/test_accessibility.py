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
