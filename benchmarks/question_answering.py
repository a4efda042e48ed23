"""How well fields are filled from tickets, beside regular expressions, and how fast.

    python -m benchmarks.question_answering data/ticket_questions.jsonl [--seeds 3]

For each seed a fifth of the tickets is held out, and a question answerer trained, saved and loaded
as users do on the questions about the others. Prints exact match and F1 (SQuAD 2.0's definitions)
on the held-out questions, the same of one regular expression for each kind of question and of never
answering, and questions/s of the loaded model.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bertcnn.cli.progress import show_progress
from bertcnn.cli.startup import load_keras
from bertcnn.tasks.question_answering.metrics import AnswerFigures
from bertcnn.tasks.question_answering.questions import Question, read_questions, split_by_context

_HELD_OUT = 0.2
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_UNITS = "minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?"
_NUMBER = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_THINGS = (
    "router|modem|box|cable|socket|remote|handset|phone|app|portal|webmail|antenna|extender|laptop"
    "|tablet|tv|printer|website|wifi|wi-fi|internet|line|power supply|decoder"
)
_RULES = (  # the first whose left side is in the question; what its right side finds is the answer
    (r"month", rf"\b(?:{_MONTHS})\b"),
    (r"error|code|message", r"\b[A-Z]{1,4}[- ]?\d{2,5}\b|\b\d{3,4}\b"),
    (r"colou?r", r"\b(?:red|green|blue|white|orange|amber|yellow|purple|pink|black|grey)\b"),
    (r"how long|how many (?:days|hours|weeks|months|minutes)", rf"\b{_NUMBER} (?:{_UNITS})\b"),
    (r"how much|amount|price|cost|sum|fee|charge|paid|discount", r"[£$€]?\d+(?:[.,]\d+)?(?: ?%)?"),
    (r"how many|how often|number", rf"\b{_NUMBER}\b"),
    (r"what time|which hour|time", r"\b\d{1,2}(?::\d{2})? ?(?:am|pm)?\b"),
    (
        r"which day|what day|when|since|date",
        rf"\b(?:{_DAYS}|yesterday|today|last \w+|the \d+\w\w)\b",
    ),
    (r"address|street|where", r"\b[A-Z]\w+ (?:Street|Road|Lane|Rise|Court|Avenue|Close|Way)\b"),
    (
        r"room|floor",
        r"\b(?:kitchen|bedroom|bathroom|hall|attic|cellar|office|living room|garage)\b",
    ),
    (r"broken|device|which (?:thing|part|equipment)|what (?:stopped|fails)", rf"\b(?:{_THINGS})\b"),
    (r"who", r"\b(?:mum|mother|dad|father|gran|wife|husband|son|daughter|neighbour|technician)\b"),
)


def by_rule(question: str, context: str) -> str:
    """The answer of the first rule that the question fits; empty if it finds nothing."""
    for asks, finds in _RULES:
        if re.search(asks, question, re.IGNORECASE):
            found = re.search(finds, context, re.IGNORECASE if finds.islower() else 0)
            return found[0] if found else ""
    return ""


def main() -> None:
    """Train, evaluate and print, once for each seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    load_keras()
    from bertcnn.tasks.question_answering.answerer import QuestionAnswerer

    questions = read_questions(options.questions)
    print("| seed | who | exact match | F1 | with an answer: F1 | without: left unanswered |")
    for seed in range(options.seeds):
        kept, held_out = split_by_context(questions, _HELD_OUT, seed)
        with tempfile.TemporaryDirectory() as folder, show_progress() as progress:
            QuestionAnswerer(seed=seed, progress=progress).fit(kept).save(Path(folder) / "model")
            answerer = QuestionAnswerer.load(Path(folder) / "model")
        asked, contexts = [one.question for one in held_out], [one.context for one in held_out]
        answers = [one.text for one in answerer.answer(asked, contexts)]
        _show(seed, f"ours ({answerer.engine_name})", answers, held_out)
        rules = [by_rule(one.question, one.context) for one in held_out]
        _show(seed, "regular expressions", rules, held_out)
        _show(seed, "never an answer", [""] * len(held_out), held_out)
        times = []
        for _ in range(5):
            started = time.perf_counter()
            answerer.answer(asked, contexts)
            times.append(time.perf_counter() - started)
        print(f"{len(asked) / float(np.median(times)):,.0f} questions/s", flush=True)


def _show(seed: int, who: str, answers: Sequence[str], questions: Sequence[Question]) -> None:
    found = AnswerFigures.of(answers, questions)
    print(
        f"| {seed} | {who} | {found.exact:.1%} | {found.f1:.1%} | {found.answerable_f1:.1%} |"
        f" {found.unanswerable_right:.1%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
