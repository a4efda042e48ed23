"""The start options of the service."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import Count, Settings

Seconds = Annotated[float, Field(gt=0)]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Limits(Settings):
    """Limits of a request and of the queue."""

    texts: Count = Field(1024, description="most texts of a request")
    characters: Count = Field(100_000, description="most characters of a text")
    body_bytes: Count = Field(8 << 20, description="most bytes of a request's body")
    waiting_texts: Count = Field(
        2048, description="most texts that wait to be answered; more are refused"
    )
    head_bytes: Count = Field(64 << 10, description="most bytes of a request's headers")
    head_fields: Count = Field(100, description="most headers of a request")
    head_seconds: Seconds = Field(20.0, description="until a connection's next headers are whole")
    body_seconds: Seconds = Field(
        60.0, description="until a body is whole, or an answer is taken by its client"
    )
    connections: Count = Field(1024, description="most at a time, if there are descriptors")


class ServeOptions(Settings):
    """The start options of a worker process."""

    models: dict[str, str] = Field(description="folder or URL of each model, by the model's name")
    folders: tuple[Path, ...] = Field(
        (), description="below which requests may have other models loaded"
    )
    address: str = Field(description="http://HOST:PORT, as it is shown")
    token_file: Path | None = Field(None, description="whose only line is the token")
    drain: Annotated[float, Field(ge=0)] = Field(
        5.0, description="seconds after SIGTERM in which requests are still accepted"
    )
    cores: Count | None = Field(None, description="to use; by default those there are")
    log_requests: bool = Field(False, description="log each request, not only defects")
    after_death: bool = Field(
        False,
        description="the worker replaces one that died: it answers before it is warmed up",
    )
    limits: Limits = Limits()


def named_models(arguments: Sequence[str]) -> dict[str, str]:
    """Parse MODEL or NAME=MODEL arguments; the first is the default model.

    Raises:
        SettingsError: a name is given twice, or is not valid in a URL.

    Example:
        >>> named_models(["models/triage", "spam=s3://models/spam"])
        {'triage': 'models/triage', 'spam': 's3://models/spam'}
    """
    models: dict[str, str] = {}
    for text in arguments:
        name, equals, location = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            name, location = re.sub(r"[^A-Za-z0-9._-]", "-", _last_part(text)).lstrip("._-"), text
        name = name[:100] or "model"
        if name in models:
            raise SettingsError(
                f"two models with the name {one_line(name)}",
                expected="a name for each",
                fix=f"write NAME=MODEL, such as {name}-2={one_line(location)}",
            )
        models[name] = location
    return models


def folders_of(locations: Iterable[str]) -> tuple[Path, ...]:
    """The parent folders of local models."""
    return tuple(
        dict.fromkeys(Path(place).resolve().parent for place in locations if "://" not in place)
    )


def _last_part(location: str) -> str:
    path = (
        location.partition("?")[0].partition("@")[0]
        if "://" in location
        else str(Path(location).resolve())
    )
    return path.rstrip("/\\").replace("\\", "/").rpartition("/")[2]
