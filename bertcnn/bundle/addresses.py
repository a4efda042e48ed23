"""Model URLs: parsing, and how they are shown in messages."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from bertcnn.bundle.hub_store import HubStore
from bertcnn.bundle.object_store import ObjectStore
from bertcnn.bundle.places import Place
from bertcnn.errors import SettingsError, one_line
from bertcnn.wording import visible

SCHEMES: Final = ("s3", "gs", "hf", "file")

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://")
_COLLAPSED = re.compile(r"(s3|gs|hf|file):/+")  # a URL that went through pathlib


def is_url(model: str | os.PathLike[str]) -> bool:
    """Whether a model is given by a URL rather than a folder.

    Example:
        >>> is_url("s3://bucket/triage"), is_url("models/triage")
        (True, False)
    """
    return _SCHEME.match(text_of(model)) is not None


def text_of(model: str | os.PathLike[str]) -> str:
    """The text given; restores a URL that was converted to a path."""
    text = os.fspath(model)
    match = _COLLAPSED.match(text) if isinstance(model, os.PathLike) else None
    if match is None:
        return text
    slashes = "///" if match[1] == "file" else "//"
    return f"{match[1]}:{slashes}{text[match.end() :]}"


def shown(url: str) -> str:
    """A URL without its parameters.

    Raises:
        SettingsError: the scheme is unknown, or the URL has invisible characters or a
            password, which is not shown.
    """
    scheme = url.partition("://")[0]
    if url != visible(url):
        raise SettingsError(
            f"the URL {one_line(url)}, with characters that cannot be seen",
            expected="a URL of visible characters",
            fix="correct it; in a file:// URL they are written as %1B, for example",
        )
    if scheme not in SCHEMES:
        raise SettingsError(
            f"a model at a URL that begins {one_line(scheme)}://",
            expected="a folder, or a URL that begins s3://, gs://, hf:// or file://",
            fix="correct it",
        )
    name, _, parameters = url.partition("?")
    host = name.partition("://")[2].partition("/")[0]
    access = host.removeprefix("anonymous@") if scheme == "gs" else host
    if "@" in access + parameters or ":" in access:
        raise SettingsError(
            f"a URL {scheme}:// with a user or a password in it",
            expected="credentials in the environment, where no list of processes shows them",
            fix="take them out of the URL; the guide on sharing models names the variables",
        )
    return name


def place_of(url: str) -> Place:
    """The store for a URL other than file://."""
    name = shown(url)
    return HubStore(url, name) if url.startswith("hf://") else ObjectStore(url, name)


def folder_of(url: str) -> Path:
    """The folder of a file:// URL."""
    name, parts = shown(url), urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.strip("/") or "#" in url:
        raise SettingsError(
            f"the URL {name}",
            expected="file:// and an absolute path, such as file:///srv/models/triage",
            fix="correct it; # is written as %23",
        )
    from urllib.request import url2pathname  # slow to import, rarely needed

    return Path(url2pathname(parts.path))
