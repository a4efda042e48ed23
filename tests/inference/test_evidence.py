"""Evidence: all terms add up to the logit, and every offset is right."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bertcnn
from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import BundleError
from bertcnn.inference.evidence import Explainer, because
from bertcnn.inference.output_layer import OutputLayer, read_output_layer
from bertcnn.text.cleaning import clean_text, cleaned_positions
from tests.inference.test_predictor import NAUGHTY
from tests.tickets import tickets
from tests.tiny import saved

TEXTS = [
    *tickets(4)[0],
    "My router's led is not working, I tried changing the power socket",
    *NAUGHTY,
]
LABELS = ("billing", "hardware", "software")


@pytest.fixture(scope="module")
def predictor(encoder_folder):
    return bertcnn.load(saved(encoder_folder))


@pytest.fixture(scope="module", params=["openvino", "keras"])
def either(encoder_folder, request):
    return bertcnn.load(saved(encoder_folder), engine=request.param)


@pytest.mark.parametrize("label", LABELS)
def test_bias_mean_and_windows_add_up_to_the_logit(either, label):
    tokenizer = either._tokenizer
    logits = either.engine.run(tokenizer.encode(TEXTS).token_ids).logits[:, LABELS.index(label)]
    for explanation, logit in zip(either.explain(TEXTS, label=label), logits, strict=True):
        assert explanation.label == label
        assert explanation.logit == pytest.approx(logit, abs=1e-5)
        windows = sum(window.share for window in explanation.windows)
        parts = explanation.bias + explanation.mean + windows
        assert parts == pytest.approx(explanation.logit, abs=1e-4)


def test_by_default_the_predicted_label_is_explained_and_blank_texts_are_not(predictor):
    explanations = predictor.explain(["refund money", " ", "router cable 7"])
    assert [explanation.label for explanation in explanations] == [
        *predictor.predict(["refund"]),
        None,
        "hardware",
    ]
    assert explanations[1].windows == explanations[1].phrases == ()
    assert explanations[1].logit == 0


def shown(text, part):
    return " ".join(text[part.start : part.end].replace("|", " ").split())


def test_offsets_refer_to_the_original_text(either):
    for text, explanation in zip(TEXTS, either.explain(TEXTS, label="software"), strict=True):
        for part in explanation.windows:
            assert 0 <= part.start <= part.end <= len(text)
            assert part.words == text[part.start : part.end] or " ... " in part.words
        for part in explanation.phrases:
            assert part.words == shown(text, part) != ""
            assert part.share != 0
        assert len({part.start for part in explanation.phrases}) == len(explanation.phrases) <= 3


def test_a_window_of_the_end_mark_alone_has_no_characters(predictor):
    windows = [
        window
        for text in TEXTS
        for window in predictor.explain([text], label="billing")[0].windows
        if window.words == ""
    ]
    assert windows
    assert all(window.start == window.end for window in windows)


@given(st.text(st.one_of(st.characters(), st.sampled_from("a é'\ud83d\ude00\u0301")), max_size=40))
@settings(max_examples=300)
def test_every_character_of_the_cleaned_text_has_its_place(text):
    cleaned = clean_text(text)
    positions = cleaned_positions(text, cleaned)
    if positions is None:
        assert len(cleaned) == len(text)
        return
    assert len(positions) == len(cleaned) + 1
    for place, char in enumerate(cleaned):
        assert clean_text(text[positions[place] : positions[place + 1]]) == char


@given(st.text(st.one_of(st.characters(), st.sampled_from("router is no.'\ud83d\ude00\u0301|"))))
@settings(max_examples=60)
def test_any_text_has_an_explanation_that_adds_up(predictor, text):
    (explanation,) = predictor.explain([text], label="billing")
    windows = sum(window.share for window in explanation.windows)
    parts = explanation.bias + explanation.mean + windows
    assert parts == pytest.approx(explanation.logit, abs=1e-4)
    (answer,) = predictor.classify([text])
    for phrase in answer.because:
        assert phrase.words == shown(text, phrase) != ""


# === Phrases, with weights that make one word speak ===


def phrases_for(predictor, text, words):
    """The phrases if only windows that begin at one of the `words` (by token) count."""
    tokenizer, head = predictor._tokenizer, predictor.bundle.config.head
    encoded = tokenizer.encode([text], spans=True)
    filters = len(head.window_sizes) * head.filters
    activations, windows = np.zeros((1, filters), np.float32), np.zeros((1, filters), np.int32)
    for number, (token, strength) in enumerate(words):
        activations[0, number], windows[0, number] = strength, token
    kernel = np.zeros((filters + 16, 3), np.float32)
    kernel[:filters, 0] = 1
    explainer = Explainer(OutputLayer(kernel, np.zeros(3, np.float32)), head, tokenizer)
    spans = explainer.spans(
        [text],
        encoded,
        bertcnn.inference.engines.Evidence(activations, windows, np.empty((1, 0))),
        np.array([0]),
    )
    return because(text, spans[0].tolist())


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("the router led is red", [(2, 1.0)], "router led"),
        ("the router led is red", [(1, 1.0), (4, 3.0)], "is red"),
        # punctuation is part of no phrase, and no phrase crosses it
        ("router, cable", [(1, 1.0), (2, 1.0)], "router | cable"),
        ("the router. the bill", [(2, 2.0), (3, 2.0), (4, 2.0)], "the | router"),
        ("my router's led", [(3, 1.0)], "router's"),
        ("pay 12.50 a month", [(2, 1.0)], "12.50"),
        ("crashes", [(2, 1.0)], "crashes"),  # word pieces are joined to a word
        ("ROUTER  led", [(1, 1.0)], "ROUTER led"),
        ("refunde\u0301 ok", [(1, 1.0)], "refunde\u0301"),  # "é" as two characters
        ("router | led", [(1, 2.0), (3, 1.0)], "router | led"),
        ("led bill led", [(1, 1.0), (3, 1.0)], "led bill led"),
        ("a router \U0001f600 b", [(3, 1.0)], "\U0001f600 b"),
        # two surrogates that cleaning joins to one character
        ("a router \ud83d\ude00 led", [(4, 1.0)], "led"),
        ("no \ud83d router led", [(2, 1.0)], "router led"),
        ("的 router 路由", [(3, 1.0)], "路由"),
        ("router", [], ""),
    ],
)
def test_phrases_are_whole_words_of_the_text(predictor, text, words, expected):
    assert phrases_for(predictor, text, words) == expected


def test_offsets_are_right_on_both_sides_of_a_truncation(predictor):
    settings_ = predictor.bundle.config.tokenizer
    text = (
        "app " * settings_.head_tokens
        + "bill " * 100
        + "led " * (settings_.max_tokens - 2 - settings_.head_tokens)
    )
    encoded = predictor._tokenizer.encode([text], spans=True)
    assert encoded.truncated.all()
    places = encoded.spans[1:-1]
    assert {text[start:end] for start, end in places[: settings_.head_tokens]} == {"app"}
    assert {text[start:end] for start, end in places[settings_.head_tokens :]} == {"led"}
    assert places[-1].tolist() == [len(text) - 4, len(text) - 1]
    assert set(phrases_for(predictor, text, [(settings_.head_tokens, 1.0)]).split(" | ")) == {
        "app",
        "led",
    }
    for window in predictor.explain([text])[0].windows:
        assert window.words in text or set(window.words.split(" ... ")[0].split()) <= {"app"}


def test_a_phrase_is_named_once_and_a_long_one_shortened():
    assert because("led LED led", [(0, 3), (4, 7), (8, 11)]) == "led"
    assert because("x" * 200, [(0, 200), (0, 0), (0, 0)]) == "x" * 79 + "…"


# === The last layer ===


def test_the_last_layer_is_read_once_and_a_damaged_copy_is_made_again(
    encoder_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    folder = saved(encoder_folder)
    whole, bundle = read_bundle(folder), read_bundle(folder, weights=False)
    for _ in range(2):
        layer = read_output_layer(folder, bundle)
        np.testing.assert_array_equal(layer.kernel, whole.tensors["logits/kernel"])
        np.testing.assert_array_equal(layer.bias, whole.tensors["logits/bias"])
        (copy,) = tmp_path.glob("last_layers/*")
        data = bytearray(copy.read_bytes())
        data[40] ^= 1
        copy.write_bytes(data)


def test_overwriting_a_loaded_model_does_not_mix_the_two(encoder_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    bundle = read_bundle(saved(encoder_folder), weights=False)
    with pytest.raises(BundleError, match=r"another model was saved in .* meanwhile"):
        read_output_layer(saved(encoder_folder), dataclasses.replace(bundle, bundle_id="f" * 64))
