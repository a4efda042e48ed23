"""A peer of serving_peers.py: LitServe, with batches of requests and its fast queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import litserve  # type: ignore[import-not-found,import-untyped]

from benchmarks.peers.exported_model import ExportedModel

_REQUESTS, _PATIENCE = 64, 0.01  # of a batch, and the seconds that it waits for them


class _Texts(litserve.LitAPI):  # type: ignore[misc]
    def __init__(self, folder: Path) -> None:
        super().__init__(max_batch_size=_REQUESTS, batch_timeout=_PATIENCE)
        self._folder = folder

    def setup(self, _: str) -> None:
        self._model = ExportedModel(self._folder)

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return list(request["texts"])

    def batch(self, inputs: Sequence[list[str]]) -> Sequence[list[str]]:
        return inputs

    def predict(self, requests: Sequence[list[str]]) -> list[list[dict[str, Any]]]:
        answers = iter(self._model.answer([text for texts in requests for text in texts]))
        return [list(islice(answers, len(texts))) for texts in requests]

    def unbatch(self, output: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        return output

    def encode_response(self, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {"answers": output}


if __name__ == "__main__":
    server = litserve.LitServer(_Texts(Path(sys.argv[1])), accelerator="cpu", fast_queue=True)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False)
