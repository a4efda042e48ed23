"""The reference engine: the Keras model itself, in float32.

On batches sorted by length.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from bertcnn.bundle.bundle import Bundle
from bertcnn.data.batches import pad
from bertcnn.errors import BundleError
from bertcnn.inference.engines import Engine, EngineOutput, Evidence
from bertcnn.models.classifier import BertCnn, build_classifier
from bertcnn.models.forward import Forward, padded_up_to
from bertcnn.models.weights import assign, extract


class KerasEngine:
    """Runs a `BertCnn`.

    In a forked process, where Keras cannot compute, OpenVINO runs the same weights in float32.

    Args:
        model: the trained network.
        pad_id: the id of [PAD].
        tensors: its weights by name; by default they are taken from it.
    """

    def __init__(
        self, model: BertCnn, pad_id: int, tensors: Mapping[str, np.ndarray] | None = None
    ) -> None:
        self._process = os.getpid()
        self._compiled: Engine | None = None
        self._settings = model.encoder_settings, model.head.settings
        self._tensors = extract(model.weights) if tensors is None else tensors
        self._forward = Forward(model, padded_up_to(model.encoder_settings.max_positions))
        self._pad_id = pad_id
        convolutions = [
            model.head.get_layer(f"convolution_{window}")
            for window in model.head.settings.window_sizes
        ]
        head = keras.Model(
            model.head.input,
            {
                layer.name: layer.output
                for layer in (
                    *convolutions,
                    model.head.get_layer("mean"),
                    model.head.get_layer("logits"),
                )
            },
        )
        hidden, mask = model.encoder_output, model.input["padding_mask"]
        self._activations = keras.Model(
            model.input, head({"sequence_output": hidden, "padding_mask": mask})
        )
        self._activations.compile(jit_compile=keras.backend.backend() != "tensorflow")
        self._branches = [layer.name for layer in convolutions]
        self._filters, self._width = (
            len(convolutions) * model.head.settings.filters,
            model.head.width,
        )

    @classmethod
    def from_bundle(cls, bundle: Bundle, pad_id: int) -> KerasEngine:
        """The network of a saved model.

        Raises:
            BundleError: the tensors are not those of the network that the configuration describes.
        """
        return cls(classifier_of(bundle), pad_id, bundle.tensors)

    @property
    def name(self) -> str:
        """What computes."""
        return "keras" if os.getpid() == self._process else "openvino-float32"

    def _in_child(self) -> Engine:
        """The engine of a forked process."""
        from bertcnn.inference.openvino_engine import OpenVINOEngine
        from bertcnn.inference.openvino_graph import classifier_graph

        if self._compiled is None:
            encoder, head = self._settings
            graph = classifier_graph(self._tensors, encoder, head)
            self._compiled = OpenVINOEngine.of_graph(
                graph, self._pad_id, longest=encoder.max_positions
            )
        return self._compiled

    def run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Logits of each row, in order, and which windows won."""
        if os.getpid() != self._process:
            return self._in_child().run(token_ids, evidence=evidence)
        rows = len(token_ids)
        found = Evidence.empty(rows, self._filters, self._width) if evidence else None
        output = EngineOutput(np.empty((rows, self._forward.width), np.float32), found)
        lengths = np.fromiter(map(len, token_ids), np.int64, rows)
        for plan in self._forward.plan(lengths) if rows else ():
            inputs, kept = pad(token_ids, plan, self._pad_id).inputs(), len(plan.rows)
            if found is None:
                output.logits[plan.rows] = self._forward(inputs)[:kept]
                continue
            batch = self._activations.predict_on_batch(inputs)
            output.logits[plan.rows] = batch["logits"][:kept]
            activations = np.concatenate([batch[name] for name in self._branches], axis=-1)[
                :kept
            ]  # [b, T, W * N]
            found.activations[plan.rows] = activations.max(axis=1)
            found.windows[plan.rows] = activations.argmax(axis=1)
            found.means[plan.rows] = batch["mean"][:kept]
        return output


def classifier_of(bundle: Bundle) -> BertCnn:
    """The network of a saved model.

    It is rebuilt from code, and its tensors are assigned by name, shape and dtype.

    Raises:
        BundleError: the tensors are not those of the network that the configuration describes.
    """
    model = build_classifier(bundle.config.encoder, bundle.config.head, len(bundle.labels))
    assign(model.weights, bundle.tensors, error=BundleError)
    return model
