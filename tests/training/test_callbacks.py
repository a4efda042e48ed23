"""The kept epoch, and when a training stops."""

import numpy as np
import pytest

from bertcnn.errors import TrainingError
from bertcnn.training.callbacks import BestEpoch, standard_error
from tests.training.test_trainer import trainer

FIGURE = "val_figure"


def run(figures, taken=None, **options):
    best = BestEpoch(FIGURE, **options)
    model, training = trainer(figures, callbacks=[best], taken=taken)
    return model, training.run(), best


@pytest.mark.parametrize(
    ("highest", "values", "kept"),
    [
        (True, (1.0, 3.0, 2.0), 2),
        (False, (1.0, 3.0, 2.0), 1),
        (True, (2.0, 2.0, 1.0), 1),
        (False, (3.0, 1.0, 1.0), 2),
    ],
)
def test_a_model_ends_with_the_weights_of_the_first_of_the_best_epochs(highest, values, kept):
    taken = []
    model, _, best = run(values, taken, highest=highest)
    assert best.kept == kept
    for weight, wanted in zip(model.get_weights(), taken[kept - 1], strict=True):
        np.testing.assert_array_equal(weight, wanted)
    assert any((one != other).any() for one, other in zip(taken[0], taken[2], strict=True))


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ((0.5, 0.6, 0.7), 3),
        ((0.5, 0.7, 0.66), 3),  # the standard error of 0.7 on 100 rows is 0.046
        ((0.5, 0.7, 0.65), 2),
        ((0.5, 0.7, 0.65, 0.66), 4),
        ((0.5, 0.7, 0.66, 0.74, 0.69), 4),
        ((0.0, 0.0), 2),
        ((1.0, 1.0, 0.99), 3),  # one row in 100 is no clear difference
        ((1.0, 1.0, 0.98), 2),
    ],
)
def test_with_a_tolerance_the_last_epoch_is_kept_that_is_not_clearly_worse(scores, kept):
    assert run(scores, tolerance=standard_error(100))[2].kept == kept


@pytest.mark.parametrize(("values", "epochs"), [((3, 2, 1, 9), 3), ((1, 2, 1, 3, 2, 2), 6)])
def test_a_training_ends_when_no_epoch_was_better_for_long(values, epochs):
    assert len(run(tuple(map(float, values)), patience=2)[1]) == epochs
    assert len(run(tuple(map(float, values)))[1]) == len(values)


def test_a_figure_that_is_not_finite_ends_a_training_with_one_line():
    with pytest.raises(TrainingError, match=r"the val figure became nan at step 4; expected"):
        run((1.0, float("nan")))
