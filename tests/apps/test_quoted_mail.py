"""Quoted e-mail in tickets, which the desk folds."""

import time

import pytest

from tests.apps.dashboards import part


def folded(text):
    """The quoted parts."""
    return [text[start:end] for start, end in part("quoted_mail").quoted_spans(text)]


REPLY = "My router is dead.\n\n"


@pytest.mark.parametrize(
    "quote",
    [
        "> Have you tried it again?\n>\n> Your support",
        "> one\n\n> two",
        "On Mon, 3 Mar 2025 at 10:12, Ann <ann@example.org> wrote:\n> Have you tried it?",
        "On Mon, 3 Mar 2025 at 10:12, Ann\n<ann@example.org> wrote:\n\nHave you tried it?\nAnn",
        "Am 3. März 2025 um 10:12 schrieb Ann <ann@example.org>:\nHaben Sie es versucht?",
        "Le 3 mars 2025 à 10:12, Ann a écrit :\n> Avez-vous essayé ?",
        "-----Original Message-----\nFrom: Support\nSent: Monday\n\nHave you tried it?",
        "-----Original Message-----\nHave you tried it?",
        "---------- Forwarded message ---------\nFrom: Support\n\nHave you tried it?",
        "-----Ursprüngliche Nachricht-----\nVon: Support\n\nHaben Sie es versucht?",
    ],
)
@pytest.mark.parametrize("end", ["", "\r\n"])
def test_mail_quoted_below_a_reply_is_found(quote, end):
    if end:
        quote = quote.replace("\n", end)
    assert folded(REPLY + quote) == [quote]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "> only a quotation",
        "-----Original Message-----\nFrom: a customer, who wrote nothing else",
        "On Monday your technician wrote:\nwe come on Friday. Nobody came.",
        "speed is -> slow\n5 > 3",
        "--- router log ---\nerror 7",
        "-- \nAnn",
    ],
)
def test_a_text_without_a_reply_or_a_quotation_stays_open(text):
    assert folded(text) == []


def test_answers_between_quotations_stay_open():
    text = "> Is it on?\nYes.\n> And red?\nNo."
    assert folded(text) == ["> Is it on?\n", "> And red?\n"]


def test_long_texts_take_little_time():
    began = time.perf_counter()
    for text in (
        "\n" * 200_000,
        "On " * 100_000,
        "> a\n\n" * 50_000 + "b",
        "On a wrote\n" * 20_000,
    ):
        folded(text)
    assert time.perf_counter() - began < 5
