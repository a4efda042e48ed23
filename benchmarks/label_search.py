"""How often the desk's search finds the label that was meant, compared with rapidfuzz.

    pip install rapidfuzz
    python -m benchmarks.label_search train.csv --label category

Six queries for each label of the file: two or three of its words in any order, with blanks,
underscores or hyphens between them, and one letter left out, added, replaced or swapped in one
word. Prints how often the label is the first and among the first five found.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import time
from pathlib import Path

from rapidfuzz import fuzz, process  # type: ignore[import-not-found,import-untyped]

from tests.apps.dashboards import ROOT, browsing

_QUERIES = 6  # for each label
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SEARCH = ROOT / "apps" / "dashboard" / "desk" / "search.js"


def with_typo(word: str, chance: random.Random) -> str:
    """A word with one wrong letter, never the first or the last."""
    if len(word) < 4:
        return word
    at, other = chance.randrange(1, len(word) - 2), chance.choice(_LETTERS)
    before, after = word[:at], word[at + 1 :]
    swapped = before + word[at + 1] + word[at] + word[at + 2 :]
    return chance.choice(
        [before + after, before + other + word[at:], before + other + after, swapped]
    )


def queries_of(names: list[str]) -> list[tuple[str, str]]:
    """Pairs of a label and a query for it."""
    chance, pairs = random.Random(0), []
    for name in names:
        words = re.findall(r"[^\W_]+", name.lower())
        for _ in range(_QUERIES):
            chosen = chance.sample(words, min(len(words), chance.choice([2, 3])))
            at = chance.randrange(len(chosen))
            chosen[at] = with_typo(chosen[at], chance)
            pairs.append((name, chance.choice(" _-").join(chosen)))
    return pairs


def desk_answers(names: list[str], queries: list[str]) -> list[list[str]]:
    """The answers of the desk's own search, run in the browser; prints the time for each."""
    script = f"([names, queries]) => {{ {_SEARCH.read_text(encoding='utf-8')}\n"
    script += "return queries.map((one) => searchLabels(names, one, () => Infinity)); }"
    with browsing() as browser:
        page = browser.new_page()
        began = time.perf_counter()
        answers: list[list[str]] = page.evaluate(script, [names, queries])
        each = (time.perf_counter() - began) / len(queries)
    print(f"{len(queries)} queries, {1000 * each:.1f} ms each in the browser")
    return answers


def fuzzy_answers(names: list[str], queries: list[str], scorer: str) -> list[list[str]]:
    """The answers of rapidfuzz with one of its scorers."""
    plain = {name: re.sub(r"\W|_", " ", name.lower()) for name in names}
    found = []
    for query in queries:
        wanted = re.sub(r"\W|_", " ", query.lower())
        ranked = process.extract(wanted, plain, scorer=getattr(fuzz, scorer), limit=len(names))
        found.append([name for _, _, name in ranked])
    return found


def main() -> None:
    """Run all searches and print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--label", default="category")
    options = parser.parse_args()
    with options.file.open(encoding="utf-8", newline="") as file:
        names = sorted({row[options.label] for row in csv.DictReader(file)})
    pairs = queries_of(names)
    queries = [query for _, query in pairs]
    answers = {"desk": desk_answers(names, queries)}
    for scorer in ("WRatio", "token_set_ratio", "token_sort_ratio"):
        answers[scorer] = fuzzy_answers(names, queries, scorer)
    for who, found in answers.items():
        first = sum(one[:1] == [name] for one, (name, _) in zip(found, pairs, strict=True))
        five = sum(name in one[:5] for one, (name, _) in zip(found, pairs, strict=True))
        shares = f"{100 * first / len(pairs):.1f} % first, {100 * five / len(pairs):.1f} %"
        print(f"{who}: {shares} among the first five")


if __name__ == "__main__":
    main()
