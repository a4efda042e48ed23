"""Shared code of buttons: the required role, a message after the action, and times."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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


def button_or_why(label: str, why_not: str, **options: Any) -> bool:  # noqa: ANN401 - of st.button
    """A button that is disabled while there is a reason, which stands below it."""
    pressed = st.button(label, disabled=bool(why_not), **options)
    if why_not:
        st.caption(plain(why_not))
    return pressed


def local_time(seconds: float) -> datetime:
    """A time in the visitor's time zone, with the offset of that date."""
    try:
        return datetime.fromtimestamp(seconds, ZoneInfo(str(st.context.timezone)))
    except (ValueError, ZoneInfoNotFoundError):  # a zone that this machine does not know
        offset = timedelta(minutes=-(st.context.timezone_offset or 0))
        return datetime.fromtimestamp(seconds, timezone(offset))


def day(seconds: float) -> str:
    """A date in the visitor's time zone, such as 2026-11-27."""
    return local_time(seconds).date().isoformat()


def moment(seconds: float) -> str:
    """A time in the visitor's time zone, such as 2026-11-27 09:30."""
    return local_time(seconds).strftime("%Y-%m-%d %H:%M")
