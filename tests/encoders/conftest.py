"""A small encoder, and a hub on loopback that has it."""

import json
from collections.abc import Iterator

import pytest

from tests.hub import Hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "somebody/tiny-bert"


@pytest.fixture(scope="session")
def checkpoint() -> dict[str, bytes]:
    """The files of a small encoder that is still fetched in several parts: 3 MB of weights."""
    import numpy as np
    from safetensors.numpy import save

    width = 16
    vocabulary = [*["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], *(f"word{i}" for i in range(45))]
    config = {
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 64,
        "hidden_act": "gelu",
    }
    numbers = np.random.default_rng(1).standard_normal((50_000, width)).astype("float32")
    return {
        "config.json": json.dumps(config).encode(),
        "vocab.txt": ("\n".join(vocabulary) + "\n").encode(),
        "tokenizer_config.json": b'{"do_lower_case": true}',
        "model.safetensors": save(
            {"embeddings.word_embeddings.weight": numbers, "embeddings.position_ids": np.arange(64)}
        ),
    }


@pytest.fixture
def hub(monkeypatch) -> Iterator[Hub]:
    """A hub without repositories; the environment points to it."""
    server = Hub()
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    yield server
    server.close()


@pytest.fixture
def published(hub, checkpoint) -> dict[str, bytes]:
    """The files of the small encoder on the hub; a change of them is published at once."""
    hub.commit(REPOSITORY, "main", dict(checkpoint), COMMIT)
    return hub.files(REPOSITORY)
