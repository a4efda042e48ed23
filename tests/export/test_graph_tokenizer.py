"""The tokenizer in an exported SavedModel gives the same ids as the training tokenizer."""

import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from bertcnn.export.graph_tokenizer import GraphTokenizer
from bertcnn.export.parity_texts import PARITY_TEXTS
from bertcnn.settings import TokenizerSettings
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from tests.inference.test_predictor import NAUGHTY

# private and unassigned characters are alike; a sample of each is enough
CHARACTERS = [
    chr(point)
    for point in range(sys.maxunicode + 1)
    if unicodedata.category(chr(point)) not in ("Cs", "Co", "Cn")
    or (point % 97 == 0 and not 0xD800 <= point < 0xE000)
]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def both(request, minilm_folder):
    settings = TokenizerSettings(lowercase=request.param, max_tokens=40, head_tokens=12)
    tokenizer = WordPieceTokenizer(read_vocabulary(minilm_folder / "vocab.txt"), settings)
    graph = GraphTokenizer(tokenizer)
    return tokenizer, tf.function(graph.encode, input_signature=[tf.TensorSpec([None], tf.string)])


def different(both, texts):
    """The texts that get other ids."""
    tokenizer, encode = both
    wanted = [ids.tolist() for ids in tokenizer.encode(texts).token_ids]
    found = encode(tf.constant([text.encode("utf-8", "surrogatepass") for text in texts])).to_list()
    return [text for text, ours, theirs in zip(texts, wanted, found, strict=True) if ours != theirs]


def test_every_character_alone_and_inside_a_word(both):
    assert len(CHARACTERS) > 150_000
    assert different(both, [f"{character} ab{character}cd" for character in CHARACTERS]) == []


def test_texts_that_break_tokenizers_and_texts_over_the_limit(both):
    naughty = [text for text in NAUGHTY if text != "\udfff\ud83d"]
    assert different(both, [*PARITY_TEXTS, *naughty]) == []


def test_words_of_a_hundred_characters_and_more(both):
    words = [
        letter * count
        for letter in ("x", "я", "é", "e\u0301", "İ", "𝕿", "한")
        for count in (50, 51, 99, 100, 101, 400)
    ]
    assert different(both, [*words, *(f"{word}. {word} refund" for word in words)]) == []


def test_random_strings(both):
    generator = np.random.default_rng(0)
    pools = (
        CHARACTERS,
        [character for character in CHARACTERS if ord(character) < 0x3000],
        [*map(chr, range(1, 0x300)), *"…—  ΣσςｌＡ我ル한𝕿"],
    )
    texts = [
        "".join(pool[at] for at in generator.integers(0, len(pool), generator.integers(1, 60)))
        for pool in pools
        for _ in range(1_000)
    ]
    assert different(both, texts) == []


def test_invalid_utf_8_and_no_texts(both):
    tokenizer, encode = both
    assert encode(tf.constant([b"ref\xffund", b"\xed\xa0\x80"])).to_list() == [
        ids.tolist() for ids in tokenizer.encode(["refund", ""]).token_ids
    ]
    assert encode(tf.constant([], tf.string)).to_list() == []
