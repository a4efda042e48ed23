"""The data of a training, and the options of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from bertcnn.inference import Embed, Engine, keras_embed
from bertcnn.models import Bert
from bertcnn.progress import Progress
from bertcnn.training.deadline import Deadline
from bertcnn.training.features import TokenizedRows
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.state import FitResult

Answered = tuple[
    np.ndarray, np.ndarray
]  # logits float32 [rows, C] and mean token embeddings float32 [rows, D]


@dataclass(frozen=True, eq=False)
class OutsideRows:
    """Tokens of texts that belong to no label; per text int32 [T].

    `background` are general texts. Out-of-scope rows of the user fit the detector (`learned`) or
    evaluate it (`strange`).
    """

    background: Sequence[np.ndarray] = ()
    learned: Sequence[np.ndarray] = ()
    strange: Sequence[np.ndarray] = ()

    def answers(self, engine: Engine) -> dict[str, Answered]:
        """The engine's output for each of the three kinds."""
        outputs = {}
        for name in ("background", "learned", "strange"):
            output = engine.run(getattr(self, name), evidence=True)
            outputs[name] = output.logits, output.requested_evidence.means
        return outputs


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The tokenised texts of a training.

    Attributes:
        valid: rows that choose the epoch whose weights are kept.
        detector_rows: int [K], training rows that the out-of-scope detector compares with. All
            recipes except `full` predict them at the end, since they have the features at hand.
        label_names: token ids of each label's name, for `few-shot`.
        unlabelled: token ids of rows without a label, for `few-shot`.
        outside: texts that belong to no label.
    """

    train: TokenizedRows
    valid: TokenizedRows
    detector_rows: np.ndarray | None = None
    label_names: Sequence[np.ndarray] | None = None
    unlabelled: Sequence[np.ndarray] = ()
    outside: OutsideRows = OutsideRows()

    def detector_examples(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Token ids and labels of the `detector_rows`."""
        rows = self.train.of(np.arange(0) if self.detector_rows is None else self.detector_rows)
        return list(rows.token_ids), rows.labels

    def arrays(self) -> list[np.ndarray]:
        """Everything that a training depends on, as a few arrays."""
        more = (self.unlabelled, self.outside.learned, self.outside.strange)
        return [
            *self.train.arrays(),
            *self.valid.arrays(),
            *(np.concatenate(rows) for rows in more if len(rows)),
            *(self.label_names or ()),
        ]


@dataclass(frozen=True, eq=False)
class RunOptions:
    """How a training is run, independent of the recipe.

    Attributes:
        embed_with: makes the function that embeds with a frozen encoder; by default with Keras.
        refit: whether to train on the validation rows too at the end; only for recipes that train
            just the head, since `bertcnn.training.refit` does it for `full`.
        fold_of: int [training rows], the fold of each; no cross-fitting by default.
        like: a result whose epochs and averaging are repeated; by default validation decides.
        deadline: of `full`; none by default.
        head_weights: initial weights of the head, by name; random by default.
    """

    seed: int
    progress: Progress
    savepoints: Savepoints | None = None
    embed_with: Callable[[Bert], Embed] = keras_embed
    refit: bool = False
    fold_of: np.ndarray | None = None
    like: FitResult | None = None
    deadline: Deadline | None = None
    head_weights: Mapping[str, np.ndarray] | None = None
    callbacks: Sequence[keras.callbacks.Callback] = ()
