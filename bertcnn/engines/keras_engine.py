"""The reference engine: the Keras model itself, in float32, on batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcnn.bundle import Bundle
from bertcnn.data.batches import pad
from bertcnn.engines import EngineOutput
from bertcnn.errors import BundleError
from bertcnn.models.classifier import BertCnn, build_classifier
from bertcnn.models.forward import Forward, padded_up_to
from bertcnn.models.weights import assign


class KerasEngine:
    """Runs a `BertCnn`.

    Args:
        model: the trained network.
        pad_id: the id of [PAD].
    """

    name = "keras"

    def __init__(self, model: BertCnn, pad_id: int) -> None:
        self._forward = Forward(model, padded_up_to(model.encoder_settings.max_positions))
        self._pad_id = pad_id

    @classmethod
    def from_bundle(cls, bundle: Bundle, pad_id: int) -> KerasEngine:
        """The network rebuilt from code, its tensors assigned by name, shape and dtype.

        Raises:
            BundleError: the tensors are not those of the network that the configuration describes.
        """
        model = build_classifier(bundle.config.encoder, bundle.config.head, len(bundle.labels))
        assign(model.weights, bundle.tensors, error=BundleError)
        return cls(model, pad_id)

    def run(self, token_ids: Sequence[np.ndarray]) -> EngineOutput:
        """Logits of each row, in order."""
        if not len(token_ids):
            return EngineOutput(np.empty((0, self._forward.width), np.float32))
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        return EngineOutput(self._forward.rows(lambda plan: pad(token_ids, plan, self._pad_id).inputs(), lengths))
