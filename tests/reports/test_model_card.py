"""The model card: figures, decisions, scope."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from markdown_it import MarkdownIt

from bertcnn.bundle.schemas import BundleConfig, HeldOut
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.evaluation.calibration import compare_calibration
from bertcnn.evaluation.decisions import decide
from bertcnn.evaluation.metrics import evaluate, evaluate_sets
from bertcnn.evaluation.no_information import against_constant
from bertcnn.reports.card import model_card
from bertcnn.settings import EncoderSettings, HeadSettings, PrecisionTargets, TokenizerSettings

NAMES = ("a|b", "bills\nand invoices")
ROWS = 100
SCOPE = OutOfScopeDetector(logit_centroids=np.ones((1, 2), np.float32))


ABOUT = (("command", "bertcnn train 'a`b|c.csv'"),)


def card(
    targets="0.9",
    *,
    scope=SCOPE,
    outside=4,
    several=False,
    known=None,
    names=NAMES,
    encoder_name="tiny",
    about=ABOUT,
):
    """The card of a model with two labels that is right on the nine most confident of ten rows."""
    actual = [names[row % 2] for row in range(ROWS)]
    predicted = [names[row % 2 if row < 90 else 1 - row % 2] for row in range(ROWS)]
    confidence, right = np.linspace(1, 0.5, ROWS), np.arange(ROWS) < 90
    held_out = HeldOut(
        confidence=tuple(confidence.tolist()),
        predicted=tuple(names.index(name) for name in predicted),
        right=tuple(right.tolist()),
        out_of_scope=outside,
    )
    config = BundleConfig(
        encoder=EncoderSettings(
            vocabulary_size=20, width=8, layers=1, heads=2, feed_forward_width=12, max_positions=64
        ),
        encoder_name=encoder_name,
        head=HeadSettings(filters=4),
        tokenizer=TokenizerSettings(max_tokens=64, head_tokens=16),
        text_columns=("text",),
        label_column="label",
        label_separator=";" if several else None,
        recipe="frozen",
        seed=7,
        versions={"bertcnn": "0"},
        created_at="2026-01-02T00:00:00+00:00",
    )
    figures = evaluate(names, actual, predicted)
    if several:
        figures = evaluate_sets(names, *([(name,) for name in one] for one in (actual, predicted)))
    figures = replace(figures, no_information=known)
    decisions = decide(held_out, names, PrecisionTargets.of(targets))
    return model_card(
        config,
        figures,
        1.25,
        compare_calibration(confidence, confidence, right),
        decisions,
        scope,
        about,
    )


def test_figures_and_names_stand_in_tables():
    text = card()
    assert "accuracy 0.9000, macro-F1 0.9000, weighted F1 0.9000" in text
    assert r"| a\|b | 0.900 | 0.900 | 0.900 | 50 |" in text
    assert "| bills and invoices |" in text
    assert r"- a\|b called bills and invoices: 5 rows (10%)" in text
    assert "`` bertcnn train 'a`b\\|c.csv' ``" in text
    assert "seed 7" in text
    assert "Texts over 64 tokens" in text


def test_a_model_that_knows_nothing_is_marked_and_pairs_are_named():
    rows = np.arange(2000)
    useless = against_constant(NAMES, rows % 2, rows // 2 % 2)
    assert f"**{useless.sentence()}** {useless.advice}" in card(known=useless)
    told = card(known=replace(useless, low=0.5, inseparable=(NAMES,)))
    assert "On these rows nothing separates 'a|b' from 'bills" in told


def test_automatic_answers_are_shown_with_the_labels_targets():
    assert "at 90% precision 91% of tickets are handled automatically, 9% go to review" in card()
    text = card(r"0.9,a|b=0.8")
    assert "at 90% precision ('a|b' 80%)" in text
    assert r"a\|b, which needs 80%: from a confidence of 0.5" in text
    assert "all go to review, from all rows, since too few were called so" in card("0.9,a|b=0.999")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "goes to review as out of scope, as 4 of these 104 rows do."),
        ({"several": True}, "may get one; one that gets no label, or looks unlike all"),
        (
            {"scope": OutOfScopeDetector(), "outside": 0},
            "too few rows, or too many labels, to tell",
        ),
    ],
)
def test_it_states_the_models_scope(changes, told):
    assert told in card(**changes).replace("\n", " ")


HOSTILE = (
    "<img src=http://beacon.example/x>",
    "![x](http://beacon.example/x)",
    "[x](javascript:alert(1))",
    "<script>alert(1)</script>",
    "<!-- the rest",
    "a|b",
    "a\\|b",
    "ends with \\",
    "`code` and ``more",
    "# heading",
    "- item",
    "+49 30 1",
    "1. item",
    "123456) item",
    "> quote",
    "===",
    "*a* _b_ __c__ ~~d~~ ~e~",
    "snake_case",
    "&lt;img&gt; &#60;img> &amp",
    "http://beacon.example www.beacon.example mail@beacon.example",
    "[ref]: http://beacon.example",
    "A > B & C",
    "$x$ {{ x }} :smile:",
    "a\nb\r\n\n# c",
    "\x1b[31mred\x07 \u202edeb",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_labels_and_names_are_escaped(name):
    """Check a card as rendered with HTML enabled.

    It has the same tags as with harmless names, and every name appears unchanged.
    """
    rendered = markdown(card(names=(name, f"x{name}"), encoder_name=name, about=(("data", name),)))
    assert re.findall(r"</?\w+", rendered) == re.findall(
        r"</?\w+", markdown(card(names=("a", "b"), about=(("data", name),)))
    )
    shown = re.sub("[\x1b\x07\u202e]", "\ufffd", " ".join(name.split()))
    text = html.unescape(re.sub(r"<[^>]*>", "", rendered))
    # encoder, data, both labels in two tables each and once more in a list
    assert text.count(shown) >= 7
    for forbidden in ("<img", "<script", "\x1b", "\u202e"):
        assert forbidden not in rendered


def markdown(text):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
