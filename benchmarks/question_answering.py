"""How well questions fill fields from tickets, compared with regular expressions, and how fast.

    python -m benchmarks.question_answering data/ticket_questions.jsonl [--seeds 3] [--peers]

For each seed a fifth of the tickets is held out. A question answerer is trained, saved and loaded
as users do, on the questions about the other tickets. Prints exact match and F1 (SQuAD 2.0's
definitions) on the held-out questions, for the model, for one regular expression per kind of
question, and for never answering; also questions/s of the loaded model. With --peers it also
measures Hugging Face's recipe `run_qa` on the same questions, with its documented learning rate and
with ours, and questions/s of transformers' pipeline with our weights.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environment import QUESTIONS, ask_peer
from benchmarks.peer_model import write_peer_answerer
from bertcnn import load_keras, show_progress
from bertcnn.encoders import fetch_encoder
from bertcnn.settings import QuestionTrainingSettings
from bertcnn.tasks.question_answering import FOLDER, AnswerFigures, read_questions
from bertcnn.tasks.question_answering.questions import Question, split_by_context

if TYPE_CHECKING:
    from bertcnn.tasks.question_answering import QuestionAnswerer

_HELD_OUT = 0.2
_RUN_QA = 3e-5  # the learning rate in its documentation
_ROUNDS = 3
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_UNITS = "minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?"
_NUMBER = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_THINGS = (
    "router|modem|box|cable|socket|remote|handset|phone|app|portal|webmail|antenna|extender|laptop"
    "|tablet|tv|printer|website|wifi|wi-fi|internet|line|power supply|decoder"
)
_RULES = (  # the first rule whose left side matches the question; its right side finds the answer
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
    """The answer of the first rule that matches the question; empty if it finds nothing."""
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
    parser.add_argument("--peers", action="store_true")
    options = parser.parse_args()
    load_keras()

    questions = read_questions(options.questions)
    print("| seed | who | exact match | F1 | with an answer: F1 | without: left unanswered |")
    for seed in range(options.seeds):
        kept, held_out = split_by_context(questions, _HELD_OUT, seed)
        with tempfile.TemporaryDirectory() as folder:
            ours(seed, kept, held_out, Path(folder))
            if options.peers:
                if seed == 0:
                    pipeline(held_out, Path(folder))
                recipe(seed, kept, held_out, Path(folder))
        rules = [by_rule(one.question, one.context) for one in held_out]
        show(seed, "regular expressions", rules, held_out)
        show(seed, "never an answer", [""] * len(held_out), held_out)


def ours(seed: int, kept: Sequence[Question], held_out: Sequence[Question], folder: Path) -> None:
    """Train, save as `model`, load and answer the held-out questions."""
    from bertcnn.tasks.question_answering import QuestionAnswerer

    started = time.perf_counter()
    with show_progress() as progress:
        QuestionAnswerer(seed=seed, progress=progress).fit(kept).save(folder / "model")
    seconds = time.perf_counter() - started
    answerer = QuestionAnswerer.load(folder / "model")
    answers = answerer.answer(*asked(held_out))
    who = f"ours, {answerer.engine_name}, {seconds:.0f} s"
    show(seed, who, [one.text for one in answers], held_out)


def recipe(seed: int, kept: Sequence[Question], held_out: Sequence[Question], folder: Path) -> None:
    """Hugging Face's recipe, with as many epochs, the same batch size, and two learning rates."""
    encoder = fetch_encoder("minilm-l6").folder
    files = write_questions(kept, folder / "kept"), write_questions(held_out, folder / "held_out")
    ours = QuestionTrainingSettings()
    for rate in (_RUN_QA, ours.learning_rate):
        done = ask_peer(
            "finetune_questions",
            encoder,
            *files,
            f"--epochs={ours.epochs}",
            f"--batch={ours.batch_size}",
            f"--learning-rate={rate}",
            f"--seed={seed}",
            environment=QUESTIONS,
        )
        show(seed, f"run_qa, {rate:g}, {done['seconds']:.0f} s", done["answers"], held_out)


def pipeline(held_out: Sequence[Question], folder: Path) -> None:
    """Questions/s of ours, of transformers' pipeline, and again of ours; all answers agree."""
    from bertcnn.tasks.question_answering import QuestionAnswerer

    answerer = QuestionAnswerer.load(folder / "model")
    answers = [one.text for one in answerer.answer(*asked(held_out))]
    saved = FOLDER.read(folder / "model")
    theirs = write_peer_answerer(saved, folder / "for-peers")
    before = speed(answerer, held_out)
    done = ask_peer(
        "answer_transformers",
        theirs,
        write_questions(held_out, folder / "asked"),
        _ROUNDS,
        saved.config.questions.max_tokens,
        saved.config.questions.stride,
        environment=QUESTIONS,
    )
    after = speed(answerer, held_out)
    same = sum(one == other for one, other in zip(answers, done["answers"], strict=True))
    best = max(done["questions_per_second"].values())
    print(f"{done['name']}: {done['questions_per_second']} questions/s, by batch size")
    print(
        f"ours: {before:,.0f} and {after:,.0f} questions/s, {min(before, after) / best:.1f} times"
    )
    print(f"the same answer to {same} of {len(answers)}", flush=True)


def speed(answerer: QuestionAnswerer, questions: Sequence[Question]) -> float:
    """Questions/s, the best of several rounds."""
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        answerer.answer(*asked(questions))
        times.append(time.perf_counter() - started)
    return len(questions) / min(times)


def asked(questions: Sequence[Question]) -> tuple[list[str], list[str]]:
    """Questions and contexts."""
    return [one.question for one in questions], [one.context for one in questions]


def write_questions(questions: Sequence[Question], file: Path) -> Path:
    """Write a line of JSON for each question, with its first answer."""
    lines = [
        json.dumps(
            {
                "question": one.question,
                "context": one.context,
                "answer": one.answers[0] if one.answers else "",
                "start": one.starts[0] if one.answers else 0,
            }
        )
        for one in questions
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def show(seed: int, who: str, answers: Sequence[str], questions: Sequence[Question]) -> None:
    """Print a row of the table."""
    found = AnswerFigures.of(answers, questions)
    print(
        f"| {seed} | {who} | {found.exact:.1%} | {found.f1:.1%} | {found.answerable_f1:.1%} |"
        f" {found.unanswerable_right:.1%} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
