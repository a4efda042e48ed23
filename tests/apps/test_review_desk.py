"""The page Desk: the server's answers, and the desk in a real browser if one is installed."""

import json
import re
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import delete, select, update

from bertcnn import load
from bertcnn.bundle.schemas import Decisions
from bertcnn.errors import StoreError
from bertcnn.review.decisions import NewDecision, history, record
from bertcnn.review.files import add_file
from bertcnn.review.labels import merge_labels, set_guide
from bertcnn.review.models import add_model
from bertcnn.review.people import Person
from bertcnn.review.queue import FEW, LEASE, claim
from bertcnn.review.schema import decision, label, lease, prediction, queue, setting, ticket
from bertcnn.review.store import open_review
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.apps.dashboards import (
    in_browser,
    open_app,
    part,
    save_model,
    serving,
    set_start,
)

LABELS = ("billing", "hardware", "login", "mail", "moving", "tv")
MORE = tuple(f"label {letter}" for letter in "abcdefghijklmn")
ROOT_PERSON, ANN, BOB = Person("root"), Person("ann", "reviewer"), Person("bob", "reviewer")
SCRIPT = "<img src=https://example.org/x onerror=alert(1)><script>alert(2)</script>"
_numbers = count()

# --- a store -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with a model, and the model."""
    folder = tmp_path_factory.mktemp("review")
    model = save_model(
        folder / "models" / "tiny",
        labels=LABELS,
        decisions=Decisions(thresholds=(1.0,) * len(LABELS)),
    )
    store = open_review(folder / "review.db")
    add_model(store, model, ROOT_PERSON)
    store.set_setting("double_share", 0.0, ROOT_PERSON)
    return SimpleNamespace(folder=folder, store=store, predictor=load(model))


@pytest.fixture
def store(made):
    """The store with the model's labels and an empty queue."""
    with made.store.writing() as connection:
        for table in (queue, lease):
            connection.execute(delete(table))
    use_labels(made.store, LABELS)
    return made.store


@pytest.fixture
def stock(made, store):
    """Add tickets with these texts, queued in this order; returns their ids."""

    def add(texts, *, blind=False, because=(), columns=None):
        number = next(_numbers)
        names = [f"{number}-{place}" for place in range(len(texts))]
        new = [
            NewTicket(name, text, columns or {}, 3600.0 * place)
            for place, (name, text) in enumerate(zip(names, texts, strict=True), start=1)
        ]
        add_tickets(store, made.predictor, new, source="tests")
        with store.writing() as connection:
            found = select(ticket.c.id).where(ticket.c.external_id.in_(names))
            ids = list(connection.scalars(found.order_by(ticket.c.id)))
            connection.execute(update(queue).where(queue.c.ticket.in_(ids)).values(blind=blind))
            connection.execute(
                update(prediction)
                .where(prediction.c.ticket.in_(ids))
                .values(because=[list(place) for place in because])
            )
        return ids

    return add


def use_labels(store, names, separator=None):
    """Replace the labels in use."""
    with store.writing() as connection:
        connection.execute(delete(label))
        connection.execute(delete(setting).where(setting.c.name == "separator"))
        merge_labels(connection, names, separator)


def stands(store, ids, person=ANN):
    """A person's effective decisions by ticket: a label, or the kind in brackets."""
    with store.reading() as connection:
        rows = connection.execute(
            select(decision.c.ticket, decision.c.kind, decision.c.label).where(
                decision.c.ticket.in_(ids), decision.c.actor == person.name
            )
        )
        return {row.ticket: row.label or f"({row.kind})" for row in rows}


def suggested(store, ids):
    with store.reading() as connection:
        rows = connection.execute(
            select(prediction.c.ticket, prediction.c.label).where(prediction.c.ticket.in_(ids))
        )
        return {row.ticket: row.label for row in rows}


# --- the server's answers ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer():
    """`answer` as the page calls it."""
    return part("review_desk").answer


def message(*decisions, held=(), full=False, number=1):
    return {"number": number, "decisions": list(decisions), "held": list(held), "full": full}


def everything():
    """The first message of a page."""
    return message(full=True)


def sent(key, ticket, kind="label", labels=(LABELS[0],), **others):
    known = {"undoes": None, "model": "abc", "blind": False, "shown_at": 1.0, "decided_at": 2.0}
    return {"key": key, "ticket": ticket, "kind": kind, "labels": [*labels], **known, **others}


def test_new_tickets_come_when_few_are_left_and_only_those(answer, store, stock):
    ids = stock(["my router"] * 30)
    assert answer(store, ANN, None, 0.0)["held"] is None  # the page asks for them
    first = answer(store, ANN, everything(), 0.0)
    assert first["held"] == ids[:FEW]
    assert [one["id"] for one in first["tickets"]] == ids[:FEW]
    assert answer(store, ANN, message(held=list(range(11))), 0.0)["held"] is None
    decided = [sent(f"c{place}", one) for place, one in enumerate(ids[:2])]
    found = answer(store, ANN, message(*decided, held=ids[2:FEW]), 0.0)
    assert found["held"] == ids[2 : FEW + 2]
    assert [one["id"] for one in found["tickets"]] == ids[FEW : FEW + 2]


def test_a_full_message_keeps_the_leases_and_brings_everything_again(answer, store, stock):
    ids = stock(["my router"] * 3)
    set_guide(store, ROOT_PERSON, LABELS[1], "boxes and **cables**")
    claim(store, ANN, seconds=60.0)
    found = answer(store, ANN, message(held=ids, full=True), 0.0)
    assert [one["id"] for one in found["tickets"]] == ids
    assert found["guide"] == f"# {LABELS[1]}\nboxes and **cables**"
    with store.reading() as connection:
        assert min(connection.scalars(select(lease.c.until))) > time.time() + LEASE / 2


def test_a_ticket_that_is_given_back_by_undo_stays_at_this_desk(answer, store, stock):
    ids = stock(["my router"] * 30)
    answer(store, ANN, everything(), 0.0)
    answer(store, ANN, message(sent("d1", ids[0]), held=ids[1:FEW]), 0.0)
    held = answer(store, ANN, everything(), 0.0)["held"]
    assert len(held) == FEW
    undo = sent("d2", ids[0], "undo", undoes="d1", shown_at=None)
    found = answer(store, ANN, message(undo, held=held), 0.0)
    assert ids[0] in found["held"]
    assert not set(claimed(store, BOB)) & set(found["held"])


def claimed(store, person):
    return [one.id for one in claim(store, person)]


def test_a_blind_ticket_comes_without_anything_of_the_models_answer(answer, store, stock):
    stock(["my router"], blind=True, because=[(3, 9)])
    (one,) = answer(store, ANN, everything(), 0.0)["tickets"]
    assert (one["blind"], one["suggested"], one["probable"], one["reason"]) == (True, (), (), "")
    assert (one["confidence"], one["sure"]) == (None, False)
    assert one["sections"] == [(False, [("my router", False)])]
    assert one["choices"] == tuple(sorted(LABELS))  # not by probability


def test_counts_are_of_the_store_and_of_today(answer, store, stock):
    ids = stock(["my router"] * 4)
    answer(store, ANN, None, 0.0)
    decided = [
        sent("e1", ids[0], decided_at=50.0),
        sent("e2", ids[1], decided_at=150.0),
        sent("e3", ids[2], "skip", decided_at=150.0),
    ]
    before = answer(store, ANN, None, 100.0)["today"]
    found = answer(store, ANN, message(*decided), 100.0)
    assert found["waiting"] == {"audits": 0, "reviews": 2}
    assert found["today"] - before == 1


def test_the_day_begins_at_midnight_where_the_browser_is():
    midnight = part("review_desk").midnight
    cases = (100_000.0, 0, 86_400), (86_400.0, 0, 86_400), (9e4, 120, 7_200), (9e4, -120, 79_200)
    for moment, minutes, start in cases:
        assert midnight(moment, minutes) == start


def test_several_labels_are_stored_as_one(answer, store, stock):
    ids = stock(["my router"])
    for separator, stored in ((";", "billing; tv"), ("[]", '["billing", "tv"]')):
        use_labels(store, LABELS, separator)
        decided = sent(f"f{separator == ';':d}", ids[0], labels=["billing", "tv"])
        found = answer(store, ANN, message(decided), 0.0)
        assert not found["refused"]
        assert stands(store, ids) == {ids[0]: stored}
        assert found["several"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 1},
        message(sent("no key", 1)),
        message(sent("a", 2**70)),
        message(sent("a", 1, "other")),
        message(sent("a", 1, decided_at=float("nan"))),
        message(sent("a", 1, model="\0")),
        "text",
    ],
)
def test_a_malformed_message_stores_nothing_and_is_an_error(answer, store, wrong):
    found = answer(store, ANN, wrong, 0.0)
    assert "an unknown message" in found["error"]
    assert not found["acknowledged"]


def test_a_failing_store_is_reported_and_acknowledges_nothing(answer, store, stock, monkeypatch):
    ids = stock(["my router"])
    monkeypatch.setitem(answer.__globals__, "record", broken)
    found = answer(store, ANN, message(sent("a9", ids[0]), number=7), 0.0)
    assert (found["number"], found["acknowledged"]) == (7, [])
    assert "given; expected something" in found["error"]


def broken(*_):
    raise StoreError("given", expected="something", fix="do it")


def test_a_text_is_cut_by_characters_and_overlapping_marks_are_joined():
    parts = part("review_desk").parts
    assert parts("a 😀 router", ((4, 10),)) == [("a 😀 ", False), ("router", True)]
    assert parts("abcdef", ((3, 5), (1, 4))) == [
        ("a", False),
        ("bcd", True),
        ("e", True),
        ("f", False),
    ]
    assert parts("", ()) == []


def test_the_page_knows_the_person_named(made, stock, monkeypatch):
    stock(["my router"] * 2)
    set_start(monkeypatch, store=made.folder / "review.db", person="ann")
    app = open_app(made.folder / "none", monkeypatch, "review")
    assert not app.exception
    (desk,) = app.get("bidi_component")
    update = json.loads(desk.proto.json)
    assert update["owner"] == made.store.hashed("desk/ann")
    assert update["waiting"] == {"audits": 0, "reviews": 2}


# --- in a browser -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(made):
    """Ann's dashboard."""
    options = ["--models", made.folder / "models", "--store", made.folder / "review.db"]
    with serving(made.folder / "ann", options, BERTCNN_PERSON="ann") as running:
        yield running


@pytest.fixture(scope="module")
def context(browser):
    """A browser context; its tabs share only the cache of page files."""
    return browser.new_context(viewport={"width": 1200, "height": 900})


class Desk:
    """A page with the desk, operated as a person would."""

    def __init__(self, page, server):
        self.page, self.dialogs, self.requests = page, [], []
        page.set_default_timeout(30_000)
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.type), dialog.accept()))
        page.on("request", lambda request: self.requests.append(request.url))
        self.address = f"{server.address}/desk"

    def open(self, wait="text"):
        self.page.goto(self.address)
        self.find(f".{wait}").wait_for()
        return self

    def find(self, selector):
        return self.page.locator(f".desk {selector}")

    def text(self):
        return self.find(".work:not([hidden]) .text").evaluate("element => element.textContent")

    def said(self):
        return self.find(".said").inner_text()

    def press(self, *keys):
        for key in keys:
            self.ready().page.keyboard.press(key)

    def ready(self):
        """Wait for a ticket, if more are on their way."""
        self.find(".empty h2").get_by_text("One moment.").wait_for(state="hidden")
        return self

    def send_key(self, key, code, **others):
        """Send a key as another keyboard layout does."""
        event = {"key": key, "code": code, "bubbles": True, "composed": True, **others}
        self.ready().page.evaluate(
            "event => document.body.dispatchEvent(new KeyboardEvent('keydown', event))", event
        )

    def saved(self):
        self.find(".unsent").get_by_text("All saved", exact=True).wait_for()
        return self


@pytest.fixture
def desk(server, context):
    """Ann's desk; the test opens it."""
    page = context.new_page()
    yield Desk(page, server)
    page.close()


@in_browser
def test_enter_accepts_what_the_model_suggests(desk, store, stock):
    ids = stock(["my router", "my bill"])
    wanted = suggested(store, ids)
    desk.open()
    assert desk.find(".accept bdi").inner_text() == wanted[ids[0]]
    desk.press("Enter")
    assert desk.text() == "my bill"
    assert desk.said() == f"{wanted[ids[0]]}. U undoes."
    desk.saved()
    assert stands(store, ids) == {ids[0]: wanted[ids[0]]}
    (row,) = history(store, ids[0])
    assert (row.actor, row.kind, row.blind) == ("ann", "label", False)
    assert row.model == load_id(store, ids[0])
    assert row.shown_at <= row.decided_at <= time.time()


def load_id(store, ticket_id):
    with store.reading() as connection:
        return connection.scalar(select(prediction.c.model).where(prediction.c.ticket == ticket_id))


@in_browser
def test_digits_give_labels_on_every_layout_and_nothing_else_does(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(9)])
    desk.open()
    desk.press("2")  # US
    desk.send_key("é", "Digit2")  # AZERTY
    desk.send_key("2", "Digit2", shiftKey=True)
    desk.send_key("2", "Numpad2")
    desk.send_key("à", "Digit0")
    desk.send_key("n", "KeyN")
    for ignored in (
        {"key": "2", "code": "Digit2", "ctrlKey": True},
        {"key": "2", "code": "Digit2", "altKey": True},
        {"key": "2", "code": "Digit2", "metaKey": True},
        {"key": "2", "code": "Digit2", "repeat": True},
        {"key": "2", "code": "Digit2", "isComposing": True},
        {"key": "End", "code": "Numpad1"},  # without NumLock
        {"key": "z", "code": "KeyW"},  # AZERTY
        {"key": "x", "code": "KeyX"},
    ):
        desk.send_key(**ignored)
    assert desk.text() == "my router 6"
    desk.send_key("8", "Digit8")
    assert desk.said() == "No label has the key 8."
    desk.page.evaluate("document.body.append(document.createElement('textarea'))")
    desk.page.locator("body > textarea").focus()
    desk.press("2", "s", "Enter")
    assert desk.text() == "my router 6"
    desk.saved()
    wanted = [LABELS[1]] * 4 + ["(none)"] * 2
    assert stands(store, ids) == dict(zip(ids, wanted, strict=False))


@in_browser
def test_similar_tickets_are_decided_and_undone_together(desk, store, stock):
    ids = stock(["my router", "my router .", "my router ,", "my router , .", "my bill"])
    desk.open()
    desk.press("s", "u", "f")  # while a message is in flight
    boxes = desk.find(".similar input")
    boxes.first.wait_for()
    texts = desk.find(".similar bdi").all_inner_texts()
    other = ids[["my router", "my router .", "my router ,", "my router , ."].index(texts[0])]
    boxes.first.uncheck()
    desk.press("2")
    desk.saved()
    wanted = {one: LABELS[1] for one in ids[:4] if one != other and len(texts) > 2}
    found = stands(store, ids)
    assert found.items() >= wanted.items()
    assert other not in found
    assert desk.text() in (texts[0], "my bill")
    desk.press("u")
    desk.saved()
    assert stands(store, ids) == {}
    assert desk.text() == "my router"


@in_browser
def test_a_skipped_ticket_goes_and_undo_brings_back_one_after_the_other(desk, store, stock):
    ids = stock(["first", "second", "third", "fourth"])
    desk.open()
    desk.press("1", "s", "2")
    assert desk.text() == "fourth"
    desk.saved()
    desk.press("u")
    assert desk.text() == "third"
    assert desk.said() == f"Undone: {LABELS[1]}."
    desk.press("u", "u")
    assert desk.text() == "first"
    desk.press("u")
    assert desk.said() == "There is nothing to undo."
    desk.press("3", "n", "Enter")
    desk.saved()
    third = suggested(store, ids)[ids[2]]
    assert stands(store, ids) == {ids[0]: LABELS[2], ids[1]: "(none)", ids[2]: third}
    assert [row.kind for row in history(store, ids[1])] == ["skip", "undo", "none"]


@in_browser
def test_a_blind_ticket_shows_no_suggestion_and_is_decided_alone(desk, store, stock):
    ids = stock(["my router", "my bill"], blind=True)
    use_labels(store, (*LABELS, *MORE))
    desk.open()
    assert desk.find(".labels button bdi").all_inner_texts() == sorted(likeliest(store, ids[0]))
    desk.press("Enter", "w", "/", "Escape")
    assert desk.text() == "my router"
    assert desk.said() == "There is no suggestion to accept. Choose a label."
    assert desk.find(".accept").inner_text() == "No suggestion: choose a label"
    assert "held back" in desk.find(".why").inner_text()
    assert desk.find(".labels .suggested").count() == 0
    desk.press("f")
    assert desk.said() == "This ticket is a check, which is decided by itself."
    assert not desk.find(".similar").is_visible()
    desk.press("4")
    desk.saved()
    assert stands(store, ids) == {ids[0]: sorted(likeliest(store, ids[0]))[3]}
    assert history(store, ids[0])[0].blind


@in_browser
def test_the_likeliest_of_many_labels_have_keys_and_all_can_be_searched(desk, store, stock):
    ids = stock(["my router", "my bill", "the app"])
    use_labels(store, (*LABELS, *MORE))
    guess, *others = likeliest(store, ids[0])
    desk.open()
    assert desk.find(".accept bdi").inner_text() == guess
    assert desk.find(".labels button bdi").all_inner_texts() == others
    assert desk.find(".labels kbd").all_inner_texts() == ["1", "2", "3", "4", "5"]
    desk.press("1")
    desk.send_key("/", "Digit7", shiftKey=True)  # QWERTZ
    desk.page.keyboard.insert_text("LÀB")
    desk.press("ArrowDown", "ArrowDown", "ArrowUp", "Enter")
    assert desk.text() == "the app"
    desk.press("/", "Escape", "7")
    assert desk.said() == "No label has the key 7."
    desk.saved()
    assert stands(store, ids) == {ids[0]: others[0], ids[1]: MORE[1]}


def likeliest(store, ticket_id):
    """The labels by the model's probability."""
    with store.reading() as connection:
        stored = connection.scalar(
            select(prediction.c.probable).where(prediction.c.ticket == ticket_id)
        )
        return [name for name, _ in stored]


@in_browser
def test_up_to_18_labels_have_fixed_keys_the_second_nine_with_shift(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(4)])
    names = (*LABELS, *MORE[:7])
    use_labels(store, names)
    desk.open()
    assert desk.find(".labels button bdi").all_inner_texts() == list(names)
    desk.send_key("!", "Digit1", shiftKey=True)  # US
    desk.send_key("é", "Digit2")  # AZERTY
    desk.send_key("2", "Digit2", shiftKey=True)
    desk.send_key("(", "Digit5", shiftKey=True)
    assert desk.said() == "No label has the key ⇧5."
    desk.saved()
    assert stands(store, ids) == dict(zip(ids, (names[9], names[1], names[10]), strict=False))


BANKING = ("card_arrival", "lost-or-stolen_card", "Top Up Failed", "exchange rate", "pin blocked")


@in_browser
def test_a_search_forgives_typos_signs_and_the_order_of_words(desk, store, stock):
    stock(["my router"])
    use_labels(store, (*LABELS, *MORE, *BANKING))
    desk.open()
    for typed, found in (
        ("card arrival", ["card_arrival"]),
        ("ARRIVAL-card", ["card_arrival"]),
        ("cardarival", ["card_arrival"]),
        ("topup", ["Top Up Failed"]),
        ("top_up_faild", ["Top Up Failed"]),
        ("stollen", ["lost-or-stolen_card"]),
        ("echxange", ["exchange rate"]),
        ("pni", ["pin blocked"]),
        ("xy", []),
    ):
        desk.press("/")
        desk.page.keyboard.insert_text(typed)
        assert desk.find(".search [role=option]").all_inner_texts() == found
        assert desk.find(".nothing").inner_text() == ("" if found else "No label is like this.")
        desk.press("Escape")


@in_browser
def test_found_labels_are_ranked_by_probability_but_not_in_an_audit(desk, store, stock):
    (number,) = stock(["my router"])
    names = [f"help with {name}" for name in LABELS]
    use_labels(store, (*names, *MORE))
    shares = [[name, 0.1] for name in (names[3], names[5], names[0])]
    with store.writing() as connection:
        values = {"probable": shares}
        connection.execute(update(prediction).values(values).where(prediction.c.ticket == number))
    for blind in (False, True):
        with store.writing() as connection:
            connection.execute(update(queue).values(blind=blind))
        desk.open().press("/")
        desk.page.keyboard.insert_text("help")
        ranked = [names[place] for place in (3, 5, 0, 1, 2, 4)]
        options = desk.find(".search [role=option]").all_inner_texts()
        assert options == (names if blind else ranked)


@in_browser
def test_labels_with_levels_are_a_tree(desk, store, stock):
    ids = stock(["my router", "my bill"])
    names = ("network > wifi > slow", "network > cable", "billing", "network > wifi > password")
    use_labels(store, names)
    desk.open()
    tree = ["network", "wifi", "slow", "password", "cable", "billing"]
    shown = desk.find(".labels > *").evaluate_all("all => all.map(one => one.firstChild.innerText)")
    assert shown == tree
    desk.press("3")
    use_labels(store, (*names, *MORE, *LABELS))
    desk.open().press("/")
    rows = desk.find(".search li").all_inner_texts()
    assert rows.index("network") < rows.index("wifi") < rows.index("slow")
    desk.page.keyboard.insert_text("password wifi")
    desk.press("Enter")
    desk.saved()
    assert stands(store, ids) == {ids[0]: names[1], ids[1]: names[3]}


@in_browser
def test_only_a_sure_answer_looks_sure(desk, store, stock):
    (number,) = stock(["my router"])
    desk.open()
    assert re.fullmatch(r"Only a guess, \d+% likely:", desk.find(".suggestion").inner_text())
    quiet = desk.find(".accept").evaluate("one => getComputedStyle(one).backgroundColor")
    page = desk.find("[data-do=skip]").evaluate("one => getComputedStyle(one).backgroundColor")
    assert quiet == page
    with store.reading() as connection:
        given = select(prediction.c.reason).where(prediction.c.ticket == number)
        reason = connection.scalar(given)
    assert desk.find(".reason").inner_text() == f"{reason[0].upper()}{reason[1:]}."
    with store.writing() as connection:
        connection.execute(update(prediction).values(decision="auto"))
    desk.open()
    assert desk.find(".suggestion").inner_text().startswith("The model's answer")
    sure = desk.find(".accept").evaluate("one => getComputedStyle(one).backgroundColor")
    assert sure != page
    with store.writing() as connection:
        connection.execute(update(prediction).values(decision="review:ambiguous"))


@in_browser
def test_a_labels_colour_and_hint_are_shown(desk, store, stock):
    stock(["my router"])
    set_guide(store, ROOT_PERSON, LABELS[1], color="#1f77b4", hint="boxes and cables")
    desk.open()
    button = desk.find(".labels button").nth(1)
    assert button.get_attribute("title") == "boxes and cables"
    colour = button.locator(".dot").evaluate("one => getComputedStyle(one).backgroundColor")
    assert colour == "rgb(31, 119, 180)"
    assert desk.find(".dot").count() == 1
    use_labels(store, (*LABELS, *MORE))
    set_guide(store, ROOT_PERSON, LABELS[1], color="#1f77b4", hint="boxes and cables")
    desk.open().press("/")
    desk.page.keyboard.insert_text("hardware")
    assert desk.find("[role=option] small").inner_text() == "boxes and cables"


@in_browser
def test_axe_finds_nothing_on_a_desk_with_everything_open(desk, store, stock):
    from axe_playwright_python.sync_playwright import Axe

    stock([f"my router {place}\n> why?" for place in range(4)], because=[(3, 9)])
    use_labels(store, (*LABELS, *MORE, "tv > sound", "tv > sound > low"))
    set_guide(
        store, ROOT_PERSON, LABELS[1], "- **boxes**", color="#1f77b4", hint="boxes and cables"
    )
    desk.open().press("1", "2", "l", "w", "g", "?", "q", "f")
    desk.saved().find(".similar input").first.wait_for()
    for search in (False, True):
        if search:
            desk.press("/")
        for scheme in ("light", "dark"):
            desk.page.emulate_media(color_scheme=scheme)
            desk.page.wait_for_timeout(500)  # until colours have changed
            colour = desk.find(".text").evaluate("element => getComputedStyle(element).color")
            assert (sum(map(int, colour[4:-1].split(",")[:3])) > 384) == (scheme == "dark")
            violations = Axe().run(desk.page).response["violations"]
            assert {one["id"]: one["nodes"][0]["html"] for one in violations} == {}


@in_browser
def test_a_view_of_the_queue_is_chosen_and_stays_in_the_address(desk, store, stock):
    ids = stock(["first", "second"])
    with store.writing() as connection:
        connection.execute(update(queue).where(queue.c.ticket == ids[1]).values(audit=True))
    desk.open().find(".view").select_option("audits")
    desk.find(".text").get_by_text("second").wait_for()
    assert desk.page.url.endswith("?view=audits")
    desk.page.reload()
    desk.find(".text").get_by_text("second").wait_for()
    assert desk.find(".view").input_value() == "audits"


@in_browser
def test_skipped_tickets_are_one_button_away(desk, store, stock):
    ids = stock(["first", "second"])
    desk.open().press("s", "s")
    desk.saved().find(".empty button").click()
    desk.find(".text").get_by_text("first").wait_for()
    desk.press("1", "2")
    desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[0], ids[1]: LABELS[1]}


@in_browser
def test_a_second_tab_says_so_and_gets_other_tickets(desk, server, store, stock):
    stock([f"my router {place}" for place in range(20)])
    desk.open()
    with desk.page.expect_popup() as popup:
        desk.page.evaluate("window.open(location.href)")  # with a copy of the tab's storage
    other = Desk(popup.value, server)
    other.find(".tabs").get_by_text("open in another tab").wait_for()
    other.find(".text").get_by_text("my router 5").wait_for()
    assert (desk.text(), desk.find(".tabs").is_visible()) == ("my router 0", False)
    desk.press("s")
    desk.saved().page.goto("about:blank")
    other.find(".tabs").wait_for(state="hidden")
    other.page.close()
    with store.reading() as connection:
        tabs = list(connection.scalars(select(lease.c.tab).distinct()))
    assert len(tabs) == 2


# --- tickets that are opened ---


@in_browser
def test_the_last_decisions_can_be_opened_and_changed(desk, store, stock):
    ids = stock(["first", "second", "third"])
    desk.open().press("1", "2", "l")
    rows = desk.find(".last button")
    assert [row.split("\n")[1:3] for row in rows.all_inner_texts()[:2]] == [
        [LABELS[1], "second"],
        [LABELS[0], "first"],
    ]
    rows.nth(1).click()
    assert desk.text() == "first"
    assert desk.find(".accept bdi").inner_text() == f"Keep: {LABELS[0]}"
    desk.press("Enter")
    assert desk.text() == "third"
    desk.saved().open().press("l")  # the reloaded page does not know the tickets
    rows.nth(1).click()
    desk.find(".text").get_by_text("first").wait_for()
    desk.press("4")
    assert desk.text() == "third"
    assert desk.find(".last button").first.inner_text().split("\n")[1:3] == [LABELS[3], "first"]
    desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[3], ids[1]: LABELS[1]}
    desk.press("u")
    assert desk.text() == "first"
    assert desk.find(".accept bdi").inner_text() == f"Keep: {LABELS[0]}"
    desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[0], ids[1]: LABELS[1]}


@in_browser
def test_a_ticket_in_the_address_is_opened_first_and_leaves_it(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(40)])
    record(store, BOB, [NewDecision("bob-1", ids[30], "label", LABELS[2])])
    address = desk.address
    for given in (f"%23{ids[30]}", f"tests/{external_id(store, ids[35])}"):
        desk.address = f"{address}?ticket={given}"
        desk.open()
        assert desk.text() == ("my router 30" if "23" in given else "my router 35")
        desk.press("5")
        assert desk.text() == "my router 0"
        assert desk.page.url == address
        desk.saved()
    assert stands(store, ids) == {ids[30]: LABELS[4], ids[35]: LABELS[4]}
    desk.address = f"{address}?ticket=nobody"
    desk.open()
    assert "no ticket 'nobody'" in desk.find(".alerts").inner_text()
    assert desk.text() == "my router 0"


def external_id(store, ticket_id):
    with store.reading() as connection:
        return connection.scalar(select(ticket.c.external_id).where(ticket.c.id == ticket_id))


@in_browser
def test_a_ticket_on_another_persons_desk_says_so(desk, store, stock):
    ids = stock(["first", "second"])
    claim(store, BOB, most=1)
    desk.address += f"?ticket=%23{ids[0]}"
    desk.open()
    assert desk.text() == "first"
    assert "bob has this ticket now." in desk.find(".reason").inner_text()
    assert [one.id for one in claim(store, BOB, most=1)] == ids[:1]


@in_browser
def test_an_opened_ticket_of_another_view_stays_with_the_person(desk, store, stock):
    ids = stock(["first", "second"])
    desk.open().press("s", "l")
    assert desk.text() == "second"
    desk.find(".last button").first.click()
    assert desk.text() == "first"
    desk.saved().press("w", "w")
    desk.page.wait_for_timeout(1500)  # further messages to the server
    assert claim(store, BOB) == []
    desk.press("3")
    desk.saved()
    assert stands(store, ids)[ids[0]] == LABELS[2]


@in_browser
def test_a_ticket_is_shown_with_its_id_its_columns_and_its_time_in_the_viewers_zone(
    desk, made, store, tmp_path
):
    file = tmp_path / "inbox.csv"
    file.write_text(
        "ticket_id,created_at,text,channel\nT-1,2025-07-01 10:00,my router is not working,mail\n"
    )
    store.set_setting("time_zone", "Europe/Berlin", ROOT_PERSON)
    add_file(store, file, predictor=made.predictor)
    store.set_setting("time_zone", "UTC", ROOT_PERSON)
    desk.open()
    received = desk.find(".received time")
    assert received.get_attribute("datetime") == "2025-07-01T08:00:00.000Z"
    assert received.get_attribute("title").startswith("In the file: 2025-07-01 10:00. Shown in")
    zone = "() => Intl.DateTimeFormat().resolvedOptions().timeZone"
    shown = datetime(2025, 7, 1, 8, tzinfo=UTC).astimezone(ZoneInfo(desk.page.evaluate(zone)))
    assert f"{shown.hour % 12 or 12}:00" in received.inner_text()
    assert re.fullmatch(r"T-1\s+#\d+", desk.find(".own").inner_text())
    assert desk.find(".facts").inner_text().split() == ["channel", "mail"]


# --- texts ---


@in_browser
def test_long_texts_scroll_by_keys_and_short_ones_do_not(desk, stock):
    stock(["word " * 2000, "short"])
    desk.open()
    top = "element => element.scrollTop"
    page = desk.find(".text").evaluate("element => element.clientHeight")
    desk.press("Space")
    assert page / 2 < desk.find(".text").evaluate(top) < page
    assert desk.find(".more").is_visible()
    desk.press("Shift+Space")
    assert desk.find(".text").evaluate(top) == 0
    for key, back in (("PageDown", "PageUp"), ("ArrowDown", "ArrowUp"), ("End", "Home")):
        desk.press(key)
        assert desk.find(".text").evaluate(top) > 0, key
        desk.press(back)
        assert desk.find(".text").evaluate(top) == 0, back
    desk.press("End")
    desk.find(".more").wait_for(state="hidden")
    desk.press("s")
    assert desk.text() == "short"
    assert not desk.find(".more").is_visible()


@in_browser
def test_quoted_mail_is_folded_until_it_is_wanted(desk, stock):
    reply, quote = "It is dead.\n", "On 3 Mar 2025 Ann wrote:\n> Is my router on?"
    at = len(reply) + quote.index("router")
    stock([reply + quote], because=[(at, at + 6)])
    desk.open()
    assert desk.find(".text").inner_text().split("\n") == [
        "It is dead.",
        "Quoted e-mail, 2 lines",
    ]
    desk.press("q")
    assert "Is my router on?" in desk.find(".text").inner_text()
    desk.press("q", "w")  # the marked phrases are shown
    assert desk.find(".text mark").inner_text() == "router"


@in_browser
def test_right_to_left_texts_stand_right_line_by_line(desk, stock):
    stock(["مرحبا router\nmy router"])
    desk.open()
    lines = desk.find(".text").evaluate(
        """element => {
      const text = element.querySelector("span").firstChild, found = [];
      for (const at of [0, 14]) {
        const range = document.createRange();
        range.setStart(text, at); range.setEnd(text, at + 1);
        const letter = range.getBoundingClientRect(), all = element.getBoundingClientRect();
        found.push(letter.left - all.left > all.width / 2);
      }
      return found; }"""
    )
    assert lines == [True, False]


@in_browser
def test_several_labels_are_chosen_and_confirmed(desk, store, stock):
    ids = stock(["my router", "my bill"])
    use_labels(store, LABELS, ";")
    first = suggested(store, ids)[ids[0]]
    others = [name for name in LABELS if name != first][:2]
    keys = {name: str(place) for place, name in enumerate(LABELS, start=1)}
    desk.open()
    assert desk.find("[aria-pressed=true] bdi").all_inner_texts() == [first]
    desk.press(keys[others[0]])
    desk.find(".labels button").filter(has_text=others[1]).click()
    desk.press(keys[first], "Enter")
    assert desk.text() == "my bill"
    for name in desk.find("[aria-pressed=true] bdi").all_inner_texts():
        desk.press(keys[name])
    desk.press("Enter")
    assert desk.said() == "Choose labels first, or press N for none of them."
    desk.saved()
    assert stands(store, ids) == {ids[0]: "; ".join(others)}


@in_browser
def test_buttons_do_what_keys_do_and_a_double_click_counts_once(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(5)])
    desk.open()
    desk.find(".labels button").nth(1).dblclick()
    assert desk.text() == "my router 1"
    desk.press("Enter")  # the button that was clicked no longer has the focus
    assert desk.text() == "my router 2"
    desk.find("[data-do=skip]").click()
    desk.find("[data-do=undo]").click()
    wanted = suggested(store, ids)
    other = next(name for name in LABELS if name != wanted[ids[2]])
    desk.find(".labels button").filter(has_text=other).focus()
    desk.press("Enter")  # presses the focused button, and does not accept the suggestion
    assert desk.text() == "my router 3"
    desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[1], ids[1]: wanted[ids[1]], ids[2]: other}


@in_browser
def test_why_marks_the_phrases_and_the_guide_opens(desk, store, stock):
    set_guide(store, ROOT_PERSON, LABELS[0], f"- **billing**: `bills`\n\n{SCRIPT}")
    stock(["a 😀 router 𝒳 led"], because=[(4, 10), (13, 16)])
    desk.open()
    desk.press("w", "g", "?")
    assert desk.find(".text mark").all_inner_texts() == ["router", "led"]
    assert desk.find(".probable bdi").count() == 5
    assert desk.find(".guide h3").inner_text() == LABELS[0]
    assert desk.find(".guide li strong").inner_text() == "billing"
    assert SCRIPT in desk.find(".guide").inner_text()
    assert desk.find(".keys").is_visible()
    desk.press("w", "g", "?")
    assert not any(desk.find(f".{panel}").is_visible() for panel in ("why", "guide", "keys"))


@contextmanager
def cut(page):
    """A server connection that can be cut: while it is cut, the browser's messages are lost."""
    way = SimpleNamespace(cut=False)

    def route(socket):
        server = socket.connect_to_server()
        socket.on_message(lambda text: None if way.cut else server.send(text))

    page.route_web_socket("**/_stcore/stream", route)
    yield way


@in_browser
def test_decisions_wait_in_the_tab_while_the_server_does_not_answer(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(6)])
    with cut(desk.page) as way:
        desk.open()
        way.cut = True
        desk.press("1", "2", "3")
        assert desk.find(".unsent").inner_text() == "3 unsent"
        desk.find(".unsent.late").wait_for()  # it has been sent again
        desk.press("u", "s")
        assert desk.text() == "my router 3"
        assert not stands(store, ids)
        way.cut = False
        desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[0], ids[1]: LABELS[1], ids[2]: "(skip)"}
    assert [row.kind for row in history(store, ids[2])] == ["label", "undo", "skip"]


@in_browser
def test_decisions_arrive_at_a_server_that_was_restarted(desk, server, store, stock):
    ids = stock(["first", "second", "third"])
    page = desk.open().page
    server.stop()
    desk.press("1")
    page.get_by_role("dialog").get_by_text("Connection error").wait_for()
    desk.press("2", "3")  # keys in a dialog do not reach the desk
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    desk.press("2")
    assert desk.text() == "third"
    server.start()
    desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[0], ids[1]: LABELS[1]}


@in_browser
def test_a_page_whose_connection_is_dead_loads_itself_again(desk, store, stock):
    ids = stock(["first", "second"])
    desk.page.clock.install()
    with cut(desk.page) as way:
        desk.open()
        way.cut = True
        desk.press("2")
        assert desk.text() == "second"
        with desk.page.expect_navigation():
            for _ in range(8):
                desk.page.clock.run_for(5000)
        way.cut = False
        desk.saved()
    assert desk.dialogs == []
    assert stands(store, ids) == {ids[0]: LABELS[1]}


@in_browser
def test_unsent_decisions_are_sent_first_after_a_reload(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(4)])
    with cut(desk.page) as way:
        desk.open()
        way.cut = True
        desk.press("1", "2")
        way.cut = False
        desk.open()
        assert desk.dialogs == ["beforeunload"]
        assert desk.text() == "my router 2"
        desk.saved()
        desk.open()  # the reloaded page does not know the ticket whose decision is undone
        desk.page.keyboard.press("u")
        desk.page.keyboard.press("3")  # too early
        assert desk.said() == f"Undone: {LABELS[1]}."
        desk.find(".text").get_by_text("my router 1").wait_for()
        desk.press("4")
        assert desk.text() == "my router 2"
        desk.saved()
    assert stands(store, ids) == {ids[0]: LABELS[0], ids[1]: LABELS[3]}


@in_browser
def test_a_refused_decision_is_shown_with_its_reason_and_comes_back(desk, store, stock):
    ids = stock(["first", "second", "third"])
    desk.open()
    use_labels(store, LABELS[1:])
    desk.press("1")
    desk.find(".alerts").get_by_text("it may have been removed meanwhile").wait_for()
    assert desk.text() == "second"
    desk.press("1")
    assert desk.text() == "first"
    desk.find(".alerts button").click()
    desk.press("2")
    desk.saved()
    assert stands(store, ids) == {ids[1]: LABELS[1], ids[0]: LABELS[2]}


@in_browser
def test_new_tickets_join_behind_the_one_that_is_shown(desk, store, stock):
    ids = stock([f"my router {place}" for place in range(13)])
    desk.open()
    later = stock(["later"])
    desk.press(*["1"] * 4)
    desk.saved()
    assert desk.text() == "my router 4"
    shown = []
    for _ in range(10):
        shown.append(desk.ready().text())
        desk.press("1")
    assert sorted(shown) == sorted(["later", *(f"my router {place}" for place in range(4, 13))])
    desk.saved()
    assert "No ticket waits." in desk.find(".empty").inner_text()
    assert "0 audits and 0 reviews wait" in desk.find(".counts").inner_text()
    assert len(stands(store, [*ids, *later])) == 14


@in_browser
def test_leases_are_renewed_while_somebody_is_there(desk, store, stock):
    stock(["my router"])
    desk.page.clock.install()
    renewals = []
    desk.page.on(
        "websocket",
        lambda socket: socket.on(
            "framesent", lambda frame: b'"alive":true' in frame and renewals.append(frame)
        ),
    )
    desk.open()
    with store.writing() as connection:
        connection.execute(update(lease).values(until=time.time() + 10))
    desk.page.clock.fast_forward(50_000)

    def until():
        with store.reading() as connection:
            return connection.scalar(select(lease.c.until))

    while until() < time.time() + LEASE / 2:
        desk.page.wait_for_timeout(50)
    for _ in range(20):  # no user input
        before = len(renewals)
        desk.page.clock.fast_forward(180_000)
        desk.page.wait_for_timeout(400)
        if len(renewals) == before:
            break
    else:
        raise AssertionError("renewed for ever")
    with store.writing() as connection:  # as after a night
        connection.execute(update(lease).values(actor="bob", until=time.time() + 100))
    desk.press("?")
    desk.find(".said").get_by_text("no longer yours").wait_for()
    assert "Others have those that wait" in desk.find(".empty").inner_text()


@in_browser
def test_it_fits_a_telephone(desk, stock):
    stock([f"my router {'very ' * 90}long", "w" * 500])
    desk.page.set_viewport_size({"width": 390, "height": 844})
    desk.open().press("w")
    for _ in range(2):
        for one in desk.page.locator(".desk button:visible, .desk .ticket").all():
            box = one.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert box["height"] >= 36
        assert desk.page.evaluate("document.documentElement.scrollWidth") <= 390
        desk.press("s")
