"""The peer of question_answering.py: Hugging Face's recipe `run_qa` in a plain PyTorch loop.

The same published encoder and questions; windows of 384 tokens each 128 further on, AdamW without
decay or warm-up, and of 20 starts and 20 ends the best pair, or none where [CLS] scores higher, as
transformers' examples/pytorch/question-answering does.

Runs in the peers' environment; answers on standard output with one JSON line.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

_WINDOW, _STRIDE, _BEST, _LONGEST = 384, 128, 20, 30
_SCORED = 32  # windows of a batch


def main() -> None:
    """Train on one file, and tell the answers to the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("encoder")
    parser.add_argument("learned", type=Path)
    parser.add_argument("asked", type=Path)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    transformers.logging.set_verbosity_error()
    tokenizer = AutoTokenizer.from_pretrained(options.encoder)
    model = AutoModelForQuestionAnswering.from_pretrained(options.encoder)
    learned, asked = (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in (options.learned, options.asked)
    )
    started = time.perf_counter()
    train(model, tokenizer, learned, options)
    seconds = time.perf_counter() - started
    print(json.dumps({"answers": answers(model, tokenizer, asked), "seconds": seconds}))


def windows(tokenizer: Any, questions: list[dict[str, Any]]) -> Any:
    """Windows of all questions."""
    return tokenizer(
        [one["question"].strip() for one in questions],
        [one["context"] for one in questions],
        truncation="only_second",
        max_length=_WINDOW,
        stride=_STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )


def places(found: Any, questions: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """First and last token of the answer in each window; [CLS] where it is not in there."""
    targets = []
    for row, source in enumerate(found["overflow_to_sample_mapping"]):
        question = questions[source]
        spans, parts = found["offset_mapping"][row], found.sequence_ids(row)
        own = [token for token, part in enumerate(parts) if part == 1]
        start = question["start"]
        end = start + len(question["answer"])
        inside = question["answer"] and spans[own[0]][0] <= start and spans[own[-1]][1] >= end
        touched = [token for token in own if spans[token][1] > start and spans[token][0] < end]
        targets.append((touched[0], touched[-1]) if inside and touched else (0, 0))
    return targets


def train(
    model: Any, tokenizer: Any, questions: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    """Train the model in place."""
    found = windows(tokenizer, questions)
    targets = places(found, questions)
    count = len(targets)
    steps = -(-count // options.batch) * options.epochs
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0.0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
    chance = random.Random(options.seed)
    model.train()
    for _ in range(options.epochs):
        order = chance.sample(range(count), count)
        for first in range(0, count, options.batch):
            rows = order[first : first + options.batch]
            batch = padded(tokenizer, found, rows)
            starts, ends = torch.tensor([targets[row] for row in rows]).T
            model(**batch, start_positions=starts, end_positions=ends).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)


def padded(tokenizer: Any, found: Any, rows: list[int]) -> Any:
    """A batch of windows."""
    names = ("input_ids", "token_type_ids", "attention_mask")
    return tokenizer.pad(
        {name: [found[name][row] for row in rows] for name in names}
    ).convert_to_tensors("pt")


@torch.inference_mode()
def answers(model: Any, tokenizer: Any, questions: list[dict[str, Any]]) -> list[str]:
    """The answer to each question; empty for none."""
    found = windows(tokenizer, questions)
    best: list[tuple[float, str]] = [(-float("inf"), "")] * len(questions)
    none = [float("inf")] * len(questions)
    model.eval()
    for first in range(0, len(found["input_ids"]), _SCORED):
        rows = list(range(first, min(first + _SCORED, len(found["input_ids"]))))
        output = model(**padded(tokenizer, found, rows))
        for slot, row in enumerate(rows):
            source = found["overflow_to_sample_mapping"][row]
            length = len(found["input_ids"][row])
            starts, ends = output.start_logits[slot, :length], output.end_logits[slot, :length]
            none[source] = min(none[source], float(starts[0] + ends[0]))
            spans, parts = found["offset_mapping"][row], found.sequence_ids(row)
            firsts, lasts = (
                one.topk(min(_BEST, length)).indices.tolist() for one in (starts, ends)
            )
            for start in firsts:
                for end in lasts:
                    if parts[start] != 1 or parts[end] != 1 or not 0 <= end - start < _LONGEST:
                        continue
                    text = questions[source]["context"][spans[start][0] : spans[end][1]]
                    best[source] = max(best[source], (float(starts[start] + ends[end]), text))
    return [
        text if score > nothing else "" for (score, text), nothing in zip(best, none, strict=True)
    ]


if __name__ == "__main__":
    main()
