"""A training of 20 steps in a process of its own, distributed as its environment says.

usage: several_devices.py WHAT FOLDER, where WHAT is "classifier" or "pretraining"

The first process writes FOLDER/weights.npz. The classifier's training resumes from FOLDER/points,
and copies the checkpoints after 8 steps to FOLDER/early.
"""

import os
import shutil
import sys
from pathlib import Path

import numpy as np

from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import FULL, HeadSettings
from bertcnn.training.devices import is_first, join_processes
from tests.learnable import new_encoder, rows_of

STEPS, EARLY = 20, 8


class Keeps(Silent):
    """Keeps the notes, and a copy of the checkpoints after some steps."""

    def __init__(self, folder):
        self.folder, self.steps, self.notes = folder, 0, []

    def note(self, message):
        self.notes.append(message)

    def advance(self, done, **figures):  # noqa: ARG002
        self.steps += done
        if self.steps == EARLY and done == 1 and is_first():
            shutil.copytree(self.folder / "points", self.folder / "early")


def classifier(folder):
    from bertcnn.training.recipes import train
    from bertcnn.training.savepoints import Savepoints
    from bertcnn.training.training_data import RunOptions, TrainingData

    data = TrainingData(rows_of(70, 0), rows_of(24, 1))
    # 14 rows cannot be divided among 4 devices evenly
    changes = {"epochs": 4, "batch_size": 14, "learning_rate": 1e-3, "compiled_shapes": 1}
    settings = FULL.model_copy(
        update={**changes, "packed": False, "fewest_steps": 0, "precision": "float32"}
    )
    progress, goes_on = Keeps(folder), (folder / "points").exists()
    run = RunOptions(0, progress, Savepoints(folder / "points", {}, progress, 0.0))
    model, result = train(
        new_encoder(), data, HeadSettings(filters=16, dropout=0.1), "full", settings, run
    )
    assert len(result.epochs) * 5 == STEPS
    told = f"resuming an interrupted training after step {EARLY} of {STEPS}"
    assert (told in progress.notes) == goes_on
    return extract(model.weights)


def pretraining(folder):
    from safetensors.numpy import load_file

    from bertcnn.pretraining.initialization import NewEncoder
    from bertcnn.pretraining.run import pretrain

    own = folder / f"process{os.environ.get('JAX_PROCESS_ID', '0')}"
    pretrain(
        [folder / "texts.txt"],
        own,
        start=NewEncoder("tiny", 50),
        data={"batch_size": 8, "sequence_length": 32},
        training={"steps": STEPS, "accumulate": 2, "learning_rate": 1e-3},
    )
    return load_file(own / "model.safetensors")


def main(what, folder):
    if "JAX_PROCESS_ID" in os.environ:
        join_processes()
    folder = Path(folder)
    weights = (pretraining if what == "pretraining" else classifier)(folder)
    if is_first():
        np.savez(folder / "weights.npz", **weights)


if __name__ == "__main__":
    main(*sys.argv[1:])
