"""Shared code of buttons: the required role, and a message after the action."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NoReturn

import streamlit as st
from literal import plain
from review_store import person

from bertcnn.errors import RoleError
from bertcnn.review import ReviewStore, Role
from bertcnn.review.jobs import new_folder, start_job

_DONE = "what was done"


def may(role: Role) -> bool:
    """Whether to show a button that needs this role; the functions check it themselves."""
    try:
        person().needs(role, "press a button")
    except RoleError:
        return False
    return True


def done(message: str) -> NoReturn:
    """Redraw the page with a message about the action."""
    st.session_state[_DONE] = message
    st.rerun()


def tell_done() -> None:
    """Show the last action's message; call once on each page with buttons."""
    message = st.session_state.pop(_DONE, None)
    if message is not None:
        st.success(plain(message), icon=":material/check:")


def answer_what_waits(store: ReviewStore) -> None:
    """Start a job in which the serving model answers the waiting tickets again."""
    start_job(store, ["review", "answer"], person(), folder=new_folder(store))


def day(seconds: float) -> str:
    """A date in the visitor's time zone, such as 2026-11-27."""
    offset = 60 * (st.context.timezone_offset or 0)
    return datetime.fromtimestamp(seconds - offset, UTC).date().isoformat()


def moment(seconds: float) -> str:
    """A time in the visitor's time zone, such as 2026-11-27 09:30."""
    offset = 60 * (st.context.timezone_offset or 0)
    return datetime.fromtimestamp(seconds - offset, UTC).strftime("%Y-%m-%d %H:%M")
