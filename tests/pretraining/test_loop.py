"""The pretraining loop's state, its optimizer, and how many steps it has."""

import json

import numpy as np
import pytest

from bertcnn.pretraining.loop import HeldOutFigures, PretrainingInterrupted, State, make_optimizer
from bertcnn.settings import PretrainingSettings


def test_a_state_comes_back_from_its_json():
    state = State(
        7, (1, 3), 4096, [HeldOutFigures(0, 90.5, 0.01, None), HeldOutFigures(7, 12.25, 0.3, 0.5)]
    )
    assert State.from_json(7, json.loads(json.dumps(state.as_json()))) == state
    assert State.from_json(0, json.loads(json.dumps(State().as_json()))) == State()


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5])
def test_the_learning_rate_warms_up_and_then_falls_to_nothing(warmup):
    settings = PretrainingSettings(learning_rate=1e-3, warmup_fraction=warmup)
    optimizer = make_optimizer(settings, 100)
    rates = []
    for step in range(101):
        optimizer.iterations.assign(step)
        rates.append(float(optimizer.learning_rate))
    rates = np.array(rates)
    top = int(100 * warmup)
    assert rates.argmax() in (top, max(0, top - 1))
    assert rates.max() == pytest.approx(1e-3, rel=0.12)
    assert (np.diff(rates[:top]) > 0).all()
    assert (np.diff(rates[top:]) < 0).all()
    assert rates[100] == pytest.approx(0, abs=1.1e-5)


def test_an_interruption_says_how_many_steps_are_done():
    assert str(PretrainingInterrupted(1234)) == "1,234 steps are done"
