"""The visitor of a page: this machine's user, or somebody on the list of people."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from access import (
    Access,
    access,
    check_request,
    login_providers,
    login_settings,
    named_by_proxy,
)
from literal import plain
from options import option

from bertcnn.errors import RoleError
from bertcnn.review import Person, find_person, own_name, read_people


def person() -> Person:
    """The visitor and their role.

    On a local dashboard, it is --person, $BERTCNN_PERSON or the system's user, as admin. Otherwise,
    it is the logged-in visitor, with the role from the list of people, which is reloaded after
    changes.

    Raises:
        RoleError: nobody has logged in, or they are not on the list.
        SettingsError: the dashboard's start options let nobody in.
        TableError: the list cannot be read.
    """
    allowed, headers = _checked()
    if allowed.people is None:
        return Person(own_name(option("person")), "admin")
    name = named_by_proxy(allowed, headers) if allowed.by == "proxy" else _logged_in()
    return find_person(_people(allowed.people), name)


def admit() -> None:
    """Draw the visitor's name, or only the login until they log in; raises as `person`."""
    allowed, _ = _checked()
    if allowed.by == "here":
        return
    if allowed.by == "login" and not st.user.get("is_logged_in"):
        _offer_login()
        st.stop()
    with st.container(horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        name = st.container(width="content")
        if allowed.by == "login":
            # before reading the list: someone who is not on it may log in with another account
            st.button("Log out", on_click=st.logout, type="tertiary", icon=":material/logout:")
        visitor = person()
        name.caption(plain(f"{visitor.name}, {visitor.role}"))


def _offer_login() -> None:
    st.title("Ticket classifier", anchor=False)
    st.markdown("Log in to see tickets.")
    names: list[str | None] = [*login_providers(login_settings() or {})]
    for name in names or [None]:
        label = "Log in" if name is None else plain(f"Log in with {name}")
        st.button(label, on_click=st.login, args=(name,), type="primary", icon=":material/login:")


def _logged_in() -> str:
    """The visitor's e-mail address, verified by the provider."""
    if not st.user.get("is_logged_in"):
        raise RoleError("a visitor without a login", expected="a person on the list", fix="log in")
    email = st.user.get("email")
    if not isinstance(email, str) or st.user.get("email_verified") not in (True, "true"):
        raise RoleError(
            f"the login names {email or 'no e-mail address'}, which the provider has not verified",
            expected="an address that the provider says to be verified (email_verified)",
            fix="confirm your address there and log in again, or ask whoever runs the dashboard",
        )
    return email


def _checked() -> tuple[Access, dict[str, list[str]]]:
    """The access settings, and the headers of the page's connection.

    The server has checked them already; this also covers a server started in another way.
    """
    raw_headers = st.context.headers
    allowed, headers = access(), {name.lower(): raw_headers.get_all(name) for name in raw_headers}
    if headers:  # Streamlit's test harness has none
        check_request(allowed, headers)
    return allowed, headers


def _people(path: str) -> dict[str, Person]:
    try:
        changed_at = Path(path).stat().st_mtime_ns
    except OSError:
        changed_at = 0  # `read_people` reports the error
    return _read_people(path, changed_at)


@st.cache_resource(show_spinner=False, max_entries=1)
def _read_people(path: str, changed_at: int) -> dict[str, Person]:  # noqa: ARG001 - part of the key
    return read_people(path)
