"""What can be done with selected tickets, several at once, and its undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from actions import done

from bertcnn.data import join_labels
from bertcnn.review import (
    Done,
    ListedTicket,
    Person,
    ReviewStore,
    assign_many,
    bring_back_many,
    decide_many,
    labels_in_use,
    later_many,
    note_many,
    number_of,
    seen_people,
    undo_action,
)
from bertcnn.wording import count

_LAST = "last action"  # its batch, and what it was


def offer_actions(store: ReviewStore, me: Person, chosen: Sequence[ListedTicket]) -> None:
    """Draw the buttons for the selected tickets."""
    numbers = [one.id for one in chosen]
    what = count(len(numbers), "ticket")
    with st.container(horizontal=True, vertical_alignment="center", key="actions"):
        if len(numbers) == 1 and st.button(
            "Open on the desk", type="primary", icon=":material/fact_check:"
        ):
            st.switch_page("pages_/review.py", query_params={"ticket": number_of(numbers[0])})
        with st.popover(f"Decide {what}", icon=":material/label:"):
            decide(store, me, numbers, what)
        with st.popover("Assign", icon=":material/person_add:"), st.form("assign", border=False):
            people = [me.name, *(name for name in seen_people(store) if name != me.name)]
            to = st.selectbox("Assign to", people, accept_new_options=True)
            if st.form_submit_button("Assign", type="primary"):
                keep(lambda: assign_many(store, me, numbers, to), f"{what} assigned to {to}")
            if st.form_submit_button("Assign to nobody"):
                keep(lambda: assign_many(store, me, numbers, None), f"{what} assigned to nobody")
        with st.popover("Note", icon=":material/note_add:"), st.form("note", border=False):
            text = st.text_area("Note", placeholder="@name shows it in that person's view")
            if st.form_submit_button("Add the note", type="primary"):
                keep(lambda: note_many(store, me, numbers, text), f"Note added to {what}")
        if st.button("Later", icon=":material/schedule:", help="Put off"):
            keep(lambda: later_many(store, me, numbers), f"{what} put off")
        if st.button("Bring back", icon=":material/replay:", help="To the queue, to decide again"):
            keep(lambda: bring_back_many(store, me, numbers), f"{what} brought back")


def decide(store: ReviewStore, me: Person, numbers: Sequence[int], what: str) -> None:
    """The form that gives all selected tickets a label."""
    used = labels_in_use(store)
    with st.form("decide", border=False):
        if used.separator:
            names = st.multiselect("Labels", used.names)
            label = join_labels(names, used.separator) if names else None
        else:
            label = st.selectbox("Label", used.names, index=None)
        if st.form_submit_button("Decide", type="primary") and label:
            keep(lambda: decide_many(store, me, numbers, label), f"{what}: {label}")
        if st.form_submit_button("None of the labels"):
            keep(lambda: decide_many(store, me, numbers, None), f"{what}: none of the labels")


def keep(action: Callable[[], Done], message: str) -> None:
    """Run an action, keep its batch for the undo, and draw the page again."""
    result = action()
    st.session_state[_LAST] = (result.batch, message)
    done(f"{message}.{refusals(result)}")


def refusals(result: Done) -> str:
    """The tickets that an action left alone, and the first reason."""
    if not result.refused:
        return ""
    reason = next(iter(result.refused.values()))
    return f" {count(len(result.refused), 'ticket')} left as it was: {reason}."


def offer_undo(store: ReviewStore, me: Person) -> None:
    """A button that takes the last action back."""
    batch, message = st.session_state.get(_LAST, (None, ""))
    if batch and st.button("Undo", icon=":material/undo:", help=f"{message}."):
        del st.session_state[_LAST]
        done(f"Taken back: {message}.{refusals(undo_action(store, me, batch))}")
