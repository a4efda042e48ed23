"""How well names, orders, dates, amounts and products are found in tickets, and by a baseline.

    python -m benchmarks.token_labels data/ticket_spans.jsonl data/ticket_spans_test.jsonl

For each of three seeds a token labeller is trained on the first file as users do. Prints F1 of
exact spans (as seqeval gives it) on the second, by label and over all, for the model and for a
baseline: regular expressions for orders, dates and amounts, and for all other words the tag that
the training texts give them most often.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from bertcnn import LabelledText, read_labelled_texts, show_progress, train_token_labels
from bertcnn.tasks.token_labels import SpanFigures

_MONTHS = (
    r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)(?:uary|ruary|ch|il|ust|ember|ober"
    r"|tember)?\.?"
)
_DAYS = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_MONEY = r"€|£|\$|EUR|CHF|USD|euros?|pounds?|dollars?"
_RULES = (
    (
        "AMOUNT",
        rf"(?:{_MONEY}) ?\d[\d.,]*\d|(?:{_MONEY}) ?\d|\d[\d.,]* ?(?:{_MONEY})|\d+[.,]\d\d\b",
    ),
    ("ORDER", r"\b[A-Z]{1,4}[-/ ]?\d[\w/-]*\d\b|\b\d{4}-\d{5,6}\b|\b\d{7,}\b|\b\d{4}-\d{3}\b"),
    (
        "DATE",
        rf"\b(?:{_DAY} {_MONTHS}|{_MONTHS} {_DAY})(?: \d{{4}})?\b|\b{_DAYS}\b|\bthe {_DAY}\b"
        rf"|\b\d{{1,2}}[./]\d{{1,2}}[./]?(?:\d{{2,4}})?\b|\b\d{{4}}-\d\d-\d\d\b|\b{_MONTHS}(?!\w)"
        r"|\b(?:today|yesterday|tomorrow)\b",
    ),
)
_WORD = re.compile(r"\w+|[^\w\s]")
Spans = list[tuple[int, int, str]]


def baseline(learned: Sequence[LabelledText], texts: Sequence[LabelledText]) -> SpanFigures:
    """The figures of regular expressions and the most frequent tag of each word."""
    tags: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in learned:
        for word in _WORD.finditer(one.text):
            tags[word[0].lower()][_label_at(one, word.start())] += 1
    frequent = {word: counts.most_common(1)[0][0] for word, counts in tags.items()}
    found = [_rules(one.text, frequent) for one in texts]
    return SpanFigures.of(found, [_exact(one) for one in texts])


def _label_at(text: LabelledText, start: int) -> str:
    return next((span.label for span in text.spans if span.start <= start < span.end), "")


def _exact(text: LabelledText) -> Spans:
    return [(span.start, span.end, span.label) for span in text.spans]


def _rules(text: str, frequent: dict[str, str]) -> Spans:
    spans: Spans = []
    for label, pattern in _RULES:
        for match in re.finditer(pattern, text, re.IGNORECASE if label == "DATE" else 0):
            if all(match.end() <= start or match.start() >= end for start, end, _ in spans):
                spans.append((match.start(), match.end(), label))
    words: Spans = []  # neighbours with the same label are one span
    for word in _WORD.finditer(text):
        label = frequent.get(word[0].lower(), "")
        is_free = all(word.end() <= start or word.start() >= end for start, end, _ in spans)
        if not label or not is_free:
            continue
        if words and words[-1][2] == label and not text[words[-1][1] : word.start()].strip():
            words[-1] = (words[-1][0], word.end(), label)
        else:
            words.append((word.start(), word.end(), label))
    return spans + words


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--encoder", default="minilm-l6")
    arguments = parser.parse_args()
    learned, texts = (read_labelled_texts(path) for path in (arguments.train, arguments.test))
    print(f"{len(learned)} texts to learn from, {len(texts)} held out")
    print("\n".join(["baseline", *baseline(learned, texts).lines]))
    every = []
    for seed in range(arguments.seeds):
        with show_progress() as progress:
            labeller = train_token_labels(
                arguments.train, encoder=arguments.encoder, seed=seed, progress=progress
            )
        every.append(labeller.evaluate(texts))
        print("\n".join([f"seed {seed}", *every[-1].lines]), flush=True)
    shares = {name: [one.labels[name].f1 for one in every] for name in every[0].labels}
    for name, values in {**shares, "all": [one.micro.f1 for one in every]}.items():
        spread = 100 * np.std(values, ddof=1)
        print(f"{name}: F1 {100 * np.mean(values):.1f}% (standard deviation {spread:.1f})")


if __name__ == "__main__":
    main()
