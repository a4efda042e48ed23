"""Comparison of two models on the same tickets, and the loop from corrections to a new model."""

import csv

import pytest

from bertcnn.errors import RoleError, StoreError
from bertcnn.review.comparing import compare_models, hashes_of
from bertcnn.review.corrected_rows import corrections
from bertcnn.review.labels import merge_labels
from bertcnn.review.models import add_model, find_model, model_history, promote, serving_model
from bertcnn.review.people import Person
from bertcnn.review.queue import claim
from bertcnn.review.retraining import retrain
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.review.desk import ADMIN, ANN, decide_all, filled, ids, texts
from tests.test_classifier import quick
from tests.tickets import tickets
from tests.tiny import saved

# training does not depend on the database
ONE_DATABASE = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


@pytest.fixture
def decided(store, encoder_folder):
    """A store with a model and decided tickets."""
    predictor = filled(store, encoder_folder, 60, audited=0.5)
    found = predictor.classify(texts(60))
    answers = {text: one.label for text, one in zip(texts(60), found, strict=True)}
    labels = {one.id: answers[one.text] for one in claim(store, ANN, most=60)}
    for one in [*labels][::5]:
        labels[one] = "software" if labels[one] == "billing" else "billing"
    decide_all(store, ANN, labels)
    return predictor


def test_both_answer_the_held_out_rows_and_the_result_is_kept(store, decided, encoder_folder):
    serving = serving_model(store)
    new = add_model(store, saved(encoder_folder), ADMIN)
    found = compare_models(store, new.id, ANN)
    rows = [one for one in corrections(store, held_out=True) if one.label]
    weights = [1 / (one.probability if one.drawn else 0.2) for one in rows]
    right = [
        answer.label == one.label
        for one, answer in zip(rows, decided.classify([one.text for one in rows]), strict=True)
    ]
    expected = sum(w for w, ok in zip(weights, right, strict=True) if ok) / sum(weights)
    assert found.result.champion == pytest.approx(expected)
    assert found.result.difference.rows == len(rows)
    assert found.result.verdict == "cannot tell"
    kept = model_history(store, new.id)[-1]
    assert (kept.kind, kept.figures["champion"]) == ("compared", serving.id)
    promote(store, new.id, ADMIN)
    assert serving_model(store).id == new.id
    assert found.lines()[0].startswith("cannot tell: Cannot tell yet")


def test_texts_that_a_model_has_learned_do_not_count(store, decided, encoder_folder, tmp_path):
    new = add_model(store, saved(encoder_folder), ADMIN)
    before = compare_models(store, new.id, ANN).result.difference.rows
    rows = [one for one in corrections(store, held_out=True) if one.label]
    data = tmp_path / "old.csv"
    data.write_text(f"text,label\n{rows[0].text.upper()},billing\nanother,hardware\n")
    learned = hashes_of(store, data, text="text")
    assert compare_models(store, new.id, ANN, learned=learned).result.difference.rows == before - 1
    with pytest.raises(StoreError, match="no decided tickets to compare models on"):
        compare_models(store, new.id, ANN, learned=[one.text_hash for one in rows])


def test_near_duplicates_count_as_one(store, decided, encoder_folder):
    new = add_model(store, saved(encoder_folder), ADMIN)
    text = tickets()[0][0]
    alike = [NewTicket(f"D-{number}", f"{text} {number}") for number in range(60)]
    add_tickets(store, decided, alike, source="more", audited=1.0)
    decide_all(store, ANN, dict.fromkeys(ids(claim(store, ANN, most=100)), "billing"))
    found = compare_models(store, new.id, ANN).result.difference
    rows = [one for one in corrections(store, held_out=True) if one.label]
    assert found.rows == len(rows)
    assert found.groups == len({one.text.rstrip("0123456789") for one in rows}) < found.rows


def test_refusals_in_one_line(store, encoder_folder):
    filled(store, encoder_folder, 5)
    serving = serving_model(store)
    with pytest.raises(StoreError, match="with itself"):
        compare_models(store, serving.id, ANN)
    new = add_model(store, saved(encoder_folder), ADMIN)
    with pytest.raises(StoreError, match="no decided tickets to compare models on"):
        compare_models(store, new.id, ANN)
    with pytest.raises(RoleError):
        compare_models(store, new.id, Person("eve", "viewer"))


@ONE_DATABASE
def test_several_labels_are_learned_one_by_one(store, encoder_folder, tmp_path):
    add_model(store, saved(encoder_folder), ADMIN)
    with store.writing() as connection:
        merge_labels(connection, (), ",")  # a separator that is never guessed from a file
    data = tmp_path / "old.csv"
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number, (text, label) in enumerate(zip(*tickets(), strict=True)):
            writer.writerow([text, f"{label},urgent" if number % 3 == 0 else label])
    done = retrain(store, data, tmp_path / "next", ADMIN, quick(encoder_folder), check=False)
    labels = find_model(store, done.model).labels
    assert set(labels) == {"billing", "hardware", "software", "urgent"}
    assert done.comparison is None


@ONE_DATABASE
def test_the_loop_from_corrections_to_a_compared_model(store, decided, encoder_folder, tmp_path):
    data, out = tmp_path / "old.csv", tmp_path / "next"
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows(zip(*tickets(), strict=True))
    done = retrain(store, data, out, ADMIN, quick(encoder_folder), check=False)
    assert serving_model(store).id != done.model
    assert [one.kind for one in model_history(store, done.model)] == ["added", "compared"]
    assert done.comparison["verdict"] == "cannot tell"
    assert done.rows.corrected == len(list(corrections(store, held_out=False)))
    with pytest.raises(RoleError):
        retrain(store, data, tmp_path / "other", ANN)
