"""Page: the tickets of the store, to search, to upload and to act on; the desk opens one."""

from __future__ import annotations

import streamlit as st
from actions import may, tell_done
from review_store import person, review_store
from settling import show_agreement, show_disagreements
from side_panel import show_panel
from ticket_actions import offer_actions, offer_undo
from ticket_filters import chosen_view
from ticket_list import show_tickets
from ticket_upload import show_uploads, upload_tickets

from bertcnn.review import TicketView, count_tickets


def page() -> None:
    """Draw the page."""
    store, me = review_store(), person()
    empty = not any(count_tickets(store, TicketView()).states.values())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Tickets", anchor=False, width="content")
        st.space("stretch")
        uploads = may("reviewer") and st.toggle("Upload", value=empty, key="upload tickets")
    tell_done()
    if uploads:
        with st.container(border=True):
            upload_tickets(store)
            show_uploads()
    if empty:
        if not may("reviewer"):
            st.info("There are no tickets yet. A reviewer can upload some here.")
        return
    listed, panel = st.columns([5, 1], gap="medium")
    with listed:
        view = chosen_view(store)
        if chosen := show_tickets(store, view):
            offer_actions(store, me, chosen)
        offer_undo(store, me)
        if view.state == "disagreement":
            show_disagreements(store, me)
            show_agreement(store)
    with panel:
        show_panel(store, me, view)


page()
