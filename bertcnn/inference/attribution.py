"""Attention maps and integrated gradients (Keras only).

Both are far slower than the evidence of the CNN head and do not explain a logit exactly. They are
meant for research and debugging.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from bertcnn.errors import SettingsError, one_line
from bertcnn.inference.evidence import Part
from bertcnn.models import BertCnn
from bertcnn.text import WordPieceTokenizer

_PART_TOKENS = 2048  # tokens per gradient batch


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention of a text's tokens to each other.

    Attributes:
        tokens: word pieces, from [CLS] to [SEP].
        weights: float32 [layers, H, T, T]; the last axis (attended tokens) sums to 1.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray


@dataclass(frozen=True)
class Attribution:
    """Integrated gradients of a logit.

    `logit` is the sum of `baseline` and the tokens' shares, up to the error of numeric integration.

    Attributes:
        baseline: its logit with [PAD] in place of every token except [CLS] and [SEP].
        tokens: the tokens in order, with their shares.
    """

    label: str
    logit: float
    baseline: float
    tokens: tuple[Part, ...]


def attention_weights(model: BertCnn, token_ids: np.ndarray) -> np.ndarray:
    """The attention probabilities of every layer and head, float32 [layers, H, T, T].

    `token_ids` are int32 [T], from [CLS] to [SEP].

    Source: Vaswani et al. 2017, equation 1.
    """
    mask = np.ones((1, len(token_ids)), np.int32)
    hidden = _embedded(model, token_ids)
    weights = []
    for block in _blocks(model):
        weights.append(
            ops.convert_to_numpy(block.attention(hidden, mask, return_attention=True)[1])[0]
        )
        hidden = block(hidden, mask)
    return np.stack(weights)


def integrated_gradients(
    model: BertCnn, token_ids: np.ndarray, label: int, *, pad_id: int, steps: int
) -> tuple[np.ndarray, float, float]:
    """Each token's contribution to a logit, integrated from a text of [PAD] to this text.

    Gradients are taken with respect to the normalised embeddings, at the midpoint of each step.
    `token_ids` are int32 [T], from [CLS] to [SEP]. More `steps` are more exact.

    Returns:
        The tokens' shares, float64 [T], 0 for [CLS] and [SEP]; the logit; the baseline's logit.

    Raises:
        SettingsError: fewer than one step, or a Keras backend other than TensorFlow and JAX.

    Source: Sundararajan, Taly and Yan 2017, equations 1 and 3; proposition 1 on the sum of shares.
    """
    if not isinstance(steps, int) or steps < 1:
        raise SettingsError(
            f"steps {one_line(steps)}",
            expected="a whole number of at least 1",
            fix="leave it out for the default",
        )
    empty = token_ids.copy()
    empty[1:-1] = pad_id
    start, way = (
        ops.convert_to_numpy(_embedded(model, ids)) for ids in (empty, token_ids)
    )  # [1, T, D]
    way = way - start
    blocks = _blocks(model)

    def logit(hidden: Any) -> Any:  # noqa: ANN401
        mask = ops.ones(hidden.shape[:2], dtype="int32")
        for block in blocks:
            hidden = block(hidden, mask)
        return model.head({"sequence_output": hidden, "padding_mask": mask})[:, label]

    gradient, total = gradient_of(logit), np.zeros(way.shape[1:])
    middles = (np.arange(steps, dtype=np.float32) + 0.5) / steps
    for part in np.array_split(middles, -(-steps * len(token_ids) // _PART_TOKENS)):
        total += (
            gradient(start + part[:, None, None] * way).sum(axis=0, dtype=np.float64)
            if len(part)
            else 0.0
        )
    first, last = ops.convert_to_numpy(
        logit(ops.convert_to_tensor(np.concatenate([start, start + way])))
    )
    return (way[0] * total / steps).sum(axis=-1), float(last), float(first)


def attribute(
    model: BertCnn, tokenizer: WordPieceTokenizer, text: str, label: int, *, name: str, steps: int
) -> Attribution:
    """Integrated gradients for a text, with the tokens' positions.

    `label` is the index and `name` the name of the label to explain.

    Raises:
        SettingsError: as in `integrated_gradients`.
    """
    encoded = tokenizer.encode([text], spans=True)
    shares, logit, baseline = integrated_gradients(
        model, encoded.token_ids[0], label, pad_id=tokenizer.pad_id, steps=steps
    )
    spans_with_shares = zip(encoded.spans[1:-1].tolist(), shares[1:-1].tolist(), strict=True)
    return Attribution(
        name,
        logit,
        baseline,
        tuple(
            Part(start, end, text[start:end], share) for (start, end), share in spans_with_shares
        ),
    )


def _embedded(model: BertCnn, token_ids: np.ndarray) -> Any:  # noqa: ANN401
    ids = token_ids[None]
    return model.get_layer("embeddings")(ids, np.zeros_like(ids))  # [1, T, D]


def _blocks(model: BertCnn) -> list[Any]:
    return [model.get_layer(f"layer_{index}") for index in range(model.encoder_settings.layers)]


def gradient_of(function: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """The gradient of a function from [S, T, D] to [S] whose rows are independent."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        differentiate = jax.grad(lambda hidden: ops.sum(function(hidden)))
        return lambda hidden: np.asarray(differentiate(hidden))
    if backend != "tensorflow":
        raise SettingsError(
            f"the Keras backend {backend!r}",
            expected="'tensorflow' or 'jax'",
            fix="set KERAS_BACKEND before starting",
        )
    import tensorflow as tf

    def gradient(hidden: np.ndarray) -> np.ndarray:
        values = tf.convert_to_tensor(hidden)
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = function(values)
        return np.asarray(tape.gradient(total, values))

    return gradient
