"""The review desk: leased tickets are cached in the browser, so a slow network does not matter.

`desk/desk.js` sends all unacknowledged decisions and the tickets it holds. The response
acknowledges stored decisions and adds tickets if few are left. Unanswered messages are sent again;
a repeated decision counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from bertcnn.data import join_labels, names_in
from bertcnn.errors import BertCNNError, StoreError
from bertcnn.review import (
    BATCH,
    Kind,
    LabelsInUse,
    LeasedTicket,
    NewDecision,
    Person,
    Recorded,
    ReviewStore,
    claim,
    decided,
    guide,
    labels_in_use,
    name_of,
    now,
    record,
    similar,
    waiting_tickets,
)

FEW = 10  # the browser gets new tickets below this number
_KEY = r"^[0-9a-f-]{1,64}$"
_MOST = 10_000  # decisions or tickets in a message
_LONGEST_SHOWN = 300  # characters of a similar ticket
_DAY = 86_400

_FILES = Path(__file__).with_name("desk")
_component = st.components.v2.component(
    "review_desk",
    html=(_FILES / "desk.html").read_text(encoding="utf-8"),
    css=(_FILES / "desk.css").read_text(encoding="utf-8"),
    js="\n".join((_FILES / name).read_text(encoding="utf-8") for name in ("desk.js", "small.js")),
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
        decisions: all unacknowledged ones, in order.
        held: tickets in the browser.
        full: whether to send all tickets and the guide again and renew the leases.
        similar: the ticket for a similarity search.
    """

    number: int
    decisions: list[Sent] = Field(max_length=_MOST)
    held: list[int] = Field(max_length=_MOST)
    full: bool
    similar: int | None = Field(default=None, ge=0, lt=2**63)


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

    update = state.pop("desk answer", None) or answered(None)
    _component(key="desk", data=update, on_message_change=received)


def answer(
    store: ReviewStore, person: Person, message: Mapping[str, Any] | None, since: float
) -> dict[str, Any]:
    """Store the browser's decisions, and return its update for `receive` in `desk/desk.js`.

    `message` is None when the page is opened. `since` is the start of the day, seconds since 1970,
    UTC. In the update, `held`, `labels`, `guide` and `similar` are None if unchanged.
    """
    update: dict[str, Any] = {
        "owner": store.hashed(f"desk/{person.name}"),
        "number": None,
        "acknowledged": [],
        "refused": {},
        "held": None,
        "tickets": [],
        "guide": None,
        "similar": None,
        "error": None,
    }
    try:
        sent = Message.model_validate(message) if message is not None else None
        update["number"] = sent.number if sent else None
        return {**update, **_answer(store, person, sent, since)}
    except ValidationError as error:
        return {**update, "error": f"The browser has sent something else ({error.error_count()})."}
    except BertCNNError as error:
        return {**update, "error": str(error)}


def _answer(
    store: ReviewStore, person: Person, sent: Message | None, since: float
) -> dict[str, Any]:
    used = labels_in_use(store)
    recorded = Recorded((), {})
    if sent and sent.decisions:
        recorded = record(store, person, [_decision(one, used) for one in sent.decisions])
    said: dict[str, Any] = {"acknowledged": recorded.stored, "refused": recorded.refused}
    held = sent.held if sent else []
    full = sent is None or sent.full
    undone = sum(one.kind == "undo" for one in sent.decisions) if sent else 0
    if full or undone or recorded.refused or len(held) <= FEW:
        leased = claim(store, person, most=max(BATCH, len(held) + undone))
        in_browser = set() if full else set(held)
        said["held"] = [one.id for one in leased]
        said["tickets"] = [_shown(one, used) for one in leased if one.id not in in_browser]
    if full:
        said["guide"] = guide(store)
    if sent and sent.similar is not None:
        said["similar"] = _similar(store, person, sent.similar)
    return said | {
        "labels": used.names,
        "several": used.separator is not None,
        "waiting": waiting_tickets(store),
        "today": decided(store, since=since).people.get(person.name, 0),
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
        "name": name_of(one.external_id, one.id, one.source),
        "parts": parts(one.text, one.because),
        "facts": list(one.columns.items()),
        "received": one.received_at,
        "model": one.model,
        "blind": one.blind,
        "suggested": names_in(one.label or "", used.separator),
        "confidence": one.confidence,
        "probable": one.probable,
        "reason": one.reason,
    }


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
