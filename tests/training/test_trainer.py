"""The training loop, on a model whose steps are easy to verify."""

import json

import keras
import numpy as np
import pytest

from bertcnn.errors import TrainingError
from bertcnn.progress import Silent
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.step import batch_parts
from bertcnn.training.trainer import (
    RATE,
    Batch,
    Trainer,
    TrainerCallback,
    by_epochs,
    check_finite,
    shuffled,
)
from tests.listener import Listener

ROWS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


def parts(plan):
    given = ROWS[plan.rows]
    weights = np.ones(len(plan.rows), np.float32)
    return batch_parts(
        {"given": given}, {"sums": given.sum(axis=1, keepdims=True), "weights": weights}
    )


def squares(outputs, targets):
    errors = keras.ops.sum(keras.ops.square(outputs - targets["sums"]), axis=-1)
    return {"loss": keras.ops.sum(errors * targets["weights"])}


def new_model():
    keras.utils.set_random_seed(1)
    given = keras.Input((4,), name="given")
    return keras.Model({"given": given}, keras.layers.Dense(1)(given))


def trainer(figures, *, learning_rate=0.05, taken=None, **options):
    """Rows whose sum is the target, 2 steps an epoch, with given validation figures."""
    model, remaining = new_model(), iter(figures)

    def evaluate():
        if taken is not None:
            taken.append(model.get_weights())
        return {"val_figure": next(remaining)}

    batches = by_epochs(shuffled(np.full(8, 4), (4,), 4, 0), parts)
    return model, Trainer(
        model,
        keras.optimizers.SGD(learning_rate),
        squares,
        batches,
        epoch_ends=range(2, 2 * len(figures) + 1, 2),
        **{"progress": Silent(), "evaluate": evaluate} | options,
    )


@pytest.mark.on_jax
def test_epochs_end_where_they_are_to_with_the_mean_loss_of_their_steps():
    losses = []

    class Watching(TrainerCallback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append((batch, float(logs["loss"])))

    _, training = trainer((5.0, 6.0, 7.0), callbacks=[Watching()])
    training.epoch_ends = [1, 3, 6]
    history = training.run()
    assert [batch for batch, _ in losses] == [0, 0, 1, 0, 1, 2]
    found = [loss for _, loss in losses]
    assert [one.loss for one in history] == pytest.approx(
        [found[0], np.mean(found[1:3]), np.mean(found[3:])]
    )
    assert [one.figures for one in history] == [{"val_figure": value} for value in (5.0, 6.0, 7.0)]
    assert found[-1] < found[0]


def test_it_learns_as_kerases_own_fit_does():
    model, training = trainer((1.0, 1.0))
    training.run()
    peer, plans = new_model(), shuffled(np.full(8, 4), (4,), 4, 0)
    peer.compile(keras.optimizers.SGD(0.05), "mean_squared_error")
    for plan in (*plans(1), *plans(2)):
        peer.train_on_batch({"given": ROWS[plan.rows]}, ROWS[plan.rows].sum(1, keepdims=True))
    for found, expected in zip(model.get_weights(), peer.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_figures_of_the_last_steps_and_the_last_epoch_are_shown():
    listener = Listener()
    _, training = trainer(
        (0.25, 0.5), progress=listener, shown=("loss", "figure"), stage=("a", "b")
    )
    training.run()
    assert (listener.stages, listener.figures[0]) == ([("a", 4, "b")], {})
    assert [set(shown) for shown in listener.figures[1:]] == [{"loss"}, *[{"loss", "figure"}] * 3]
    assert [shown.get("figure") for shown in listener.figures[1:]] == [None, 0.25, 0.25, 0.5]


def test_figures_that_mean_nothing_for_a_batch_are_left_out_and_tokens_are_counted():
    listener = Listener()

    def batches(position):
        for number, plan in enumerate(shuffled(np.full(8, 4), (4,), 4, 0)(1), start=1):
            yield Batch(parts(plan), number, 100, ("gradient_norm",) * (number == 1))

    _, training = trainer((1.0,), progress=listener, shown=("gradient_norm", RATE))
    training.batches = batches
    training.run()
    assert [set(figures) for figures in listener.figures[1:]] == [{RATE}, {"gradient_norm"}]
    assert training.state.tokens == 200


def test_a_callbacks_state_comes_back_with_the_training(tmp_path):
    class Counter(TrainerCallback):
        seen, total = 0, np.zeros(1)

        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            self.seen += 1
            self.total = self.total + self.model.get_weights()[0].sum()
            if self.seen == stops_after:
                raise KeyboardInterrupt

        def state(self):
            return {"seen": self.seen}, {"total": self.total}

        def restore(self, details, tensors):
            self.seen, self.total = details["seen"], tensors["total"]

    def run(folder):
        savepoints = Savepoints(folder, {"data": "eight rows"}, Silent(), 0.0)
        counter = Counter()
        _, training = trainer((1.0, 1.0, 1.0), callbacks=[counter], savepoints=savepoints)
        try:
            training.run()
        except KeyboardInterrupt:
            return None
        return counter

    stops_after = 0
    whole = run(tmp_path / "whole")
    stops_after = 4
    assert run(tmp_path / "broken") is None
    stops_after = 0
    again = run(tmp_path / "broken")
    assert (again.seen, again.total) == (whole.seen, whole.total) == (6, whole.total)
    newest = sorted((tmp_path / "broken").iterdir())[-1]
    record = json.loads((newest / "checkpoint.json").read_text())["progress"]["state"]
    assert (record["step"], record["position"]) == (6, [3, 2])


def test_figures_that_are_read_later_as_on_a_gpu_change_nothing():
    class Counting(TrainerCallback):
        """Counts the losses that are read at the end of each step."""

        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            read.append(len(training.state.losses))

    weights, histories = [], []
    for steps, expected in ((1, [1, 2, 3, 4, 5, 6]), (4, [0, 0, 0, 4, 4, 6])):
        read = []
        model, training = trainer((1.0,), reads_after=steps, callbacks=[Counting()])
        training.epoch_ends = [6]
        histories.append(training.run())
        assert read == expected
        weights.append(model.get_weights())
    assert histories[0] == histories[1]
    for one, same in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("reads_after", [1, 4])
def test_a_loss_that_is_not_finite_ends_training_in_one_line(reads_after):
    _, training = trainer((1.0, 1.0), learning_rate=1e38, reads_after=reads_after)
    message = (
        r"the (loss|gradient norm) became (nan|inf) at step [123]; expected finite numbers. What to"
        r" do: lower the learning rate and train again; nothing was saved\."
    )
    with pytest.raises(TrainingError, match=f"^{message}$"):
        training.run()
    with pytest.raises(TrainingError, match="the gradient norm became nan at step 1,234; expected"):
        check_finite({"loss": 1.0, "gradient_norm": float("nan")}, 1234)
