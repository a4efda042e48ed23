"""Learned vocabularies contain only pieces shared by several documents, for any text.

The same text always gives the same vocabulary.
"""

import csv
from collections import Counter
from pathlib import Path
from weakref import WeakSet

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.errors import SettingsError, TableError
from bertcnn.settings import TokenizerSettings
from bertcnn.text.vocabulary import CONTINUATION, PUBLISHED_SIZE, SPECIAL_TOKENS, learn_vocabulary
from bertcnn.text.wordpiece import LONGEST_WORD, WordPieceTokenizer, read_vocabulary

TICKETS = Path(__file__).parents[2] / "data" / "isp_tickets.csv"
DOCUMENTS = st.lists(
    st.text(st.sampled_from("aabbccdE é.我 \u0301ßΣ\0\ud83d"), max_size=12), min_size=3, max_size=8
)
ANY_DOCUMENTS = st.lists(
    st.text(st.characters(), max_size=6).map(lambda text: text + " ab"), min_size=3, max_size=5
)


def words_of(documents, lowercase):
    """The words of each document, as the tokenizer looks them up."""
    tokenizer = WordPieceTokenizer(SPECIAL_TOKENS, TokenizerSettings(lowercase=lowercase))
    cleaned = (text.replace("\0", "").replace("\ud83d", "") for text in documents)
    return [tokenizer.words(tokenizer.normalize(text)) for text in cleaned]


def contains(word, piece):
    """Whether the piece occurs in the word, as its beginning or later."""
    return piece[2:] in word[1:] if piece.startswith(CONTINUATION) else word.startswith(piece)


def learned_or_none(documents, **options):
    try:
        return learn_vocabulary(documents, **options)
    except TableError:
        return None


@pytest.fixture(scope="module")
def tickets():
    with TICKETS.open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


@settings(max_examples=150)
@given(DOCUMENTS, st.booleans(), st.integers(1, 3), st.integers(1, 4))
def test_every_piece_is_seen_in_enough_documents_and_often_enough(
    documents, lowercase, min_documents, min_frequency
):
    least = {"min_documents": min_documents, "min_frequency": min_frequency}
    pieces = learned_or_none(documents, lowercase=lowercase, **least)
    found = words_of(documents, lowercase)
    for piece in (pieces or [])[len(SPECIAL_TOKENS) :]:
        string = piece.removeprefix(CONTINUATION)

        def has(word, piece=piece, string=string):
            return string in word if len(string) == 1 else contains(word, piece)

        assert sum(any(map(has, words)) for words in found) >= min_documents, piece
        if len(string) > 1:
            times = sum(
                word.startswith(string, at)
                for words in found
                for word in words
                for at in range(len(word))
            )
            assert times >= min_frequency, piece


@settings(max_examples=150)
@given(DOCUMENTS, st.booleans())
def test_every_character_of_three_documents_can_be_encoded_anywhere_in_a_word(documents, lowercase):
    found = words_of(documents, lowercase)
    counts = Counter(char for words in found for char in {char for word in words for char in word})
    shared = {char for char, count in counts.items() if count >= 3}
    pieces = learned_or_none(documents, lowercase=lowercase)
    if not shared:
        assert pieces is None
        return
    tokenizer = WordPieceTokenizer(pieces, TokenizerSettings(lowercase=lowercase))
    for first in shared:
        for second in shared:
            (ids,) = tokenizer.encode([first + second]).token_ids
            assert tokenizer.unknown_id not in ids, (first, second)
    for char in set(counts) - shared:
        assert tokenizer.encode([char]).token_ids[0].tolist() == [2, tokenizer.unknown_id, 3]


@settings(max_examples=100)
@given(documents=ANY_DOCUMENTS, lowercase=st.booleans(), min_documents=st.integers(1, 3))
def test_any_text_gives_a_vocabulary_that_can_be_written_and_read(
    documents, lowercase, min_documents, tmp_path_factory
):
    pieces = learn_vocabulary(documents, lowercase=lowercase, min_documents=min_documents)
    assert pieces[: len(SPECIAL_TOKENS)] == list(SPECIAL_TOKENS)
    assert {"a", "##b"} <= set(pieces)
    path = tmp_path_factory.mktemp("written") / "vocab.txt"
    path.write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
    assert read_vocabulary(path) == tuple(pieces)


ANY_ORDER = ["no signal", "signal lost", "no cable", "cable lost", "no no signal"]


@settings(max_examples=50)
@given(st.permutations(ANY_ORDER))
def test_the_vocabulary_does_not_depend_on_the_run_or_the_order_of_documents(documents):
    assert learn_vocabulary(documents) == learn_vocabulary(ANY_ORDER)


def test_the_most_frequent_pair_is_merged_first_and_ties_are_in_order():
    learned = learn_vocabulary(["cd cd ab", "ab cd", "cd ab zx"])[5:]
    assert learned == [*"abcd", "##a", "##b", "##c", "##d", "cd", "ab"]
    assert learn_vocabulary(["cd ab", "ab cd", "cd ab"])[-2:] == ["ab", "cd"]


def test_a_word_of_one_document_is_not_learned_however_frequent():
    private = "Kowalczyk 4711-0815 " * 50
    others = ["my bill", "my bill is wrong", "a bill, my bill: 12 kW lost"]
    pieces = learn_vocabulary([private, private, *others])
    assert "bill" in pieces
    assert not any(part in piece for piece in pieces for part in ("kow", "wal", "czyk", "47", "08"))


def test_a_characters_counts_at_the_start_and_inside_of_words_are_added():
    assert "##x" in learn_vocabulary(["x", "ax", "bx"])


def test_only_the_characters_of_too_long_words_are_learned():
    long, whole = "ab" * LONGEST_WORD, "ab" * (LONGEST_WORD // 2)
    pieces = learn_vocabulary([long, long, f"{whole}a a", "a"], min_documents=3)
    assert pieces[5:] == ["a", "b", "##a", "##b"]
    assert whole in learn_vocabulary([whole] * 3)


def test_case_is_kept_on_request():
    documents = ["Café NO", "Café no", "Café No"]
    assert {"Café"} <= set(learn_vocabulary(documents, lowercase=False))
    assert {"cafe", "no"} <= set(learn_vocabulary(documents))


@pytest.mark.parametrize("size", [100, 500, 2_000])
def test_the_size_is_exact_and_a_smaller_vocabulary_is_a_prefix_of_a_larger_one(tickets, size):
    pieces = learn_vocabulary(tickets, size=size)
    assert len(pieces) == size
    assert len(set(pieces)) == size
    assert learn_vocabulary(tickets, size=size + 10)[:size] == pieces


def test_the_sample_tickets_need_fewer_tokens_with_more_pieces_and_none_unknown(tickets):
    pieces = learn_vocabulary(tickets)
    assert 2_000 < len(pieces) < PUBLISHED_SIZE
    tokens = []
    for size in (120, 600, len(pieces)):
        tokenizer = WordPieceTokenizer(pieces[:size], TokenizerSettings())
        ids = tokenizer.encode(tickets).token_ids
        tokens.append(sum(map(len, ids)))
        assert sum(int((row == tokenizer.unknown_id).sum()) for row in ids) < 0.001 * tokens[-1]
    assert tokens[0] > 1.3 * tokens[1] > 1.3 * 1.3 * tokens[2]


def test_documents_are_read_once_and_not_held_in_memory():
    class Document(str):
        """A string that can be referred to weakly."""

    alive, most = WeakSet(), [0]

    def documents():
        for number in range(100):
            document = Document(f"no signal since today {number}")
            alive.add(document)
            most.append(len(alive))
            yield document

    assert "signal" in learn_vocabulary(documents())
    assert max(most) <= 2


# === Bad input ===


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "a text of 0 documents; expected at least 3, since a piece is learned only if"),
        (["a", "a"], "a text of 2 documents; expected at least 3"),
        (["", " ", "\0"], "3 documents of which no 3 have a character in common; expected"),
        (["a", "b", "c"], "3 documents of which no 3 have a character in common"),
    ],
)
def test_documents_without_common_characters_are_refused(documents, message):
    with pytest.raises(TableError, match=message):
        learn_vocabulary(documents)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 30_522}, r"30,522 pieces from 4 documents; expected at most 10, since no more"),
        ({"size": 11}, "a vocabulary of 11 pieces from 4 documents; expected at most 10"),
        ({"size": 8}, "8 pieces for a text with 4 characters to keep .*; expected at least 9"),
        ({"size": 0}, "size was 0; expected at least 1"),
        ({"min_documents": 0}, "min_documents was 0; expected at least 1"),
        ({"min_frequency": -1}, "min_frequency was -1; expected at least 1"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        learn_vocabulary(["ab"] * 4, **options)


def test_the_size_named_in_a_refusal_works_and_a_single_string_is_refused():
    for size in (9, 10):
        assert len(learn_vocabulary(["ab"] * 4, size=size)) == size
    with pytest.raises(SettingsError, match="one string; expected several documents"):
        learn_vocabulary("ab ab ab")
