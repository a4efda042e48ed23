"""Recognises files that are not tables: web pages, JSON errors and pointers of Git LFS."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertcnn.errors import TableError, one_line
from bertcnn.tables.column_names import find_names

_EXPORT = "export or download the table again, and look into the file first"
_KINDS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind, fix)
    for pattern, kind, fix in (
        (
            r"version https://git-lfs\.github\.com/spec/",
            "a pointer of Git LFS, not the data",
            "fetch the data itself with `git lfs pull`",
        ),
        (
            r"(?:(?><\?xml[^>]*>|<!--(?s:.*?)-->)\s*+)*+"
            r"<(!doctype html|html|head|body|script|meta|center|title|table|div|p|h1)\b",
            "a web page (HTML)",
            _EXPORT,
        ),
        (r"<\?xml\b|<!DOCTYPE\b", "XML", "export the table as .csv or .jsonl"),
    )
)
_ERRORS = frozenset(
    ("error", "errors", "error_description", "error_code", "errormessage", "fault", "exception")
)
_MESSAGES = ("message", "detail", "title", "reason", "msg", "error_description", "error")
_AROUND_ERRORS = frozenset(
    (*_MESSAGES, "status", "code", "status_code", "success", "ok", "details", "type", "path")
) | frozenset(("timestamp", "instance", "request_id", "trace_id", "documentation_url", "data"))


def check_is_table(path: Path, text: str) -> None:
    """Raises TableError if the start of a file, `text`, shows that it is not a table."""
    if problem := recognized(text) or _json_under_another_name(text):
        raise refusal(path, *problem)


def refusal(path: Path, kind: str, fix: str) -> TableError:
    """The error for a file that is not a table."""
    return TableError(
        f"{str(path)!r} is {kind}", expected="a table: names of columns, then rows", fix=fix
    )


def recognized(text: str) -> tuple[str, str] | None:
    r"""A description of a text that is not a table and what to do, or None.

    Example:
        >>> page = recognized("<!DOCTYPE html><html><body>Sign in")[0]
        >>> page, recognized("text,label\n<html>,a\n")
        ('a web page (HTML)', None)
    """
    start = text.lstrip("\ufeff \t\r\n")
    return next(((kind, fix) for pattern, kind, fix in _KINDS if pattern.match(start)), None)


def json_error(record: Mapping[str, Any], expected_columns: Sequence[str] = ()) -> str | None:
    """A description of a file's only object if it is an error message, not a row; else None.

    Example:
        >>> refused = json_error({"message": "Not Found", "status": "404"})
        >>> refused, json_error({"message": "my router is dead"})
        ("an error message (JSON: 'Not Found')", None)
    """
    plain = {key.casefold().replace("-", "_"): value for key, value in record.items()}
    is_row = expected_columns and find_names(expected_columns, list(record)) is not None
    if is_row or not plain.keys() <= _ERRORS | _AROUND_ERRORS:
        return None
    status = next((plain[key] for key in ("status", "code", "status_code") if key in plain), "")
    if not (
        any(plain.get(key) for key in _ERRORS)
        or plain.get("success", plain.get("ok", True)) is False
        or re.fullmatch("[45][0-9][0-9]|error|fail(ed)?", str(status), re.IGNORECASE)
    ):
        return None
    nested: list[Any] = [plain[key] for key in _ERRORS if isinstance(plain.get(key), dict)]
    said = (part.get(key) for part in (plain, *nested) for key in _MESSAGES)
    message = next((text for text in said if isinstance(text, str) and text), None)
    return (
        f"an error message (JSON: {one_line(message, 60)})"
        if message
        else "an error message (JSON)"
    )


def _json_under_another_name(text: str) -> tuple[str, str] | None:
    """JSON in a file with the extension of delimited text."""
    start = text.lstrip("\ufeff \t\r\n")
    if not re.match(r'(\[\s*)?\{\s*("[^"\n]*"\s*:|\}\s*\Z)|\[\s*(\[|\]\s*\Z)', start):
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        value = None
    error = json_error(value) if isinstance(value, dict) else None
    return (error, _EXPORT) if error else ("JSON", "name the file .json or .jsonl")
