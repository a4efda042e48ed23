"""Exports a TensorFlow SavedModel for raw strings: tokenizer, network and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bertcnn.bundle import Bundle
from bertcnn.data import between
from bertcnn.errors import ExportError
from bertcnn.evaluation import chosen
from bertcnn.export.graph_tokenizer import GraphTokenizer
from bertcnn.inference import classifier_of
from bertcnn.text import PAD, WordPieceTokenizer

_TEXTS = 32  # per batch; padded to the longest


class _Hidden:
    """Keeps the Keras model out of the SavedModel, which needs only weights and graph."""

    def __init__(self, network: keras.Model) -> None:
        self.call = network


class _Service(tf.Module):
    """Maps texts to labels and calibrated probabilities."""

    def __init__(self, bundle: Bundle, labels_file: Path) -> None:
        super().__init__(name="bertcnn")
        self.tokenizer = GraphTokenizer(
            WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer)
        )
        network = classifier_of(bundle)
        self.weights = [weight.value for weight in network.weights]
        self.labels_asset = tf.saved_model.Asset(str(labels_file))
        self._network, self._names = _Hidden(network), tf.constant(list(bundle.labels))
        self._pad_id = bundle.vocabulary.index(PAD)
        self._temperature = bundle.calibration.temperature
        self._thresholds = bundle.calibration.label_thresholds
        self._between = between(str(bundle.config.label_separator))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="texts")])
    def serve(self, texts: Any) -> dict[str, Any]:  # noqa: ANN401
        """`labels`, string [N], and `probabilities`, float32 [N, C], of texts, string [N].

        Several labels are joined in one string.
        """
        ids = self.tokenizer.encode(texts)
        token_ids = ids.to_tensor(self._pad_id)  # [N, T]
        mask = tf.sequence_mask(ids.row_lengths(), tf.shape(token_ids)[1], tf.int32)
        inputs = {
            "token_ids": token_ids,
            "segment_ids": tf.zeros_like(token_ids),
            "padding_mask": mask,
        }
        logits = self._network.call(inputs, training=False)
        if self._thresholds:
            probabilities = tf.sigmoid(logits / self._temperature)
            predicted = probabilities >= tf.constant(self._thresholds, tf.float32)
            names = tf.ragged.boolean_mask(
                tf.broadcast_to(self._names, tf.shape(predicted)), predicted
            )
            return {
                "labels": tf.strings.reduce_join(names, axis=1, separator=self._between),
                "probabilities": probabilities,
            }
        probabilities = tf.nn.softmax(logits / self._temperature)
        return {
            "labels": tf.gather(self._names, tf.argmax(probabilities, axis=1)),
            "probabilities": probabilities,
        }


def write(bundle: Bundle, folder: Path) -> None:
    """Save the SavedModel in `folder`, which must already contain `labels.json`.

    Raises:
        ExportError: Keras does not run on TensorFlow, or the vocabulary is not supported.
    """
    if keras.backend.backend() != "tensorflow":
        raise ExportError(
            f"Keras runs on {keras.backend.backend()}",
            expected="TensorFlow for a SavedModel",
            fix="set KERAS_BACKEND=tensorflow",
        )
    try:
        service = _Service(bundle, folder / "labels.json")
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ExportError(
            f"tensorflow-text cannot hold this vocabulary ({error})",
            expected="WordPieces as BERT has them",
            fix="export as onnx",
        ) from None
    tf.saved_model.save(service, str(folder), signatures={"serving_default": service.serve})


def _names(bundle: Bundle, probabilities: np.ndarray) -> list[str]:
    """The labels for these probabilities, float32 [rows, C], as strings."""
    if not bundle.multi_label:
        return [bundle.labels[best] for best in probabilities.argmax(axis=1)]
    predicted = chosen(probabilities, np.array(bundle.calibration.label_thresholds, np.float32))
    return [
        between(str(bundle.config.label_separator)).join(
            name for name, has in zip(bundle.labels, row, strict=True) if has
        )
        for row in predicted
    ]


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:
    """Probabilities by the SavedModel in `folder`, float32 [rows, C].

    Raises:
        ExportError: its labels do not match its probabilities.
    """
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    output = np.empty((len(texts), len(bundle.labels)), np.float32)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    order = np.argsort([len(text) for text in encoded], kind="stable")
    for start in range(0, len(order), _TEXTS):
        rows = order[start : start + _TEXTS]
        answer = serve(texts=tf.constant([encoded[row] for row in rows], tf.string))
        output[rows] = answer["probabilities"].numpy()
        expected = [name.encode("utf-8") for name in _names(bundle, output[rows])]
        if answer["labels"].numpy().tolist() != expected:
            raise ExportError(
                "the SavedModel names other labels than its probabilities",
                expected="the same",
                fix="report this as a defect",
            )
    return output
