"""Knowledge distillation: a smaller model learns a larger one's probabilities.

Hinton et al. 2015. The student starts as the teacher without some of its layers, as in DistilBERT
(Sanh et al. 2019, section 3), and with the teacher's head. Its targets are the mean of label and
teacher probabilities on labelled rows, and the teacher probabilities alone on unlabelled rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertcnn.bundle import read_bundle
from bertcnn.errors import LabelError, SettingsError, TrainingError, one_line
from bertcnn.inference import Predictor, load
from bertcnn.models import Bert, assign, extract
from bertcnn.settings import HeadSettings
from bertcnn.shapes import encoder_shapes
from bertcnn.text import WordPieceTokenizer
from bertcnn.training.features import TokenizedRows
from bertcnn.training.start import Start


@dataclass(frozen=True, eq=False)
class Student:
    """A model that is distilled from a teacher.

    It starts with the teacher's head: settings in `head`, and weights by name in `head_weights`.
    """

    teacher: Predictor
    start: Start
    head: HeadSettings
    head_weights: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, folder: Path, layers: int, *, seed: int) -> Student:
        """A student with `layers` of the layers of the teacher saved in `folder`.

        Raises:
            BundleError: the folder is not a model.
            SettingsError: `layers` is less than 1 or not less than the teacher's.
        """
        bundle = read_bundle(folder)
        large, name = bundle.config.encoder, bundle.config.encoder_name
        check_layers(layers, large.layers)
        settings = large.model_copy(update={"layers": layers})
        encoder = Bert(settings, seed=seed, name="bert")
        kept = _without_layers(bundle.tensors, kept_layers(large.layers, layers))
        weights = {weight: kept[weight] for weight in encoder_shapes(settings)}
        assign(encoder.weights, {**extract(encoder.weights), **weights}, error=TrainingError)
        return cls(
            load(folder),
            Start(
                f"{name}, {layers} of {large.layers} layers",
                encoder,
                WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer),
                sentence_encoder=False,
            ),
            bundle.config.head,
            {weight: value for weight, value in kept.items() if weight not in weights},
        )

    def check_labels(self, labels: Sequence[str], *, multi_label: bool) -> None:
        """Raise a LabelError for labels that differ from the teacher's."""
        if multi_label != self.teacher.multi_label:
            one, several = "one label", "several labels or none"
            raise LabelError(
                f"rows with {several if multi_label else one}",
                expected=f"rows with {one if multi_label else several}, as the teacher learned",
                fix="give the rows that the teacher was trained on",
            )
        theirs = self.teacher.labels
        if tuple(labels) != theirs:
            differing = sorted(set(labels) ^ set(theirs))
            raise LabelError(
                f"rows whose labels are not the teacher's ({one_line(', '.join(differing), 200)})",
                expected=f"rows with each of its {len(theirs)} labels and no others",
                fix="give the rows that the teacher was trained on",
            )

    def lesson(
        self, rows: TokenizedRows, texts: Sequence[str], unlabelled: Sequence[str]
    ) -> TokenizedRows:
        """The labelled rows with soft targets, followed by the unlabelled texts."""
        tokens = self.start.tokenizer.encode(unlabelled).token_ids if unlabelled else []
        taught, others = self.teacher.predict_proba(texts), self._answers(unlabelled)
        truth = rows.multi_hot
        if truth is None:
            truth = np.arange(taught.shape[1]) == rows.labels[:, None]
        labels = [rows.labels, others.argmax(axis=1)]
        multi_hot = None if rows.multi_hot is None else [truth, self.teacher.multi_hot(others)]
        return TokenizedRows(
            [*rows.token_ids, *tokens],
            np.concatenate(labels),
            None if multi_hot is None else np.concatenate(multi_hot),
            np.concatenate([(truth + taught) / 2, others]).astype(np.float32),
            (
                None
                if rows.weights is None
                else np.concatenate([rows.weights, np.ones(len(tokens), np.float32)])
            ),
        )

    def _answers(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.empty((0, len(self.teacher.labels)), np.float32)
        return self.teacher.predict_proba(texts)


def check_layers(layers: int, teacher: int) -> None:
    """Raise a SettingsError for a number of layers outside 1 to `teacher` - 1."""
    if not 1 <= layers < teacher:
        raise SettingsError(
            f"a student of {layers} layers",
            expected=f"1 to {teacher - 1}, since the teacher has {teacher}",
            fix="choose another number",
        )


def kept_layers(layers: int, kept: int) -> list[int]:
    """Indices of the teacher's layers that the student keeps: evenly spaced, including the last.

    Example:
        >>> kept_layers(6, 3), kept_layers(6, 4), kept_layers(12, 1)
        ([1, 3, 5], [0, 2, 3, 5], [11])
    """
    return [layers * (index + 1) // kept - 1 for index in range(kept)]


def _without_layers(
    tensors: Mapping[str, np.ndarray], kept: Sequence[int]
) -> dict[str, np.ndarray]:
    """All weights but those of dropped layers; the kept layers are renumbered."""
    numbers = {f"layer_{old}": f"layer_{new}" for new, old in enumerate(kept)}
    renumbered = {}
    for name, value in tensors.items():
        layer, _, rest = name.partition("/")
        if layer in numbers:
            renumbered[f"{numbers[layer]}/{rest}"] = value
        elif not layer.startswith("layer_"):
            renumbered[name] = value
    return renumbered
