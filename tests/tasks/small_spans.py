"""Texts with spans that a tiny model learns in seconds: things, and the word today."""

import re

import numpy as np

from bertcnn.tasks.token_labels.labelled_texts import LabelledText, Span

THINGS = ("router", "modem", "cable", "box")
WORDS = ("the", "is", "not", "and", "it", "has", "no", "still", "slow", "down", "since", "today")


def small_spans(rows: int = 160) -> list[LabelledText]:
    """Texts that name a thing, mostly, of one or two words; some are long."""
    generator = np.random.default_rng(0)
    texts = []
    for row in range(rows):
        words = generator.choice(WORDS, generator.integers(6, 40 if row % 9 == 0 else 9)).tolist()
        spans = []
        if row % 4:
            place = int(generator.integers(len(words)))
            words[place] = str(generator.choice(THINGS)) + (" light" if row % 2 else "")
            start = len(" ".join([*words[:place], ""]))
            spans.append(Span(start, start + len(words[place]), "THING"))
        text = " ".join(words)
        spans.extend(Span(at.start(), at.end(), "DAY") for at in re.finditer("today", text))
        texts.append(LabelledText(text, tuple(sorted(spans))))
    return texts


LEARNED, OTHERS = small_spans()[:120], small_spans()[120:]
SMALL = {"max_tokens": 24, "stride": 12}
QUICK = {
    "epochs": 4,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "dropout": 0.05,
    "validation_fraction": 0.3,
    "compiled_shapes": 1,
}
