"""Word pieces, and texts joined from them again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.errors import BundleError
from bertcnn.tasks.subwords import Subwords, words
from bertcnn.text.wordpiece import SPECIAL_TOKENS

TEXTS = ["Ti amo molto.", "L'auto è rotta!", "2019-03-07", "Perché no? (forse)", "è già l'una"]


@pytest.fixture(scope="module")
def subwords():
    return Subwords.learn(TEXTS * 3, 90)


def test_texts_come_back_with_their_spaces_accents_and_capitals(subwords):
    ids = subwords.encode(TEXTS, longest=64)
    assert [subwords.decode(one.tolist()) for one in ids] == TEXTS
    assert all(one[-1] == subwords.end_id and one.dtype == "int32" for one in ids)


@given(st.text(alphabet="Tiamolt. L'uèr!2019-37 \t", max_size=30))
def test_any_text_of_known_characters_comes_back(text):
    learned = Subwords.learn(TEXTS * 3, 60)
    ids = learned.encode([text], longest=64)[0]
    assert learned.decode(ids.tolist()) == " ".join(text.split())


def test_accents_are_composed_and_unknown_characters_make_a_word_unknown(subwords):
    composed, apart = subwords.encode(["perché", "perche\u0301"], longest=64)
    assert composed.tolist() == apart.tolist()
    assert subwords.decode(subwords.encode(["a 語o amo"], longest=64)[0]).split()[1] == "[UNK]"
    assert words(" a\u00a0 b\n") == ["a", "b"]


def test_the_vocabulary_has_the_given_size_and_each_character():
    assert len(Subwords.learn(TEXTS * 3, 90).vocabulary) == 90
    few = Subwords.learn(TEXTS * 3, 1)
    assert all(len(piece.removeprefix("##")) == 1 for piece in few.vocabulary[5:])
    assert few.decode(few.encode(TEXTS, 64)[0].tolist()) == TEXTS[0]


def test_a_long_text_is_cut_before_its_end_token(subwords):
    ids = subwords.encode(["amo " * 50], longest=7)[0]
    assert len(ids) == 7
    assert ids[-1] == subwords.end_id


def test_a_special_token_in_a_text_is_not_one(subwords):
    ids = subwords.encode(["[SEP] [PAD]"], longest=64)[0].tolist()
    assert ids.index(subwords.end_id) == len(ids) - 1


@pytest.mark.parametrize("vocabulary", [["a"], [*SPECIAL_TOKENS, "a", "a"]])
def test_another_vocabulary_is_refused(vocabulary):
    with pytest.raises(BundleError, match="pieces; expected different ones that begin with"):
        Subwords(vocabulary)
