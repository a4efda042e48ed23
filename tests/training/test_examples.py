"""From a user's data to rows: checked, split and tokenised."""

import numpy as np
import pytest

from bertcnn.errors import LabelError, SettingsError
from bertcnn.settings import TokenizerSettings
from bertcnn.text.wordpiece import WordPieceTokenizer
from bertcnn.training.examples import LabelledTexts, different_texts, learning_and_validation
from tests.listener import Listener
from tests.tickets import tickets

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "router", "invoice", "is", "dead", "##s")


def split(texts, labels, valid=None, *, fraction=0.25, most=1000, several=False):
    notes = Listener()
    parts = learning_and_validation(
        texts, labels, valid, fraction=fraction, most=most, several=several, progress=notes
    )
    return *parts, notes.notes


def test_every_usable_row_is_learned_from_or_held_out():
    texts, labels = tickets(20)
    learning, held_out, unlabelled, notes = split([*texts, " ", "no label"], [*labels, "x", ""])
    assert sorted(learning.indices + held_out.indices) == list(range(60))
    assert unlabelled == ["no label"]
    assert notes[0] == "1 row left out: the text is blank"
    for part in (learning, held_out):
        assert part.texts == [texts[row] for row in part.indices]
        assert part.labels == [labels[row] for row in part.indices]
    assert {held_out.labels.count(name) for name in set(labels)} == {5}


def test_no_more_rows_are_held_out_than_requested():
    texts, labels = tickets(40)
    assert len(split(texts, labels, most=12)[1].texts) == pytest.approx(12, abs=3)


def test_spellings_of_a_label_are_one():
    texts, labels = tickets(8)
    labels[0] = "billing "
    learning, held_out, _, notes = split(texts, labels)
    assert {*learning.labels, *held_out.labels} == {"billing", "hardware", "software"}
    assert any("billing" in note for note in notes)


def test_a_set_that_no_row_teaches_is_not_held_out():
    texts = [f"text {letter}" for letter in "abcdefghijkl"]
    sets = [["a"], ["b"]] * 5 + [["a", "rare"], ["b", "rare"]]
    for fraction in (0.2, 0.5):
        learning, held_out, _, _ = split(texts, sets, fraction=fraction)
        learned = {label for own in learning.labels for label in own}
        assert {label for own in held_out.labels for label in own} <= learned


def test_given_validation_rows_follow_the_training_rows_labels():
    texts, labels = tickets(6)
    valid = (["router", "new", "router cable 3"], ["hardware ", "sales", "hardware"])
    learning, held_out, _, notes = split(texts, labels, valid)
    assert len(learning.texts) == 18
    assert held_out.labels == ["hardware", "hardware"]
    assert any("1 of 3 validation rows have a label that no" in note for note in notes)
    with pytest.raises(LabelError, match="validation rows with the labels 'sales'"):
        split(texts, labels, (["new"], ["sales"]))
    with pytest.raises(SettingsError, match="valid 'x'"):
        split(texts, labels, "x")


def test_a_part_has_an_equal_share_of_each_label():
    texts, labels = tickets(30)
    rows = LabelledTexts(texts, labels, list(range(90)))
    chosen = rows.part(30, seed=1)
    assert {rows.of(chosen).labels.count(name) for name in set(labels)} == {10}
    assert chosen.tolist() == rows.part(30, seed=1).tolist() != rows.part(30, seed=2).tolist()
    assert rows.part(None, seed=1).tolist() == rows.part(90, seed=1).tolist() == [*range(90)]


def test_tokens_and_places_of_labels_go_together():
    tokenizer = WordPieceTokenizer(VOCABULARY, TokenizerSettings(max_tokens=6, head_tokens=2))
    notes = Listener()
    rows = LabelledTexts(["router is dead", "invoices " * 9], ["b", "a"], [0, 1])
    found = rows.tokenized(tokenizer, ["a", "b"], notes)
    assert found.rows.labels.tolist() == [1, 0]
    assert found.rows.token_ids[0].tolist() == [2, 4, 6, 7, 3]
    assert (len(found.rows.token_ids[1]), found.cut.tolist()) == (6, [False, True])
    assert notes.notes[0].startswith("1 of 2 rows (50.0%) are longer than 6 tokens")
    several = LabelledTexts(["router", "dead"], [("b", "a"), ()], [0, 1])
    hot = several.tokenized(tokenizer, ["a", "b"], notes).rows.multi_hot
    np.testing.assert_array_equal(hot, [[True, True], [False, False]])


def test_different_texts_are_new_and_drawn_by_seed():
    texts = ["Router dead 1", "router dead 2!", "bill", "known one", "xa", "xb", "xc"]
    assert different_texts(texts, ["KNOWN one."], 9, 0) == [
        "Router dead 1",
        "bill",
        "xa",
        "xb",
        "xc",
    ]
    few = different_texts(texts, [], 3, 0)
    assert len(few) == 3
    assert few == different_texts(texts, [], 3, 0)
    assert [texts.index(text) for text in few] == sorted(texts.index(text) for text in few)
