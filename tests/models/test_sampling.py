"""Drawing the next token, compared with probabilities that NumPy computes."""

import numpy as np
import pytest
from keras import ops

from bertcnn.models.language_model import Sampling, draw

LOGITS = np.array([0.3, 2.0, -1.0, 1.5, 0.0, 1.9, -8.0], np.float32)
DRAWS = 40_000


def expected(logits, temperature, top_k, top_p):
    """Probabilities after temperature, top-k and top-p, token by token."""
    scores = logits.astype(np.float64) / temperature
    order = sorted(range(len(scores)), key=lambda token: -scores[token])[:top_k]
    weights = {token: np.exp(scores[token] - scores[order[0]]) for token in order}
    total, summed, kept = sum(weights.values()), 0.0, {}
    for token in order:
        if summed >= top_p:
            break
        kept[token] = weights[token] / total
        summed += kept[token]
    return np.array([kept.get(token, 0.0) for token in range(len(scores))]) / sum(kept.values())


def sampling(temperature=1.0, top_k=7, top_p=1.0):
    return Sampling(np.float32(temperature), np.int32(top_k), np.float32(top_p))


def drawn(numbers, how):
    rows = np.broadcast_to(LOGITS, (len(numbers), len(LOGITS)))
    tokens = draw(ops.convert_to_tensor(rows), how, ops.convert_to_tensor(numbers[:, None]))
    return np.asarray(tokens)


@pytest.mark.on_jax
@pytest.mark.parametrize(
    "how", [(1, 7, 1), (0.5, 7, 1), (2, 7, 1), (1, 3, 1), (1, 7, 0.6), (1.3, 4, 0.8), (1, 1, 1)]
)
def test_an_even_grid_draws_tokens_with_the_defined_probabilities(how):
    numbers = ((np.arange(DRAWS) + 0.5) / DRAWS).astype(np.float32)
    shares = np.bincount(drawn(numbers, sampling(*how)), minlength=7) / DRAWS
    np.testing.assert_allclose(shares, expected(LOGITS, *how), atol=2 / DRAWS)


def test_the_interval_ends_give_the_most_and_least_probable_kept_tokens():
    ends = np.array([0.0, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    assert drawn(ends, sampling()).tolist() == [1, 6]
    assert drawn(ends, sampling(top_k=3)).tolist() == [1, 3]
    assert drawn(ends, sampling(top_p=1e-6)).tolist() == [1, 1]
    assert drawn(ends, sampling(top_k=1)).tolist() == [1, 1]
