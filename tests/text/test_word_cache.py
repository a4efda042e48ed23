"""TokenizedWords gives the ids and offsets that the library gives for whole texts."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bertcnn.text.word_cache import TokenizedWords, ranges, tokenize_words

PIECES = [
    "[UNK]",
    *"abcdeéßσ'.,-我각�\u0301",
    *(f"##{letter}" for letter in "abcdeéßσ\u0301"),
    "ab",
    "##cd",
]
LETTERS = (
    "abcd eE  É\té\n\rß\u0301\u0327\u0130ΣσÅ我각\u00ad\u200b\ufffd\u2028\u00a0\u001c\u0085.,'-😀"
)


@pytest.fixture(scope="module")
def tokenizers():
    """Tokenizers by casing."""
    made = {}
    for lowercase in (True, False):
        made[lowercase] = Tokenizer(
            WordPiece({piece: number for number, piece in enumerate(PIECES)}, unk_token="[UNK]")
        )
        made[lowercase].normalizer = BertNormalizer(lowercase=lowercase)
        made[lowercase].pre_tokenizer = BertPreTokenizer()
    return made


@settings(max_examples=400)
@given(
    texts=st.lists(
        st.text(st.sampled_from(LETTERS), max_size=40) | st.text(max_size=20), max_size=8
    ),
    lowercase=st.booleans(),
)
@example(texts=["", " ", "\t\n", "a  b", " \u0301a", "e\u0301 \u0327b"], lowercase=True)
@example(texts=[" \u0301a", "e\u0301 \u0327b", "\u200b a\u200b \u200bb"], lowercase=False)
# more different words than go in a line
@example(texts=[" ".join(map(chr, range(0x100, 0x200)))] * 2, lowercase=True)
def test_cached_words_give_the_pieces_of_the_whole_text(tokenizers, texts, lowercase):
    texts = [text.replace("\0", "") for text in texts]
    found = tokenize_words(tokenizers[lowercase], texts)
    wanted = [tokenizers[lowercase].encode(text, add_special_tokens=False) for text in texts]
    assert found.lengths.tolist() == [len(encoding.ids) for encoding in wanted]
    assert found.ids.tolist() == [number for encoding in wanted for number in encoding.ids]
    assert found.places.tolist() == [
        list(place) for encoding in wanted for place in encoding.offsets
    ]
    assert (found.ids.dtype, found.places.dtype) == (np.int32, np.int32)


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(2, 8), st.integers(0, 8))
def test_the_middle_of_a_long_text_is_left_out(lengths, most, head):
    head = min(head, most)
    numbers = ranges(np.zeros(len(lengths), np.int64), np.array(lengths, np.int64)).astype(np.int32)
    left = TokenizedWords(
        numbers, np.stack([numbers, numbers + 1], axis=1), np.array(lengths, np.int64)
    ).without_middle(most, head)
    kept = [
        (
            list(range(length))
            if length <= most
            else [*range(head), *range(length - most + head, length)]
        )
        for length in lengths
    ]
    assert left.ids.tolist() == [number for text in kept for number in text]
    assert left.places.tolist() == [[number, number + 1] for text in kept for number in text]
    assert left.lengths.tolist() == [len(text) for text in kept]
    assert left.first.tolist() == [sum(map(len, kept[:text])) for text in range(len(kept))]
