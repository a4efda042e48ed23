"""The n-gram model of the benchmark, compared with nltk's."""

import math
from itertools import product

import pytest

from benchmarks.kneser_ney import END, START, KneserNey

TEXTS = [
    ["rome", "is", "a", "city", "in", "italy"],
    ["lyon", "is", "a", "city", "in", "france"],
    ["rome", "is", "old", "and", "rome", "is", "loud"],
    ["in", "france", "a", "city", "is", "loud"],
]
WORDS = sorted({word for text in TEXTS for word in text})
# nltk 3.10.4, KneserNeyInterpolated(order, discount=0.75), fitted on the n-grams of all orders of
# texts with order - 1 start symbols, without those that end in a start symbol
THEIRS = {
    (("a",), "city"): 0.763158,
    (("in",), "italy"): 0.109649,
    (("city",), "is"): 0.162281,
    (("is", "a"), "city"): 0.866776,
    (("city", "in"), "italy"): 0.207237,
    (("a", "city"), "is"): 0.205044,
    (("is", "a", "city"), "in"): 0.729235,
}


@pytest.mark.parametrize(("history", "word"), THEIRS, ids=str)
def test_it_gives_what_nltk_gives(history, word):
    model = KneserNey(TEXTS, len(history) + 1, len(WORDS) + 1, discount=0.75)
    assert model.probability(word, history) == pytest.approx(THEIRS[history, word], abs=1e-6)


@pytest.mark.parametrize("discount", [0.75, None])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_probabilities_after_any_history_sum_to_1(order, discount):
    vocabulary = [*WORDS, END, "unseen"]
    model = KneserNey(TEXTS, order, len(vocabulary), discount=discount)
    for history in product([START, "rome", "is", "a", "unseen"], repeat=order - 1):
        total = sum(model.probability(word, history) for word in vocabulary)
        assert total == pytest.approx(1)


def test_the_likelihood_of_a_text_is_that_of_its_words_and_its_end():
    model = KneserNey(TEXTS, 3, len(WORDS) + 1)
    expected = (
        model.probability("rome", (START, START))
        * model.probability("is", (START, "rome"))
        * model.probability(END, ("rome", "is"))
    )
    assert model.log_likelihood(["rome", "is"]) == pytest.approx(math.log(expected))
