"""Fixtures for a task that a tiny network can learn: find the most frequent of three tokens."""

import numpy as np
import pytest

from bertcnn.data.batches import pad
from bertcnn.models.bert import Bert
from bertcnn.settings import EncoderSettings
from bertcnn.training.batches import Examples
from bertcnn.training.features import TokenizedRows

CLASSES = 3


def rows_of(count, seed, *, longest=24, noise=False):
    """Rows whose most frequent token determines the label."""
    generator = np.random.default_rng(seed)
    token_ids, labels = [], generator.integers(0, CLASSES, count)
    labels[:CLASSES] = range(CLASSES)
    for label in labels:
        row = generator.integers(80, 120, generator.integers(6, longest - 1))
        row[generator.permutation(len(row))[: len(row) // 3]] = 60 + label
        token_ids.append(np.array([2, *row, 3], np.int32))
    return TokenizedRows(token_ids, generator.permutation(labels) if noise else labels)


@pytest.fixture(scope="session")
def make_rows():
    return rows_of


def new_encoder(*, packed=False, layers=1):
    """A small encoder, the same at each call."""
    shape = EncoderSettings(
        vocabulary_size=150,
        width=16,
        layers=layers,
        heads=2,
        feed_forward_width=32,
        max_positions=24,
        attention_dropout=0.0,
    )
    return Bert(shape, packed=packed, seed=3, name="bert")


@pytest.fixture(scope="session")
def tiny_encoder():
    """Makes a small encoder, the same at each call."""
    return new_encoder


@pytest.fixture(scope="session")
def token_examples():
    def make(rows):
        return Examples(lambda plan: pad(rows.token_ids, plan).inputs(), rows.lengths, rows.labels)

    return make


@pytest.fixture(scope="session")
def vector_examples():
    """Examples for training a head: each token is a fixed random vector of width 8."""
    table = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)

    def make(rows):
        def collate(plan):
            batch = pad(rows.token_ids, plan)
            return {"sequence_output": table[batch.token_ids], "padding_mask": batch.padding_mask}

        return Examples(collate, rows.lengths, rows.labels)

    return make
