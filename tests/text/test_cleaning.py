"""Cleaning makes any Python string fit for tokenisation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcnn.text.cleaning import clean_text, is_blank

ANY_TEXT = st.text(st.characters())  # hypothesis generates surrogates


@given(ANY_TEXT)
def test_cleaned_text_is_utf8_without_nul_and_cleaning_again_changes_nothing(text):
    cleaned = clean_text(text)
    assert "\0" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean_text(cleaned) == cleaned


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_a_valid_text_is_unchanged(text):
    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00\ud83d!", "\ufffd\ufffd!"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("\0é\0", "\ufffdé\ufffd"),
    ],
)
def test_surrogate_halves_are_joined_or_replaced(text, cleaned):
    assert clean_text(text) == cleaned


BLANK = ["", " ", "\t\r\n", "\u00a0", "\u200b", "\ufeff", "\0", "\ufffd", "\u2003\u200b \ufeff"]
BLANK += ["\u3000\0", "\ud83d", "\x1f\x7f"]


@pytest.mark.parametrize("text", BLANK)
def test_invisible_text_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize(
    "text", ["a", " . ", "\u200ba", "😀", "\u0301", "NA", "null", "0", "-", "\ud83d\ude00"]
)
def test_visible_text_is_not_blank(text):
    assert not is_blank(text)
