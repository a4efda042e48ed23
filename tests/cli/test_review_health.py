"""`bertcnn review drift`, `topics`, and `audit` on the previous model."""

import json

import pytest

from bertcnn.review.store import open_review
from tests.apps.dashboards import save_model
from tests.review.history import with_history
from tests.tickets import as_csv, tickets


@pytest.fixture
def place(tmp_path):
    """The path for a new store."""
    return tmp_path / "review.db"


def test_drift_ends_with_1_where_something_has_changed(run, place, encoder_folder, tmp_path):
    with_history(open_review(place), encoder_folder, outside=0.6)
    target = tmp_path / "drift.json"
    code, out, _ = run("review", "drift", "--store", place, "--json", target)
    assert code == 1
    assert out.startswith("Thursday, 2026-04-30: 20 tickets")
    assert "changed: " in out.splitlines()[1]
    assert json.loads(target.read_text())["day"] == "2026-04-30"
    code, _, told = run("review", "drift", "--store", place, "--json", target)
    assert (code, "drift.json" in told) == (2, True)


def test_drift_ends_with_0_where_nothing_has(run, place, encoder_folder):
    with_history(open_review(place), encoder_folder)
    code, out, _ = run("review", "drift", "--store", place, "--days", "14")
    assert (code, "changed: " in out) == (0, False)
    assert "as before: " in out


def test_drift_without_the_models_folder_leaves_the_estimate_out(run, place, tmp_path):
    folder, inbox = save_model(tmp_path / "model"), tmp_path / "inbox.csv"
    inbox.write_text(as_csv(*tickets(2)))
    assert run("models", "add", folder, "--store", place)[0] == 0
    assert run("review", "add", inbox, "--store", place, "--text", "text")[0] == 0
    folder.rename(tmp_path / "elsewhere")
    code, out, told = run("review", "drift", "--store", place)
    assert code == 0
    assert "No shares of labels are estimated: " in told
    assert "not known: " in out


def test_drift_without_tickets_is_one_clear_line(run, place, tmp_path):
    assert run("models", "add", save_model(tmp_path / "model"), "--store", place)[0] == 0
    code, _, told = run("review", "drift", "--store", place)
    assert code == 2
    assert "no tickets in" in told.splitlines()[-1]


def test_topics_are_shown_and_written(run, place, tmp_path):
    assert run("models", "add", save_model(tmp_path / "model"), "--store", place)[0] == 0
    target = tmp_path / "topics.json"
    code, out, _ = run("review", "topics", "--store", place, "--json", target, "--days", "7")
    assert code == 0
    assert out.startswith("No topics among 0 tickets of the last 7 days")
    assert json.loads(target.read_text()) == {"looked_at": 0, "days": 7.0, "topics": []}


def test_audit_reports_on_the_previous_model(run, place, tmp_path):
    inbox = tmp_path / "inbox.csv"
    inbox.write_text(as_csv(*tickets(2)))
    first, second = (save_model(tmp_path / name, model_card=name) for name in ("one", "two"))
    assert run("models", "add", first, "--store", place)[0] == 0
    assert run("models", "add", second, "--store", place)[0] == 0
    from bertcnn.review import Person, list_models, promote
    from bertcnn.review.models import note_comparison, serving_model

    store = open_review(place)
    serving = serving_model(store)
    [other] = [one for one in list_models(store) if one.id != serving.id]
    note_comparison(store, other.id, Person("ann"), {"champion": serving.id, "verdict": "better"})
    promote(store, other.id, Person("ann"))
    assert run("review", "add", inbox, "--store", place, "--text", "text")[0] == 0
    code, out, _ = run("review", "audit", "--store", place)
    assert code == 0
    assert f"{serving.id[:12]}, has answered 6 tickets too." in out
