"""Beside the list of tickets: today's work, the labels with their guide, settings, exports."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import streamlit as st
from actions import done
from literal import plain

from bertcnn.review import (
    LabelGuide,
    Person,
    ReviewStore,
    TicketView,
    add_labels,
    export_corrections,
    export_tickets,
    label_guide,
    people_today,
    remove_label,
    set_guide,
)


def show_panel(store: ReviewStore, me: Person, view: TicketView) -> None:
    """Draw the panel."""
    show_labels(store, me)
    show_today(store)
    offer_exports(store, view)
    if me.role == "admin":
        show_settings(store, me)


def show_labels(store: ReviewStore, me: Person) -> None:
    """The labels in use, with what people know about each; admins edit them in place."""
    guides = label_guide(store)
    st.markdown("**Labels**")
    name = st.selectbox(
        "Label",
        list(guides),
        index=None,
        placeholder="what a label is for",
        key="shown label",
        label_visibility="collapsed",
    )
    if name is not None:
        known = guides[name]
        st.caption(plain(known.hint or ("" if known.text else "No guide yet.")))
        if known.text:
            st.markdown(plain(known.text))
        if me.role == "admin":
            with st.popover("Edit", icon=":material/edit:"):
                edit_label(store, me, name, known)
    if me.role == "admin":
        with st.popover("Label", icon=":material/add:"), st.form("new label", border=False):
            new = st.text_input("Name", max_chars=200)
            hint = st.text_input("Hint", placeholder="one line, shown with the label")
            if st.form_submit_button("Add the label", type="primary"):
                add_labels(store, me, [new])
                set_guide(store, me, new, hint=hint)
                done(f"The desk offers {new} now. The next model learns it.")


def edit_label(store: ReviewStore, me: Person, name: str, known: LabelGuide) -> None:
    """The form of a label's guide, hint and colour."""
    with st.form(f"guide-{name}", border=False):
        hint = st.text_input("Hint", known.hint, placeholder="one line, shown with the label")
        text = st.text_area("Guide", known.text, placeholder="When does a ticket get this label?")
        coloured = st.checkbox("Coloured", bool(known.color))
        color = st.color_picker("Colour", known.color or "#3b82f6")
        if st.form_submit_button("Save", type="primary"):
            set_guide(store, me, name, text, color=color if coloured else "", hint=hint)
            done(f"The guide to {name} is saved.")
    if st.button("Stop offering this label", key=f"remove-{name}", type="tertiary"):
        remove_label(store, me, name)
        done(f"{name} is no longer offered.")


def show_settings(store: ReviewStore, me: Person) -> None:
    """How tickets are handed out, and the zone of times without one."""
    with st.expander("Settings", icon=":material/settings:"), st.form("settings", border=False):
        audits = st.slider(
            "Audits among a person's tickets",
            0.0,
            1.0,
            float(store.setting("audit_share")),
            format="percent",
        )
        doubled = st.slider(
            "Tickets given to two people",
            0.0,
            0.5,
            float(store.setting("double_share")),
            format="percent",
            help="Where at least two people work. It shows how much they agree.",
        )
        zone = st.text_input(
            "Time zone of times without one", str(store.setting("time_zone")), max_chars=60
        )
        if st.form_submit_button("Save"):
            for name, value in (
                ("audit_share", audits),
                ("double_share", doubled),
                ("time_zone", zone.strip()),
            ):
                store.set_setting(name, value, me)
            done("The settings are saved.")


def show_today(store: ReviewStore) -> None:
    """Each person's decisions of today, and their median time."""
    people = people_today(store)
    st.markdown("**Today**", help="Decided tickets, and the median seconds for one")
    if not people:
        st.caption("Nobody has decided on a ticket yet.")
    for one in people:
        took = "" if one.median_seconds is None else f", {one.median_seconds:,.0f} s each"
        st.caption(plain(f"{one.name}: {one.decisions:,}{took}"))


def offer_exports(store: ReviewStore, view: TicketView) -> None:
    """Downloads of the filtered list and of all decisions; written when they are pressed."""
    st.markdown("**Export**")

    def written(write: Callable[[ReviewStore, Path], object]) -> Callable[[], bytes]:
        def content() -> bytes:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "export.csv")
                write(store, file)
                return file.read_bytes()

        return content

    for title, name, write in (
        ("This list", "tickets.csv", partial(export_tickets, view=view)),
        ("All decisions", "decisions.csv", export_corrections),
    ):
        st.download_button(
            title,
            written(write),
            name,
            "text/csv",
            on_click="ignore",
            icon=":material/download:",
            width="stretch",
        )
