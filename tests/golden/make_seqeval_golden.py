"""Makes seqeval_golden.json: figures of seqeval for random and odd tag sequences.

Run it with seqeval 1.2.2 and numpy in an environment of their own: python make_seqeval_golden.py
"""

import json
import random
from pathlib import Path

from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities

ODD = [
    ["O", "I-A", "I-A", "B-A", "I-A", "I-B", "O"],  # IOB1 and a change of label
    ["B-A", "E-A", "S-A", "S-B", "B-B", "I-B", "E-B"],  # BIOES
    ["E-A", "E-A", "I-A", "O", "I-B"],
    ["B-A", "B-A", "I-A", "O", "I-A"],
    ["O", "O", "O"],
    ["S-A", "I-A", "O", "B-A", "S-A", "I-A"],
]
chance = random.Random(0)
TAGS = ["O", "O", "B-A", "I-A", "B-B", "I-B", "B-C", "I-C"]


def sequences(count):
    return [chance.choices(TAGS, k=chance.randint(1, 12)) for _ in range(count)]


cases = []
for found, expected in [
    (ODD, ODD),
    (ODD[::-1], [row[:] for row in ODD[::-1]]),
    *((sequences(8), None) for _ in range(12)),
]:
    if expected is None:
        expected = [
            [tag if chance.random() < 0.7 else chance.choice(TAGS) for tag in row] for row in found
        ]
    report = classification_report(expected, found, output_dict=True, zero_division=0)
    figures = {
        name: {key: float(value) for key, value in one.items()} for name, one in report.items()
    }
    spans = [[(first, last, label) for label, first, last in get_entities(row)] for row in found]
    cases.append({"found": found, "expected": expected, "report": figures, "spans": spans})
path = Path(__file__).with_name("seqeval_golden.json")
path.write_text(json.dumps(cases) + "\n", encoding="utf-8")
