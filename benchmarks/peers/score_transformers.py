"""A competitor of scoring.py: transformers' text-classification pipeline.

It has our encoder's weights and a linear layer on [CLS].

`--best` sorts by length and uses batches of 64, the best setting found; otherwise the pipeline's
default, one text at a time.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from benchmarks.measuring import TEXT, measure, parser, read_rows, write_scored

_BATCH_ROWS = 64


def main() -> None:
    """Load the model, then score and tell the speed."""
    arguments = parser("a folder of peer_model.py")
    arguments.add_argument("--best", action="store_true")
    options = arguments.parse_args()
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    labels = dict(
        enumerate(json.loads((options.model / "labels.json").read_text(encoding="utf-8")))
    )
    model = AutoModelForSequenceClassification.from_pretrained(
        options.model, num_labels=len(labels), id2label=labels
    )
    classify = pipeline(
        "text-classification",
        model=model,
        tokenizer=AutoTokenizer.from_pretrained(options.model),
        device="cpu",
    )

    def score(source: Path, target: Path) -> None:
        rows = read_rows(source)
        texts = [row[TEXT] for row in rows]
        if options.best:
            order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
            results = classify(
                [texts[row] for row in order], batch_size=_BATCH_ROWS, truncation=True
            )
            by_row = dict(zip(order, results, strict=True))
            answers = [by_row[row] for row in range(len(texts))]
        else:
            answers = classify(texts, truncation=True)
        write_scored(
            target,
            rows,
            [answer["label"] for answer in answers],
            [answer["score"] for answer in answers],
        )

    measure(score, options, f"transformers {transformers.__version__}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
