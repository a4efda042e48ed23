"""The serving model."""

import shutil

import pytest

from bertcnn.errors import BundleError, RoleError, StoreError
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import (
    add_model,
    find_model,
    list_models,
    model_history,
    note_comparison,
    promote,
    roll_back,
    serving_model,
)
from tests.review.desk import ADMIN, ANN
from tests.tiny import saved, saved_with_scope


@pytest.fixture
def two(store, encoder_folder):
    """The serving model and another."""
    first = add_model(store, saved(encoder_folder), ADMIN)
    return first, add_model(store, saved_with_scope(encoder_folder), ADMIN)


def test_the_first_model_serves_and_a_second_one_waits(store, two, encoder_folder):
    first, second = two
    assert serving_model(store) == first
    assert [one.id for one in list_models(store)] == [second.id, first.id]
    assert [one.kind for one in model_history(store, first.id)] == ["added", "promoted"]
    assert [one.kind for one in model_history(store, second.id)] == ["added"]
    before = model_history(store)
    assert add_model(store, saved(encoder_folder), ADMIN).id == first.id
    assert model_history(store) == before
    assert labels_in_use(store).names == first.labels
    assert find_model(store, second.id[:8]) == second
    for wrong in ("", "nothing", "%"):
        with pytest.raises(StoreError, match=r"expected the id of a model"):
            find_model(store, wrong)


def test_promotion_and_rollback_are_one_event_each(store, two):
    first, second = two
    note_comparison(store, second.id, ADMIN, {"champion": "other", "verdict": "better"})
    with pytest.raises(StoreError, match="was not compared with the serving one"):
        promote(store, second.id, ADMIN)
    with pytest.raises(StoreError, match="serves already"):
        promote(store, first.id, ADMIN)
    note_comparison(store, second.id, ADMIN, {"champion": first.id, "verdict": "better"})
    promote(store, second.id, ADMIN, reason="less review")
    assert serving_model(store) == second
    assert roll_back(store, ADMIN, reason="complaints") == first
    assert serving_model(store) == first
    assert [one.kind for one in model_history(store)][-2:] == ["promoted", "rolled_back"]
    with pytest.raises(StoreError, match="no model served before this one"):
        roll_back(store, ADMIN)
    promote(store, second.id, ADMIN)
    assert roll_back(store, ADMIN) == first


def test_a_worse_model_needs_a_written_reason(store, two):
    first, second = two
    note_comparison(store, second.id, ADMIN, {"champion": first.id, "verdict": "worse"})
    for reason in ("", "  because    "):
        with pytest.raises(StoreError, match="is worse, and the reason"):
            promote(store, second.id, ADMIN, reason=reason)
    promote(store, second.id, ADMIN, reason="the old one cannot read fibre tickets")
    assert model_history(store)[-1].reason == "the old one cannot read fibre tickets"


def test_only_admins_change_models(store, two, encoder_folder):
    with pytest.raises(RoleError):
        promote(store, two[1].id, ANN)
    with pytest.raises(RoleError):
        roll_back(store, ANN)
    with pytest.raises(RoleError):
        add_model(store, saved(encoder_folder), ANN)


def test_a_model_that_is_gone_cannot_serve(store, encoder_folder, tmp_path):
    first = add_model(store, saved(encoder_folder), ADMIN)
    folder = shutil.copytree(saved_with_scope(encoder_folder), tmp_path / "copy")
    second = add_model(store, folder, ADMIN)
    note_comparison(store, second.id, ADMIN, {"champion": first.id, "verdict": "better"})
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match=r"is not in .* any more"):
        promote(store, second.id, ADMIN)
    assert serving_model(store) == first
    with pytest.raises(BundleError):
        add_model(store, tmp_path / "nothing", ADMIN)
