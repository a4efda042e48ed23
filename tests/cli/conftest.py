"""Fixtures for the tests of the commands."""

import io
import sys

import pytest

from bertcnn.cli.main import main
from tests.tiny import saved


@pytest.fixture(scope="module")
def model(encoder_folder):
    return saved(encoder_folder)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; returns exit code, standard output, standard error."""

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["bertcnn", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
