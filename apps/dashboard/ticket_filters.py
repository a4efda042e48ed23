"""The filters of the list of tickets. The chosen view is the page's address, to keep or to send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

import streamlit as st
from review_store import person

from bertcnn.review import (
    ReviewStore,
    TicketCounts,
    TicketView,
    column_values,
    count_tickets,
    labels_in_use,
    list_uploads,
    seen_people,
)

STATES = {
    "": "All",
    "waiting": "Waiting",
    "skipped": "Skipped",
    "skipped_by_all": "Skipped by everybody",
    "disagreement": "Disagreement",
    "audited_wrong": "Wrong automatic answer",
    "decided": "Decided",
    "automatic": "Automatic",
    "erased": "Erased",
}
REASONS = {
    "auto": "sure",
    "review:ambiguous": "not certain enough",
    "review:out_of_scope": "unlike known texts",
    "review:empty": "no text",
    "review:language": "another language",
}
_SHOWN, _VERSION = "view of the list", "version of the filters"
_EXAMPLE = "words, a ticket's own id, or its number such as #12"


def chosen_view(store: ReviewStore) -> TicketView:
    """Draw the filters; returns the view that the visitor chose or that the address asks for."""
    state, asked = st.session_state, TicketView.from_query(st.query_params.to_dict())
    if asked != state.get(_SHOWN, asked):  # somebody followed a link: new widgets
        state[_VERSION] = state.get(_VERSION, 0) + 1
    filters = _Filters(store, asked, state.get(_VERSION, 0))
    view = filters.view()
    state[_SHOWN] = view
    if view != asked:
        for name in [name for name in st.query_params if _is_filter(name)]:
            del st.query_params[name]
        st.query_params.update(view.to_query())
    return view


def _is_filter(name: str) -> bool:
    return name in {one.name for one in fields(TicketView)} or name.startswith("column.")


class _Filters:
    """The widgets, which begin with the values of a view."""

    def __init__(self, store: ReviewStore, asked: TicketView, version: int) -> None:
        self._store, self._asked, self._version = store, asked, version

    def view(self) -> TicketView:
        """Draw the filters; returns their view."""
        asked = self._asked
        search, more = st.columns([4, 1])
        typed = search.text_input(
            "Search",
            asked.number or asked.text,
            key=self._key("search"),
            type="search",
            placeholder=_EXAMPLE,
            label_visibility="collapsed",
            icon=":material/search:",
        ).strip()
        active = sum(bool(value) for name, value in vars(asked).items() if name not in _OUTSIDE)
        title = f"Filters ({active})" if active else "Filters"
        with more.popover(title, icon=":material/filter_list:", width="stretch"):
            narrowed = self._narrowed()
        is_number = typed.startswith("#") or (bool(typed) and self._is_own_id(typed))
        view = replace(narrowed, text="" if is_number else typed, number=typed if is_number else "")
        return replace(view, state=self._state(count_tickets(self._store, view)))

    def _state(self, counts: TicketCounts) -> str:
        numbers = counts.states | {"": sum(counts.states.get(name, 0) for name in _WHOLE)}
        more = "+" if counts.at_least else ""
        offered = [
            name for name in STATES if not name or numbers.get(name) or name == self._asked.state
        ]
        chosen = st.radio(
            "State",
            offered,
            index=offered.index(self._asked.state),
            format_func=lambda name: f"{STATES[name]} {numbers.get(name, 0):,}{more}",
            horizontal=True,
            label_visibility="collapsed",
            key=self._key(f"state-{offered}-{numbers}"),
        )
        return str(chosen or "")

    def _narrowed(self) -> TicketView:
        """The view of the further filters alone."""
        asked, me = self._asked, person().name
        people = sorted({me, *seen_people(self._store)})
        left, middle, right = st.columns(3)
        with left:
            label = self._one("Label", asked.label, labels_in_use(self._store).names)
            reason = self._one("Reason", asked.reason, REASONS, REASONS.__getitem__)
            later = st.checkbox("Put off for later", asked.later, key=self._key("later"))
        with middle:
            who = self._one("Decided by", asked.person, people)
            assigned = self._one("Assigned to", asked.assigned_to, people)
            mentioned = st.checkbox(
                "Notes that name me", asked.mentions == me, key=self._key("mentioned")
            )
        with right:
            given: list[Any] = [day for day in (asked.first_day, asked.last_day) if day]
            days = st.date_input("Received", given, key=self._key("days"))
            uploads = {str(one.id): one.name for one in list_uploads(self._store)}
            upload = self._one(
                "File", str(asked.upload or ""), uploads, lambda one: uploads.get(one, one)
            )
        first, last = (days[0], days[-1]) if isinstance(days, tuple) and days else (None, None)
        return TicketView(
            label=label,
            reason=reason,
            columns=self._columns(column_values(self._store)),
            first_day=first,
            last_day=last,
            person=who,
            assigned_to=assigned,
            later=later,
            mentions=me if mentioned else "",
            upload=int(upload) if upload else None,
        )

    def _columns(self, values: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, str], ...]:
        """Columns with few values, such as a channel."""
        if not values:
            return ()
        asked, chosen = dict(self._asked.columns), []
        for place, (box, name) in enumerate(zip(_boxes(len(values)), values, strict=True)):
            with box:
                value = self._one(name, asked.get(name, ""), values[name], key=f"column {place}")
            if value:
                chosen.append((name, value))
        return tuple(chosen)

    def _one(
        self,
        label: str,
        asked: str,
        offered: Iterable[str],
        format_func: Callable[[str], str] = str,
        key: str = "",
    ) -> str:
        """A box with one of these values, or none."""
        values = list(dict.fromkeys([*offered, *([asked] if asked else [])]))
        index = values.index(asked) if asked else None
        return (
            st.selectbox(
                label,
                values,
                index=index,
                format_func=format_func,
                placeholder="any",
                key=self._key(key or label),
            )
            or ""
        )

    def _is_own_id(self, typed: str) -> bool:
        """Whether something typed without a space is a ticket's id rather than a word."""
        view = TicketView(number=typed)
        return " " not in typed and any(count_tickets(self._store, view).states.values())

    def _key(self, name: str) -> str:
        return f"filter-{name}-{self._version}"


_OUTSIDE = ("text", "number", "state")  # filters that are always visible
_WHOLE = tuple(name for name in STATES if name not in ("", "skipped_by_all"))


def _boxes(number: int, across: int = 3) -> list[st.delta_generator.DeltaGenerator]:
    return [box for _ in range(0, number, across) for box in st.columns(across)][:number]
