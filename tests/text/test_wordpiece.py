"""Token ids: equal to those of Hugging Face's tokenizer, safe for every string, in linear time."""

import csv
import json
import time
from pathlib import Path
from unicodedata import category, normalize

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.errors import EncoderError, SettingsError
from bertcnn.settings import TokenizerSettings
from bertcnn.text.cleaning import clean_text
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from tests.conftest import TINY_VOCABULARY

GOLDEN = Path(__file__).parent.parent / "golden"
SAMPLE = Path(__file__).parents[2] / "data" / "isp_tickets.csv"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


@pytest.fixture(scope="module")
def tickets():
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        return [row["text"] for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def minilm(minilm_folder):
    return WordPieceTokenizer(read_vocabulary(minilm_folder / "vocab.txt"))


@pytest.fixture(scope="module")
def tiny(tiny_vocabulary):
    return WordPieceTokenizer(tiny_vocabulary, TokenizerSettings(max_tokens=12, head_tokens=4))


def ids(tokenizer, *texts):
    return [row.tolist() for row in tokenizer.encode(texts).token_ids]


def test_ids_equal_hugging_faces(minilm):
    content = json.loads((GOLDEN / "bert_texts.json").read_text(encoding="utf-8"))
    texts = [*(text for batch in content["batches"] for text in batch), *content["tokenizer_only"]]
    with np.load(GOLDEN / "bert_golden.npz") as golden:
        expected = np.split(golden["ids"], np.cumsum(golden["id_counts"])[:-1])
    encoded = minilm.encode(texts)
    assert len(texts) >= 80
    assert not encoded.truncated.any()
    for text, found, wanted in zip(texts, encoded.token_ids, expected, strict=True):
        assert found.tolist() == wanted.tolist(), text


def test_surrogate_halves_and_nul_are_dropped_like_the_replacement_character(minilm):
    texts = ("no signal", "no sig\0nal", "no sig\ud83dnal", "\ude00no sig\ufffdnal\0\0")
    plain, *others = ids(minilm, *texts)
    assert others == [plain] * 3
    assert ids(minilm, "\ud83d\ude00") == ids(minilm, "😀")


@settings(max_examples=200)
@given(st.text(st.characters()))
def test_every_string_gives_vocabulary_ids_between_cls_and_sep(tiny, text):
    (row,) = ids(tiny, text)
    assert (row[0], row[-1]) == (2, 3)
    assert set(row[1:-1]) <= set(range(len(tiny.vocabulary))) - {0, 2, 3, 4}


def test_a_customer_cannot_type_a_control_token(minilm):
    (row,) = ids(minilm, "[CLS] [SEP][MASK] [PAD] [UNK]")
    assert not {0, 100, 101, 102, 103} & set(row[1:-1])


def test_words_over_100_characters_are_unknown(minilm):
    short, long = ids(minilm, "x" * 100, "x" * 101)
    assert long == [101, 100, 102]
    assert 100 not in short


@pytest.mark.parametrize(
    ("words", "kept"),
    [(9, "123456789"), (10, "1234567890"), (11, "123467890a"), (14, "123490abcd")],
)
def test_a_long_text_keeps_head_and_tail(tiny, words, kept):
    text = " ".join("1234567890abcdefg"[:words])
    encoded = tiny.encode([text])
    pieces = "".join(tiny.vocabulary[index] for index in encoded.token_ids[0][1:-1])
    assert pieces == kept
    assert encoded.truncated.tolist() == [words > 10]
    assert encoded.lengths.tolist() == [min(words, 10) + 2]


def test_the_defaults_keep_128_and_382_tokens(minilm):
    text = " ".join(str(number % 10) for number in range(600))
    encoded = minilm.encode([text])
    whole = WordPieceTokenizer(minilm.vocabulary, TokenizerSettings(max_tokens=1000))
    (everything,) = ids(whole, text)
    assert encoded.token_ids[0].tolist() == [*everything[:129], *everything[-383:]]
    assert encoded.lengths.tolist() == [512]


def test_a_cased_tokenizer_keeps_case_and_accents():
    vocabulary = [*SPECIAL, "Zürich", "zurich"]
    cased = WordPieceTokenizer(vocabulary, TokenizerSettings(lowercase=False))
    assert ids(cased, "Zürich") == [[2, 4, 3]]
    assert ids(WordPieceTokenizer(vocabulary), "Zürich") == [[2, 5, 3]]


@pytest.mark.parametrize(
    ("unit", "characters"),
    [
        *((unit, 5_000) for unit in ("é", "a ", "ab.", "e\u0301")),
        ("x", 100_000),  # a single word
        ("e\u0301\u0327", 30_000),
    ],
)
def test_time_is_linear_in_the_length(tiny, unit, characters):
    def seconds(characters):
        text, found = unit * (characters // len(unit)), []
        for _ in range(2):
            start = time.process_time()
            tiny.encode([text])
            found.append(time.process_time() - start)
        return min(found)

    small, large = seconds(characters), seconds(10 * characters)
    assert large < 40 * small + 0.05  # quadratic time would be 100 times as long


# === Places in the text ===

MIXED = st.text(
    st.sampled_from("ab cd.É é ß\u0301\u0327\u0130Σ我각\u00ad\u200b\0\ud83d\ude00😀\t1½"),
    max_size=30,
)


@settings(max_examples=300)
@given(text=MIXED, lowercase=st.booleans())
def test_the_text_at_a_tokens_span_is_the_token(characters, text, lowercase):
    tokenizer = characters[lowercase]
    encoded = tokenizer.encode([text], spans=True)
    pieces = [tokenizer.vocabulary[index] for index in encoded.token_ids[0][1:-1]]

    def normalized(part):
        return tokenizer.normalize(clean_text(part)).strip()

    end_before = 0
    for (start, end), group in by_place(encoded.spans[1:-1].tolist(), pieces):
        assert end_before <= start < end <= len(text)
        assert normalized(text[start:end]) == group, (text, start, end)
        assert not normalized(text[end_before:start])
        end_before = end
    assert not normalized(text[end_before:])


def by_place(spans, pieces):
    """Each span with its text; pieces from one character are joined."""
    found = {}
    for span, piece in zip(map(tuple, spans), pieces, strict=True):
        found[span] = found.get(span, "") + piece.removeprefix("##")
    return found.items()


@pytest.fixture(scope="module")
def characters():
    """Tokenizers by casing that have each character, and some pairs, as pieces."""
    points = [chr(point) for point in range(0x21, 0x20000) if point not in range(0xD800, 0xE000)]
    pieces = [*points, *("##" + point for point in points), "ab", "##cd", "##ab"]
    return {
        lowercase: WordPieceTokenizer([*SPECIAL, *pieces], TokenizerSettings(lowercase=lowercase))
        for lowercase in (True, False)
    }


# === And back ===

PLAIN = "ab cdABÉé1290.,:;!?%()[]#@$'’-_/\\\"“”我的か각。€ßΣ\u0301"


@settings(max_examples=300)
@given(text=st.text(st.sampled_from(PLAIN), max_size=40), lowercase=st.booleans())
def test_decoded_text_has_the_same_ids(characters, text, lowercase):
    tokenizer = characters[lowercase]
    (row,) = tokenizer.encode([text]).token_ids
    decoded = tokenizer.decode(row, special_tokens=False)
    assert tokenizer.encode([decoded]).token_ids[0].tolist() == row.tolist()


def test_decoding_restores_most_sample_tickets_except_for_case(minilm, tickets):
    rows = ids(minilm, *tickets)
    back = [minilm.decode(row, special_tokens=False) for row in rows]
    again = ids(minilm, *back)
    known = [number for number, row in enumerate(rows) if minilm.unknown_id not in row]
    assert len(known) > 0.95 * len(tickets)
    assert [again[row] for row in known] == [rows[row] for row in known]
    wanted = [" ".join(minilm.normalize(text).split()) for text in tickets]
    assert sum(map(str.__eq__, back, wanted)) > 0.7 * len(tickets)


def test_whole_words_are_single_pieces_counted_once_per_text():
    tokenizer = WordPieceTokenizer([*SPECIAL, "router", "##s", "the", "?", "dead"])
    texts = ["The router? THE dead router", "", "routers, the routers??", "unheard dead"]
    words = tokenizer.whole_words(tokenizer.encode(texts).token_ids).tolist()
    found = [(row, tokenizer.vocabulary[word]) for row, word in words]
    assert found == [(0, "router"), (0, "the"), (0, "dead"), (2, "the"), (3, "dead")]
    for nothing in ([], [np.array([2, 3], np.int32)]):
        assert tokenizer.whole_words(nothing).shape == (0, 2)


@pytest.mark.parametrize(
    ("row", "with_special", "without"),
    [
        ([], "", ""),
        ([2, 3], "[CLS] [SEP]", ""),
        ([2, 5, 6, 1, 6, 3, 0, 0], "[CLS] routers [UNK] ##s [SEP] [PAD] [PAD]", "routers ##s"),
        ([6, 5, 6, 6], "##s routerss", "##s routerss"),
        ([4, 6, 5, 7], "[MASK] ##s router!", "##s router!"),
    ],
)
def test_pieces_are_joined_without_special_tokens_on_request(row, with_special, without):
    tokenizer = WordPieceTokenizer([*SPECIAL, "[MASK]", "router", "##s", "!"])
    assert tokenizer.decode(row) == with_special
    assert tokenizer.decode(np.array(row, np.int32), special_tokens=False) == without


@pytest.mark.parametrize("index", [-1, 5, 10**9])
def test_an_id_of_another_vocabulary_is_refused(index):
    tokenizer = WordPieceTokenizer([*SPECIAL, "a"])
    with pytest.raises(EncoderError, match=rf"the token id {index}; expected ids from 0 to 4"):
        tokenizer.decode([2, index])


def test_decoding_takes_linear_time(tiny):
    first, more = tiny.vocabulary.index("a"), tiny.vocabulary.index("##a")

    def seconds(pieces):
        start = time.process_time()
        assert len(tiny.decode(np.full(pieces, more))) > pieces
        assert len(tiny.decode([first, *[more] * pieces])) == pieces + 1
        return time.process_time() - start

    assert seconds(400_000) < 40 * seconds(20_000) + 0.1  # linear is 20, quadratic 400


def test_tensorflow_text_agrees_on_the_sample_tickets(minilm, tickets):
    import tensorflow_text

    other = tensorflow_text.FastBertTokenizer(
        list(minilm.vocabulary), lower_case_nfd_strip_accents=True
    )
    whole = WordPieceTokenizer(minilm.vocabulary, TokenizerSettings(max_tokens=10_000))
    theirs = [row.tolist() for row in other.tokenize(tickets).numpy()]
    different = [
        text
        for text, mine, his in zip(tickets, ids(whole, *tickets), theirs, strict=True)
        if mine[1:-1] != his
    ]
    assert not [text for text in different if not any(map(tokenizers_disagree_about, text))]
    assert len(different) < 0.005 * len(tickets)


def tokenizers_disagree_about(char):
    """tensorflow_text also changes compatibility forms and control characters; BERT does not."""
    return normalize("NFKD", char) != normalize("NFD", char) or (
        category(char) == "Cc" and char not in "\t\n\r"
    )


# === Vocabularies ===


def test_a_vocabulary_without_a_special_token_or_with_a_repeated_piece_is_refused():
    for missing in SPECIAL:
        pieces = [*(token for token in SPECIAL if token != missing), "a"]
        with pytest.raises(EncoderError, match=rf"4 pieces without \{missing[:-1]}\]; expected"):
            WordPieceTokenizer(pieces)
    with pytest.raises(EncoderError, match="6 pieces of which 5 are different; expected every"):
        WordPieceTokenizer([*SPECIAL, "a", "a"])


@pytest.mark.parametrize(
    ("content", "pieces"),
    [
        ("a\nb\n", ("a", "b")),
        ("a\nb", ("a", "b")),
        ("a\r\nb\r\n", ("a", "b")),
        ("é\n\u2028\n", ("é", "\u2028")),
    ],
)
def test_a_vocabulary_file_has_one_piece_per_line(tmp_path, content, pieces):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    assert read_vocabulary(path) == pieces


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_vocabulary_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "vocab.txt"
    if content:
        path.write_bytes(content)
    with pytest.raises(EncoderError, match=r"vocab\.txt could not be read .*one piece a line"):
        read_vocabulary(path)


def test_a_pair_has_a_separator_after_its_first_line():
    tokenizer = WordPieceTokenizer(TINY_VOCABULARY, TokenizerSettings(pair=True))
    plain = WordPieceTokenizer(TINY_VOCABULARY)
    first, rest = ids(plain, "the router", "is dead since the bill")
    assert ids(tokenizer, "the router\nis dead\nsince the bill") == [[*first, *rest[1:]]]
    texts = ("the router is dead", "the router\n ", "\nis dead")
    assert ids(tokenizer, *texts) == ids(plain, "the router is dead", "the router", "is dead")
    inputs = tokenizer(["the router\nis dead", "the router"])
    assert inputs["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1], [0] * 7]


def test_a_long_pair_loses_its_middle_and_keeps_its_separator():
    settings = TokenizerSettings(max_tokens=9, head_tokens=2, pair=True)
    tokenizer = WordPieceTokenizer(TINY_VOCABULARY, settings)
    text = "the router\nis dead since the bill is dead"
    encoded = tokenizer.encode([text, "the router"], spans=True)
    words = [text[start:end] for start, end in encoded.spans[:9]]
    assert words == ["", "the", "router", "", "the", "bill", "is", "dead", ""]
    assert encoded.cut.tolist() == [4, 4]
    assert encoded.truncated.tolist() == [True, False]
    assert encoded.spans[3].tolist() == [10, 10]
    texts = ["is the router dead\nbill is the bill", "is the router dead is dead\nbill"]
    assert tokenizer.encode(texts).cut.tolist() == [4, 3]  # before the separator, and after it
    with pytest.raises(SettingsError, match="at most max_tokens - 3"):
        TokenizerSettings(max_tokens=9, head_tokens=7, pair=True)
