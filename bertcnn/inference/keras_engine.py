"""The reference engine: the Keras model itself, in float32 on CPUs and in bfloat16 on a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

import keras
import numpy as np
from keras import ops

from bertcnn.backend import on_gpu
from bertcnn.bundle import Bundle
from bertcnn.data import pad
from bertcnn.errors import BundleError, TrainingError
from bertcnn.inference.engines import Engine, EngineOutput, Evidence
from bertcnn.models import BertCnn, Forward, assign, build_classifier, extract, padded_up_to

Precision = Literal["float32", "bfloat16"]


class KerasEngine:
    """Runs a `BertCnn`.

    With bfloat16, softmax, normalisation and logits stay in float32. A forked process cannot run
    Keras, so OpenVINO runs the same weights in float32 there. `tensors` are by default read from
    the model. `precision` of matrix products is by default bfloat16 on a GPU, otherwise the model's
    own.
    """

    def __init__(
        self,
        model: BertCnn,
        pad_id: int,
        tensors: Mapping[str, np.ndarray] | None = None,
        *,
        precision: Precision | None = None,
    ) -> None:
        self._process = os.getpid()
        self._compiled: Engine | None = None
        self._settings = model.encoder_settings, model.head.settings
        self._tensors = extract(model.weights) if tensors is None else tensors
        if precision is None and on_gpu():
            precision = "bfloat16"
        if precision == "bfloat16":
            model = build_classifier(*self._settings, model.head.classes, dtype="mixed_bfloat16")
            assign(model.weights, self._tensors, error=TrainingError)
        self._name = "keras-bfloat16" if precision == "bfloat16" else "keras"
        self._forward = Forward(
            with_evidence(model), padded_up_to(model.encoder_settings.max_positions)
        )
        self._pad_id = pad_id
        self._filters = len(model.head.settings.window_sizes) * model.head.settings.filters
        self._width, self._classes = model.head.width, model.head.classes

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, pad_id: int, *, precision: Precision | None = None
    ) -> KerasEngine:
        """The engine of a saved model.

        Raises:
            BundleError: the tensors do not fit the configuration's network.
        """
        return cls(classifier_of(bundle), pad_id, bundle.tensors, precision=precision)

    @property
    def name(self) -> str:
        """Engine and precision."""
        return self._name if os.getpid() == self._process else "openvino-float32"

    def _in_child(self) -> Engine:
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
        """Logits of each row, in order, and optionally the evidence."""
        if os.getpid() != self._process:
            return self._in_child().run(token_ids, evidence=evidence)
        rows = len(token_ids)
        evidence_arrays = Evidence.empty(rows, self._filters, self._width) if evidence else None
        output = EngineOutput(np.empty((rows, self._classes), np.float32), evidence_arrays)
        lengths = np.fromiter(map(len, token_ids), np.int64, rows)
        for plan in self._forward.plan(lengths) if rows else ():
            inputs, kept = pad(token_ids, plan, self._pad_id).inputs(), len(plan.rows)
            batch = self._forward(inputs)
            output.logits[plan.rows] = batch["logits"][:kept]
            if evidence_arrays is None:
                continue
            evidence_arrays.windows[plan.rows] = batch["windows"][:kept]
            features = batch["features"][:kept]  # [b, W * N + D]
            evidence_arrays.activations[plan.rows] = features[:, : self._filters]
            evidence_arrays.means[plan.rows] = features[:, self._filters :]
        return output


def with_evidence(model: BertCnn) -> keras.Model:
    """The network with two more outputs: pooled features and window positions.

    They are found on the device: copying all activations from a GPU would take longer.
    """
    head = model.head
    convolutions = [
        head.get_layer(f"convolution_{window}").output for window in head.settings.window_sizes
    ]
    windows = ops.concatenate([ops.argmax(values, axis=1) for values in convolutions], axis=-1)
    evidence_model = keras.Model(
        head.input,
        {
            "logits": head.output,
            "features": ops.cast(head.get_layer("features").output, "float32"),
            "windows": windows,  # int32 [B, W * N]
        },
    )
    inputs = {"sequence_output": model.encoder_output, "padding_mask": model.input["padding_mask"]}
    return keras.Model(model.input, evidence_model(inputs))


def classifier_of(bundle: Bundle) -> BertCnn:
    """The network of a saved model, rebuilt from code.

    Tensors are assigned by name, shape and dtype.

    Raises:
        BundleError: the tensors do not fit the configuration's network.
    """
    model = build_classifier(bundle.config.encoder, bundle.config.head, len(bundle.labels))
    assign(model.weights, bundle.tensors, error=BundleError)
    return model
