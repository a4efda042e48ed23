"""The question answerer: it answers learned questions, with the precision of its engine."""

from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy

from bertcnn.bundle.engine import INT8_TENSORS, int8_bytes
from bertcnn.encoders.convert import load_encoder
from bertcnn.errors import BundleError, EncoderError, SettingsError, TableError
from bertcnn.models.token_scores import BertQuestionAnswering
from bertcnn.models.weights import extract
from bertcnn.storage.manifest import MANIFEST, write_manifest
from bertcnn.tasks.question_answering.answerer import Answer, QuestionAnswerer
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.saving import FOLDER
from tests.tasks.small_questions import LEARNED, OTHERS, QUICK, SMALL

TEXTS = [one.context for one in OTHERS]
LONG = "it is slow and still down " * 6 + "and the router is not"


def answerer(encoder, **changes):
    return QuestionAnswerer(encoder, questions=SMALL, training={**QUICK, **changes})


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """Engines are in int8, and are used."""


@pytest.fixture(scope="module")
def fitted(shallow_encoder_folder):
    """Do not change it."""
    return answerer(shallow_encoder_folder).fit(LEARNED)


@pytest.fixture
def folder(fitted, tmp_path, monkeypatch):
    """A saved answerer to be changed; nothing of it is in the cache."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


# === Answers ===


def untrained(fitted, encoder, folder):
    """An answerer with initial weights and the threshold of a trained one."""
    kept = fitted.save(folder / "fitted") and FOLDER.read(folder / "fitted")
    start = load_encoder(encoder, seed=0)
    weights = extract(BertQuestionAnswering(start).weights)
    tensors = {name: weights[name] for name in kept.tensors}
    config = kept.config.model_copy(update={"precision": "float32"})
    engine = {INT8_TENSORS: int8_bytes(None)}
    FOLDER.write(replace(kept, config=config, tensors=tensors, more=engine), folder / "new")
    return QuestionAnswerer.load(folder / "new")


def test_it_answers_questions_and_knows_when_there_is_no_answer(
    fitted, shallow_encoder_folder, tmp_path
):
    figures = fitted.evaluate(OTHERS)
    before = untrained(fitted, shallow_encoder_folder, tmp_path).evaluate(OTHERS)
    assert figures.f1 > 0.9
    assert figures.f1 > before.f1 + 0.3
    assert figures.answerable_f1 > before.answerable_f1 + 0.5
    assert figures.unanswerable_right > 0.7
    assert fitted.metrics_["f1"] > 0.9
    assert fitted.metrics_["learned_questions"] + fitted.metrics_["questions"] == len(LEARNED)


def test_it_learns_in_bfloat16_as_well(shallow_encoder_folder):
    found = answerer(shallow_encoder_folder, precision="bfloat16").fit(LEARNED)
    assert found.evaluate(OTHERS).f1 > 0.9


def test_an_answer_is_a_part_of_its_text(fitted):
    answers = fitted.answer("what?", TEXTS)
    assert {bool(answer.text) for answer in answers} == {True, False}
    for answer, text in zip(answers, TEXTS, strict=True):
        if answer.text:
            assert text[answer.start : answer.end] == answer.text
        else:
            assert (answer.start, answer.end) == (-1, -1)
        assert all(other in text for other, _ in answer.alternatives)


def test_the_scores_of_tokens_lead_to_the_answer(fitted):
    for text in (TEXTS[0], TEXTS[1], LONG):
        windows = fitted.token_scores("what?", text)
        (answer,) = fitted.answer("what?", [text])
        best = max(windows, key=lambda window: np.nanmax(window.sums))
        none = min(window.no_answer for window in windows)
        assert bool(answer.text) == (np.nanmax(best.sums) - none > fitted.metrics_["threshold"])
        first, last = np.unravel_index(np.nanargmax(best.sums), best.sums.shape)
        span = text[best.spans[first, 0] : best.spans[last, 1]]
        assert span == (answer.text or answer.alternatives[0][0])
        assert first <= last < first + SMALL["answer_tokens"]
        for window in windows:
            assert (window.tokens[0], window.tokens[-1]) == ("[CLS]", "[SEP]")
            sizes = (len(window.start), len(window.end), len(window.segments))
            assert sizes == (len(window.tokens),) * 3
            assert window.segments.tolist() == [0] * window.first + [1] * (
                len(window.tokens) - window.first
            )
            assert window.tokens[window.first - 1] == "[SEP]"
            pieces = [text[start:end].lower() for start, end in window.spans]
            assert len(pieces) == len(window.sums) == len(window.tokens) - window.first - 1
    assert len(fitted.token_scores("what?", LONG)) > 1
    with pytest.raises(SettingsError, match="ask a question"):
        fitted.token_scores(" ", "the router")


def test_confidences_are_probabilities_and_alternatives_come_from_the_best(fitted):
    for most in (1, 2, 5):
        for answer in fitted.answer("what?", [*TEXTS, LONG], most=most):
            shares = [share for _, share in answer.alternatives]
            assert all(0 <= share <= 1 for share in (answer.confidence, *shares))
            assert answer.confidence + sum(shares) <= 1 + 1e-6
            assert shares == sorted(shares, reverse=True)
            assert len(shares) == most - bool(answer.text)
            if answer.text and shares:
                assert answer.confidence >= shares[0]


def test_the_confidence_does_not_depend_on_the_number_of_alternatives(fitted):
    few, usual, many = (fitted.answer("what?", TEXTS, most=most) for most in (1, 5, 12))
    for one, other, third in zip(few, usual, many, strict=True):
        assert one.text == other.text == third.text
        assert one.confidence == pytest.approx(other.confidence, abs=1e-6)
        assert third.confidence == pytest.approx(other.confidence, abs=1e-6)


def test_each_text_may_have_a_question_of_its_own(fitted):
    questions = ["what?", "is it?", "no?"]
    together = fitted.answer(questions, TEXTS[:3])
    for question, text, answer in zip(questions, TEXTS[:3], together, strict=True):
        (alone,) = fitted.answer(question, [text])
        assert alone.text == answer.text


def test_a_blank_text_has_no_answer(fitted):
    answers = fitted.answer("what?", ["", " \n", "\u200b", "\x00", "the router is dead"])
    assert answers[:4] == [Answer("", 1.0, -1, -1)] * 4
    assert answers[4].alternatives


def test_the_figures_equal_those_of_its_answers(fitted):
    answers = fitted.answer([one.question for one in OTHERS], TEXTS)
    expected = AnswerFigures.of([answer.text for answer in answers], OTHERS)
    assert fitted.evaluate(OTHERS) == expected
    assert 0 < expected.unanswerable < expected.questions == len(OTHERS)


# === Folders ===


def with_engine(folder, change):
    """Change the numbers of the compiled model, and update the manifest."""
    tensors = safetensors.numpy.load((folder / INT8_TENSORS).read_bytes())
    assert tensors  # the original is in int8
    (folder / INT8_TENSORS).write_bytes(safetensors.numpy.save(change(tensors)))
    members = {name: (folder / name).read_bytes() for name in FOLDER.form.largest}
    (folder / MANIFEST).write_bytes(write_manifest(FOLDER.form, members)[1])


def overflow(tensors):
    return {
        name: np.full_like(values, 3e38) if name.endswith("/scales") else values
        for name, values in tensors.items()
    }


@pytest.mark.parametrize(
    ("change", "message"), [(lambda _: {}, "engine.safetensors lacks"), (overflow, "not finite")]
)
def test_an_engine_of_other_numbers_is_refused_before_an_answer(folder, change, message):
    with_engine(folder, change)
    refused_in_one_line(
        BundleError, message, lambda: QuestionAnswerer.load(folder).answer("what?", TEXTS)
    )


# === Training ===


def test_the_dropout_is_that_of_the_settings(folder):
    encoder = FOLDER.read(folder).config.encoder
    assert (encoder.dropout, encoder.attention_dropout) == (0.05, 0.05)


# === Refusals ===


def refused_in_one_line(error, message, make):
    with pytest.raises(error, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("question", "texts", "most", "message"),
    [
        ("what?", [5], 5, "'5' of type int as text number 1; expected a string"),
        ("what?", ["a"], 0, "most 0; expected a whole number, 1 or more"),
        ("what?", ["a"], 1.5, "most 1.5; expected a whole number"),
        (["what?"], ["a", "b"], 5, "1 questions about 2 texts; expected one question, or one"),
        (" \n", ["a"], 5, "the question .*; expected some words"),
        (["what?", ""], ["a", "b"], 5, "the question ''; expected some words"),
        ("is " * 7, ["a"], 5, "a question of 7 tokens .*; expected at most 6"),
        (5, ["a"], 5, "question"),
        (None, ["a"], 5, "question"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(fitted, question, texts, most, message):
    refused_in_one_line(SettingsError, message, lambda: fitted.answer(question, texts, most=most))


def test_too_long_a_text_and_no_questions_are_refused_in_one_line(fitted):
    refused_in_one_line(
        TableError,
        "a context of 4,000 tokens .*; expected at most 64 windows",
        lambda: fitted.answer("what?", ["router\n" * 4000]),
    )
    refused_in_one_line(TableError, "0 questions", lambda: fitted.evaluate([]))


def test_wrong_windows_and_encoders_are_refused():
    wrong = "max_tokens of at"
    refused_in_one_line(SettingsError, wrong, lambda: QuestionAnswerer(questions={"stride": 999}))
    refused_in_one_line(EncoderError, "unknown", lambda: answerer("no\nencoder").fit(LEARNED))


def test_too_few_questions_and_a_single_text_are_refused(shallow_encoder_folder):
    for questions, message in (
        (LEARNED[:19], "19 questions; expected at least 20"),
        ([], "0 questions; expected at least 20"),
        (LEARNED[:1] * 30, "questions about 1 context; expected questions about at least 2"),
    ):
        refused_in_one_line(
            TableError, message, lambda few=questions: answerer(shallow_encoder_folder).fit(few)
        )
