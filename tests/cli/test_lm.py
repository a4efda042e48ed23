"""`bertcnn lm`, as people type it."""

import json

import pytest

from bertcnn.tasks.language_model import LanguageModel
from tests.cli.test_translate import left, refused
from tests.tasks.small_texts import BRIEF, NARROW, small_texts


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model with little training; do not write to its folder."""
    folder = tmp_path_factory.mktemp("language_model") / "model"
    LanguageModel(model=NARROW, training={**BRIEF, "epochs": 5}).fit(small_texts()).save(folder)
    return folder


@pytest.fixture(scope="module")
def loaded(model):
    return LanguageModel.load(model)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n\n".join(small_texts()), encoding="utf-8")
    return path


def test_train_says_how_well_it_predicts_and_what_comes_next(run, texts):
    out = texts.parent / "model"
    options = [
        "--epochs",
        "1",
        "--pieces",
        "60",
        "--layers",
        "1",
        "--width",
        "16",
        "--context",
        "24",
        "--seed",
        "3",
    ]
    more = ("--context", "24", "--time-budget", "9")
    code, told, err = run("lm", "train", texts, "--out", out, *options, *more)
    assert (code, told) == (0, ""), err
    assert "27 texts to learn from, 3 held out to choose the epoch; 60 pieces" in err
    assert f"Saved {out} (model " in err
    assert "per token on 3 validation texts." in err
    assert err.splitlines()[-1] == f"Next: bertcnn lm complete {out} 'Rome is a'"
    assert left(texts.parent) == ["model", "texts.txt"]
    config = json.loads((out / "config.json").read_text())
    assert (config["model"]["width"], config["model"]["context_tokens"]) == (16, 24)
    assert (config["training"]["vocabulary_size"], config["training"]["time_budget"]) == (60, 9)
    refused(run("lm", "train", texts, "--out", out), "saved language model", "--force")


def test_files_and_options_that_will_not_do_are_refused_in_one_line(run, texts):
    few = texts.parent / "few.txt"
    few.write_text("One text.\nThe same text.\n", encoding="utf-8")
    out = texts.parent / "model"
    for arguments, words in (
        ((few, "--out", out), ("1 different texts", "blank lines")),
        ((texts.parent / "missing.txt", "--out", out), ("missing.txt",)),
        ((texts, "--out", out, "--epochs", "0"), ("epochs", "'0'")),
        ((texts, "--out", out, "--width", "6"), ("multiple of heads",)),
        ((texts, "--out", out, "--seed", "-1"), ("seed -1",)),
    ):
        refused(run("lm", "train", *arguments), *words)
    assert left(texts.parent) == ["few.txt", "texts.txt"]


def test_complete_continues_each_text(run, model, loaded):
    prompts = ["Rome is a", "- Where  is", "Nice"]
    code, out, err = run("lm", "complete", model, *prompts, "--max-tokens", "9")
    assert (code, err) == (0, "")
    greedy = [loaded.generate(prompt, max_tokens=9).text for prompt in prompts]
    assert out.splitlines() == greedy
    assert run("lm", "complete", model, "--max-tokens", "9", stdin="\n".join(prompts))[1] == out
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


def test_models_and_settings_that_will_not_do_are_refused(run, model, tmp_path):
    for options, word in (
        (("--top-p", "0"), "top_p"),
        (("--temperature", "-1"), "temperature"),
        (("--max-tokens", "24"), "at most 23"),
    ):
        refused(run("lm", "complete", model, "Rome", *options), word)
    refused(run("lm", "complete", tmp_path / "nowhere", "Rome"), "nowhere")
    refused(run("classify", model, "one"), "holds a 'bertcnn language model'")
