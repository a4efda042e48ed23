"""Hierarchical labels: parents, their probabilities, and answers that fall back to them."""

import csv
import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn import load, score_csv
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.schemas import Decisions
from bertcnn.data.hierarchy import Hierarchy
from bertcnn.errors import BundleError
from bertcnn.evaluation.decisions import automation, decide, held_out_answers
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.predictor import Predictor
from bertcnn.settings import PrecisionTargets
from tests.test_classifier import quick
from tests.tickets import tickets

LABELS = ("billing", "net > hardware", "net > software")


@pytest.fixture(scope="module")
def folder(encoder_folder, tmp_path_factory):
    """A saved model with hierarchical labels."""
    texts, labels = tickets()
    names = {"billing": "billing", "hardware": "net > hardware", "software": "net > software"}
    saved = tmp_path_factory.mktemp("hierarchy") / "model"
    quick(encoder_folder).fit(texts, [names[label] for label in labels]).save(saved)
    return saved


def undecided(folder, parent):
    """The model with a label threshold that no answer reaches, and a threshold for parents."""
    bundle = read_bundle(folder)
    decisions = Decisions(thresholds=(None,) * len(LABELS), parent_thresholds=(parent,))
    engine = OpenVINOEngine.from_saved(None, folder, bundle)
    return Predictor(bundle, engine, decisions=decisions)


def decided(probabilities, true):
    """The decisions for held-out answers with these probabilities."""
    answers = held_out_answers(probabilities, true, hierarchy=Hierarchy.of(LABELS))
    return decide(answers, LABELS, PrecisionTargets())


def test_plain_names_and_parents_of_one_label_have_no_parents():
    hierarchy = Hierarchy.of(["a", "b", "c>d", "c>e"])
    assert (hierarchy.parents, hierarchy.levels) == ((), ())
    probabilities = np.array([[0.2, 0.3, 0.5, 0.0]], np.float32)
    assert hierarchy.with_parents(probabilities) is probabilities
    assert Hierarchy.of(["a > b > c", "a > d", "x > y", "z"]).parents == ("a",)


def test_a_label_with_labels_below_it_is_a_parent_that_holds_itself_too():
    hierarchy = Hierarchy.of(["a", "a > b", "c"])
    assert hierarchy.parents == ("a",)
    assert hierarchy.answers == ("a", "a > b", "c", "a")
    assert hierarchy.names == ("a", "a > b", "c", "a > *")
    np.testing.assert_allclose(
        hierarchy.with_parents(np.array([[0.5, 0.25, 0.25]], np.float32)), [[0.5, 0.25, 0.25, 0.75]]
    )


@given(
    st.lists(
        st.sampled_from(["a", "a > b", "a > b > c", "a > b > d", "a > e", "f > g", "f > h", "i"]),
        min_size=2,
        unique=True,
    )
)
def test_a_parents_probability_is_the_sum_of_its_childrens(labels):
    hierarchy = Hierarchy.of(labels)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(len(labels)), 5).astype(np.float32)
    found = hierarchy.with_parents(probabilities)
    np.testing.assert_array_equal(found[:, : len(labels)], probabilities)
    for place, parent in enumerate(hierarchy.parents):
        below = [label == parent or label.startswith(f"{parent} > ") for label in labels]
        assert sum(below) > 1
        np.testing.assert_allclose(
            found[:, len(labels) + place], probabilities[:, below].sum(axis=1), atol=1e-6
        )
    depths = [
        [hierarchy.answers[place].count(" > ") for place in level] for level in hierarchy.levels
    ]
    assert [depth for level in depths for depth in level] == sorted(
        (name.count(" > ") for name in hierarchy.parents), reverse=True
    )
    assert all(len(set(level)) == 1 for level in depths)


def test_children_that_are_split_are_answered_with_their_parent():
    """Texts of "net" whose child label is random.

    No child label can be proved right, but the parent can.
    """
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, 600)
    probabilities = np.full((600, 3), 0.02, np.float32)
    probabilities[true == 0, 0] = 0.96
    probabilities[true > 0, 1:] = 0.49
    probabilities[np.arange(600), np.where(true > 0, generator.integers(1, 3, 600), 0)] += 0.001
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    decisions = decided(probabilities, true)
    found = automation(decisions)
    assert decisions.thresholds[0] == pytest.approx(0.96, abs=0.01)
    assert decisions.parent_thresholds[0] == pytest.approx(0.98, abs=0.01)
    assert (found.rows, found.automatic, found.right) == (600, 600, 600)
    assert found.parents == (true > 0).sum()


def test_a_parents_threshold_rests_on_the_rows_that_no_label_was_certain_enough_for():
    """Answers "billing" are always right; eight in ten answers "net" are."""
    generator = np.random.default_rng(0)
    sure = np.arange(1000) < 600
    probabilities = np.where(sure[:, None], [0.01, 0.98, 0.01], [0.1, 0.46, 0.44])
    probabilities[:, 1] += generator.random(1000) * 1e-3
    right = generator.random(1000) < 0.8
    true = np.where(sure, 1, np.where(right, generator.integers(1, 3, 1000), 0))
    assert decided(probabilities.astype(np.float32), true).parent_thresholds == (None,)


def test_a_parent_that_is_often_wrong_is_not_answered():
    generator = np.random.default_rng(0)
    true = generator.integers(0, 3, 600)
    decisions = decided(generator.dirichlet(np.ones(3), 600).astype(np.float32), true)
    assert decisions.parent_thresholds == (None,)
    assert automation(decisions).automatic == 0


def test_answers_fall_back_to_the_parent(folder):
    predictor = undecided(folder, 0.6)
    texts = ["router cable red light", "app login password", "invoice refund money", " "]
    hardware, software, billing, blank = predictor.classify(texts)
    probabilities = predictor.predict_proba(texts)[:3]
    found = predictor.answer(texts).probabilities[:3, 3]
    np.testing.assert_allclose(found, probabilities[:, 1:].sum(axis=1), atol=1e-6)
    assert {hardware.label, software.label} == {"net"}
    assert hardware.decision == software.decision == "auto"
    assert hardware.confidence == pytest.approx(hardware.probabilities["net"])
    assert hardware.runner_up in LABELS
    assert (billing.label, billing.decision) == ("billing", "review:ambiguous")
    assert (blank.label, blank.decision) == (None, "review:empty")


def scored(predictor, folder):
    """The report and the rows of a scored file with a text of each label."""
    texts = ("router cable red light", "app login password", "invoice refund money")
    (folder / "in.csv").write_text("\n".join(("text", *texts)) + "\n")
    report = score_csv(predictor, folder / "in.csv", folder / "out.csv", probabilities=True)
    return report, list(csv.DictReader((folder / "out.csv").open()))


def test_a_scored_file_names_the_parent_and_gives_its_probability(folder, tmp_path):
    report, rows = scored(undecided(folder, 0.6), tmp_path)
    assert [row["predicted_label"] for row in rows] == ["net", "net", "billing"]
    assert [row["decision"] for row in rows] == ["auto", "auto", "review:ambiguous"]
    for row in rows:
        children = float(row["p_net > hardware"]) + float(row["p_net > software"])
        assert float(row["p_net"]) == pytest.approx(children, abs=2e-6)
    assert report.labels == {"billing": 1, "net": 2}


def test_a_label_is_answered_if_it_or_a_label_below_is_certain(encoder_folder, tmp_path):
    texts, labels = tickets()
    names = {"billing": "billing", "hardware": "net", "software": "net > software"}
    quick(encoder_folder).fit(texts, [names[label] for label in labels]).save(tmp_path / "model")
    predictor = undecided(tmp_path / "model", 0.6)
    report, rows = scored(predictor, tmp_path)
    assert [row["predicted_label"] for row in rows] == ["net", "net", "billing"]
    for row in rows[:2]:
        own = float(row["p_net"])
        both = own + float(row["p_net > software"])
        assert float(row["p_net > *"]) == pytest.approx(both, abs=2e-6)
        assert float(row["confidence"]) == pytest.approx(both, abs=2e-6)
        (answer,) = predictor.classify([row["text"]])
        assert answer.probabilities["net"] == pytest.approx(own, abs=2e-6)
    assert report.labels == {"net": 2, "billing": 1}


def test_a_saved_model_knows_its_levels(folder):
    predictor = load(folder)
    held_out = predictor.decisions.held_out
    assert predictor.hierarchy.parents == ("net",)
    assert len(held_out.parents) == len(predictor.decisions.parent_thresholds) == 1
    assert len(held_out.parents[0].right) == len(held_out.right)


def test_thresholds_of_levels_that_the_labels_do_not_have_are_refused(folder, tmp_path):
    decisions = Decisions(parent_thresholds=(0.5, 0.5))
    odd = dataclasses.replace(read_bundle(folder), decisions=decisions)
    with pytest.raises(BundleError, match="2 parent_thresholds; expected one for each of the 1"):
        write_bundle(odd, tmp_path / "odd")


def test_comparisons_have_parents_only_with_configured_levels(folder):
    bundle = dataclasses.replace(
        read_bundle(folder), labels=("Delay > 30 days", "Delay > 60 days", "Damage")
    )
    assert bundle.hierarchy.parents == ()
    chosen = bundle.config.model_copy(update={"label_levels": " > "})
    assert dataclasses.replace(bundle, config=chosen).hierarchy.parents == ("Delay",)


@pytest.mark.parametrize(
    "labels",
    [
        ["Delay > 30 days", "Delay > 60 days"],
        ["Delay > 30 days", "Delay > 60 days", "Delay > unknown"],
        ["CPU > 90%", "CPU > 80 %"],
        ["Amount > EUR 100", "Amount > $5,000"],
        ["5 > 3", "5 > 4"],
        ["load > limit", "load > target", "load < target"],
        ["Delay > one week", "Delay > two weeks"],
        ["price > 10-20", "price > 20+"],
        ["net > wifi", "net > cable", "a", "b", "c"],  # too few values
        ["TCP/IP", "TCP/UDP", "a::b", "a::c", "Billing - general", "Billing - refund", "A|B"],
    ],
)
def test_names_that_form_no_tree_have_no_parents(labels):
    assert Hierarchy.of(labels, "auto").parents == ()


@pytest.mark.parametrize(
    ("labels", "parents"),
    [
        (LABELS, ("net",)),
        (
            ["net > wifi > slow", "net > wifi > dead", "net > cable", "billing"],
            ("net > wifi", "net"),
        ),
        (["Windows 10 > slow", "Windows 10 > crash"], ("Windows 10",)),
        (["net > 5G", "net > 2FA", "net > 1st line"], ("net",)),
        (["app", "net", "net > cable", "net > wifi"], ("net",)),
        (["net > wifi", "net > cable", "Delay > 30 days", "Delay > 60 days"], ("net",)),
    ],
)
def test_trees_are_detected_automatically(labels, parents):
    assert Hierarchy.of(labels, "auto").parents == parents


def test_levels_may_have_another_separator_with_or_without_spaces_around():
    hierarchy = Hierarchy.of(["net/wifi", "net / cable", "app"], "/")
    assert (hierarchy.parents, hierarchy.names[3:]) == (("net",), ("net",))
    np.testing.assert_allclose(
        hierarchy.with_parents(np.array([[0.5, 0.25, 0.25]], np.float32)), [[0.5, 0.25, 0.25, 0.75]]
    )
    assert Hierarchy.of(["net/wifi", "net"], "/").names == ("net/wifi", "net", "net/*")
    assert Hierarchy.of(LABELS, "no").parents == ()
