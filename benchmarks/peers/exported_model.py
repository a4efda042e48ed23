"""The model of serve_litserve.py and serve_mlserver.py: what `bertcnn export` made for OpenVINO.

It gives label and confidence only; our service also gives a decision and the phrases.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_LONGEST: Final = 160  # tokens
_CLS, _SEP = 101, 102
_BATCH_ROWS: Final = 16


class ExportedModel:
    """Texts in batches of similar lengths, one batch a core at the same time."""

    def __init__(self, folder: Path) -> None:
        self._labels: list[str] = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        self._tokenizer = Tokenizer(
            models.WordPiece.from_file(
                str(folder / "vocab.txt"), unk_token="[UNK]", max_input_chars_per_word=100
            )
        )
        self._tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self._tokenizer.enable_truncation(_LONGEST - 2)
        cores = os.cpu_count() or 1
        options = {
            "NUM_STREAMS": cores,
            "INFERENCE_NUM_THREADS": cores,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = ov.Core().compile_model(folder / "model.xml", "CPU", options)
        self._queue = ov.AsyncInferQueue(compiled, 2 * cores)
        self._queue.set_callback(_store)

    def answer(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Label and confidence of each text."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ids = [[_CLS, *text.ids, _SEP] for text in encoded]
        order = np.argsort([-len(row) for row in ids], kind="stable")
        logits = np.empty((len(ids), len(self._labels)), np.float32)
        for start in range(0, len(order), _BATCH_ROWS):
            rows = order[start : start + _BATCH_ROWS]
            token_ids = np.zeros((len(rows), len(ids[rows[0]])), np.int32)
            mask = np.zeros_like(token_ids)
            for place, row in enumerate(rows):
                token_ids[place, : len(ids[row])] = ids[row]
                mask[place, : len(ids[row])] = 1
            batch = {"token_ids": token_ids, "padding_mask": mask}
            self._queue.start_async(batch, (rows, logits))
        self._queue.wait_all()
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        return [
            {"label": self._labels[row.argmax()], "confidence": float(row.max())} for row in shares
        ]


def _store(request: ov.InferRequest, job: tuple[np.ndarray, np.ndarray]) -> None:
    rows, logits = job
    logits[rows] = request.get_tensor("logits").data
