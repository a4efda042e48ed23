"""The review desk: leased tickets are cached in the browser, so a slow network does not matter.

`desk/desk.js` sends all unacknowledged decisions and the tickets it holds. The response
acknowledges stored decisions and adds tickets if few are left. Unanswered messages are sent again;
a repeated decision counts once. The address `/desk?ticket=ID` opens a ticket first; see
`find_ticket` for what an ID may be, such as T-7 or #12 (in an address `%2312`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from advice import on_page
from pydantic import BaseModel, Field, FiniteFloat, ValidationError
from quoted_mail import quoted_spans

from bertcnn.data import join_labels, names_in
from bertcnn.errors import BertCNNError, StoreError
from bertcnn.review import (
    Kind,
    LabelsInUse,
    LastDecision,
    LeasedTicket,
    NewDecision,
    Person,
    QueueView,
    Recorded,
    ReviewStore,
    claim,
    decided,
    find_ticket,
    label_guide,
    labels_in_use,
    last_decisions,
    now,
    number_of,
    open_ticket,
    record,
    renew,
    similar,
    waiting_tickets,
)
from bertcnn.settings import DECISIONS

FEW = 10  # the browser gets new tickets below this number
_KEY = r"^[0-9a-f-]{1,64}$"
_TAB = r"^[0-9a-f-]{0,64}$"
_MOST = 10_000  # decisions or tickets in a message
_LONGEST_SHOWN = 300  # characters of a similar ticket
_LAST = 10  # decisions in the list
_PROBABLE = 5  # labels with a bar
_DAY = 86_400
_HASHED = re.compile(r"[0-9a-f]{32}")

_FILES = Path(__file__).with_name("desk")
_component = st.components.v2.component(
    "review_desk",
    html=(_FILES / "desk.html").read_text(encoding="utf-8"),
    css=(_FILES / "desk.css").read_text(encoding="utf-8"),
    js="\n".join(
        (_FILES / f"{name}.js").read_text(encoding="utf-8")
        for name in ("search", "small", "screen", "desk")
    ),
)


class Sent(BaseModel):
    """A decision as the browser sends it; see `NewDecision`."""

    key: str = Field(pattern=_KEY)
    ticket: int = Field(ge=0, lt=2**63)
    kind: Kind
    labels: list[str] = Field(max_length=_MOST)
    undoes: str | None = Field(pattern=_KEY)
    model: str | None = Field(pattern=r"^[\w-]{1,64}$")
    blind: bool
    shown_at: FiniteFloat | None
    decided_at: FiniteFloat


class Message(BaseModel):
    """A message from the browser.

    Attributes:
        number: increases with each message; the response repeats it.
        tab: of the browser; two tabs of a person get different tickets.
        view: of the queue.
        decisions: all unacknowledged ones, in order.
        held: tickets in the browser.
        full: whether to send everything again and renew the leases.
        alive: whether to renew the leases.
        similar: the ticket for a similarity search.
        open: a ticket to send, whether it waits or not.
        opened: tickets that were sent that way and are still there.
    """

    number: int
    tab: str = Field(default="", pattern=_TAB)
    view: QueueView = "mixed"
    decisions: list[Sent] = Field(max_length=_MOST)
    held: list[int] = Field(max_length=_MOST)
    full: bool
    alive: bool = False
    similar: int | None = Field(default=None, ge=0, lt=2**63)
    open: int | None = Field(default=None, ge=0, lt=2**63)
    opened: list[int] = Field(default=[], max_length=_MOST)


def desk(store: ReviewStore, person: Callable[[], Person]) -> None:
    """Draw the desk; `person` is called before each write.

    It is not a fragment: a session that has ended does not know its fragments and would never
    respond.
    """
    state = st.session_state

    def answered(message: Mapping[str, Any] | None) -> dict[str, Any]:
        return answer(store, person(), message, midnight(now(), st.context.timezone_offset or 0))

    def received() -> None:
        with suppress(BertCNNError):  # of `person`; the redrawn page reports it
            state["desk answer"] = answered(state["desk"].get("message"))

    update = state.pop("desk answer", None)
    if update is None:
        update = answered(None) | _wanted(store, st.query_params.get("ticket"))
    _component(key="desk", data=update, on_message_change=received)


def _wanted(store: ReviewStore, given: str | None) -> dict[str, Any]:
    """The ticket in the page's address."""
    if not given:
        return {}
    try:
        return {"open": find_ticket(store, given)}
    except StoreError as error:
        return {"missing": on_page(str(error))}


def answer(
    store: ReviewStore, person: Person, message: Mapping[str, Any] | None, since: float
) -> dict[str, Any]:
    """Store the browser's decisions, and return its update for `receive` in `desk/desk.js`.

    `message` is None when the page is opened; the browser then asks for its tickets. `since` is the
    start of the day, seconds since 1970, UTC. What is None in the update is unchanged.
    """
    update: dict[str, Any] = {
        "owner": store.hashed(f"desk/{person.name}"),
        "number": None,
        "acknowledged": [],
        "refused": {},
        "held": None,
        "tickets": [],
        "last": None,
        "hints": None,
        "guide": None,
        "similar": None,
        "open": None,
        "opened": None,
        "missing": None,
        "error": None,
    }
    try:
        sent = Message.model_validate(message) if message is not None else None
        update["number"] = sent.number if sent else None
        return {**update, **_answer(store, person, sent, since)}
    except ValidationError as error:
        return {**update, "error": f"The browser sent an unknown message ({error.error_count()})."}
    except BertCNNError as error:
        return {**update, "error": on_page(str(error))}


def _answer(
    store: ReviewStore, person: Person, sent: Message | None, since: float
) -> dict[str, Any]:
    used = labels_in_use(store)
    said: dict[str, Any] = {} if sent is None else _reply(store, person, sent, used)
    return said | {
        "labels": used.names,
        "several": used.separator is not None,
        "waiting": waiting_tickets(store),
        "today": decided(store, since=since).people.get(person.name, 0),
    }


def _reply(store: ReviewStore, person: Person, sent: Message, used: LabelsInUse) -> dict[str, Any]:
    recorded = Recorded((), {})
    if sent.decisions:
        recorded = record(store, person, [_decision(one, used) for one in sent.decisions])
    refused = {key: on_page(reason) for key, reason in recorded.refused.items()}
    said: dict[str, Any] = {"acknowledged": recorded.stored, "refused": refused}
    if sent.open is not None:
        said |= _opened(store, person, sent, used)
    undone = sum(one.kind == "undo" for one in sent.decisions)
    if sent.full or undone or recorded.refused or len(sent.held) <= FEW:
        keep = [*sent.opened, *([] if sent.open is None else [sent.open])]
        leased = claim(store, person, view=sent.view, tab=sent.tab, keep=keep)
        in_browser = set() if sent.full else set(sent.held)
        said["held"] = [one.id for one in leased]
        said["tickets"] = [_shown(one, used) for one in leased if one.id not in in_browser]
    elif sent.alive:
        said["held"] = renew(store, person, sent.held, tab=sent.tab)
    if sent.full or sent.decisions:
        said["last"] = [_last(one, used) for one in last_decisions(store, person, _LAST)]
    if sent.full:
        guides = label_guide(store)
        texts = [f"# {name}\n{one.text}" for name, one in guides.items() if one.text]
        said["guide"] = "\n".join(texts)
        said["hints"] = {name: (one.color, one.hint) for name, one in guides.items()}
    if sent.similar is not None:
        said["similar"] = _similar(store, person, sent.similar)
    return said


def _opened(store: ReviewStore, person: Person, sent: Message, used: LabelsInUse) -> dict[str, Any]:
    try:
        found = open_ticket(store, person, sent.open or 0, tab=sent.tab)
    except StoreError as error:
        return {"missing": on_page(str(error))}
    own = found.own
    decided = own and {
        "key": own.key,
        "kind": own.kind,
        "labels": names_in(own.label or "", used.separator),
        "at": own.decided_at,
    }
    return {"opened": _shown(found, used) | {"opened": True, "decided": decided}}


def _last(one: LastDecision, used: LabelsInUse) -> dict[str, Any]:
    return {
        "key": one.key,
        "ticket": one.ticket,
        "name": _own_id(one.external_id) or number_of(one.ticket),
        "text": one.words,
        "kind": one.kind,
        "labels": names_in(one.label or "", used.separator),
        "at": one.decided_at,
    }


def _similar(store: ReviewStore, person: Person, identity: int) -> dict[str, Any]:
    try:
        tickets = similar(store, identity, person)
    except StoreError:
        tickets = []
    return {
        "ticket": identity,
        "tickets": [{"id": one.id, "text": one.text[:_LONGEST_SHOWN]} for one in tickets],
    }


def _decision(one: Sent, used: LabelsInUse) -> NewDecision:
    if used.separator is not None:
        label = join_labels(one.labels, used.separator)
    else:
        label = one.labels[0] if len(one.labels) == 1 else ""
    return NewDecision(
        one.key,
        one.ticket,
        one.kind,
        label if one.kind == "label" else None,
        one.undoes,
        one.model,
        one.blind,
        one.shown_at,
        one.decided_at,
    )


def _shown(one: LeasedTicket, used: LabelsInUse) -> dict[str, Any]:
    return {
        "id": one.id,
        "own": _own_id(one.external_id),
        "number": number_of(one.id),
        "source": one.source,
        "sections": sections(one.text, one.because),
        "facts": [(name, cell) for name, cell in one.columns.items() if cell.strip()],
        "received": one.received_at,
        "received_text": one.received_text,
        "holder": one.held_by,
        "model": one.model or None,
        "blind": one.blind,
        "choices": one.choices,
        "suggested": names_in(one.label or "", used.separator),
        "sure": one.decision == DECISIONS[0],
        "confidence": one.confidence,
        "probable": one.probable[:_PROBABLE],
        "reason": one.reason,
    }


def _own_id(external_id: str) -> str:
    """A ticket's own id; empty if it has none, and the store has made one from its text."""
    return "" if _HASHED.fullmatch(external_id) else external_id


def sections(
    text: str, because: tuple[tuple[int, int], ...]
) -> list[tuple[bool, list[tuple[str, bool]]]]:
    """Split a text into sections, with whether each is quoted e-mail, and their `parts`."""
    edges = [0, *(edge for span in quoted_spans(text) for edge in span), len(text)]
    found = []
    for place, (start, end) in enumerate(itertools.pairwise(edges)):
        inside = tuple((max(a, start) - start, min(b, end) - start) for a, b in because)
        marks = tuple((a, b) for a, b in inside if a < b)
        if start < end:
            found.append((place % 2 == 1, parts(text[start:end], marks)))
    return found


def parts(text: str, because: tuple[tuple[int, int], ...]) -> list[tuple[str, bool]]:
    """Split a text into parts, with whether each is marked.

    Done in Python, because JavaScript counts characters outside the first 65,536 twice.

    Example:
        >>> parts("my router", ((3, 9),))
        [('my ', False), ('router', True)]
    """
    pieces, behind = [], 0
    for start, end in sorted(because):
        start = max(start, behind)
        pieces += [(text[behind:start], False), (text[start:end], True)]
        behind = max(behind, end)
    pieces.append((text[behind:], False))
    return [(part, marked) for part, marked in pieces if part]


def midnight(moment: float, minutes: int) -> float:
    """Start of `moment`'s day, seconds since 1970, UTC; `minutes` is UTC minus local time."""
    offset = 60 * minutes
    return (moment - offset) // _DAY * _DAY + offset
