"""The reference engine: the Keras model itself, in float32, on batches sorted by length."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np

from bertcnn.bundle import Bundle
from bertcnn.data.batches import pad
from bertcnn.engines import EngineOutput, Evidence
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
        convolutions = [model.head.get_layer(f"convolution_{window}") for window in model.head.settings.window_sizes]
        head = keras.Model(model.head.input, {layer.name: layer.output for layer in convolutions})
        hidden, mask = model.encoder_output, model.input["padding_mask"]
        self._activations = keras.Model(model.input, head({"sequence_output": hidden, "padding_mask": mask}))
        self._branches = [layer.name for layer in convolutions]
        self._filters = len(convolutions) * model.head.settings.filters

    @classmethod
    def from_bundle(cls, bundle: Bundle, pad_id: int) -> KerasEngine:
        """The network of a saved model.

        Raises:
            BundleError: the tensors are not those of the network that the configuration describes.
        """
        return cls(classifier_of(bundle), pad_id)

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and which windows won."""
        if not len(token_ids):
            nothing = Evidence(np.empty((0, self._filters), np.float32), np.empty((0, self._filters), np.int32))
            return EngineOutput(np.empty((0, self._forward.width), np.float32), nothing if evidence else None)
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        logits = self._forward.rows(lambda plan: pad(token_ids, plan, self._pad_id).inputs(), lengths)
        return EngineOutput(logits, self._evidence(token_ids, lengths) if evidence else None)

    def _evidence(self, token_ids: Sequence[np.ndarray], lengths: np.ndarray) -> Evidence:
        """A second pass up to the filters' activations at every token; this engine is the reference, not the fast one."""
        found = Evidence(np.empty((len(lengths), self._filters), np.float32), np.empty((len(lengths), self._filters), np.int32))
        for plan in self._forward.plan(lengths):
            batch = self._activations.predict_on_batch(pad(token_ids, plan, self._pad_id).inputs())
            activations = np.concatenate([batch[name] for name in self._branches], axis=-1)[: len(plan.rows)]  # [b, T, W * N]
            found.activations[plan.rows] = activations.max(axis=1)
            found.windows[plan.rows] = activations.argmax(axis=1)
        return found


def classifier_of(bundle: Bundle) -> BertCnn:
    """The network of a saved model, rebuilt from code, its tensors assigned by name, shape and dtype.

    Raises:
        BundleError: the tensors are not those of the network that the configuration describes.
    """
    model = build_classifier(bundle.config.encoder, bundle.config.head, len(bundle.labels))
    assign(model.weights, bundle.tensors, error=BundleError)
    return model
