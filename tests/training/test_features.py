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
        keras_embed(encoder),
        encoder.settings.width,
        rows.token_ids,
        tmp_path / "features",
        Silent(),
    )
    plan = BatchPlan(np.array([5, 0, 7]), 24, 4)
    found = features.collate(plan)
    inputs = token_examples(rows).collate(plan)
    np.testing.assert_array_equal(found["padding_mask"], inputs["padding_mask"])
    expected = np.asarray(encoder(inputs)["sequence_output"]) * inputs["padding_mask"][:, :, None]
    np.testing.assert_allclose(found["sequence_output"][:3], expected[:3], atol=2e-3)
    assert not found["sequence_output"][3].any()


def test_some_rows_and_more_rows(make_rows):
    few, more = make_rows(5, 0), make_rows(4, 1)
    joined = few.with_rows(more)
    assert joined.lengths.tolist() == [*few.lengths, *more.lengths]
    part = joined.of(np.array([6, 1]))
    np.testing.assert_array_equal(part.token_ids[0], more.token_ids[1])
    assert part.labels.tolist() == [more.labels[1], few.labels[1]]
    assert part.multi_hot is None


def test_rows_with_several_labels_keep_them(make_rows):
    rows = make_rows(4, 0)
    multi_hot = np.eye(4, 3, dtype=bool)
    several = TokenizedRows(rows.token_ids, rows.labels, multi_hot)
    np.testing.assert_array_equal(
        several.with_rows(several.of(np.array([2]))).multi_hot, multi_hot[[0, 1, 2, 3, 2]]
    )


def test_features_that_there_is_no_room_for_are_refused_instead_of_killing_the_process(
    make_rows, tiny_encoder, tmp_path, largest_file
):
    rows, encoder = make_rows(12, 1), tiny_encoder()
    with largest_file(100), pytest.raises(OutputError, match="the encoder's features take"):
        Features(
            keras_embed(encoder),
            encoder.settings.width,
            rows.token_ids,
            tmp_path / "features",
            Silent(),
        )
