"""People's decisions."""

import pytest
from sqlalchemy import func, select

from bertcnn.errors import RoleError, StoreError
from bertcnn.review.actions import decide_many
from bertcnn.review.corrected_rows import export_corrections
from bertcnn.review.decisions import NewDecision, decided, disagreements, history, record
from bertcnn.review.labels import (
    LabelGuide,
    LabelsInUse,
    add_labels,
    label_guide,
    labels_in_use,
    merge_labels,
    remove_label,
    set_guide,
)
from bertcnn.review.people import Person
from bertcnn.review.queue import claim, waiting_tickets
from bertcnn.review.schema import decision, event
from bertcnn.review.similarity import similar
from bertcnn.review.store import now
from tests.review.desk import ADMIN, ANN, BOB, decide, filled, ids


def standing(store):
    with store.reading() as connection:
        return {
            (row.ticket, row.actor): (row.kind, row.label)
            for row in connection.execute(select(decision))
        }


def waits(store):
    return sum(waiting_tickets(store).values())


def test_a_decision_counts_once_and_takes_the_ticket_out(store, encoder_folder):
    filled(store, encoder_folder)
    before = waits(store)
    [one] = claim(store, ANN, most=1)
    for _ in range(3):
        done = decide(store, ANN, one.id, "billing", "k", shown_at=5.0, decided_at=7.0)
        assert (done.stored, done.refused) == (("k",), {})
    [row] = history(store, one.id)
    kept = (row.actor, row.kind, row.label, row.shown_at, row.decided_at)
    assert kept == ("ann", "label", "billing", 5.0, 7.0)
    assert waits(store) == before - 1
    assert one.id not in ids(claim(store, BOB, most=100))


def test_undo_goes_back_as_far_as_one_likes(store, encoder_folder):
    filled(store, encoder_folder)
    before = waits(store)
    [one] = claim(store, ANN, most=1)
    decide(store, ANN, one.id, "billing", "1")
    decide(store, ANN, one.id, "hardware", "2")
    decide(store, ANN, one.id, None, "3")
    assert standing(store) == {(one.id, "ann"): ("none", None)}
    for key, expected in (("3", ("label", "hardware")), ("2", ("label", "billing"))):
        record(store, ANN, [NewDecision(f"u{key}", one.id, "undo", undoes=key)])
        assert standing(store) == {(one.id, "ann"): expected}
    record(store, ANN, [NewDecision("u1", one.id, "undo", undoes="1")])
    assert standing(store) == {}
    assert waits(store) == before
    assert one.id not in ids(claim(store, BOB, most=100))
    assert one.id in ids(claim(store, ANN, most=100))


def test_undo_is_for_ones_own_decisions_on_the_same_ticket(store, encoder_folder):
    filled(store, encoder_folder)
    first, second = ids(claim(store, ANN, most=2))
    decide(store, ANN, first, "billing", "mine")
    wrong = [
        (BOB, NewDecision("a", first, "undo", undoes="mine")),
        (ANN, NewDecision("b", second, "undo", undoes="mine")),
        (ANN, NewDecision("c", first, "undo", undoes="nothing")),
        (ANN, NewDecision("d", first, "undo")),
    ]
    for person, one in wrong:
        done = record(store, person, [one])
        assert not done.stored
        assert "to undo with the key" in done.refused[one.key]
    assert standing(store) == {(first, "ann"): ("label", "billing")}


def test_invalid_decisions_are_refused_and_the_rest_is_stored(store, encoder_folder):
    filled(store, encoder_folder)
    first, second = ids(claim(store, ANN, most=2))
    done = record(
        store,
        ANN,
        [
            NewDecision("1", first, "label", "billing"),
            NewDecision("2", second, "label", "no such label"),
            NewDecision("3", 99999, "label", "billing"),
            NewDecision("4", second, "label"),
            NewDecision("", second, "label", "billing"),
            NewDecision("k" * 65, second, "label", "billing"),
            NewDecision("7", second, "shout", "billing"),  # type: ignore[arg-type]
            NewDecision("8", second, "label", "hardware"),
        ],
    )
    assert done.stored == ("1", "8")
    assert set(done.refused) == {"2", "3", "4", "", "k" * 64, "7"}
    assert "the label 'no such label'; expected a label in use" in done.refused["2"]
    assert "no ticket #99999" in done.refused["3"]
    with pytest.raises(RoleError):
        record(store, Person("eve", "viewer"), [])


@pytest.mark.parametrize("clock", [1e300, -1e300, float("nan"), float("inf")])
def test_a_clock_that_is_wrong_counts_as_now(store, encoder_folder, clock, tmp_path):
    filled(store, encoder_folder, 8)
    before = now()
    assert not decide(store, ANN, 1, "billing", decided_at=clock).refused
    (row,) = history(store, 1)
    assert before <= row.decided_at == row.stored_at
    assert export_corrections(store, tmp_path / "decided.csv") == 1


def test_a_skipped_ticket_goes_to_others(store, encoder_folder):
    filled(store, encoder_folder)
    [one] = claim(store, ANN, most=1)
    before = waits(store)
    record(store, ANN, [NewDecision("s", one.id, "skip")])
    assert waits(store) == before
    assert one.id not in ids(claim(store, ANN, most=100))
    assert decided(store).skipped == 1
    record(store, ANN, [NewDecision("u", one.id, "undo", undoes="s")])
    assert one.id in ids(claim(store, ANN, most=100))


def test_a_second_decision_becomes_a_visible_disagreement(store, encoder_folder):
    filled(store, encoder_folder)
    first, second = ids(claim(store, ANN, most=2))
    decide(store, ANN, first, "billing")
    decide(store, BOB, first, None)
    decide(store, ANN, second, "billing")
    decide(store, BOB, second, "billing")
    [found] = disagreements(store)
    assert (found.ticket, found.labels) == (first, {"ann": "billing", "bob": ""})
    decide(store, BOB, first, "billing", "again")
    assert disagreements(store) == []
    assert decided(store).people == {"ann": 2, "bob": 2}


def test_a_label_removed_meanwhile_is_refused_in_one_line(store, encoder_folder):
    filled(store, encoder_folder)
    [one] = claim(store, ANN, most=1)
    assert labels_in_use(store).names == ("billing", "hardware", "software")
    remove_label(store, ADMIN, "billing")
    done = decide(store, ANN, one.id, "billing")
    [reason] = done.refused.values()
    assert "it may have been removed meanwhile" in reason
    assert "\n" not in reason
    assert add_labels(store, ADMIN, ["fibre"]).names == ("hardware", "software", "fibre")
    assert not decide(store, ANN, one.id, "fibre").refused
    for person, change in ((ANN, add_labels), (ANN, remove_label)):
        with pytest.raises(RoleError):
            change(store, person, "fibre")
    with pytest.raises(StoreError, match="the label ' '"):
        add_labels(store, ADMIN, [" "])
    with pytest.raises(StoreError, match="the label 'nothing'"):
        remove_label(store, ADMIN, "nothing")


def test_several_labels_are_checked_one_by_one(store):
    with store.writing() as connection:
        merge_labels(connection, ["a", "b", "c"], ";")
    used = labels_in_use(store)
    assert used == LabelsInUse(("a", "b", "c"), ";")
    assert used.checked("b;a") == used.checked("b; a")
    assert used.has("a;c")
    assert not used.has("a;x")
    with pytest.raises(StoreError, match="the label 'x'"):
        used.checked("a;x")


def test_a_label_has_a_guide_a_colour_and_a_hint(store):
    add_labels(store, ADMIN, ["billing", "router"])
    assert label_guide(store) == {"billing": LabelGuide(), "router": LabelGuide()}
    set_guide(store, ADMIN, "router", "**Boxes**", color="#1f77b4", hint="not cables")
    changed = set_guide(store, ADMIN, "router", hint="")
    assert changed == LabelGuide("**Boxes**", "#1f77b4", "")
    remove_label(store, ADMIN, "router")
    assert list(label_guide(store)) == ["billing"]
    add_labels(store, ADMIN, ["router"])
    assert label_guide(store)["router"] == changed  # kept meanwhile
    for options, message in (
        ({"color": "blue"}, "the colour 'blue'; expected one such as #1f77b4"),
        ({"hint": "a\nb"}, "a hint of 3 characters; expected one line"),
        ({"text": "x" * (1 << 20) + "y"}, "a label guide of"),
    ):
        with pytest.raises(StoreError, match=message):
            set_guide(store, ADMIN, "router", **options)
    with pytest.raises(StoreError, match="the label 'gone'"):
        set_guide(store, ADMIN, "gone", "x")
    with pytest.raises(RoleError):
        set_guide(store, ANN, "router", "x")


def test_similar_tickets_are_found_and_decided_together(store, encoder_folder):
    filled(store, encoder_folder, 40, audited=1e-9)
    known = claim(store, ANN, most=1)
    if not known:
        pytest.skip("nothing waits")
    found = similar(store, known[0].id, ANN, at_least=-1.0, most=10)
    assert [one.similarity for one in found] == sorted(
        (one.similarity for one in found), reverse=True
    )
    assert known[0].id not in [one.id for one in found]
    assert len(found) == 10
    held = ids(claim(store, BOB, most=3))
    assert not set(held) & {one.id for one in similar(store, known[0].id, ANN, at_least=-1.0)}
    done = decide_many(store, ANN, [known[0].id, found[0].id], "hardware")
    assert done.tickets == (known[0].id, found[0].id)
    with store.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(event)) == 2


def test_a_name_in_another_spelling_is_the_same_person(store, encoder_folder):
    filled(store, encoder_folder, audited=1.0)
    ann, again = Person("Ann  LEÉ", "reviewer"), Person(" ann Lee\u0301 ", "reviewer")
    [one] = claim(store, ann, most=1)
    assert [held.id for held in claim(store, again, most=1)] == [one.id]
    decide(store, ann, one.id, "billing", key="1")
    decide(store, again, one.id, "hardware", key="2")
    assert list(decided(store).people.values()) == [1]
    assert disagreements(store) == []
    assert Person("\N{KELVIN SIGN}ate") != Person("Kate")
