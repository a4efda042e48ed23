"""Continues texts with a language model, compiled once for all settings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertcnn.errors import SettingsError
from bertcnn.evaluation import softmax
from bertcnn.models import CausalTransformer, Sampling, banned, continue_text
from bertcnn.settings import SamplingSettings
from bertcnn.tasks.compiled import compiled
from bertcnn.tasks.subwords import Subwords, words


@dataclass(frozen=True)
class Completion:
    """A text that a model continued.

    Attributes:
        prompt: the start that was given, with single spaces.
        text: the start and its continuation.
        pieces: the generated tokens, including the end token if it was reached.
        log_probabilities: of each of them, before temperature, top-k and top-p.
        is_whole: whether the text ended by itself.
    """

    prompt: str
    text: str
    pieces: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    is_whole: bool


class Completer:
    """Generates texts with a model that sees `context` tokens."""

    def __init__(self, model: CausalTransformer, subwords: Subwords) -> None:
        self.model = model
        self._subwords, self._context = subwords, model.settings.context_tokens

        def continued(token_ids: Any, numbers: Any, length: Any, *sampling: Any) -> Any:  # noqa: ANN401
            return continue_text(
                model,
                token_ids,
                numbers,
                length,
                Sampling(*sampling),
                end_id=subwords.end_id,
                never=subwords.never,
            )

        self._continued = compiled(model, continued)

    def complete(self, prompt: str, settings: SamplingSettings, seed: int) -> Completion:
        """Continue one text; of a long one the last tokens are used."""
        subwords, context = self._subwords, self._context
        if settings.max_tokens >= context:
            raise SettingsError(
                f"max_tokens {settings.max_tokens} of a model that sees {context} tokens",
                expected=f"at most {context - 1}",
                fix="generate fewer tokens, or train with more context_tokens",
            )
        known = self._ids(prompt)
        start = [subwords.start_id, *known][settings.max_tokens - context :]
        most = len(start) + settings.max_tokens
        tokens, logs = self._continued(
            self._padded(start),
            np.random.default_rng(seed).random(context, np.float32),
            np.array([len(start), most], np.int32),
            *_sampling(settings, len(subwords.vocabulary)),
        )
        new = np.asarray(tokens)[0, len(start) : most].tolist()
        is_whole = subwords.end_id in new
        if is_whole:
            del new[new.index(subwords.end_id) + 1 :]
        begun = " ".join(words(prompt))
        added = subwords.decode([*known, *new])[len(subwords.decode(known)) :]
        return Completion(
            prompt=begun,
            text=(begun + added).lstrip(),
            pieces=tuple(subwords.vocabulary[one] for one in new),
            log_probabilities=tuple(np.asarray(logs)[0, len(start) :][: len(new)].tolist()),
            is_whole=is_whole,
        )

    def next_tokens(self, prompt: str, count: int) -> list[tuple[str, float]]:
        """The most probable next tokens and their probabilities."""
        start = [self._subwords.start_id, *self._ids(prompt)][-self._context :]
        logits = self.model({"token_ids": self._padded(start)})
        last = np.asarray(logits)[:, len(start) - 1]  # [1, V]
        (probabilities,) = softmax(last + banned(self._subwords.never, last.shape[1]))
        best = np.argsort(-probabilities, kind="stable")[:count]
        return [(self._subwords.vocabulary[one], float(probabilities[one])) for one in best]

    def _ids(self, prompt: str) -> list[int]:
        """The tokens of a text, without its end token."""
        ids: list[int] = self._subwords.encode([prompt], sys.maxsize)[0][:-1].tolist()
        return ids

    def _padded(self, start: list[int]) -> np.ndarray:
        """int32 [1, context]."""
        token_ids = np.full((1, self._context), self._subwords.pad_id, np.int32)
        token_ids[0, : len(start)] = start
        return token_ids


def _sampling(settings: SamplingSettings, vocabulary: int) -> Sampling:
    """The settings as arrays; greedy search draws from one token."""
    temperature = settings.temperature
    if temperature is None:
        temperature = 1.0 if settings.top_k or settings.top_p else 0.0
    greedy = temperature == 0
    return Sampling(
        np.float32(1.0 if greedy else temperature),
        np.int32(1 if greedy else min(settings.top_k or vocabulary, vocabulary)),
        np.float32(settings.top_p or 1.0),
    )
