"""Text that is no table, whatever its file is called.

Pages, errors, pointers, dumps and mails, recognised by how they begin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertcnn.errors import TableError, one_line
from bertcnn.tables.column_names import find_names
from bertcnn.text.cleaning import split_lines

_LOOKED_AT = 16 * 1024  # characters
_MOST_LINES = 5  # of an error message that is a whole file
_LONGEST_MESSAGE = 300  # characters that are compared
_POINTER = "fetch the data itself, for example with `{}`"
_EXPORT = "export or download the table again, and look into the file first"

# What a file is, if its text begins so, and what to do.
_BEGINNINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"version https://(git-lfs|hawser)\.github\.com/spec/",
        "a pointer of Git LFS, not the data",
        _POINTER.format("git lfs pull"),
    ),
    (
        r"(\S*/)?annex/objects/\S+",
        "a pointer of git-annex, not the data",
        _POINTER.format("git annex get"),
    ),
    (
        r"(- )?(outs|md5):.*\n(?s:.*)\b(md5|size|path): ",
        "a pointer of DVC, not the data",
        _POINTER.format("dvc pull"),
    ),
    (
        (
            r"(?:(?><\?xml[^>]*>|<!--(?s:.*?)-->)\s*+)*+<(!doctype"
            r" html|html|head|body|script|meta|center|title|table|div|p|h1)\b"
        ),
        "a web page (HTML)",
        _EXPORT,
    ),
    (
        r"(<\?xml[^>]*>\s*)?<Error( [^<>]*)?>\s*<Code>\w+</Code>",
        "an error message of a file store (XML)",
        _EXPORT,
    ),
    (
        r"<\?xml(?s:.{0,2000})schemas-microsoft-com:office:spreadsheet",
        "a spreadsheet in XML",
        "save it as .xlsx or .csv",
    ),
    (
        r"<\?xml\b|<!DOCTYPE\b|<(\w+:)?\w+( [^<>]*)?>(\s*<(?s:.*)|[^<,;\t\n]*)</(\w+:)?\w+>",
        "XML or HTML",
        "export the table as .csv or .jsonl",
    ),
    (r"<<<<<<< ", "a file with a merge conflict of Git", "resolve the conflict"),
    (r"HTTP/\d(\.\d)? \d{3}\b", "an answer of a web server with its head lines", _EXPORT),
    (r"Traceback \(most recent call last\):", "an error message of a Python program", _EXPORT),
    (
        r"Exception in thread |[\w.$]+(Exception|Error)\b.*\n\s+at [\w.$]+\(",
        "an error message of a Java program",
        _EXPORT,
    ),
    (
        (
            r"(<br />\s*)?(<b>)?(PHP )?(Fatal error|Parse error|Warning|Notice)(</b>)?: .* in .* on"
            r" line "
        ),
        "an error message of PHP",
        _EXPORT,
    ),
    (
        r"(--.*\n|/\*.*\n|[ \t\r]*\n|#.*\n)*+(SET (SQL_|NAMES|statement_timeout|FOREIGN)|PRAGMA"
        r" foreign_keys|BEGIN TRANSACTION;"
        r"|(CREATE|DROP|LOCK) (TABLE|DATABASE|SCHEMA|SEQUENCE)\b|INSERT INTO\s|/\*!\d{5})|--"
        r" (MySQL|MariaDB) dump",
        "a dump of a database (SQL)",
        "export the table as .csv",
    ),
    (r"BEGIN:V(CARD|CALENDAR)\b", "a list of contacts or appointments", "export the texts as .csv"),
    (r"-----BEGIN [A-Z ]+-----", "a key or a certificate", "give the file of texts"),
    (r"(diff --git |--- a/.*\n\+\+\+ b/)", "a patch of Git", "give the file of texts"),
    (r"#!\s*/", "a script", "give the file of texts"),
    (r"From \S+@\S+ +\w{3} \w{3}\b", "a mailbox (mbox)", "export the mails as .csv, one a row"),
)
_KINDS = tuple(
    (re.compile(pattern, re.IGNORECASE if "html" in kind.lower() else 0), kind, fix)
    for pattern, kind, fix in _BEGINNINGS
)
_MAIL = re.compile(
    r"(From|To|Cc|Subject|Date|Received|Return-Path|Delivered-To|MIME-Version|Message-ID"
    r"|X-[\w-]+|[A-Z]\w+(-\w+)*): ",
    re.IGNORECASE,
)
_MAIL_NAMES = frozenset(
    ("from", "to", "subject", "date", "received", "message-id", "mime-version", "return-path")
)
_STATUS = (
    r"not[ -]?found|forbidden|access denied|permission denied|unauthori[sz]ed|not"
    r" authenticated|internal server error|bad request|"
    r"bad gateway|service (temporarily )?unavailable|gateway time-?out|too many requests|moved"
    r" permanently|bad credentials|"
    r"rate limit exceeded|missing authentication token|invalid (api"
    r" key|token|credentials)|(token|session|link) (has |is )?expired|"
    r"request timed out|method not allowed|no such (file or directory|key|bucket)|page not"
    r" found|temporarily unavailable"
)
_MESSAGE = re.compile(
    rf"(error|fehler|erreur)?[: ]*(\d{{3}})?[ :.,\-]*(page )?({_STATUS})[.!]?|default backend -"
    r" \d{3}|error code: \d+|"
    r"upstream connect error\b.*|curl: \(\d+\) .*|wget: .*|"
    r"(bash|sh|zsh|cat|\S+/\w+): .*(not found|no such file or directory|permission denied).*|"
    r"(?-i:(psql: )?(ERROR|FATAL):  ?\S.*)|ERROR \d{4} \(\w{5}\).*|ORA-\d{5}: .*|SQLSTATE\[.*|Msg"
    r" \d+, Level \d+, .*|"
    r"fatal: (not a git|repository|unable|could not|authentication).*",
    re.IGNORECASE,
)
_ERROR_KEYS = frozenset(
    (
        "error",
        "errors",
        "errormessage",
        "error_description",
        "error_code",
        "errorcode",
        "fault",
        "exception",
    )
)
_AROUND_ERRORS = frozenset(
    """message detail details title reason msg status code statuscode status_code success ok
    data timestamp path type instance hint help requestid request_id traceid trace_id trace
    documentation_url doc_url __type param description""".split()  # noqa: SIM905
)
_MESSAGE_KEYS = (
    "message",
    "detail",
    "details",
    "title",
    "reason",
    "msg",
    "error_description",
    "errormessage",
    "error",
)


def check_is_table(path: Path, text: str) -> None:
    """Refuse a file whose text begins as no table does.

    Args:
        path: the file.
        text: its start.

    Raises:
        TableError: it is something else; which, and what to do.
    """
    found = recognized(text) or _json_under_another_name(text)
    if found is not None:
        raise refusal(path, *found)


def refusal(path: Path, kind: str, fix: str) -> TableError:
    """The error for a file that is something else than a table."""
    return TableError(
        f"{str(path)!r} is {kind}", expected="a table: names of columns, then rows", fix=fix
    )


def recognized(text: str) -> tuple[str, str] | None:
    r"""What a text is if it is no table, and what to do; None for all that may be one.

    Example:
        >>> page = recognized("<!DOCTYPE html><html><body>Sign in")[0]
        >>> page, recognized("text,label\n<html>,a\n")
        ('a web page (HTML)', None)
    """
    start = text[:_LOOKED_AT].lstrip("\ufeff \t\r\n")
    for pattern, kind, fix in _KINDS:
        if pattern.match(start):
            return kind, fix
    lines = [line.strip() for line in split_lines(start) if line.strip()]
    if (
        lines
        and len(lines) <= _MOST_LINES
        and len(text) < _LOOKED_AT
        and _MESSAGE.fullmatch(lines[0][:_LONGEST_MESSAGE])
    ):
        return f"an error message ({one_line(lines[0], 60)})", _EXPORT
    if _is_mail(start):
        return "a mail", "export the mails as .csv, one a row"
    return None


def _is_mail(start: str) -> bool:
    """Whether a text begins with the head lines of a mail."""
    head = [
        line
        for line in start.replace("\r", "").split("\n\n")[0].split("\n")
        if not line.startswith((" ", "\t"))
    ]
    names = [line.partition(":")[0].lower() for line in head if _MAIL.match(line)]
    return len(head) >= 3 and len(names) == len(head) and len(_MAIL_NAMES.intersection(names)) >= 3


def json_error(found: Mapping[str, Any], known: Sequence[str] = ()) -> str | None:
    """What the only object of a file is if it is an error instead of a row.

    Args:
        found: the object.
        known: columns that the table should have, if that is known.

    Example:
        >>> refused = json_error({"message": "Not Found", "status": "404"})
        >>> refused, json_error({"message": "my router is dead"})
        ("an error message (JSON: 'Not Found')", None)
    """
    if known and find_names(known, list(found)) is not None:
        return None
    plain = {key.casefold().replace("-", "_"): value for key, value in found.items()}
    status = plain.get(
        "status", plain.get("code", plain.get("statuscode", plain.get("status_code", "")))
    )
    message = next(
        (value for key in _MESSAGE_KEYS if isinstance(value := plain.get(key), str) and value), None
    )
    nested = next((value for key in _ERROR_KEYS if isinstance(value := plain.get(key), dict)), {})
    message = message or next(
        (value for key in _MESSAGE_KEYS if isinstance(value := nested.get(key), str)), ""
    )
    only_message = plain.keys() <= _ERROR_KEYS | _AROUND_ERRORS
    failed = (
        any(isinstance(plain.get(key), str | dict | list) and plain[key] for key in _ERROR_KEYS)
        or plain.get("error") is True
    )
    failed = failed or (
        plain.get("success", plain.get("ok", True)) in (False, "false") and only_message
    )
    failed = failed or (
        re.fullmatch("[45][0-9][0-9]|error|fail|failed|failure", str(status), re.IGNORECASE)
        is not None
        and only_message
    )
    if failed or (message and _MESSAGE.fullmatch(message.strip()[:_LONGEST_MESSAGE])):
        return (
            f"an error message (JSON: {one_line(message, 60)})"
            if message
            else "an error message (JSON)"
        )
    return None


def _json_under_another_name(text: str) -> tuple[str, str] | None:
    """JSON in a file that promises delimited cells."""
    start = text.lstrip("\ufeff \t\r\n")
    if not re.match(r'\{\s*("|\}\s*\Z)|\[\s*([\[{]|\]\s*\Z)', start):
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(start)
    except (ValueError, RecursionError):
        if not re.match(r'(\[\s*)?\{\s*"[^"\n]*"\s*:', start):
            return None
        found = None
    error = json_error(found) if isinstance(found, dict) else None
    return (error, _EXPORT) if error else ("JSON", "name the file .json or .jsonl")
