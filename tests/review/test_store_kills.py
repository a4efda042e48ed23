"""A store whose programs are killed at any step, or begin at the same moment, loses nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DYING = Path(__file__).parent / "dying.py"
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")


def outcomes(place, *scenarios):
    """What was wrong after each death, or each start of several at once; None for nothing."""
    done = subprocess.run(
        [sys.executable, DYING, place, *scenarios], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_may_be_killed_at_any_step(place):
    found = outcomes(place, "make", "migrate")
    assert [wrong for wrong in found["make"] + found["migrate"] if wrong] == []
    assert len(found["make"]) > 3
    assert len(found["migrate"]) > (20 if isinstance(place, Path) else 3)


def test_programs_may_begin_at_the_same_moment(place):
    assert outcomes(place, "make_together", "migrate_together") == {
        "make_together": [None],
        "migrate_together": [None],
    }


def test_a_file_of_many_tickets_and_one_with_a_newer_journal(tmp_path):
    found = outcomes(tmp_path / "review.db", "commit", "make_together_with_wal")
    assert found == {"commit": [None] * 5, "make_together_with_wal": [None]}
