"""An untrained question answerer: its answers are arbitrary but deterministic."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from bertcnn.bundle.engine import INT8_TENSORS, int8_bytes
from bertcnn.settings import EncoderSettings, QuestionSettings, QuestionTrainingSettings
from bertcnn.shapes import question_answering_shapes
from bertcnn.tasks.question_answering.saving import (
    FOLDER,
    AnswererConfig,
    SavedAnswerer,
)
from tests.conftest import TINY_VOCABULARY

MONTH, DEVICE = "which month is the bill from?", "what is not working?"
POSITIONS = 256  # as many as the default settings need
WORDS = "router bill light red internet down login app money invoice again page".split()  # noqa: SIM905


def small_texts(rows: int, seed: int = 0) -> list[str]:
    """Different texts of 2 to 12 words."""
    chance = random.Random(seed)
    return [
        f"{row} {' '.join(chance.choices(WORDS, k=chance.randint(2, 12)))}" for row in range(rows)
    ]


def write_questions(path: Path, contexts: int = 12) -> Path:
    """Write two questions about each of some texts as JSON Lines; the second one has no answer."""
    rows = [
        row
        for word in WORDS[:contexts]
        for row in (
            {"question": DEVICE, "context": f"my {word} is not working", "answer": word},
            {"question": MONTH, "context": f"my {word} is not working", "answer": ""},
        )
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def longer_encoder(encoder: Path, folder: Path) -> Path:
    """The folder of a tiny encoder with enough positions for the questions and texts."""
    shutil.copytree(encoder, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = POSITIONS
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("position_embeddings.weight"))
    tensors[name] = np.resize(tensors[name], (POSITIONS, tensors[name].shape[1]))
    save_file(tensors, folder / "model.safetensors")
    return folder


def save_answerer(folder: Path, *, seed: int = 0) -> Path:
    """Save a model of width 16 with random weights that answers half of all questions."""
    encoder = EncoderSettings(
        vocabulary_size=len(TINY_VOCABULARY),
        width=16,
        layers=1,
        heads=2,
        feed_forward_width=32,
        max_positions=POSITIONS,
    )
    chance = np.random.default_rng(seed)
    kinds = {"gamma": np.ones, "beta": np.zeros, "bias": np.zeros}
    tensors = {
        name: kinds.get(name.rpartition("/")[2], chance.standard_normal)(shape).astype(np.float32)
        for name, shape in question_answering_shapes(encoder).items()
    }
    config = AnswererConfig(
        encoder=encoder,
        encoder_name="random",
        lowercase=True,
        questions=QuestionSettings(max_tokens=POSITIONS, answer_tokens=4, windows=2),
        training=QuestionTrainingSettings(),
        threshold=9.0,
        temperature=2.0,
        precision="float32",
        precision_reason="never compared",
        seed=seed,
        versions={},
    )
    compiled = {INT8_TENSORS: int8_bytes(None)}
    FOLDER.write(SavedAnswerer(config, TINY_VOCABULARY, tensors, {}, compiled), folder)
    return folder
