"""ROUGE-L as rouge-score computes it, and the baseline."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertcnn.tasks.summaries.rouge import Mean, SummaryFigures, first_sentence, rouge_l

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "rouge_golden.json").read_text(encoding="utf-8")
)


def test_it_equals_rouge_score():
    assert len(GOLDEN) > 150
    assert len({score for *_, score in GOLDEN}) > 50
    for summary, reference, score in GOLDEN:
        assert rouge_l(summary, reference) == pytest.approx(score, abs=1e-12), (summary, reference)


def test_letters_of_other_alphabets_belong_to_words():
    assert rouge_l("Модем не работает", "модем работает") == pytest.approx(0.8)
    assert rouge_l("perché no", "perch no") == 0.5


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (" Router dead. Help! ", "Router dead."),
        ("It costs 3.50 now? No.", "It costs 3.50 now?"),
        ("Subject line\nand the rest.", "Subject line"),
        ("no end at all", "no end at all"),
        ("", ""),
    ],
)
def test_the_first_sentence_ends_at_a_mark_or_a_line_break(text, first):
    assert first_sentence(text) == first


def test_a_mean_has_an_interval_that_holds_it():
    scores = np.array([0.0, 1.0] * 50)
    mean = Mean.of(scores)
    assert mean.value == 0.5
    assert mean.low == pytest.approx(0.4, abs=0.02)
    assert mean.high == pytest.approx(0.6, abs=0.02)
    assert Mean.of(scores) == mean  # the same resamples
    assert str(Mean(0.25, 0.2, 0.3)) == "25.0% (20.0% to 30.0%)"


def test_the_gain_is_of_the_same_pairs():
    texts = ["One two. Three four.", "Five. Six seven."]
    figures = SummaryFigures.of(texts, ["three four", "five"], ["three four", "six seven"])
    assert (figures.rouge_l.value, figures.first_sentence.value) == (0.5, 0.0)
    assert figures.gain.value == 0.5
