"""Similar label names are reported, and others are not."""

import tracemalloc

import pytest

from bertcnn.data.label_names import label_text, look_alikes, similar_names, spellings
from bertcnn.values import folded


@pytest.mark.parametrize(
    "name",
    ["Card_Arrival", "card-arrival", " CARD  ARRIVAL ", "ｃａｒｄ arrival", "card__arrival_"],
)
def test_case_blanks_and_hyphens_do_not_count(name):
    assert folded(name) == "card arrival"


@pytest.mark.parametrize(
    "names",
    [
        ("1", "-1", "+1"),
        ("score 1", "score -1", "score_+1"),
        ("A", "A+", "A-"),
        ("C", "C++", "C#"),
        ("m2", "m²"),
        ("1/2", "½"),
        ("v1", "v2", "v1.0"),
    ],
)
def test_signs_in_a_name_count(names):
    assert len(set(map(folded, names))) == len(names)
    assert not spellings(names)
    assert not similar_names(dict.fromkeys((f"rated {name}" for name in names), 1))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lost_or_stolen_card", "lost or stolen card"),
        ("LostCard", "Lost Card"),
        ("A > B.c/d|e", "A B c d e"),
        ("GDPR", "GDPR"),
        ("", ""),
    ],
)
def test_a_label_is_said_in_words(name, said):
    assert label_text(name) == said


def test_the_commonest_spelling_is_the_usual_one_and_of_two_the_first_in_the_alphabet():
    assert spellings(["b", "B", "B", "", "x y", "X_Y"]) == {"b": "B", "x y": "X_Y"}


def test_a_letter_more_less_or_other_and_a_plural_are_alike_but_for_short_names():
    alike = [("refund", "refnd"), ("refund", "refuns"), ("fees", "fee"), ("boxes", "box")]
    counts = {"refund": 9, "refnd": 1, "refuns": 1, "fees": 4, "fee": 2, "boxes": 3, "box": 1}
    assert set(similar_names(counts)) == set(alike)
    short = ("it", "is", "hr", "pr", "level 1", "level 2", "tier1", "tier2")
    assert not similar_names(dict.fromkeys(short, 2))


def test_findings_are_counted_and_four_of_many_are_shown():
    assert look_alikes(["billing", "hardware", "network", "network"]) == []
    assert look_alikes(["refund"] * 2 + ["refunds"]) == [
        "1 pair of labels with nearly the same name: 'refund' 2x and 'refunds' 1x"
    ]
    several = look_alikes(["refund", "refunds", "invoice", "invoices", "Invoice", "Refund"])
    assert [finding.split(":")[0] for finding in several] == [
        "2 labels in other spellings, treated as separate labels",
        "4 pairs of labels with nearly the same name",
    ]
    words = ("alpha", "bravo", "charlie", "delta", "echos", "foxtrot")
    (finding,) = look_alikes([f"{word}{ending}" for word in words for ending in ("", "x")])
    assert finding.startswith("6 pairs of labels with nearly the same name: ")
    assert finding.count(" and ") == 5
    assert finding.endswith("; and 2 more")


def test_a_cell_that_ran_away_costs_no_memory():
    tracemalloc.start()
    look_alikes(["a" * 100_000, "b" * 99_999, "billing"])
    # bytes; with a copy for each omitted letter it was 10 GB
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
