"""A competitor of scoring.py: sentence-transformers and a linear layer.

`encode` at its default: texts sorted by length, batches of 32.
"""

from __future__ import annotations

import json
from pathlib import Path

import sentence_transformers  # type: ignore[import-not-found,import-untyped]
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer  # type: ignore[import-not-found,import-untyped]

from benchmarks.measuring import TEXT, measure, parser, read_rows, write_scored


def main() -> None:
    """Load the model, then score and tell the speed."""
    options = parser("a folder of peer_model.py").parse_args()
    torch.manual_seed(0)
    labels = json.loads((options.model / "labels.json").read_text(encoding="utf-8"))
    transformer = Transformer(str(options.model))
    width = transformer.get_embedding_dimension()
    encoder = SentenceTransformer(modules=[transformer, Pooling(width, "mean")], device="cpu")
    linear = torch.nn.Linear(width, len(labels))

    @torch.inference_mode()
    def score(source: Path, target: Path) -> None:
        rows = read_rows(source)
        embeddings = encoder.encode(
            [row[TEXT] for row in rows], convert_to_tensor=True, show_progress_bar=False
        )
        confidence, places = linear(embeddings).softmax(dim=1).max(dim=1)
        write_scored(
            target, rows, [labels[place] for place in places.tolist()], confidence.tolist()
        )

    measure(
        score,
        options,
        f"sentence-transformers {sentence_transformers.__version__}, PyTorch {torch.__version__}",
    )


if __name__ == "__main__":
    main()
