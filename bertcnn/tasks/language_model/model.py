"""The language model: fit, generate, measure perplexity, save and load."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.errors import SettingsError, TableError, TrainingError, one_line
from bertcnn.models import CausalTransformer, assign, extract
from bertcnn.progress import Progress
from bertcnn.settings import LanguageModelSettings, LanguageTrainingSettings, SamplingSettings
from bertcnn.tasks.language_model.completion import Completer, Completion
from bertcnn.tasks.language_model.saving import FOLDER, LanguageModelConfig, SavedLanguageModel
from bertcnn.tasks.model import TaskModel
from bertcnn.tasks.subwords import Subwords, words
from bertcnn.tasks.training import (
    next_token_figures,
    next_token_sums,
    origin,
    train_writer,
    with_savepoints,
)
from bertcnn.text import check_texts, is_blank
from bertcnn.training import (
    Arrays,
    Deadline,
    check_seed,
    compute_policy,
    digest,
    make_figures,
    note_device,
)

_FEWEST_TEXTS = 20
_SHORTER = 4  # perplexity pads to the context's length, or to this part of it


@dataclass(frozen=True)
class Perplexity:
    """How well texts were predicted; the end of a text is one more word and one more token.

    Attributes:
        per_word: exp of the mean negative log-likelihood of a word; depends on no vocabulary.
        per_token: the same of a token.
        log_likelihood: natural logarithm of the probability of all texts.
        unknown: words with a character that the vocabulary lacks; they are predicted as [UNK],
            without their spelling.
    """

    per_word: float
    per_token: float
    texts: int
    words: int
    tokens: int
    unknown: int
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class _Running:
    subwords: Subwords
    completer: Completer
    measure: Callable[..., Any]


class LanguageModel(TaskModel[LanguageModelConfig, _Running]):
    """A decoder-only Transformer that learns to predict the next token of texts.

    Args:
        model: changes to `LanguageModelSettings`, by name.
        training: changes to `LanguageTrainingSettings`, by name.

    Example:
        model = LanguageModel().fit(texts)
        model.generate("Shanghai is a city in").text
        model.perplexity(held_out).per_word
    """

    _folder = FOLDER

    def __init__(
        self,
        *,
        model: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        seed: int = 0,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        super().__init__(seed, callbacks, progress)
        shape = {**(model or {}), "vocabulary_size": 1}  # the size is set by `fit`
        self._settings = LanguageModelSettings(**shape)
        self._training = LanguageTrainingSettings(**(training or {}))

    def fit(self, texts: Sequence[str], *, savepoints: Path | None = None) -> Self:
        """Train on texts; a share of them chooses the epoch.

        With `validation_fraction=0` all texts are learned and choose the epoch: the model repeats
        them, and says nothing about others.

        Args:
            texts: strings; blank ones are left out.
            savepoints: folder that an interrupted training resumes from, with the same result.

        Raises:
            SettingsError: `texts` is not a list of strings.
            TableError: there are fewer than 20 texts.
            TrainingError: the loss became infinite or NaN.
        """
        options, training = self._options, self._training
        learned, held_out = _split(check_texts(texts), training.validation_fraction, self._seed)
        subwords = Subwords.learn(learned, training.vocabulary_size)
        settings = self._settings.model_copy(update={"vocabulary_size": len(subwords.vocabulary)})
        train, valid = (
            _examples(part, subwords, settings.context_tokens) for part in (learned, held_out)
        )
        note_device(self._progress, training.precision)
        apart = len(held_out) if training.validation_fraction else 0
        self._progress.note(
            f"{len(learned):,} texts to learn from, {apart:,} held out to choose the epoch;"
            f" {len(subwords.vocabulary):,} pieces"
        )
        options = with_savepoints(
            options,
            savepoints,
            training,
            model=settings.model_dump(),
            texts=digest([*train.rows, *valid.rows]),
        )
        if training.time_budget is not None:
            options = replace(options, deadline=Deadline(training.time_budget))
        model = _built(settings, subwords, self._seed, compute_policy(training.precision))
        history, kept = train_writer(model, train, valid, training, options)
        config = LanguageModelConfig(
            model=settings, texts=len(learned), **origin(training, options)
        )
        metrics = {
            "texts": len(learned),
            "validation_texts": apart,
            "pieces": len(subwords.vocabulary),
            "kept_epoch": kept.epoch,
            "epochs": len(history),
            "validation_perplexity_per_token": math.exp(kept.figures["val_loss"]),
            "validation_token_accuracy": kept.figures["val_accuracy"],
        }
        self._take(SavedLanguageModel(config, subwords.vocabulary, extract(model.weights), metrics))
        return self

    def generate(
        self,
        prompt: str = "",
        *,
        max_tokens: int = 40,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Completion:
        """Continue a text, with the most probable tokens by default (greedy).

        Args:
            prompt: the start of the text; of a long one the last tokens are used.
            max_tokens: most tokens to generate; the text may end before.
            temperature: below 1 prefers probable tokens, above 1 makes them more equal; 0 is
                greedy. 1 by default if `top_k` or `top_p` is given.
            top_k: draw from the most probable tokens only, as many as this.
            top_p: draw from the fewest most probable tokens whose probabilities sum to this.
            seed: equal seeds give equal texts.

        Raises:
            SettingsError: the prompt is not a string, or a setting is invalid.
            TrainingError: called before `fit`.
        """
        check_seed(seed)
        settings = SamplingSettings(
            max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p
        )
        return self._running.completer.complete(_checked(prompt), settings, seed)

    def next_tokens(self, prompt: str = "", *, count: int = 10) -> list[tuple[str, float]]:
        """The most probable tokens after the start of a text, with their probabilities.

        Args:
            prompt: the start of the text.
            count: most tokens; the text's end is `[SEP]`.

        Raises:
            SettingsError: the prompt is not a string.
            TrainingError: called before `fit`.
        """
        return self._running.completer.next_tokens(_checked(prompt), count)

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of each text, without its end token; `##` continues a word.

        Raises:
            SettingsError: `texts` is not a list of strings.
            TrainingError: called before `fit`.
        """
        subwords = self._running.subwords
        encoded = subwords.encode(check_texts(texts), sys.maxsize)
        return [[subwords.vocabulary[one] for one in ids[:-1]] for ids in encoded]

    def perplexity(self, texts: Sequence[str]) -> Perplexity:
        """How well texts are predicted, best ones that it was not trained on.

        Raises:
            SettingsError: `texts` is not a list of strings.
            TableError: all texts are blank.
            TrainingError: called before `fit`.
        """
        given = [text for text in check_texts(texts) if not is_blank(text)]
        if not given:
            raise TableError("no text", expected="texts with words", fix="give some")
        running, context = self._running, self._model.config.model.context_tokens
        subwords = running.subwords
        examples = _examples(given, subwords, context)
        loss, _, tokens = next_token_sums(
            running.measure, examples, (max(1, context // _SHORTER), context)
        )
        count = sum(len(words(text)) + 1 for text in given)
        encoded = subwords.encode(given, sys.maxsize)
        return Perplexity(
            per_word=math.exp(loss / count),
            per_token=math.exp(loss / tokens),
            texts=len(given),
            words=count,
            tokens=int(tokens),
            unknown=sum(int((ids == subwords.unknown_id).sum()) for ids in encoded),
            log_likelihood=-loss,
        )

    def _start(self, saved: SavedLanguageModel) -> _Running:
        subwords = Subwords(saved.vocabulary)
        model = _built(saved.config.model, subwords, saved.config.seed)
        assign(model.weights, saved.tensors, error=TrainingError)
        measure = make_figures(model, next_token_figures(0.0))
        return _Running(subwords, Completer(model, subwords), measure)


def _checked(prompt: object) -> str:
    if isinstance(prompt, str):
        return prompt
    raise SettingsError(
        f"a prompt {one_line(prompt)}", expected="a string", fix="give the start of a text"
    )


def _split(texts: Sequence[str], fraction: float, seed: int) -> tuple[list[str], list[str]]:
    """Different texts to learn from and to validate on; the same ones for the fraction 0."""
    given = list(dict.fromkeys(text for text in texts if not is_blank(text)))
    if len(given) < _FEWEST_TEXTS:
        raise TableError(
            f"{len(given)} different texts",
            expected=f"at least {_FEWEST_TEXTS}; in a text file, blank lines separate them",
            fix="give more texts, or put blank lines between them",
        )
    if not fraction:
        return given, given
    order = np.random.default_rng(seed).permutation(len(given))
    held_out = max(1, round(fraction * len(given)))
    chosen = np.sort(order[held_out:]), np.sort(order[:held_out])
    learned, validation = ([given[row] for row in rows] for rows in chosen)
    return learned, validation


@dataclass(frozen=True)
class NextTokens:
    """Rows of tokens, int32 [T] each, to be predicted from those before them.

    Attributes:
        first: int32 [rows], the token before each row: the start token, or the text's last token.
        new: int [rows], number of last tokens in each row that no earlier row has.
    """

    rows: list[np.ndarray]
    first: np.ndarray
    new: np.ndarray
    pad_id: int

    @classmethod
    def of(
        cls, texts: Sequence[np.ndarray], context: int, *, start_id: int, pad_id: int
    ) -> NextTokens:
        """Cut texts into rows of at most `context` tokens.

        A long text is read in windows that overlap by half, so that every token but the first ones
        is predicted from at least half a window; it counts in one window only.
        """
        rows, first, new = [], [], []
        for ids in texts:
            read = 0
            while read < len(ids):
                begin = max(0, read - context // 2)
                rows.append(ids[begin : begin + context])
                first.append(ids[begin - 1] if begin else start_id)
                new.append(begin + len(rows[-1]) - read)
                read += new[-1]
        return cls(rows, np.array(first, np.int32), np.array(new, np.int64), pad_id)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens, int [rows]."""
        return np.array([len(ids) for ids in self.rows], np.int64)

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets; padding, filler rows and repeated tokens have weight 0."""
        target = pad(self.rows, plan, self.pad_id).token_ids
        first, old = np.full(plan.size, self.pad_id, np.int32), np.zeros(plan.size, np.int64)
        first[: len(plan.rows)] = self.first[plan.rows]
        old[: len(plan.rows)] = (self.lengths - self.new)[plan.rows]
        counts = (np.arange(plan.length) >= old[:, None]) & (target != self.pad_id)
        return (
            {"token_ids": np.concatenate([first[:, None], target[:, :-1]], axis=1)},
            {"target_ids": target, "weights": counts.astype(np.float32)},
        )


def _examples(texts: Sequence[str], subwords: Subwords, context: int) -> NextTokens:
    encoded = subwords.encode(texts, sys.maxsize)
    return NextTokens.of(encoded, context, start_id=subwords.start_id, pad_id=subwords.pad_id)


def _built(
    settings: LanguageModelSettings, subwords: Subwords, seed: int, dtype: str = "float32"
) -> CausalTransformer:
    return CausalTransformer(settings, pad_id=subwords.pad_id, seed=seed, dtype=dtype)
