"""The encoder's output, computed once."""

import numpy as np
import pytest

from bertcnn.data.batches import BatchPlan
from bertcnn.errors import OutputError
from bertcnn.inference.keras_embeddings import keras_embed
from bertcnn.progress import Silent
from bertcnn.training.features import Features, TokenizedRows


def test_features_are_the_encoders_token_embeddings(
    make_rows, tiny_encoder, tmp_path, token_examples
):
    rows, encoder = make_rows(12, 1), tiny_encoder()
    features = Features(
        keras_embed(encoder), encoder.settings.width, rows.token_ids, tmp_path / "f", Silent()
    )
    plan = BatchPlan(np.array([5, 0, 7]), 24, 4)
    found = features.collate(plan)
    inputs = token_examples(rows).collate(plan)
    np.testing.assert_array_equal(found["padding_mask"], inputs["padding_mask"])
    expected = np.asarray(encoder(inputs)["sequence_output"]) * inputs["padding_mask"][:, :, None]
    np.testing.assert_allclose(found["sequence_output"][:3], expected[:3], atol=2e-3)
    assert not found["sequence_output"][3].any()


def test_labels_and_weights_follow_their_rows(make_rows):
    few, more = make_rows(5, 0), make_rows(4, 1)
    joined = few.with_rows(more)
    assert joined.lengths.tolist() == [*few.lengths, *more.lengths]
    part = joined.of(np.array([6, 1]))
    np.testing.assert_array_equal(part.token_ids[0], more.token_ids[1])
    assert part.labels.tolist() == [more.labels[1], few.labels[1]]
    assert part.multi_hot is part.weights is None
    multi_hot, weights = np.eye(4, 3, dtype=bool), np.arange(2, 6, dtype=np.float32)
    several = TokenizedRows(more.token_ids, more.labels, multi_hot, weights=weights)
    again = several.with_rows(several.of(np.array([2])))
    np.testing.assert_array_equal(again.multi_hot, multi_hot[[0, 1, 2, 3, 2]])
    assert again.weights.tolist() == [2, 3, 4, 5, 4]
    one = more.of(np.array([0]))  # without weights
    plain = TokenizedRows(more.token_ids, more.labels, weights=weights)
    assert plain.with_rows(one).weights.tolist() == [2, 3, 4, 5, 1]
    assert one.with_rows(plain).weights.tolist() == [1, 2, 3, 4, 5]


def test_features_larger_than_the_disk_are_refused(make_rows, tiny_encoder, tmp_path, largest_file):
    rows, encoder = make_rows(12, 1), tiny_encoder()
    with largest_file(100), pytest.raises(OutputError, match="the encoder's features take"):
        Features(
            keras_embed(encoder), encoder.settings.width, rows.token_ids, tmp_path / "f", Silent()
        )
