"""Garbage collections skip a service's long-lived objects; replaced models are freed."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from bertcnn.serving.loader import give_back_memory, spare_collector


class InACycle:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_collections_look_at_nothing_that_stays():
    spare_collector()
    assert gc.get_freeze_count() > 1000
    assert len(gc.get_objects()) < 1000


def test_a_model_in_a_cycle_is_freed_once_another_has_taken_its_place():
    model = InACycle()
    seen = weakref.ref(model)
    spare_collector()
    del model
    gc.collect()
    assert seen() is not None
    give_back_memory()
    assert seen() is None
    assert gc.get_freeze_count() > 1000
