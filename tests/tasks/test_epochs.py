"""Which epoch is kept, and when a training stops."""

import keras
import numpy as np
import pytest

from bertcnn.errors import TrainingError
from bertcnn.progress import Silent
from bertcnn.tasks.epochs import Choice, Epoch, EpochTrainer
from bertcnn.training.step import make_parts_step


def epochs(*values):
    return [Epoch(place, 0.0, {"figure": value}) for place, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    ("highest", "values", "best"),
    [
        (True, (1, 3, 2), 2),
        (False, (1, 3, 2), 1),
        (True, (2, 2, 1), 1),
        (False, (3, 1, 1), 2),
    ],
)
def test_the_first_of_the_best_epochs_is_chosen(highest, values, best):
    assert Choice("figure", highest, 9).best(epochs(*values)).epoch == best
    assert Choice("figure", highest, 9).best([]) is None


def test_it_is_over_after_the_last_epoch_or_when_none_was_better_for_long():
    patient, not_patient = Choice("figure", True, 4), Choice("figure", True, 4, patience=2)
    assert not patient.is_over(epochs(3, 2, 1))
    assert patient.is_over(epochs(3, 2, 1, 0))
    assert not not_patient.is_over(epochs(3, 2))
    assert not_patient.is_over(epochs(3, 2, 1))
    assert not not_patient.is_over(epochs(1, 2, 1))


class Rows:
    """Eight rows whose sum is to be learned."""

    lengths = np.full(8, 4)

    def batch(self, plan):
        given = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)[plan.rows]
        weights = np.ones(len(plan.rows), np.float32)
        return {"given": given}, {"sums": given.sum(axis=1, keepdims=True), "weights": weights}


def trainer(figures, *, learning_rate=0.05, patience=None, taken=None):
    keras.utils.set_random_seed(1)
    given = keras.Input((4,), name="given")
    model = keras.Model({"given": given}, keras.layers.Dense(1)(given))
    optimizer = keras.optimizers.SGD(learning_rate)

    def loss(outputs, targets):
        errors = keras.ops.sum(keras.ops.square(outputs - targets["sums"]), axis=-1)
        return {"loss": keras.ops.sum(errors * targets["weights"])}

    remaining = iter(figures)

    def evaluate():
        if taken is not None:
            taken.append(model.get_weights())
        return {"figure": next(remaining)}

    step = make_parts_step(model, optimizer, loss)
    choice = Choice("figure", True, len(figures), patience)
    return model, EpochTrainer(
        model,
        optimizer,
        step,
        Rows(),
        evaluate,
        choice,
        lengths=(4,),
        batch_size=4,
        seed=0,
        progress=Silent(),
    )


def test_a_model_ends_with_the_weights_of_its_best_epoch():
    taken = []
    model, training = trainer((1.0, 5.0, 2.0, 3.0), taken=taken)
    history = training.run()
    assert [one.figures["figure"] for one in history] == [1.0, 5.0, 2.0, 3.0]
    for kept, best, last in zip(model.get_weights(), taken[1], taken[3], strict=True):
        np.testing.assert_array_equal(kept, best)
        assert (kept != last).any()
    assert history[-1].loss < history[0].loss


def test_a_training_without_progress_ends_early():
    _, training = trainer((5.0, 1.0, 1.0, 1.0, 9.0), patience=2)
    assert len(training.run()) == 3


def test_a_loss_that_is_not_finite_ends_a_training_with_one_line():
    _, training = trainer((1.0,) * 40, learning_rate=1e20)
    with pytest.raises(TrainingError, match=r"the loss became (inf|nan); expected a finite loss"):
        training.run()
