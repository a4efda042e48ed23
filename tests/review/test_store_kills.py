"""A store survives programs killed at any step, or started at the same moment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DYING = Path(__file__).parent / "dying.py"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")


def outcomes(place, *scenarios):
    """The errors after each death, or each simultaneous start; None for none."""
    done = subprocess.run(
        [sys.executable, DYING, place, *scenarios], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_may_be_killed_at_any_step(place):
    made = outcomes(place, "make")["make"]
    assert len(made) > 3
    assert set(made) == {None}


def test_programs_may_begin_at_the_same_moment(place):
    assert outcomes(place, "make_together") == {"make_together": [None]}


def test_programs_with_a_newer_journal_may_begin_at_the_same_moment(tmp_path):
    found = outcomes(tmp_path / "review.db", "make_together_with_wal")
    assert found == {"make_together_with_wal": [None]}
