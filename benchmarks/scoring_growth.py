"""Rows/s and peak memory by number of rows, and rows/s by text length.

    python -m benchmarks.scoring_growth MODEL test.csv [--most 1000000] [--only int8,float32]

Every figure comes from a separate process; loading and a warm-up are not timed. The rows are the
file's rows, repeated with a number in every text, so that no cached answer can be used. Texts of a
given length are made of words of the file.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from benchmarks.competitors import FLOAT32, OURS, Models
from benchmarks.inputs import Rows, read_input
from benchmarks.scoring import Contest, Result, chosen, console
from bertcnn.bundle import Bundle, read_bundle
from bertcnn.errors import BertCNNError
from bertcnn.text import WordPieceTokenizer

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LENGTHS = (16, 32, 64, 128, 256, 512)
_FRAME = 2  # [CLS] and [SEP]


def texts_of_length(
    tokens: int, rows: int, sample: Sequence[str], tokenizer: WordPieceTokenizer
) -> tuple[str, ...]:
    """Different texts of exactly `tokens` tokens, [CLS] and [SEP] included.

    They are made of the sample's words in random order.
    """
    words = sorted({word for text in sample for word in text.split()})
    lengths = (tokenizer.encode(words).lengths - _FRAME).tolist()
    short = [word for word, length in zip(words, lengths, strict=True) if length == 1]
    if not short:
        raise SystemExit(
            "no word of the file is a single token: no texts of an exact length can be made of it"
        )
    known, chance = list(zip(words, lengths, strict=True)), random.Random(0)
    made: dict[str, None] = {}
    while len(made) < rows:
        text, missing = [], tokens - _FRAME
        while missing:
            word, length = chance.choice(known)
            if not 0 < length <= missing:
                word, length = chance.choice(short), 1
            text.append(word)
            missing -= length
        made[" ".join(text)] = None
    return tuple(made)


def measured(rows: Rows, models: Models, names: Sequence[str], rounds: int) -> dict[str, Result]:
    """Measure the competitors on these rows, in alternating rounds."""
    with tempfile.TemporaryDirectory() as scratch:
        contest = Contest(rows, models, Path(scratch))
        for _ in range(rounds):
            for name in names:
                print(f"  {len(rows.texts):,} rows, {name}: {contest.run(name)}", flush=True)
        return contest.results


def table_of(first: str, figures: dict[str, dict[str, Result]]) -> Table:
    """A row for each size or length: speed and memory of each competitor."""
    table = Table(box=box.MARKDOWN)
    table.add_column(first, justify="right")
    for name in next(iter(figures.values())):
        table.add_column(f"{name}, rows/s", justify="right")
        table.add_column(f"{name}, peak memory", justify="right")
    for key, results in figures.items():
        cells = [
            (
                [f"{result.speed:,.0f}", f"{result.peak / 1e6:,.0f} MB"]
                if result.speed
                else [escape(f"failed: {result.failure}"), ""]
            )
            for result in results.values()
        ]
        table.add_row(key, *(cell for pair in cells for cell in pair))
    return table


def by_length(
    options: argparse.Namespace, rows: Rows, models: Models, bundle: Bundle
) -> dict[str, dict[str, Result]]:
    """Results by tokens in a text, up to the model's limit.

    The total number of tokens is about the same at every length.
    """
    tokenizer, figures = WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer), {}
    for tokens in (length for length in LENGTHS if length <= bundle.config.tokenizer.max_tokens):
        texts = texts_of_length(tokens, max(1, options.tokens // tokens), rows.texts, tokenizer)
        print(f"texts of {tokens} tokens", flush=True)
        figures[f"{tokens}"] = measured(
            Rows(texts, None, ""), models, options.names, options.rounds
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--most",
        type=int,
        default=100_000,
        help=f"no more rows than this, of {', '.join(f'{size:,}' for size in SIZES)}",
    )
    parser.add_argument(
        "--tokens", type=int, default=65_536, help="in all texts of one length together"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--only", default=f"{OURS},{FLOAT32}", help="competitors of scoring.py, separated by commas"
    )
    options = parser.parse_args(arguments)
    options.names = chosen(options.only)
    try:
        bundle = read_bundle(options.model, weights=False)
        rows = read_input(options.data, bundle.config)
    except BertCNNError as error:
        raise SystemExit(str(error)) from None
    out, sizes = console(), [size for size in SIZES if size <= options.most] or [options.most]
    with tempfile.TemporaryDirectory() as scratch:
        models = Models(options.model, Path(scratch))
        grown = {
            f"{size:,}": measured(rows.repeated(size), models, options.names, options.rounds)
            for size in sizes
        }
        lengths = by_length(options, rows, models, bundle)
    out.print(table_of("rows", grown))
    out.print(table_of("tokens in a text", lengths))


if __name__ == "__main__":
    main()
