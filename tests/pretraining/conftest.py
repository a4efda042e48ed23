"""A small corpus of tickets with several sentences, and everything needed to tokenise it."""

import numpy as np
import pytest

from bertcnn.pretraining.corpus import open_corpus
from bertcnn.text.wordpiece import WordPieceTokenizer

WORDS = (  # noqa: SIM905
    "router wifi cable modem light red green slow dead lost app login password error screen bill"
    " refund invoice price month"
).split()


def write_documents(path, documents, seed=0, fewest=2, most=6):
    """Documents of `fewest` to `most` sentences with 3 to 11 words, no two alike."""
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(documents):
        for _ in range(generator.integers(fewest, most + 1)):
            lines.append(" ".join(generator.choice(WORDS, generator.integers(3, 12))) + ".")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tokenizer(tiny_vocabulary):
    return WordPieceTokenizer(tiny_vocabulary)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, tokenizer):
    """600 documents, 2,400 sentences; do not write to it."""
    folder = tmp_path_factory.mktemp("corpus")
    return open_corpus(
        [write_documents(folder / "tickets.txt", 600)], tokenizer, cache=folder / "cache"
    )
