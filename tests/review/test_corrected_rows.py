"""Decisions as labelled rows."""

import csv
from itertools import cycle

import pytest

from bertcnn.data.label_sets import names_in
from bertcnn.errors import LabelError, OutputError
from bertcnn.review.corrected_rows import (
    corrections,
    export_corrections,
    held_out_hashes,
    hold_out_rows,
)
from bertcnn.review.labels import merge_labels
from bertcnn.review.queue import claim
from bertcnn.review.retraining import training_rows
from bertcnn.review.tickets import erase_ticket, text_hash
from tests.review.desk import ADMIN, ANN, BOB, decide, decide_all, filled, ids, release


@pytest.fixture
def decided(store, encoder_folder):
    """A store in which Ann decided nearly everything, and her decisions."""
    filled(store, encoder_folder, 120, audited=0.3)
    labels = cycle(("billing", "hardware", None))
    done = dict(zip(ids(claim(store, ANN, most=120)), labels, strict=False))
    decide_all(store, ANN, done)
    return done


def test_decisions_become_corrections(store, decided):
    found = {one.ticket: one for one in corrections(store)}
    assert {ticket: one.label or None for ticket, one in found.items()} == decided
    assert {one.actor for one in found.values()} == {"ann"}
    assert {one.probability for one in found.values() if one.drawn} <= {0.3}
    assert {one.probability for one in found.values() if not one.drawn} == {1.0}


def test_disputed_and_erased_tickets_are_left_out(store, decided):
    first, second, third, *_ = decided
    decide(store, BOB, first, "software")
    decide(store, BOB, second, decided[second])
    erase_ticket(store, third, ADMIN)
    found = {one.ticket for one in corrections(store)}
    assert found == set(decided) - {first, third}


def test_a_fifth_and_all_audits_are_held_out_for_ever(store, decided):
    found = {one.ticket: one for one in corrections(store)}
    number = hold_out_rows(store)
    held = {one.ticket for one in corrections(store, held_out=True)}
    learned = {one.ticket for one in corrections(store, held_out=False)}
    assert held | learned == set(found)
    assert not held & learned
    assert {ticket for ticket, one in found.items() if one.drawn} <= held
    assert (
        number == len({found[ticket].text_hash for ticket in held}) == len(held_out_hashes(store))
    )
    assert hold_out_rows(store) == number
    reviewed = [ticket for ticket, one in found.items() if not one.drawn]
    share = sum(ticket in held for ticket in reviewed) / len(reviewed)
    assert 0.02 < share < 0.5


def test_corrections_replace_old_rows_and_held_out_texts_are_not_learned(store, decided, tmp_path):
    hold_out_rows(store)
    held = next(corrections(store, held_out=True))
    corrected = next(one for one in corrections(store, held_out=False) if one.label)
    strange = next(one for one in corrections(store, held_out=False) if not one.label)
    data = tmp_path / "old.csv"
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows([[held.text.upper(), "software"], [corrected.text, "software"]])
        writer.writerows([[strange.text, "software"], ["an old row", "software"]])
        writer.writerows([["twice", "billing"], ["twice", "billing"]])
    rows = training_rows(store, data)
    learned = dict(zip(rows.texts, rows.labels, strict=True))
    assert learned[corrected.text] == corrected.label
    assert learned["an old row"] == "software"
    assert rows.texts.count("twice") == 2
    assert strange.text not in learned
    assert strange.text in rows.strange
    hashes = {text_hash(store, text) for text in (*rows.texts, *rows.strange)}
    assert not hashes & held_out_hashes(store)
    assert rows.corrected == sum(bool(one.label) for one in corrections(store, held_out=False))
    assert rows.learned >= {held.text_hash, corrected.text_hash, strange.text_hash}
    assert rows.separator is None


def test_several_labels_are_separated_as_in_the_store(store, decided, tmp_path):
    with store.writing() as connection:
        merge_labels(connection, (), ",")  # a separator that is never guessed from a file
    data = tmp_path / "old.csv"
    data.write_text("text,label\n" + 'a row,"billing, hardware"\n' * 9 + "another,software\n")
    hold_out_rows(store)
    corrected = next(corrections(store, held_out=False))
    assert not decide(store, ANN, corrected.ticket, "billing,hardware").refused
    rows = training_rows(store, data, text="text", label="label")
    learned = dict(zip(rows.texts, rows.labels, strict=True))
    assert rows.separator == ","
    assert names_in(learned["a row"], ",") == names_in(learned[corrected.text], ",")
    assert len(names_in(learned[corrected.text], ",")) == 2


def test_one_person_is_at_most_half_of_many(store, encoder_folder):
    filled(store, encoder_folder, 100, audited=1e-9)
    tickets = ids(claim(store, ANN, most=100))
    labels = dict(zip(tickets, cycle(("hardware", "billing")), strict=False))
    release(store, ANN)
    decide_all(store, BOB, {one: labels.pop(one) for one in tickets[::4]})
    decide_all(store, ANN, labels)
    hold_out_rows(store)
    found = list(corrections(store, held_out=False))
    theirs = sum(one.actor == "bob" for one in found)
    rows = training_rows(store, None)
    allowed = max(20, theirs)
    assert rows.capped == {"ann": len(found) - theirs - allowed}
    assert rows.corrected == theirs + allowed


def test_too_few_rows_are_refused(store, encoder_folder):
    filled(store, encoder_folder, 4)
    with pytest.raises(LabelError, match="0 rows with 0 label; expected rows of at least two"):
        training_rows(store, None)


def test_the_export_has_every_decided_ticket_escaped(store, decided, tmp_path):
    target = tmp_path / "decided.csv"
    assert export_corrections(store, target) == len(decided)
    with target.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["number"][1:]): row["label"] or None for row in rows} == decided
    columns = "ticket number source file text label decided_by decided_at blind audit channel"
    assert list(rows[0]) == columns.split()
    assert {(row["source"], row["channel"]) for row in rows} == {("inbox", "mail")}
    with pytest.raises(OutputError):
        export_corrections(store, target)
    assert export_corrections(store, target, overwrite=True) == len(decided)
