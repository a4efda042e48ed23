"""A peer of serving_peers.py: MLServer, with adaptive batching and its pool of one worker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from mlserver import MLModel  # type: ignore[import-not-found,import-untyped]
from mlserver.cli.main import main  # type: ignore[import-not-found,import-untyped]
from mlserver.codecs import NumpyCodec, StringCodec  # type: ignore[import-not-found,import-untyped]
from mlserver.types import (  # type: ignore[import-not-found,import-untyped]
    InferenceRequest,
    InferenceResponse,
)

from benchmarks.peers.exported_model import ExportedModel

_REQUESTS, _PATIENCE = 64, 0.01  # of a batch, and the seconds that it waits for them


class Texts(MLModel):  # type: ignore[misc]
    """The exported model behind MLServer."""

    async def load(self) -> bool:
        """Read it."""
        self._model = ExportedModel(Path(self.settings.parameters.uri))
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Label and confidence of each text."""
        answers = self._model.answer(StringCodec.decode_input(payload.inputs[0]))
        labels = StringCodec.encode_output("label", [answer["label"] for answer in answers])
        confidence = np.array([answer["confidence"] for answer in answers], np.float32)
        shares = NumpyCodec.encode_output("confidence", confidence)
        return InferenceResponse(model_name=self.name, outputs=[labels, shares])


def _write_settings(folder: Path, model: str, port: int) -> None:
    """What `mlserver start` reads."""
    settings = {
        "host": "127.0.0.1",
        "http_port": port,
        "grpc_port": port + 1,
        "metrics_endpoint": None,
        "parallel_workers": 1,
        "debug": False,
    }
    model_settings = {
        "name": "model",
        "implementation": "benchmarks.peers.serve_mlserver.Texts",
        "max_batch_size": _REQUESTS,
        "max_batch_time": _PATIENCE,
        "parameters": {"uri": model},
    }
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "model-settings.json").write_text(json.dumps(model_settings), encoding="utf-8")


if __name__ == "__main__":
    _write_settings(place := Path(sys.argv[3]), str(Path(sys.argv[1]).resolve()), int(sys.argv[2]))
    sys.argv = ["mlserver", "start", str(place)]
    main()
