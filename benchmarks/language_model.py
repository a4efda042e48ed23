"""Perplexity of a language model beside n-grams with Kneser-Ney smoothing, and what it completes.

    python -m benchmarks.language_model [--seeds 3] [--epochs 60]

Learns from data/cities.txt and measures on data/cities_test.txt, which has other sentences. Every
model spells words that it has never seen, so perplexities per word compare: the n-grams of pieces
use the same pieces as ours, and the n-grams of words spell unknown words with n-grams of letters.
The best order is chosen on the held-out texts, in favour of the n-grams.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kneser_ney import KneserNey
from bertcnn import load_keras, show_progress

_DATA = Path(__file__).parents[1] / "data"
_ORDERS = range(2, 7)
_SPELLING_ORDER = 5
_UNKNOWN = "<unknown>"
# "X is a city in" and a country are in the training texts
_STATED = {
    "Shanghai": "China",
    "Guangzhou": "China",
    "Osaka": "Japan",
    "Incheon": "Korea",
    "Mumbai": "India",
    "Bandung": "Indonesia",
    "Bursa": "Turkey",
    "Milan": "Italy",
    "Lyon": "France",
    "Marseille": "France",
    "Barcelona": "Spain",
    "Munich": "Germany",
    "Krakow": "Poland",
    "Braga": "Portugal",
    "Manchester": "England",
    "Antwerp": "Belgium",
    "Kisumu": "Kenya",
    "Agadir": "Morocco",
    "Tamale": "Ghana",
    "Chicago": "United States",
    "Vancouver": "Canada",
    "Monterrey": "Mexico",
    "Cali": "Colombia",
}
# the training texts say where these are, but never in these words
_PUT_TOGETHER = {
    "Nanjing": "China",
    "Kobe": "Japan",
    "Busan": "Korea",
    "Chennai": "India",
    "Hue": "Vietnam",
    "Izmir": "Turkey",
    "Turin": "Italy",
    "Seville": "Spain",
    "Bordeaux": "France",
    "Hamburg": "Germany",
    "Gdansk": "Poland",
    "Porto": "Portugal",
    "Leeds": "England",
    "Ghent": "Belgium",
    "Mombasa": "Kenya",
    "Fez": "Morocco",
    "Kumasi": "Ghana",
    "Boston": "United States",
    "Montreal": "Canada",
    "Guadalajara": "Mexico",
    "Medellin": "Colombia",
    "Rosario": "Argentina",
    "Perth": "Australia",
}


def words_of(text: str) -> list[str]:
    """Words and signs; a sign that touches the word before it begins with ##."""
    return [
        part if start == 0 else f"##{part}"
        for word in text.split()
        for start, part in enumerate(re.findall(r"\w+(?:['-]\w+)*|[^\w\s]", word))
    ]


def kneser_ney_on_pieces(
    texts: list[list[str]], held_out: list[list[str]], vocabulary: int
) -> tuple[float, int]:
    """The log-likelihood of the held-out texts and the best order."""
    return max(
        (sum(map(KneserNey(texts, order, vocabulary).log_likelihood, held_out)), order)
        for order in _ORDERS
    )


def kneser_ney_on_words(texts: Sequence[str], held_out: Sequence[str]) -> tuple[float, int]:
    """The same for words; words seen once stand for unknown ones, which are spelled."""
    learned, tested = ([words_of(text) for text in part] for part in (texts, held_out))
    counts = Counter(word for text in learned for word in text)
    known = {word for word, count in counts.items() if count > 1}
    letters = len({letter for word in counts for letter in word}) + 1
    spelling = KneserNey([w for w in counts if w not in known], _SPELLING_ORDER, letters)
    spelled = sum(
        spelling.log_likelihood(word) for text in tested for word in text if word not in known
    )

    def closed(part: Iterable[list[str]]) -> list[list[str]]:
        return [[word if word in known else _UNKNOWN for word in text] for text in part]

    found, order = kneser_ney_on_pieces(closed(learned), closed(tested), len(known) + 2)
    return found + spelled, order


def completed(model: Any, countries: dict[str, str]) -> list[str]:
    """The cities whose sentence begins with the right country, greedily."""
    right = []
    for city, country in countries.items():
        text = model.generate(f"{city} is a city in", max_tokens=20).text
        if country in re.split(r"[.,;]", text)[0]:
            right.append(city)
    return right


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=None)
    options = parser.parse_args()
    load_keras()
    from bertcnn.tasks.language_model import LanguageModel, read_documents

    texts, held_out = (read_documents([_DATA / name]) for name in ("cities.txt", "cities_test.txt"))
    words = sum(len(text.split()) + 1 for text in held_out)
    print("| model | seed | perplexity per word | per token | stated | put together | training |")
    likelihood, order = kneser_ney_on_words(texts, held_out)
    print(f"| Kneser-Ney, {order} words | | {math.exp(-likelihood / words):.1f} |", flush=True)
    training = {} if options.epochs is None else {"epochs": options.epochs}
    for seed in range(options.seeds):
        started = time.perf_counter()
        with show_progress() as progress:
            model = LanguageModel(training=training, seed=seed, progress=progress).fit(texts)
        seconds = time.perf_counter() - started
        encoded, tested = (model.tokenize(part) for part in (texts, held_out))
        vocabulary = model.metrics_["pieces"]
        likelihood, order = kneser_ney_on_pieces(encoded, tested, vocabulary)
        tokens = sum(len(pieces) + 1 for pieces in tested)
        print(
            f"| Kneser-Ney, {order} pieces | {seed} | {math.exp(-likelihood / words):.1f} |"
            f" {math.exp(-likelihood / tokens):.1f} |"
        )
        figures = model.perplexity(held_out)
        shares = " | ".join(
            f"{len(completed(model, countries))} of {len(countries)}"
            for countries in (_STATED, _PUT_TOGETHER)
        )
        print(
            f"| ours | {seed} | {figures.per_word:.1f} | {figures.per_token:.1f} | {shares} |"
            f" {seconds:.0f} s, {model.metrics_['kept_epoch']} epochs |",
            flush=True,
        )


if __name__ == "__main__":
    main()
