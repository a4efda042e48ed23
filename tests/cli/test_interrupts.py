"""Ctrl-C stops at the next sign of progress, and pressed twice at once."""

import os
import signal

import pytest

from bertcnn.cli.progress import PlainProgress, RichProgress


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # Python handles signals between its own steps
        pass


@pytest.mark.parametrize("kind", [PlainProgress, RichProgress])
@pytest.mark.parametrize("sign", ["advance", "stage", "end"])
def test_it_is_raised_at_the_next_sign_of_progress(kind, sign):
    reached = False
    with pytest.raises(KeyboardInterrupt), kind() as progress:  # noqa: PT012 - leaving the block is one of the signs
        progress.stage("working", 10)
        press_ctrl_c()
        reached = True
        if sign == "advance":
            progress.advance(1)
        elif sign == "stage":
            progress.stage("more work", 10)
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("kind", [PlainProgress, RichProgress])
def test_nothing_is_raised_without_one(kind):
    with kind() as progress:
        progress.stage("working", 2)
        progress.advance(2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_pressed_twice_it_stops_at_once():
    with pytest.raises(KeyboardInterrupt), PlainProgress():  # noqa: PT012
        press_ctrl_c()
        press_ctrl_c()
        pytest.fail("went on")
