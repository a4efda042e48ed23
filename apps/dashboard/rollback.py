"""The button that goes back to the earlier model, for the pages Models and Health."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from actions import answer_what_waits, done, may
from literal import badge
from review_store import person

from bertcnn.review import ReviewStore, earlier_model, roll_back


def offer_rollback(
    store: ReviewStore, names: Mapping[str, str], *, reason: str = "", urgent: bool = False
) -> None:
    """Offer an admin the earlier model, if there is one; `reason` is only filled in."""
    earlier = earlier_model(store)
    if earlier is None or not may("admin"):
        return
    with st.popover("Roll back", icon=":material/undo:", type="primary" if urgent else "secondary"):
        given = st.text_input("Why?", reason, placeholder="such as: complaints about refunds")
        if st.button(badge(f"Go back to {names[earlier.id]}"), type="primary"):
            roll_back(store, person(), reason=given)
            answer_what_waits(store)
            done(f"{names[earlier.id]} is in use again. It is answering the tickets that wait.")
