"""The settings that a search tries."""

import numpy as np
import pytest

from bertcnn.models.classifier import CnnHead
from bertcnn.progress import Silent
from bertcnn.settings import FROZEN, FULL, HeadSettings
from bertcnn.training.batches import Examples
from bertcnn.training.fit import Trainer
from bertcnn.training.head import packed_head
from bertcnn.workflows.space import Space

LABELS = ["a"] * 30 + ["b"] * 10


class Ends:
    """Suggests the lowest or the highest value of each range."""

    def __init__(self, highest):
        self._highest = highest

    def suggest_float(self, name, low, high, *, log=False):  # noqa: ARG002
        return high if self._highest else low

    def suggest_int(self, name, low, high, *, step=1, log=False):  # noqa: ARG002
        return high if self._highest else low

    def suggest_categorical(self, name, choices):  # noqa: ARG002
        return choices[-1 if self._highest else 0]


@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_the_defaults_lie_inside_and_mean_the_defaults(recipe):
    space = Space.of(recipe, LABELS, np.full(10_000, 20))
    defaults, low, high = space.defaults(), space.suggest(Ends(False)), space.suggest(Ends(True))
    assert defaults.keys() == low.keys() == high.keys()
    for name, value in defaults.items():
        if not isinstance(value, str):
            assert low[name] <= value <= high[name], name
    training, head = space.changes(defaults)
    own = FROZEN if recipe == "frozen" else FULL
    assert space.settings(training) == own.model_copy(
        update={"fewest_steps": 0, "class_weight": "sqrt"}
    )  # which is what None means
    assert head == space.default_head


@pytest.mark.parametrize("highest", [False, True])
@pytest.mark.parametrize("recipe", ["frozen", "full"])
def test_every_point_is_a_setting(recipe, highest):
    space = Space.of(recipe, LABELS, np.full(300, 20))
    training, head = space.changes(space.suggest(Ends(highest)))
    assert space.settings(training).epochs <= space.most_epochs
    assert max(head.window_sizes) <= 5


@pytest.mark.parametrize("rows", [150, 300, 3000])
@pytest.mark.parametrize("settings", [FROZEN, FULL])
def test_the_defaults_train_as_many_epochs_as_they_do_without_a_search(settings, rows):
    lengths = np.random.default_rng(0).integers(6, 40, rows)
    packing, head = packed_head(CnnHead(8, 2, HeadSettings(filters=4)), lengths, lengths, settings)
    examples = Examples(lambda _: {}, lengths, np.arange(rows) % 2, packing)
    training = Trainer(head, examples, examples, settings, layers=0, seed=0, progress=Silent())
    assert (
        Space.of("full" if settings is FULL else "frozen", LABELS, lengths).epochs
        == training.epochs
    )


def test_class_weights_are_tried_where_labels_are_imbalanced():
    assert "class_weight" in Space.of("frozen", LABELS, np.full(100, 20)).defaults()
    assert (
        "class_weight"
        not in Space.of("frozen", ["a"] * 20 + ["b"] * 10, np.full(100, 20)).defaults()
    )
