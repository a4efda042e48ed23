"""The reasons for decisions."""

import numpy as np
import pytest

import bertcnn
from bertcnn.bundle.scope import PARTS
from bertcnn.inference.reasons import describe_reason
from bertcnn.settings import DECISIONS, REASONS
from tests.tiny import saved_with_scope

LABELS = ("billing", "wifi")


@pytest.mark.parametrize(
    ("decision", "reason", "nearest", "words"),
    [
        ("auto", "certain", 1, "certain enough; nearest: 'wifi'"),
        ("auto", "certain", -1, "certain enough"),
        ("review:ambiguous", "uncertain", 0, "not certain enough; nearest: 'billing'"),
        ("review:language", "language", 0, "in another language than the training texts"),
        ("review:empty", "empty", -1, "there is no text"),
        ("auto", "", 0, ""),  # from a journal without reasons
        (
            "review:ambiguous",
            "words",
            0,
            "almost unlike known texts: its words differ from the words of the label; nearest:"
            " 'billing'",
        ),
    ],
)
def test_a_reason_in_words(decision, reason, nearest, words):
    found = describe_reason(DECISIONS.index(decision), (REASONS.index(reason), nearest), LABELS)
    assert found == words


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_outlier_score_has_words(part):
    decision = DECISIONS.index("review:out_of_scope")
    words = describe_reason(decision, (REASONS.index(part), 1), LABELS)
    assert words.startswith("unlike known texts: ")
    assert words.endswith("; nearest: 'wifi'")


def test_answers_say_their_reasons(encoder_folder):
    predictor = bertcnn.load(saved_with_scope(encoder_folder), auto_precision=0.5)
    texts = ["router cable", "", "zzz who won the card game on sunday"]
    answers, found = predictor.answer(texts), predictor.classify(texts)
    for row, answer in enumerate(found):
        assert answer.reason == describe_reason(
            int(answers.decisions[row]), answers.reasons[row].tolist(), predictor.labels
        )
    assert found[1].reason == "there is no text"
    assert "nearest: 'hardware'" in found[0].reason
    explained = predictor.explain(texts)
    assert [one.reason for one in explained] == [one.reason for one in found]


def test_the_strangest_part_is_the_reason(encoder_folder):
    predictor = bertcnn.load(saved_with_scope(encoder_folder))
    texts = ["blue elephant near the otters", "my son bit another child at nursery"]
    answers = predictor.answer(texts)
    encoded = predictor.encode(texts)
    output = predictor.run(encoded)
    scope = predictor.bundle.scope
    judged = scope.judge(
        predictor.detector_inputs(encoded.token_ids, output.logits, output.requested_evidence.means)
    )
    for row in np.flatnonzero(judged.outside | judged.doubtful):
        assert REASONS[answers.reasons[row, 0]] == PARTS[judged.parts[row].argmax()]
