"""The review store that the dashboard was started with, and who sits in front of it."""

from __future__ import annotations

import getpass

import streamlit as st
from options import option

from bertcnn.errors import RoleError, SettingsError
from bertcnn.review.people import Person, Role
from bertcnn.review.store import ReviewStore, open_review

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def may_see(role: Role | None) -> bool:
    """Whether a page is shown that takes a store and this role; None: it takes neither."""
    if role is None:
        return True
    if option("store") is None:
        return False
    try:
        person().needs(role, "see a page")
    except RoleError:
        return False
    return True


def review_store() -> ReviewStore:
    """The store, opened once for all sessions.

    Raises:
        StoreError: there is none, or it cannot be used.
    """
    return _opened(str(option("store")))


@st.cache_resource(show_spinner=False)
def _opened(place: str) -> ReviewStore:
    return open_review(place, create=False)


def person() -> Person:
    """Who uses this dashboard: --person, $BERTCNN_PERSON, or the name of the system's user.

    There is no login. Whoever is not on this machine may only look.

    Raises:
        SettingsError: there is no name.
    """
    try:
        name = option("person") or getpass.getuser()
    except (OSError, KeyError, ImportError):  # by Python's version
        raise SettingsError(
            "no name for the decisions on this dashboard",
            expected="a name, since the system's user has none",
            fix="start again with -- --person NAME",
        ) from None
    here = st.get_option("server.address") in _THIS_MACHINE
    return Person(name, "admin" if here else "viewer")
