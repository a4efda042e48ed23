"""The language model: it learns texts, continues them, and measures how well it predicts."""

import math

import numpy as np
import pytest

from bertcnn.errors import SettingsError, TableError
from bertcnn.tasks.language_model import LanguageModel, read_documents
from tests.listener import Listener
from tests.tasks.small_texts import BRIEF, NARROW, PLACES, small_texts


def untrained(**changes):
    return LanguageModel(model=NARROW, training={**BRIEF, **changes})


@pytest.fixture(scope="module")
def fitted():
    return untrained().fit(small_texts())


@pytest.fixture(scope="module")
def vague():
    """A model that has hardly learned anything, so that many tokens are probable."""
    return untrained(epochs=2).fit(small_texts())


def logits_of(language_model, token_ids):
    """The logits after each of these tokens, recomputed without kept keys and values."""
    model = language_model._running.completer.model
    return np.array(model({"token_ids": np.array([token_ids], np.int32)}))[0]


def ids_of(language_model, text):
    running = language_model._running
    ids = running.subwords.encode([text], 99)[0].tolist()
    return [running.subwords.start_id, *ids[:-1]]


def test_it_completes_sentences_that_it_has_learned(fitted):
    for town, country in PLACES.items():
        completion = fitted.generate(f"{town}  is a city in", max_tokens=12)
        assert completion.text.startswith(f"{town} is a city in {country} .")
        assert completion.prompt == f"{town} is a city in"
        assert completion.is_whole
        assert completion.pieces[-1] == "[SEP]"
    assert fitted.metrics_["validation_token_accuracy"] > 0.6


def test_it_learns_all_texts_by_heart_if_none_is_held_out():
    model = untrained(validation_fraction=0).fit(small_texts())
    assert model.metrics_["texts"] == len(set(small_texts()))
    assert model.metrics_["validation_texts"] == 0
    assert model.metrics_["validation_token_accuracy"] > 0.6


@pytest.mark.parametrize("prompt", ["", "Rome is", "Where is Nice ?", "x " * 40])
def test_greedy_tokens_equal_those_of_the_recomputed_prefix(vague, prompt):
    completion = vague.generate(prompt, max_tokens=10)
    subwords = vague._running.subwords
    token_ids = ids_of(vague, prompt)[10 - NARROW["context_tokens"] :]
    for piece, log_probability in zip(completion.pieces, completion.log_probabilities, strict=True):
        logits = logits_of(vague, token_ids)[-1]
        logits[list(subwords.never)] = -1e9
        assert subwords.vocabulary[int(logits.argmax())] == piece
        logs = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        assert log_probability == pytest.approx(logs.max(), abs=1e-5)
        token_ids.append(int(logits.argmax()))


def test_drawn_tokens_have_the_probabilities_of_the_model(vague):
    subwords = vague._running.subwords
    logits = logits_of(vague, ids_of(vague, "Rome is a"))[-1] / 0.7
    logits[list(subwords.never)] = -1e9
    probabilities = np.exp(logits - logits.max())
    kept = np.argsort(-probabilities)[:5]
    expected = probabilities[kept] / probabilities[kept].sum()
    drawn = [
        vague.generate("Rome is a", max_tokens=1, temperature=0.7, top_k=5, seed=seed).pieces[0]
        for seed in range(400)
    ]
    counts = [drawn.count(subwords.vocabulary[token]) for token in kept]
    assert sum(counts) == 400
    chi_square = sum(
        (one - 400 * share) ** 2 / (400 * share)
        for one, share in zip(counts, expected, strict=True)
    )
    assert chi_square < 18.5  # the 99.9th percentile with 4 degrees of freedom


def test_settings_of_sampling_have_their_effect(vague):
    greedy = vague.generate("Rome", max_tokens=8)
    assert vague.generate("Rome", max_tokens=8, temperature=0, top_p=0.5) == greedy
    assert vague.generate("Rome", max_tokens=8, top_k=1, seed=3) == greedy
    assert vague.generate("Rome", max_tokens=8, top_p=1e-6) == greedy
    texts = {vague.generate("Rome", max_tokens=8, top_p=0.95, seed=seed).text for seed in range(8)}
    assert len(texts) > 4
    same = [vague.generate("Rome", max_tokens=8, temperature=1, seed=5) for _ in range(2)]
    assert same[0] == same[1]
    pieces = {vague.generate("Rome", max_tokens=1, top_k=2, seed=seed).pieces for seed in range(40)}
    assert len(pieces) == 2
    assert len(vague.generate("Rome", max_tokens=3, temperature=2).pieces) <= 3


def test_one_program_serves_all_prompts_and_settings(fitted, monkeypatch):
    fitted.generate("Rome", max_tokens=8)
    monkeypatch.setattr("bertcnn.tasks.language_model.completion.continue_text", None)
    fitted.generate("Where is Bonn ?", max_tokens=3, temperature=0.4, top_k=7, top_p=0.9, seed=2)


@pytest.mark.parametrize("repeats", [1, 7])
def test_perplexity_follows_from_the_logits(fitted, repeats):
    """Also of a text that is longer than the context."""
    texts = [" ".join(small_texts()[:1] * repeats), "Lyon has the city Bonn ."]
    found = fitted.perplexity([*texts, " "])
    subwords, context, total, tokens = fitted._running.subwords, 24, 0.0, 0
    for text in texts:
        ids = [*ids_of(fitted, text), subwords.end_id]
        read = 1
        while read < len(ids):  # windows that overlap by half
            begin = max(0, read - 1 - context // 2)
            logits = logits_of(fitted, ids[begin : begin + context])
            for place in range(read, min(len(ids), begin + context + 1)):
                row = logits[place - 1 - begin].astype(np.float64)
                total += row[ids[place]] - np.log(np.exp(row).sum())
                tokens += 1
            read = begin + context + 1
    words = sum(len(text.split()) + 1 for text in texts)
    assert (found.texts, found.words, found.tokens) == (2, words, tokens)
    assert found.log_likelihood == pytest.approx(total, rel=1e-4)
    assert found.per_word == pytest.approx(math.exp(-total / words), rel=1e-3)
    assert found.per_token == pytest.approx(math.exp(-total / tokens), rel=1e-3)


def test_learned_texts_are_less_surprising_than_others_and_unknown_words_are_counted(fitted):
    learned = fitted.perplexity(small_texts())
    assert learned.per_word < 2
    assert learned.unknown == 0
    assert fitted.perplexity(["city a Rome in is ."]).per_word > 20 * learned.per_word
    assert fitted.perplexity(["Rome is a 語 in Italy ."]).unknown == 1


def test_next_tokens_have_the_probabilities_of_the_generated_ones(vague):
    for prompt in ("", "Rome is", "x " * 40):
        likely = vague.next_tokens(prompt, count=999)
        probabilities = [probability for _, probability in likely]
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert probabilities == sorted(probabilities, reverse=True)
    drawn = vague.generate("Rome is", max_tokens=1, temperature=2, seed=3)
    likely = dict(vague.next_tokens("Rome is", count=999))
    assert math.log(likely[drawn.pieces[0]]) == pytest.approx(drawn.log_probabilities[0], abs=1e-4)
    assert "[PAD]" not in list(likely)[:20]
    with pytest.raises(SettingsError, match=r"a prompt .* expected a string"):
        vague.next_tokens(None)


def test_a_text_is_its_tokens(fitted):
    (tokens,) = fitted.tokenize([" Rome is  in France . "])
    assert "".join(f" {token}" for token in tokens).replace(" ##", "").split() == [
        "Rome",
        "is",
        "in",
        "France",
        ".",
    ]
    assert fitted.tokenize([]) == []


def test_a_training_ends_within_its_time_budget():
    listener = Listener()
    model = LanguageModel(
        model=NARROW, training={**BRIEF, "epochs": 500, "time_budget": 1e-3}, progress=listener
    ).fit(small_texts())
    assert 1 <= model.metrics_["epochs"] < 500
    assert listener.has("training ends with epoch")


def test_documents_are_separated_by_blank_lines_or_rows(tmp_path):
    (tmp_path / "a.txt").write_text("One. Two\nthree.\n\n\nFour.\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("id,body\n1,Five six.\n2,\n3,Seven eight.\n", encoding="utf-8")
    found = read_documents([tmp_path / "a.txt", tmp_path / "b.csv"], text="body")
    assert found == ["One. Two three.", "Four.", "Five six.", "Seven eight."]


def test_unusable_settings_and_texts_are_refused(fitted):
    for make, message in (
        (lambda: LanguageModel(model={"heads": 3}), "a multiple of heads"),
        (lambda: fitted.generate(7), "a prompt '7'; expected a string"),
        (lambda: fitted.generate("a", max_tokens=24), "24 tokens; expected at most 23"),
        (lambda: fitted.generate("a", max_tokens=0), "max_tokens was '0'"),
        (lambda: fitted.generate("a", temperature=-1.0), "temperature was '-1.0'"),
        (lambda: fitted.generate("a", top_k=0), "top_k was '0'"),
        (lambda: fitted.generate("a", top_p=1.5), "top_p was '1.5'"),
        (lambda: fitted.generate("a", seed=-1), "seed -1"),
    ):
        with pytest.raises(SettingsError, match=message):
            make()
    with pytest.raises(TableError, match="blank lines between them"):
        LanguageModel().fit(["one text"] * 30)
    with pytest.raises(TableError, match="no text"):
        fitted.perplexity([" "])
