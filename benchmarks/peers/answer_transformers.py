"""The peer of question_answering.py: transformers' question-answering pipeline.

It has the weights of our question answerer. Each batch size has a turn.

Runs in its own environment, since transformers 5.3 and later have no such pipeline; answers on
standard output with one JSON line.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForQuestionAnswering, AutoTokenizer, pipeline

_BATCHES = (1, 8, 32)
_WARM_UP = 8  # questions


def main(folder: Path, asked: Path, rounds: int, window: int, stride: int) -> None:
    """Tell the answers, and questions/s of the best of several rounds with each batch size."""
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    answer = pipeline(
        "question-answering",
        model=AutoModelForQuestionAnswering.from_pretrained(folder),
        tokenizer=AutoTokenizer.from_pretrained(folder),
        device="cpu",
    )
    questions = [json.loads(line) for line in asked.read_text(encoding="utf-8").splitlines()]
    # questions of similar length in a batch, which saves it padding
    order = sorted(range(len(questions)), key=lambda row: len(questions[row]["context"]))
    texts = {name: [questions[row][name] for row in order] for name in ("question", "context")}

    def run(batch: int, rows: int | None = None) -> list[dict[str, object]]:
        found = answer(
            question=texts["question"][:rows],
            context=texts["context"][:rows],
            batch_size=batch,
            max_seq_len=window,
            doc_stride=stride,
            max_answer_len=30,
            handle_impossible_answer=True,
        )
        return found if isinstance(found, list) else [found]

    speeds, found = {}, []
    for batch in _BATCHES:
        run(batch, _WARM_UP)
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            found = run(batch)
            times.append(time.perf_counter() - started)
        speeds[batch] = len(order) / min(times)
    answers = dict(zip(order, (one["answer"] for one in found), strict=True))
    print(
        json.dumps(
            {
                "answers": [answers[row] for row in range(len(order))],
                "questions_per_second": speeds,
                "name": f"transformers {transformers.__version__}, PyTorch {torch.__version__}",
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
