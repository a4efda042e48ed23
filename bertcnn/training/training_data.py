"""What a training works on, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from bertcnn.inference.embeddings import Embed
from bertcnn.inference.engines import Engine
from bertcnn.inference.keras_embeddings import keras_embed
from bertcnn.models.bert import Bert
from bertcnn.progress import Progress
from bertcnn.training.deadline import Deadline
from bertcnn.training.features import TokenizedRows
from bertcnn.training.savepoints import Savepoints
from bertcnn.training.state import FitResult

Answered = tuple[
    np.ndarray, np.ndarray
]  # logits float32 [rows, C] and means of the token embeddings float32 [rows, D]


@dataclass(frozen=True, eq=False)
class OutsideRows:
    """Tokens of texts that belong to no label; per text int32 [T].

    Attributes:
        background: of texts about anything.
        learned: of rows that the user calls out of scope, by which the model learns what is.
        strange: of further such rows, on which it is measured.
    """

    background: Sequence[np.ndarray] = ()
    learned: Sequence[np.ndarray] = ()
    strange: Sequence[np.ndarray] = ()

    def answers(self, engine: Engine) -> dict[str, Answered]:
        """What an engine makes of each of the three kinds."""
        found = {}
        for name in ("background", "learned", "strange"):
            output = engine.run(getattr(self, name), evidence=True)
            found[name] = output.logits, output.found.means
        return found


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The tokenised texts of a training: rows to learn from, rows to measure on, and the rest.

    Attributes:
        train: rows to learn from.
        valid: rows that choose the epoch whose weights are kept.
        known: int [K], training rows by which the model knows what is in scope. They are answered
            at the end, except by `full`, since what that takes is at hand.
        label_names: token ids of each label's name, for `few-shot`.
        unlabelled: token ids of rows without a label, likewise.
        outside: texts that belong to no label.
    """

    train: TokenizedRows
    valid: TokenizedRows
    known: np.ndarray | None = None
    label_names: Sequence[np.ndarray] | None = None
    unlabelled: Sequence[np.ndarray] = ()
    outside: OutsideRows = OutsideRows()

    def known_rows(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Token ids and labels of the rows in `known`."""
        rows = self.train.of(np.arange(0) if self.known is None else self.known)
        return list(rows.token_ids), rows.labels

    def arrays(self) -> list[np.ndarray]:
        """All that a training depends on, as few arrays."""
        more = (self.unlabelled, self.outside.learned, self.outside.strange)
        return [
            *self.train.arrays(),
            *self.valid.arrays(),
            *(np.concatenate(rows) for rows in more if len(rows)),
            *(self.label_names or ()),
        ]


@dataclass(frozen=True, eq=False)
class RunOptions:
    """How a training is run, whatever the recipe.

    Attributes:
        seed: of initial weights, dropout and order.
        progress: called as the work proceeds.
        savepoints: where the training is saved from time to time, and goes on from; by default it
            is not.
        embed_with: makes what computes an encoder's output where only the head is trained; by
            default Keras computes it.
        refit: whether to learn from the validation rows too in the end; only where `full` does not
            train the encoder, as `bertcnn.training.refit` does it there.
        like: a result on fewer rows, to be repeated, for `full`; by default the validation rows
            choose.
        fold_of: int [training rows], the fold of each; by default there is no cross-fitting.
        deadline: of `full`; by default there is none.
        head_weights: what the head begins with, by name; by default drawn numbers.
        callbacks: of Keras, that hear of the training of the head, with the encoder or without.
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
