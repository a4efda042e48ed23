"""Out-of-scope rows in training, in the thresholds, and in evaluation."""

import csv

import numpy as np
import pytest

import bertcnn
from bertcnn import evaluate_csv, train_csv
from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import LabelError, SettingsError
from bertcnn.evaluation.decisions import automation
from bertcnn.training.examples import StrangeTexts
from tests.listener import Listener
from tests.test_classifier import QUICK, quick
from tests.tickets import WORDS, as_csv, tickets

NOISE = ("zebra", "opera", "glacier", "violin", "tulip", "comet", "otter")


def strange(count, first=0):
    """Different texts in words of no label."""
    return [
        f"{NOISE[row % 7]} {NOISE[row // 7 % 7]} {NOISE[(row // 3 + 2) % 7]} at gate {row}"
        for row in range(first, first + count)
    ]


@pytest.fixture(scope="module")
def by_label(encoder_folder, tmp_path_factory):
    """A model trained on rows with an out-of-scope label; its notes; the data file."""
    folder, notes = tmp_path_factory.mktemp("strange"), Listener()
    texts, labels = tickets(60)
    data = folder / "data.csv"
    data.write_text(as_csv([*texts, *strange(40)], [*labels, *["spam"] * 40]))
    classifier = quick(encoder_folder, training={**QUICK, "validation_fraction": 0.3})
    classifier.progress = notes
    train_csv(data, folder / "model", classifier)
    return folder / "model", notes.notes, data


def test_the_out_of_scope_label_is_found_reported_saved_and_never_predicted(by_label):
    model, notes, _ = by_label
    bundle = read_bundle(model)
    assert bundle.labels == tuple(sorted(WORDS))
    assert bundle.config.out_of_scope_labels == ("spam",)
    assert any(
        note.startswith("40 different texts labelled 'spam' out of scope: ")
        and "out_of_scope 'no' takes that as a label" in note
        for note in notes
    )
    assert "spam" not in bertcnn.load(model).predict(strange(5)).tolist()


def test_out_of_scope_rows_are_counted_in_the_decisions(by_label):
    model, notes, data = by_label
    bundle = read_bundle(model)
    held_out, found = bundle.decisions.held_out, automation(bundle.decisions)
    assert held_out.all_strange == found.strange == 20
    assert any("messages that belong to no label: of 20 held-out ones" in note for note in notes)
    assert "of 20 held-out ones" in bundle.model_card
    assert "of 20 held-out ones" in bundle.report
    figures = evaluate_csv(model, data)
    assert (figures.rows, figures.out_of_scope.rows, figures.unknown_labels) == (180, 40, ())
    others = bertcnn.load(model).answer(strange(60, first=40))
    assert np.mean(others.decisions == 0) <= 0.2  # few are automatic


def test_a_file_of_out_of_scope_texts_works_too(encoder_folder, tmp_path):
    texts, labels = tickets(20)
    (tmp_path / "data.csv").write_text(as_csv(texts, labels))
    with (tmp_path / "strange.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["message"])
        writer.writerows([[text] for text in [*strange(20), ""]])
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 1, "validation_fraction": 0.4})
    train_csv(
        tmp_path / "data.csv", tmp_path / "m", classifier, out_of_scope=tmp_path / "strange.csv"
    )
    bundle = read_bundle(tmp_path / "m")
    assert bundle.decisions.held_out.all_strange == 10
    assert bundle.config.out_of_scope_labels == ()


def test_detection_can_be_turned_off_and_the_label_named(encoder_folder, tmp_path):
    texts, labels = tickets(8)
    rows = as_csv([*texts, *strange(6)], [*labels, *["spam"] * 6])
    (tmp_path / "spam.csv").write_text(rows)
    (tmp_path / "rest.csv").write_text(rows.replace(",spam\n", ",rest\n"))
    short = {**QUICK, "epochs": 1}
    train_csv(
        tmp_path / "spam.csv",
        tmp_path / "kept",
        quick(encoder_folder, training=short),
        out_of_scope="no",
    )
    assert "spam" in read_bundle(tmp_path / "kept").labels
    train_csv(
        tmp_path / "rest.csv",
        tmp_path / "named",
        quick(encoder_folder, training=short),
        out_of_scope="rest",
        min_rows=8,  # the label is not merged into "other"
    )
    assert read_bundle(tmp_path / "named").labels == tuple(sorted(WORDS))
    with pytest.raises(LabelError, match="out of scope 'nonsense', which is neither a label nor"):
        train_csv(
            tmp_path / "rest.csv",
            tmp_path / "none",
            quick(encoder_folder, training=short),
            out_of_scope="nonsense",
        )
    with pytest.raises(SettingsError, match="out_of_scope '3'"):
        quick(encoder_folder, out_of_scope=3).fit(texts, labels)


def test_out_of_scope_rows_are_split_evenly():
    texts = strange(21)
    found = StrangeTexts.of((), texts[:10], texts[10:12], [*texts[12:], " ", texts[3].upper()])
    assert len(found.learned) + len(found.measured) == 21
    assert abs(len(found.learned) - len(found.measured)) <= 1
    assert set(found.measured) >= set(texts[10:12])
    assert not set(found.learned) & set(found.measured)
    assert StrangeTexts.of((), texts[:10], texts[10:12], texts[12:]).measured == found.measured
