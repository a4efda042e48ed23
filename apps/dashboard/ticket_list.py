"""The list of tickets: a page of rows that can be selected."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st
from actions import moment
from ticket_filters import REASONS, STATES

from bertcnn.review import (
    ListedTicket,
    ReviewStore,
    TicketView,
    list_tickets,
    name_of,
)
from bertcnn.wording import visible

_ROW_HEIGHT = 35  # pixels
_MAY_BE_EMPTY = ("Received", "Label", "Confidence", "Assigned to", "Notes")
_PLACE = "place in the list"  # a view, and where its pages up to the shown one begin


def show_tickets(store: ReviewStore, view: TicketView) -> list[ListedTicket]:
    """Draw a page of the list; returns the selected tickets."""
    begins = _begins(view)
    page = list_tickets(store, view, after=begins[-1])
    if not page.tickets:
        st.info("No ticket matches." if len(begins) == 1 else "No more tickets.")
        return []
    event = st.dataframe(
        _table(page.tickets),
        key=f"list-{view.to_query()}-{begins[-1]}",
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        height=_ROW_HEIGHT * (len(page.tickets) + 1) + 3,
        row_height=_ROW_HEIGHT,
        column_config={
            "Text": st.column_config.TextColumn(width="large"),
        },
        alt="Tickets, the newest first",
    )
    if len(begins) > 1 or page.after is not None:
        with st.container(horizontal=True, horizontal_alignment="center"):
            if st.button("Newer", icon=":material/chevron_left:", disabled=len(begins) == 1):
                _go(view, begins[:-1])
            if st.button("Older", icon=":material/chevron_right:", disabled=page.after is None):
                _go(view, [*begins, page.after])
    return [page.tickets[row] for row in event["selection"]["rows"] if row < len(page.tickets)]


def _begins(view: TicketView) -> list[str | None]:
    """Where the pages up to the shown one begin; a new view starts at its first page."""
    shown, begins = st.session_state.get(_PLACE, (None, []))
    return begins if shown == view else [None]


def _go(view: TicketView, begins: list[str | None]) -> None:
    st.session_state[_PLACE] = (view, begins)
    st.rerun()


def _table(tickets: Sequence[ListedTicket]) -> pd.DataFrame:
    rows = [
        {
            "Ticket": visible(name_of(one.external_id, one.id, one.source)),
            "Received": "" if one.received_at is None else moment(one.received_at),
            "Label": visible(one.label or ""),
            # rounded down: no answer is certain
            "Confidence": "" if one.confidence is None else f"{math.floor(100 * one.confidence)}%",
            "State": _state(one),
            "Text": visible(one.words),
            "Assigned to": visible(one.assigned_to or ""),
            "Notes": one.notes or None,
        }
        for one in tickets
    ]
    empty = [name for name in _MAY_BE_EMPTY if not any(row[name] for row in rows)]
    return pd.DataFrame(rows).drop(columns=empty)


def _state(one: ListedTicket) -> str:
    """The state, and why a ticket waits."""
    state = STATES[one.state].lower() + (", later" if one.later else "")
    if one.state not in ("waiting", "skipped") or one.reason is None:
        return state
    if one.reason == "review:ambiguous" and one.confidence is None:  # no model has answered yet
        return state
    return f"{state}: {REASONS.get(one.reason, one.reason)}"
