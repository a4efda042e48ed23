"""Makes rouge_golden.json: ROUGE-L of rouge-score for summaries of our tickets and odd texts.

Run it with rouge-score 0.1.2 in an environment of its own: python make_rouge_golden.py
"""

import csv
import json
import random
from pathlib import Path

from rouge_score.rouge_scorer import RougeScorer

HERE = Path(__file__).parent
ODD = [
    ("", ""),
    ("", "a word"),
    ("a word", ""),
    ("...", "?!"),
    ("THE Router's LED", "the router s led"),
    ("wi-fi 2.4GHz", "wifi 2 4 ghz"),
    ("a b a b a", "b a b a b"),
    ("snake_case a_b", "snake case"),
    ("one\ttwo\nthree", "three two one"),
    ("12,50 and 12.50", "12 50"),
]
chance = random.Random(0)
with (HERE.parents[1] / "data" / "ticket_summaries_test.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
pairs = [(row["ticket"], row["summary"]) for row in rows]
pairs += [(one["summary"], chance.choice(rows)["summary"]) for one in rows]
pairs = [pair for pair in pairs if all(text.isascii() for text in pair)] + ODD
scorer = RougeScorer(["rougeL"], use_stemmer=False)
scored = [
    [summary, reference, scorer.score(reference, summary)["rougeL"].fmeasure]
    for summary, reference in pairs
]
(HERE / "rouge_golden.json").write_text(json.dumps(scored, indent=0) + "\n", encoding="utf-8")
