"""Logs as JSON lines, without any text of a request."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

from bertcnn.wording import visible

logger = logging.getLogger("bertcnn.serving")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, event, and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": visible(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            kind, _, trace = record.exc_info
            # not the message, which may quote a text
            line["error"] = kind.__name__ if kind else ""
            line["trace"] = "".join(traceback.format_tb(trace))
        return json.dumps(line, ensure_ascii=False)


def log(event: str, level: int = logging.INFO, **fields: object) -> None:
    """Log an event with its fields."""
    logger.log(level, event, extra={"fields": fields})


def start_logging() -> None:
    """Write the logs of the whole process to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logger.setLevel(logging.INFO)
