"""Questions and contexts as windows, and answers as tokens in them."""

import unicodedata
from itertools import pairwise

import numpy as np
import pytest

from bertcnn.errors import SettingsError, TableError
from bertcnn.settings import QuestionSettings
from bertcnn.tasks.question_answering.windows import QuestionReader
from bertcnn.text import segments_of
from tests.conftest import TINY_VOCABULARY

QUESTION = "Is it dead?"  # 4 tokens, 6 with the special ones
ROOM, STRIDE = 13, 5  # of 20 tokens, without the question's 6 and the last [SEP]
SMALL = {"max_tokens": 20, "stride": STRIDE, "question_tokens": 8, "windows": 200}
WORDS = ("router", "the", "bill", "Is", "modem", "dead,", "since", "Qux", "4.5")


def reader(**changes):
    return QuestionReader(TINY_VOCABULARY, True, QuestionSettings(**{**SMALL, **changes}))


@pytest.fixture(scope="module")
def small():
    return reader()


def long_context(words=120, seed=0):
    generator = np.random.default_rng(seed)
    return "  ".join(generator.choice(WORDS, words))


def pieces(token_ids):
    return [TINY_VOCABULARY[token] for token in token_ids]


def all_spans(context):
    """The character spans of all tokens of a context, from a window that fits all of it."""
    (window,) = reader(max_tokens=4096).windows([QUESTION], [context])
    return window.spans


def test_a_window_is_the_question_and_a_part_of_the_context_between_special_tokens(small):
    (window,) = small.windows([QUESTION], ["The router is dead."])
    question, context = ["is", "it", "dead", "?"], ["the", "router", "is", "dead", "."]
    assert pieces(window.token_ids) == ["[CLS]", *question, "[SEP]", *context, "[SEP]"]
    assert (window.row, window.first) == (0, 6)
    assert segments_of([window.token_ids]).tolist() == [0] * 6 + [1] * 6
    assert window.token_ids.dtype == np.int32
    assert window.spans.tolist() == [[0, 3], [4, 10], [11, 13], [14, 18], [18, 19]]


def test_every_token_of_a_long_context_is_in_some_window_with_the_right_characters(small):
    context = long_context()
    windows = small.windows([QUESTION], [context])
    assert len(windows) > 20
    for window in windows:
        assert len(window.token_ids) == window.first + len(window.spans) + 1
        own = pieces(window.token_ids[window.first : -1])
        for piece, (start, end) in zip(own, window.spans, strict=True):
            assert piece.removeprefix("##") == context[start:end].lower()
    found = {tuple(span) for window in windows for span in window.spans.tolist()}
    assert found == set(map(tuple, all_spans(context).tolist()))
    characters = {place for start, end in found for place in range(start, end)}
    assert characters == {place for place, char in enumerate(context) if char != " "}


@pytest.mark.parametrize("words", [9, 10, 11, 40, 41, 42, 43, 44])
def test_windows_overlap_by_what_the_stride_leaves(small, words):
    context = " ".join(["bill"] * words)
    windows = small.windows([QUESTION], [context])
    starts = [int(window.spans[0, 0]) // 5 for window in windows]
    assert starts == [number * STRIDE for number in range(len(windows))]
    assert all(len(window.token_ids) == 20 for window in windows[:-1])
    assert windows[-1].spans[-1, 1] == len(context)  # the last reaches the end, no other does
    assert all(window.spans[-1, 1] < len(context) for window in windows[:-1])
    for one, other in pairwise(windows):
        shared = set(map(tuple, one.spans.tolist())) & set(map(tuple, other.spans.tolist()))
        assert len(shared) == ROOM - STRIDE


def test_each_question_keeps_its_own_windows_in_order(small):
    contexts = ["the router is dead", long_context(30), "bill " * 13, ""]
    questions = ["dead?", QUESTION, "dead?", "is it still slow"]
    windows = small.windows(questions, contexts)
    rows = [window.row for window in windows]
    assert rows == sorted(rows)
    assert set(rows) == {0, 1, 2}
    for row in range(3):
        alone = small.windows([questions[row]], [contexts[row]])
        together = [window for window in windows if window.row == row]
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one.token_ids, other.token_ids)
            np.testing.assert_array_equal(one.spans, other.spans)
            assert one.first == other.first


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\u200b", "\x00", "\ud83d", "\u0301"])
def test_a_blank_context_has_no_window(small, blank):
    assert small.windows([QUESTION], [blank]) == []
    (window,) = small.windows([QUESTION] * 3, [blank, "the bill", blank])
    assert window.row == 1


# === Answers as tokens ===


def tokens_of(context, answer, start=None):
    """The word pieces of the answer found in each window; None where it is not."""
    first = context.index(answer) if start is None else start
    found = []
    for window in reader().windows([QUESTION], [context]):
        places = window.tokens_of(first, first + len(answer))
        found.append(places and pieces(window.token_ids[places[0] : places[1] + 1]))
    return found


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("router is dead", "router", ["router"]),  # the first word
        ("router is dead", "dead", ["dead"]),  # the last
        ("router is dead", "router is dead", ["router", "is", "dead"]),
        ("the router, is", "router,", ["router", ","]),
        ("the routers are", "router", ["router"]),
        ("the routers are", "routers", ["router", "##s"]),
        ("a router is", "out", ["router"]),  # part of a word counts as the whole token
        ("a router is", "outer i", ["router", "is"]),
        ("The Router IS", "Router", ["router"]),
        ("it  is   dead", "is   dead", ["is", "dead"]),
        ("a bill of 4.5 again", "4.5", ["4", ".", "5"]),
    ],
)
def test_an_answer_is_the_tokens_that_it_touches(context, answer, expected):
    assert tokens_of(context, answer) == [expected]


def test_white_space_between_words_is_no_token_of_an_answer():
    context = "the router is dead"
    assert tokens_of(context, " router ") == [["router"]]
    assert tokens_of(context, " ", start=3) == [None]


def test_an_answer_over_the_edge_of_a_window_is_found_in_another(small):
    context = " ".join(f"{'router' if place == 12 else 'bill'}" for place in range(30))
    start = context.index("router")
    answers = {"router": (start, start + 6), "both": (start, start + 11)}
    windows = small.windows([QUESTION], [context])
    assert [len(window.spans) for window in windows] == [13, 13, 13, 13, 10]
    inside = {
        name: [window.tokens_of(*place) is not None for window in windows]
        for name, place in answers.items()
    }
    assert inside["router"] == [True, True, True, False, False]  # the last token of the first
    assert inside["both"] == [False, True, True, False, False]
    assert [window.tokens_of(*answers["both"]) for window in windows[1:3]] == [(13, 14), (8, 9)]
    whole = [window.tokens_of(0, len(context)) for window in windows]
    assert whole == [None] * 5  # longer than a window


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        ("the Löwe bill is", "bill", ["bill"]),
        ("the röuter is", "röuter", ["router"]),
        (unicodedata.normalize("NFD", "é ö é bill is"), "bill", ["bill"]),
        (unicodedata.normalize("NFD", "the röuter is"), "ro\u0308uter", ["router"]),
        ("\N{GRINNING FACE} router \N{GRINNING FACE} bill", "bill", ["bill"]),
        ("a \N{GRINNING FACE} bill", "\N{GRINNING FACE}", ["[UNK]"]),
        ("\U0001f468\u200d\U0001f469 router \U0001f468\u200d\U0001f469 bill", "bill", ["bill"]),
        ("\u200brou\u200bter is dead", "dead", ["dead"]),
        ("a\x00 bill \ud83d dead", "dead", ["dead"]),
        ("\ud83d\ude00 bill is dead", "dead", ["dead"]),  # surrogates that cleaning joins
        ("İİ bill", "bill", ["bill"]),  # lowercase has more characters
    ],
)
def test_offsets_are_those_of_the_original_text(context, answer, expected):
    assert tokens_of(context, answer) == [expected]
    start = context.index(answer)
    (window,) = reader().windows([QUESTION], [context])
    first, last = window.tokens_of(start, start + len(answer))
    spans = window.spans[first - window.first : last - window.first + 1]
    assert context[spans[0, 0] : spans[-1, 1]] == answer


@pytest.mark.parametrize(
    ("context", "answer", "expected"),
    [
        (" router is dead", " router", ["router"]),
        ("router is dead ", "dead ", ["dead"]),
        ("\u200brouter is dead", "\u200brouter", ["router"]),
        ("is the router\u0301", "router\u0301", ["router"]),  # an accent ends the context
        ("my red\ufe0f", "red\ufe0f", ["red"]),
    ],
)
def test_characters_that_are_no_tokens_at_an_edge_of_the_context_hide_no_answer(
    context, answer, expected
):
    assert tokens_of(context, answer) == [expected]


def test_an_accent_belongs_to_the_word_before_it():
    context = "the route\u0301 is"  # ends in e and a combining accent
    (window,) = reader().windows([QUESTION], [context])
    start = context.index("r")
    first, last = window.tokens_of(start, start + 6)
    spans = window.spans[first - window.first : last - window.first + 1]
    assert context[spans[0, 0] : spans[-1, 1]] == "route\u0301"


# === Refusals ===


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("", r"the question ''; expected some words\. What to do: ask a question"),
        (" \n\u200b", r"the question .*; expected some words"),
        (5, r"the question '5'; expected some words"),
        (None, r"the question 'None'; expected some words"),
        ("a " * 9, r"a question of 9 tokens \('a a a a a a a a a '\); expected at most 8"),
        ("a\n" * 900, r"a question of 900 tokens \(.*\.\.\.'\); expected at most 8"),
    ],
)
def test_a_blank_or_too_long_question_is_refused_in_one_line(small, question, message):
    with pytest.raises(SettingsError, match=message) as caught:
        small.windows([QUESTION, question], ["the bill", "the bill"])
    assert "\n" not in str(caught.value)
    assert small.windows(["a " * 8], ["the bill"])


def test_a_context_with_too_many_windows_is_refused_in_one_line():
    few = reader(windows=3)
    most = ROOM + 2 * STRIDE
    assert len(few.windows([QUESTION], ["bill " * most])) == 3
    message = (
        rf"a context of {most + 1} tokens \(4 windows\); expected at most 3 windows of {ROOM}"
        rf" tokens, each {STRIDE} further on\. What to do: give a shorter text, or allow more"
    )
    with pytest.raises(TableError, match=message) as caught:
        few.windows([QUESTION], ["bill\n" * (most + 1)])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{"stride": 10}, {"stride": 9}, {"question_tokens": 12}, {"max_tokens": 16}]
)
def test_settings_that_leave_no_overlap_are_refused(changes):
    """With the longest question, a window has room for 9 context tokens."""
    with pytest.raises(SettingsError, match=r"max_tokens of at least question_tokens \+ stride"):
        QuestionSettings(**{**SMALL, **changes})


def test_windows_beside_the_longest_question_overlap():
    windows = reader(stride=8).windows(["a " * 8], ["bill " * 30])
    assert len(windows) > 2
    for one, other in pairwise(windows):
        assert one.spans[-1, 1] > other.spans[0, 0]
