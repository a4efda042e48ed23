"""Greedy and beam search, compared with a plain loop and exhaustive search."""

import itertools

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

from bertcnn.models.decoding import SearchSettings, Written, search
from bertcnn.models.recurrent import RecurrentTranslator
from bertcnn.models.transformer import Transformer
from bertcnn.settings import TranslatorSettings
from bertcnn.tasks.compiled import compiled_search

MODELS = {"transformer": Transformer, "recurrent": RecurrentTranslator}
PAD, UNKNOWN, START, END = range(4)
VOCABULARY, LENGTH = 11, 6
SOURCE = np.array(
    [[4, 5, 6, 7, 8, END], [9, 4, END, 0, 0, 0], [END, 0, 0, 0, 0, 0], [7, 7, 10, END, 0, 0]],
    np.int32,
)
TARGET = np.array(
    [[7, 8, 4, 5, 6, 9], [4, 9, END, 0, 0, 0], [5, END, 0, 0, 0, 0], [10, 7, 1, 7, END, 0]],
    np.int32,
)


def make_model(architecture, vocabulary_size, length):
    settings = TranslatorSettings(
        architecture=architecture,
        vocabulary_size=vocabulary_size,
        width=16,
        layers=1,
        heads=2,
        feed_forward_width=24,
        source_tokens=6,
        target_tokens=length,
        dropout=0.0,
    )
    model = MODELS[architecture](settings, seed=1)
    generator = np.random.default_rng(0)
    for weight in model.weights:  # larger than a fresh model's
        weight.assign(weight + generator.normal(0, 0.3, weight.shape))
    return model


@pytest.fixture(scope="module", params=MODELS)
def architecture(request):
    return request.param


@pytest.fixture(scope="module")
def model(architecture):
    """Half trained: it generates texts of many tokens, some of them complete, all uncertain."""
    model = make_model(architecture, VOCABULARY, LENGTH)
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=keras.backend.backend() == "tensorflow",  # JAX compiles it in less time
    )
    inputs = {"source_ids": SOURCE, "target_ids": np.roll(TARGET, 1, axis=1)}
    inputs["target_ids"][:, 0] = START
    model.fit(inputs, TARGET, epochs=10, verbose=0)
    return model


@pytest.fixture(scope="module")
def smallest_model(architecture):
    """A vocabulary of five tokens: padding, unknown, start, end and one word."""
    return make_model(architecture, 5, 4)


@pytest.fixture(scope="module")
def written(model):
    """The output of beam search with width four."""
    return Written(*found(model, settings_of()))


def settings_of(**changes):
    return SearchSettings(
        **{
            "length": LENGTH,
            "start_id": START,
            "end_id": END,
            "width": 4,
            "pad_id": PAD,
            "never": (PAD, START),
            **changes,
        }
    )


def found(model, settings, source_ids=SOURCE):
    """Token ids, scores and attention, without compiling."""
    return [
        np.asarray(part)
        for part in search(model, settings, keras.ops.convert_to_tensor(source_ids))
    ]


def predicted(model, source_ids, texts):
    """Next-token logits float64 [N, L, V] for texts [N, L] of one source, without a cache."""
    sources = np.repeat(source_ids[None], len(texts), axis=0)
    return np.asarray(model({"source_ids": sources, "target_ids": texts}), np.float64)


def scores_of(model, source_ids, texts, settings):
    """Sums of log-probabilities divided by the length penalty (Wu et al. 2016, section 7)."""
    padded = np.array([[*text, *[PAD] * (settings.length - len(text))] for text in texts], np.int32)
    behind = np.concatenate([np.full((len(texts), 1), START), padded[:, :-1]], axis=1)
    logits = predicted(model, source_ids, behind)
    logits[..., list(settings.never)] = -np.inf
    logs = np.take_along_axis(log_softmax(logits, axis=-1), padded[..., None], axis=-1)[..., 0]
    lengths = (padded != PAD).sum(axis=1)
    sums = np.where(padded == PAD, 0.0, logs).sum(axis=1)
    return sums / ((5 + lengths) / 6) ** settings.length_penalty


def without_padding(token_ids):
    return tuple(int(token_id) for token_id in token_ids if token_id != PAD)


def behind_the_end(token_ids):
    return np.cumsum(token_ids == END, axis=-1) - (token_ids == END) > 0


@pytest.mark.on_jax
def test_a_width_of_one_is_greedy(model):
    tokens, scores, _ = found(model, settings_of(width=1))
    assert tokens.shape == (len(SOURCE), 1, LENGTH)
    for row, source_ids in enumerate(SOURCE):
        text = []
        while len(text) < LENGTH and END not in text:
            behind = np.full((1, LENGTH), PAD, np.int32)  # no prediction depends on later tokens
            behind[0, : len(text) + 1] = [START, *text]
            logits = predicted(model, source_ids, behind)[0, len(text)]
            text.append(max(set(range(VOCABULARY)) - {PAD, START}, key=logits.__getitem__))
        assert without_padding(tokens[row, 0]) == tuple(text)
        expected = scores_of(model, source_ids, [text], settings_of())
        np.testing.assert_allclose(scores[row], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_a_beam_that_keeps_every_text_is_exhaustive_search(smallest_model, length_penalty):
    length, words = 4, (UNKNOWN, 4)
    texts = [
        text
        for size in range(1, length + 1)
        for text in itertools.product((END, *words), repeat=size)
        if END not in text[:-1] and (text[-1] == END or size == length)
    ]
    settings = settings_of(length=length, width=len(texts) + 3, length_penalty=length_penalty)
    sources = np.array([[1, 4, 1, 4, END, 0], [4, 4, END, 0, 0, 0]], np.int32)
    tokens, scores, _ = found(smallest_model, settings, sources)
    for row, source_ids in enumerate(sources):
        expected = scores_of(smallest_model, source_ids, texts, settings)
        order = np.argsort(-expected)
        assert [without_padding(text) for text in tokens[row, : len(texts)]] == [
            texts[place] for place in order
        ]
        np.testing.assert_allclose(scores[row, : len(texts)], expected[order], rtol=0, atol=1e-5)
        assert (scores[row, len(texts) :] <= -1e7).all()  # no text is left for these ranks


@pytest.mark.on_jax
def test_scores_are_those_of_calls_without_a_cache(model, written):
    for row, source_ids in enumerate(SOURCE):
        texts = [without_padding(text) for text in written.token_ids[row]]
        expected = scores_of(model, source_ids, texts, settings_of())
        np.testing.assert_allclose(written.scores[row], expected, rtol=0, atol=1e-5)


def test_the_texts_of_a_source_are_sorted_and_distinct(written):
    assert (np.diff(written.scores, axis=1) <= 0).all()
    for texts in written.token_ids:
        assert len(set(map(without_padding, texts))) == len(texts)


def test_excluded_tokens_are_not_generated(model, written):
    never = {4, 7}
    assert never <= set(written.token_ids.ravel().tolist())
    tokens = found(model, settings_of(never=(PAD, START, *never)))[0]
    assert not {START, *never} & set(tokens.ravel().tolist())
    assert (tokens[~behind_the_end(tokens)] != PAD).all()


def test_a_finished_text_keeps_its_padding(written):
    behind = behind_the_end(written.token_ids)
    ended = (written.token_ids == END).any(axis=-1)
    assert ended.any()
    assert not ended.all()
    assert (written.token_ids[behind] == PAD).all()
    assert (written.token_ids[~behind] != PAD).all()
    assert (written.attention[behind] == 0).all()


def test_attention_belongs_to_its_own_text(model, written):
    texts = written.token_ids.reshape(-1, LENGTH)
    source = model.read(keras.ops.repeat(SOURCE, written.token_ids.shape[1], axis=0))
    state, last = model.begin(source), np.full(len(texts), START, np.int32)
    for place in range(LENGTH):
        _, state, expected = model.step(keras.ops.convert_to_tensor(last), place, source, state)
        last = texts[:, place]
        np.testing.assert_allclose(
            written.attention.reshape(-1, LENGTH, SOURCE.shape[1])[last != PAD, place],
            np.asarray(expected)[last != PAD],
            rtol=0,
            atol=1e-5,
        )


@pytest.mark.parametrize(
    ("rows", "tokens"), [(slice(2, 0, -1), 6), (slice(1, None), 4)], ids=["rows", "padding"]
)
def test_source_neighbours_and_padding_do_not_change_the_texts(model, written, rows, tokens):
    token_ids, scores, attention = found(model, settings_of(), SOURCE[rows, :tokens])
    np.testing.assert_array_equal(token_ids, written.token_ids[rows])
    np.testing.assert_allclose(scores, written.scores[rows], rtol=0, atol=1e-5)
    expected = written.attention[rows, ..., :tokens]
    np.testing.assert_allclose(attention, expected, rtol=0, atol=1e-5)


@pytest.mark.on_jax
def test_a_compiled_search_uses_the_current_weights(model, architecture):
    twin, settings = make_model(architecture, VOCABULARY, LENGTH), settings_of(width=2)
    twin.set_weights(model.get_weights())
    program = compiled_search(twin, settings)
    scores = []
    for factor in (1.0, 0.5):
        for weight in twin.weights:
            weight.assign(weight * factor)
        compiled, eager = program(SOURCE), Written(*found(twin, settings))
        np.testing.assert_array_equal(compiled.token_ids, eager.token_ids)
        np.testing.assert_allclose(compiled.scores, eager.scores, rtol=0, atol=1e-5)
        np.testing.assert_allclose(compiled.attention, eager.attention, rtol=0, atol=1e-5)
        scores.append(compiled.scores)
    types = [part.dtype for part in (compiled.token_ids, compiled.scores, compiled.attention)]
    assert types == [np.int32, np.float32, np.float32]
    assert not np.allclose(*scores, atol=1e-2)
