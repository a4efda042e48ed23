"""The other side of encoder_parity.py: an exported encoder, loaded by the peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers  # type: ignore[import-not-found,import-untyped]
import torch
import transformers  # type: ignore[import-not-found,import-untyped]


@torch.inference_mode()
def main(folder: Path, texts_file: Path, answers: Path) -> None:
    """Save as `answers` what they make of the texts.

    Ids, vectors of tokens and texts, and the MLM head's logits at every token.
    """
    texts = json.loads(texts_file.read_text(encoding="utf-8"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoder, missing = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    masked, missing_head = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, output_loading_info=True
    )
    sentences = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    found: dict[str, Any] = {}
    for row, text in enumerate(texts):
        inputs = tokenizer(text, return_tensors="pt", truncation=True)
        output = encoder.eval()(**inputs)
        found[f"{row}/token_ids"] = inputs["input_ids"][0].numpy().astype(np.int32)
        found[f"{row}/sequence"] = output.last_hidden_state[0].numpy()
        found[f"{row}/pooled"] = output.pooler_output[0].numpy()
        found[f"{row}/mlm"] = masked.eval()(**inputs).logits[0].numpy()
        found[f"{row}/mean"] = sentences.encode([text])[0]
    np.savez(answers, **found)
    versions = {
        module.__name__: module.__version__
        for module in (torch, transformers, sentence_transformers)
    }
    print(
        json.dumps(
            {
                "versions": versions,
                "started_anew": [sorted(info["missing_keys"]) for info in (missing, missing_head)],
            }
        )
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
