"""Texts from standard input."""

import io
import sys

import pytest

from bertcnn.cli.texts import given_texts
from bertcnn.errors import TableError
from bertcnn.tables.lines import LONGEST_LINE


def test_a_line_that_never_ends_is_refused_before_it_is_read(monkeypatch):
    endless = io.TextIOWrapper(io.BytesIO(b"short\n" + b"x" * (LONGEST_LINE + 10_000_000)))
    monkeypatch.setattr(sys, "stdin", endless)
    texts = given_texts(None)
    assert next(texts) == "short"
    with pytest.raises(TableError, match="a line of more than 4,000,000 characters"):
        next(texts)
    assert endless.read(1) == "x"
