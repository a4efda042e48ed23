"""Token embeddings of an encoder, by the fastest engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import keras
import numpy as np

from bertcnn.backend import on_gpu
from bertcnn.data import pad
from bertcnn.errors import EncoderError
from bertcnn.inference.embeddings import Embed, Store
from bertcnn.inference.openvino_engine import token_embeddings
from bertcnn.inference.openvino_graph import encoder_graph
from bertcnn.models import Bert, Forward, assign, extract, padded_up_to


def fastest_embed(encoder: Bert, pad_id: int) -> Embed:
    """A function that computes an encoder's output with its current weights.

    Uses Keras on a GPU, and on a CPU OpenVINO, which is 1.5 times as fast as TensorFlow.
    """
    if on_gpu():
        return keras_embed(encoder)
    graph = encoder_graph(extract(encoder.weights), encoder.settings)
    return partial(token_embeddings, graph, pad_id)


def keras_embed(encoder: Bert) -> Embed:
    """The encoder's output, by Keras; in bfloat16 on a GPU."""

    def embed(token_ids: Sequence[np.ndarray], store: Store) -> None:
        network = _in_bfloat16(encoder) if on_gpu() else encoder
        hidden = keras.ops.cast(network.sequence_output, "float32")
        forward = Forward(
            keras.Model(network.input, hidden), padded_up_to(encoder.settings.max_positions)
        )
        for plan in forward.plan(np.fromiter(map(len, token_ids), np.int64, len(token_ids))):
            store(plan.rows, forward(pad(token_ids, plan).inputs()))

    return embed


def _in_bfloat16(encoder: Bert) -> Bert:
    other = Bert(encoder.settings, name=encoder.name, dtype="mixed_bfloat16")
    assign(other.weights, extract(encoder.weights), error=EncoderError)
    return other
