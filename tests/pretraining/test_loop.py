"""The pretraining optimizer and its number of steps."""

import numpy as np
import pytest

from bertcnn.pretraining.loop import evaluated_after, make_optimizer
from bertcnn.settings import PretrainingSettings


def test_a_run_is_evaluated_ten_times_including_its_end():
    for steps in (1, 3, 10, 25, 1000):
        after = evaluated_after(steps)
        assert after == sorted(set(after))
        assert (len(after), after[-1]) == (min(10, steps), steps)


@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.5])
def test_the_learning_rate_warms_up_and_decays_to_zero(warmup):
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
