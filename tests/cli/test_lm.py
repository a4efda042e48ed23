"""`bertcnn lm`, as people type it."""

import json

import pytest

from bertcnn.tasks.language_model import LanguageModel
from tests.cli.outcomes import left, refused
from tests.tasks.kinds import LANGUAGE_MODEL, saved
from tests.tasks.small_texts import small_texts


@pytest.fixture(scope="module")
def model(shallow_encoder_folder):
    """A saved model with little training; do not write to its folder."""
    return saved(LANGUAGE_MODEL, shallow_encoder_folder)


@pytest.fixture(scope="module")
def loaded(model):
    return LanguageModel.load(model)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(small_texts()), encoding="utf-8")
    return path


def test_options_of_the_network_are_saved_or_refused(run, texts):
    few, out = texts.parent / "few.txt", texts.parent / "model"
    few.write_text("One text.\nThe same text.\n", encoding="utf-8")
    refused(run("lm", "train", few, "--out", out), "1 different texts", "blank lines")
    refused(run("lm", "train", texts, "--out", out, "--width", "6"), "multiple of heads")
    assert left(texts.parent) == ["few.txt", "texts.txt"]
    shape = ("--layers", "1", "--width", "16", "--context", "24", "--pieces", "60")
    schedule = ("--epochs", "1", "--time-budget", "9")
    code, _, err = run("lm", "train", texts, "--out", out, *shape, *schedule)
    assert code == 0, err
    assert err.splitlines()[-1] == f"Next: bertcnn lm complete {out} 'Rome is a'"
    config = json.loads((out / "config.json").read_text())
    assert (config["model"]["width"], config["model"]["context_tokens"]) == (16, 24)
    assert (config["training"]["vocabulary_size"], config["training"]["time_budget"]) == (60, 9)


def test_complete_continues_each_text(run, model, loaded):
    prompts = ["Rome is a", "- Where  is", "Nice"]
    code, out, err = run("lm", "complete", model, *prompts, "--max-tokens", "9")
    assert (code, err) == (0, "")
    greedy = [loaded.generate(prompt, max_tokens=9).text for prompt in prompts]
    assert out.splitlines() == greedy
    drawing = {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "seed": 4, "max_tokens": 9}
    options = [
        word
        for name, value in drawing.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    code, out, _ = run("lm", "complete", model, prompts[0], *options)
    assert (code, out.splitlines()) == (0, [loaded.generate(prompts[0], **drawing).text])
    assert out.splitlines() != greedy[:1]


def test_evaluate_prints_both_perplexities(run, model, loaded, texts):
    figures = loaded.perplexity(small_texts())
    code, out, err = run("lm", "evaluate", model, texts)
    assert (code, err) == (0, "")
    assert out == (
        f"30 texts: perplexity {figures.per_word:,.1f} per word, {figures.per_token:,.1f} per"
        " token\n"
    )
    strange = texts.parent / "strange.txt"
    strange.write_text("Rome is 語 in Italy .", encoding="utf-8")
    code, out, err = run("lm", "evaluate", model, strange, "--json")
    assert (code, json.loads(out.splitlines()[0])["unknown"]) == (0, 1)
    assert "1 word of 7 have a character" in err


def test_unusable_settings_of_sampling_are_refused(run, model):
    for options, word in (
        (("--top-p", "0"), "top_p"),
        (("--temperature", "-1"), "temperature"),
        (("--max-tokens", "24"), "at most 23"),
    ):
        refused(run("lm", "complete", model, "Rome", *options), word)
