"""New frequent words."""

from datetime import date, timedelta

import pytest
from scipy.stats import chi2_contingency

from bertcnn.review.statistics.word_frequencies import log_likelihood, new_words

START = date(2026, 4, 1)
THINGS = ("router", "phone", "screen", "lamp", "cable", "box", "menu", "page", "socket", "remote")
THINGS += ("bill", "mail", "app", "line", "wall")
BEFORE = [
    f"the {thing} is broken since {number} days and nobody {verb}"
    for thing in THINGS
    for number in ["two", "three", "four", "five"]
    for verb in ("came", "called", "wrote")
]


def recent(pattern, days=5):
    """Different texts on `days` days in turn."""
    texts = [pattern.format(thing) for thing in THINGS]
    return texts, [START + timedelta(days=place % days) for place in range(len(texts))]


def words(pattern, days=5, **options):
    return [one.word for one in new_words(*recent(pattern, days), BEFORE, **options)]


@pytest.mark.parametrize("table", [(10, 100, 10, 1000), (5, 9, 0, 40), (3, 50, 300, 4000)])
def test_g2_is_that_of_scipy(table):
    texts, of, texts_before, of_before = table
    cells = [[texts, of - texts], [texts_before, of_before - texts_before]]
    peer = chi2_contingency(cells, correction=False, lambda_="log-likelihood").statistic
    assert log_likelihood(*table) == pytest.approx(peer)


def test_a_new_word_is_found_with_its_figures():
    texts, days = recent("the {} is broken after the outage and nobody came")
    found = new_words(texts, days, BEFORE)
    assert [one.word for one in found] == ["after", "outage"]
    assert (found[1].texts, found[1].days) == (15, 5)
    assert (found[1].share, found[1].before) == (1.0, 0.0)
    assert found[1].g2 == log_likelihood(15, 15, 0, len(BEFORE))


def test_a_word_needs_texts_and_days():
    assert "outage" not in words("the {} since the outage", days=2)
    assert "outage" in words("the {} since the outage", days=2, fewest_days=2)
    assert "outage" not in words("the {} since the outage", fewest_texts=16)


def test_a_word_that_was_as_frequent_before_is_not_new():
    assert words("the {} is broken") == []
    often = [f"{text} outage" if place % 3 else text for place, text in enumerate(BEFORE)]
    texts, days = recent("the {} is broken outage")
    assert new_words(texts, days, often) == []  # 1.5 times as frequent


def test_a_mail_sent_to_all_counts_once():
    texts = [f"Order {place}: WIN a cruise, click now!" for place in range(40)]
    days = [START + timedelta(days=place % 7) for place in range(40)]
    assert new_words(texts, days, BEFORE) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "Dear Olivia, the {} is broken",
        "the {} is broken. Regards, Olivia",
        "the {} is broken. Thanks\nOlivia Meier",
        "My name is Olivia and the {} is broken",
        "Hallo Frau Olivia, the {} is broken",
    ],
)
def test_names_after_a_greeting_or_a_sign_off_are_left_out(pattern):
    found = words(pattern)
    assert "olivia" not in found
    assert "meier" not in found


def test_names_of_products_are_kept():
    assert words("Netflix stops on the {} again") == ["again", "netflix", "on", "stops"]
    assert "starlink" in words("since we have Starlink the {} is broken")
    assert words("the {} is broken wifi6") == ["wifi6"]


@pytest.mark.parametrize(
    "noise", ["4711", "4,90", "x", "10am", "2x", "help@shop.example", "https://shop.example/help"]
)
def test_numbers_addresses_and_single_characters_are_no_words(noise):
    assert words("the {} is broken " + noise) == []


def test_without_earlier_texts_nothing_is_new():
    texts, days = recent("the {} since the outage")
    assert new_words(texts, days, []) == []
    assert new_words([], [], BEFORE) == []
