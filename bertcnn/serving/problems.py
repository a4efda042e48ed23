"""Errors of requests: an HTTP status and a one-line message."""

from __future__ import annotations

from collections.abc import Mapping

from bertcnn.errors import BertCNNError


class RequestError(BertCNNError):
    """A refused request, with an HTTP status and headers; otherwise as `BertCNNError`."""

    def __init__(
        self,
        status: int,
        given: str,
        *,
        expected: str,
        fix: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(given, expected=expected, fix=fix)
        self.status, self.headers = status, dict(headers or {})
