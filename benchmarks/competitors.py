"""The competitors of scoring.py, and how each is run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.environment import ask_ours, ask_peer
from bertcnn import load_keras
from bertcnn.bundle import ENGINE, read_bundle


class Models:
    """One saved model, in the format that each competitor reads.

    A format is written when it is first needed.

    Args:
        saved: our saved model.
        scratch: a folder for the other formats.
    """

    def __init__(self, saved: Path, scratch: Path) -> None:
        self.saved, self._scratch = saved.resolve(), scratch

    @cached_property
    def without_engine(self) -> Path:
        """Our saved model without the compiled engine, so it is compiled in float32."""
        folder = self._scratch / "without-engine"
        shutil.copytree(self.saved, folder, ignore=shutil.ignore_patterns(ENGINE))
        return folder

    @cached_property
    def for_peers(self) -> Path:
        """The same tensors as a Hugging Face BertModel and a head."""
        load_keras()
        from benchmarks.peer_model import write_peer_model  # imports Keras

        return write_peer_model(read_bundle(self.saved), self._scratch / "for-peers")

    @cached_property
    def onnx(self) -> Path:
        """The same folder, with the network exported to ONNX."""
        ask_peer("export_onnx", self.for_peers)
        return self.for_peers


Run = Callable[[Models, list[Path], float | None], dict[str, Any]]


@dataclass(frozen=True)
class Competitor:
    """One competitor, which scores the same rows as the others.

    Attributes:
        title: in the table.
        run: scores (warm-up, source, target) in its own process and returns the result; see
            `measuring.measure`.
        same_network: whether it computes our network including the head; otherwise its accuracy
            is meaningless.
        float32: the name of the competitor that computes the same network in float32 with the same
            program; None for float32 itself.
    """

    title: str
    run: Run
    same_network: bool = True
    float32: str | None = None


def _ours(engine: str, *, with_engine: bool = True) -> Run:
    def run(models: Models, files: list[Path], limit: float | None) -> dict[str, Any]:
        model = models.saved if with_engine else models.without_engine
        return ask_ours("score_ours", model, *files, "--engine", engine, limit=limit)

    return run


def _peer(module: str, *options: str) -> Run:
    def run(models: Models, files: list[Path], limit: float | None) -> dict[str, Any]:
        return ask_peer(module, models.for_peers, *files, *options, limit=limit)

    return run


def _onnx_runtime(precision: str) -> Run:
    def run(models: Models, files: list[Path], limit: float | None) -> dict[str, Any]:
        return ask_peer(
            "score_onnxruntime", models.onnx, *files, "--precision", precision, limit=limit
        )

    return run


def _keras_hub(models: Models, files: list[Path], limit: float | None) -> dict[str, Any]:
    return ask_ours("score_keras_hub", models.for_peers, *files, limit=limit)


OURS = "int8"
FLOAT32 = "float32"
COMPETITORS = {
    OURS: Competitor("bertcnn, engine auto (int8)", _ours("auto"), float32=FLOAT32),
    FLOAT32: Competitor("bertcnn, float32", _ours("auto", with_engine=False)),
    "keras": Competitor("bertcnn, engine keras", _ours("keras"), float32=FLOAT32),
    "onnx-engine": Competitor("bertcnn, engine onnx (int8)", _ours("onnx"), float32=FLOAT32),
    "onnx-int8": Competitor(
        "ONNX Runtime, dynamic int8", _onnx_runtime("int8"), float32="onnx-float32"
    ),
    "onnx-float32": Competitor("ONNX Runtime, float32", _onnx_runtime("float32"), float32=FLOAT32),
    "pipeline-best": Competitor(
        "transformers pipeline, sorted, batch 64",
        _peer("score_transformers", "--best"),
        same_network=False,
    ),
    "pipeline": Competitor(
        "transformers pipeline, default (batch 1)", _peer("score_transformers"), same_network=False
    ),
    "sentence-transformers": Competitor(
        "sentence-transformers, default", _peer("score_sentence_transformers"), same_network=False
    ),
    "keras-hub": Competitor("KerasHub BertTextClassifier", _keras_hub, same_network=False),
}
