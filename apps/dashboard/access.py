"""Access to the dashboard, from this machine only or after a login; used by server and pages."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import streamlit as st
from options import option

from bertcnn.errors import RoleError, SettingsError, missing_package, one_line

SHORTEST_SECRET = 32  # characters; anyone who guesses it can log in as anybody
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_FORWARDED = ("forwarded", "via", "x-real-ip", "x-original-host", "cf-connecting-ip")
_OPEN_OTHERWISE = (
    "start it with -- --people FILE, and with a login or --behind-proxy HEADER; see"
    " docs/guides/dashboard.md"
)


@dataclass(frozen=True)
class Access:
    """How the dashboard may be reached.

    Attributes:
        by: here: from this machine only. login: by OpenID Connect. proxy: through a proxy that
            names the visitor.
        people: the file with the list of people; None if everybody is this machine's user.
        header: the proxy's header with the visitor's name, in lower case.
    """

    by: Literal["here", "login", "proxy"]
    people: str | None = None
    header: str = ""


def access() -> Access:
    """How this dashboard may be reached, from its options, its address and Streamlit's secrets.

    Raises:
        MissingPackageError: the login needs a package.
        SettingsError: anybody could reach it, or its options conflict.
    """
    people, header, login = option("people"), option("behind-proxy"), login_settings()
    if header and login is not None:
        raise SettingsError(
            "--behind-proxy and a login in Streamlit's secrets",
            expected="one of them",
            fix="leave out --behind-proxy, or remove [auth] from secrets.toml",
        )
    if (header or login is not None) and not people:
        raise SettingsError(
            "a login without --people",
            expected="a file that says who may come in, and in which role",
            fix="start again with -- --people FILE; its first line is: person,role",
        )
    if header and people:
        if not _HEADER.fullmatch(header):
            raise SettingsError(
                f"--behind-proxy {one_line(header)}",
                expected="the name of a header",
                fix="name the one in which the proxy says who the visitor is",
            )
        return Access("proxy", people, header.lower())
    if login is not None:
        _check_login(login)
        return Access("login", people)
    if people:
        raise SettingsError(
            "--people without a login",
            expected="a login, which says who a visitor is",
            fix="add [auth] to Streamlit's secrets.toml, or start with --behind-proxy HEADER",
        )
    address = st.get_option("server.address")
    if not is_this_machine(address or ""):
        raise SettingsError(
            f"the dashboard listens on {address or 'all addresses'} without a login",
            expected="127.0.0.1",
            fix=f"leave out --server.address, or {_OPEN_OTHERWISE}",
        )
    return Access("here")


def login_settings() -> Mapping[str, Any] | None:
    """The section [auth] of Streamlit's secrets; None if there is none."""
    if not st.secrets.load_if_toml_exists():
        return None
    section = st.secrets.get("auth")
    return section if isinstance(section, Mapping) else None


def login_providers(login: Mapping[str, Any]) -> list[str]:
    """The providers in [auth.NAME]; empty if [auth] itself is the only provider."""
    return [
        name
        for name, value in login.items()
        if isinstance(value, Mapping) and name != "client_kwargs"
    ]


def _check_login(login: Mapping[str, Any]) -> None:
    try:
        import authlib  # noqa: F401 - Streamlit needs it when somebody logs in
    except ModuleNotFoundError:
        raise missing_package("authlib") from None
    if len(str(login.get("cookie_secret", ""))) < SHORTEST_SECRET:
        raise SettingsError(
            "cookie_secret of [auth] in secrets.toml is missing or short",
            expected=f"at least {SHORTEST_SECRET} random characters",
            fix='take those of: python -c "import secrets; print(secrets.token_hex(32))"',
        )
    address = urlsplit(str(login.get("redirect_uri", "")))
    if address.scheme != "https" and not is_this_machine(address.hostname or ""):
        raise SettingsError(
            f"redirect_uri {one_line(address.geturl())} of [auth] in secrets.toml",
            expected="https://NAME/oauth2callback, since passwords and tickets travel on this way",
            fix="serve the dashboard with TLS, and correct the address",
        )


def check_request(access: Access, headers: Mapping[str, Sequence[str]]) -> None:
    """Refuse a request that does not use the configured way of access.

    A local dashboard treats every visitor as this machine's user. It therefore refuses requests
    through a proxy or to another host: a hostile page may resolve its own name to 127.0.0.1 (DNS
    rebinding). Header names are in lower case.

    Raises:
        RoleError: it does not name the visitor.
        SettingsError: it comes through a proxy, for another host, or from a page of another site.
    """
    host = ", ".join(headers.get("host", ()))
    if access.by == "proxy":
        named_by_proxy(access, headers)
    elif access.by == "here":
        _check_from_here(host, headers)
    for origin in headers.get("origin", ()):
        if origin.partition("://")[2] != host:
            raise SettingsError(
                f"a request from a page of {one_line(origin)}",
                expected=f"requests from pages of {one_line(host)}",
                fix="open that address; a proxy has to pass the header Host on",
            )


def _check_from_here(host: str, headers: Mapping[str, Sequence[str]]) -> None:
    passed_on = [name for name in headers if name in _FORWARDED or name.startswith("x-forwarded")]
    if passed_on:
        raise SettingsError(
            f"a request that came through a proxy (header {one_line(passed_on[0])})",
            expected="requests from this machine only",
            fix=_OPEN_OTHERWISE,
        )
    if not is_this_machine(_name_of(host)):
        raise SettingsError(
            f"a request for the host {one_line(host)}",
            expected="127.0.0.1 or localhost",
            fix=f"open it under this name, or {_OPEN_OTHERWISE}",
        )


def named_by_proxy(access: Access, headers: Mapping[str, Sequence[str]]) -> str:
    """The visitor named by the proxy; RoleError unless exactly one name is given."""
    said = [name.strip() for name in headers.get(access.header, ())]
    if len(said) != 1 or not said[0]:
        raise RoleError(
            f"a request with {len(said)} headers {access.header}",
            expected="1, which says who the visitor is",
            fix="let the proxy set it, and remove what a visitor sends under this name",
        )
    return said[0]


def is_this_machine(name: str) -> bool:
    """Whether a host's name or address is this machine's own.

    Example:
        >>> is_this_machine("localhost"), is_this_machine("::1"), is_this_machine("0.0.0.0")
        (True, True, False)
    """
    if name.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _name_of(host: str) -> str:
    try:
        parsed = urlsplit(f"//{host}")
        return (parsed.hostname or "") if parsed.netloc == host and "@" not in host else ""
    except ValueError:
        return ""
