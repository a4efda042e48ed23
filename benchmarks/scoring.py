"""Rows/s from CSV file to CSV file, compared with peers that have the same weights.

    python -m benchmarks.scoring MODEL test.csv [--rows N] [--rounds 3] [--only NAME,...] [--limit
    SECONDS]

Every competitor runs in its own process in every round. Imports, loading and one warm-up on 64 rows
are not counted; compiling for shapes that the warm-up did not have is. The peers get the tensors of
MODEL: ONNX Runtime computes our network including the head. The others have another head
(transformers and KerasHub a linear layer on [CLS], sentence-transformers one on the mean; our CNN
head is 4% more work). That head is not trained, so their rows show the speed but no accuracy. Peak
memory covers the whole process, including loading and libraries.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.competitors import COMPETITORS, OURS, Competitor, Models
from benchmarks.environment import CompetitorError
from benchmarks.inputs import Rows, accuracy, check_complete, read_input, write_rows
from bertcnn.bundle import read_config
from bertcnn.errors import BertCNNError

WARM_UP_ROWS = 64
_PIPE_WIDTH = 240  # columns; a line that is too long is better than a wrapped one


@dataclass
class Result:
    """One competitor's results so far.

    Attributes:
        speeds: rows/s of each round.
        peak: the highest peak memory of all rounds, bytes.
        accuracy: share of correct labels; None without labels, or if the network differs.
        computed_by: the software that computed the answers, by its own description.
        failure: why it failed.
    """

    speeds: list[float] = field(default_factory=list)
    peak: int = 0
    accuracy: float | None = None
    computed_by: str = ""
    failure: str = ""

    @property
    def speed(self) -> float | None:
        """Median rows/s."""
        return statistics.median(self.speeds) if self.speeds else None


class Contest:
    """The input file, and each competitor's results.

    Args:
        rows: the rows to score.
        models: the model in each competitor's format.
        scratch: a folder.
        limit: timeout of one run of one competitor, seconds.

    Attributes:
        results: by the competitor's name.
    """

    def __init__(
        self, rows: Rows, models: Models, scratch: Path, limit: float | None = None
    ) -> None:
        self._rows, self._models, self._limit = rows, models, limit
        self._target = scratch / "scored.csv"
        self._files = [
            write_rows(scratch / "warm-up.csv", rows.repeated(min(WARM_UP_ROWS, len(rows.texts)))),
            write_rows(scratch / "in.csv", rows),
            self._target,
        ]
        self.results: dict[str, Result] = {}

    def run(self, name: str) -> str:
        """Run one competitor, unless it has failed before; returns a line about the run."""
        competitor, result = COMPETITORS[name], self.results.setdefault(name, Result())
        if not result.failure:
            self._target.unlink(missing_ok=True)
            try:
                answer = competitor.run(self._models, self._files, self._limit)
                predicted = check_complete(self._target, self._rows)
            except (CompetitorError, BertCNNError, OSError, ValueError) as error:
                result.failure = str(error)
            else:
                result.speeds.append(len(self._rows.texts) / float(answer["seconds"]))
                result.peak = max(result.peak, int(answer["peak"]))
                result.computed_by = str(answer["name"])
                if competitor.same_network and self._rows.labels is not None:
                    result.accuracy = accuracy(self._rows, predicted)
        return (
            f"failed ({result.failure})" if result.failure else f"{result.speeds[-1]:,.0f} rows/s"
        )


def table_of(results: dict[str, Result], rounds: int) -> Table:
    """A row for each competitor: speed, ratio, memory, accuracy, or why there is none."""
    table = Table(box=box.MARKDOWN)
    table.add_column("competitor")
    for heading in (
        *(f"round {number + 1}" for number in range(rounds)),
        "median rows/s",
        "int8 is faster by",
        "peak memory",
    ):
        table.add_column(heading, justify="right")
    for heading in ("accuracy", "lost to float32"):
        table.add_column(heading, justify="right")
    table.add_column("computed by")
    for name, result in results.items():
        table.add_row(*_cells(name, result, results, rounds))
    return table


def _cells(name: str, result: Result, results: dict[str, Result], rounds: int) -> Iterable[str]:
    competitor, ours = COMPETITORS[name], results[OURS].speed if OURS in results else None
    yield competitor.title
    speeds = [f"{speed:,.0f}" for speed in result.speeds]
    yield from speeds + [""] * (rounds - len(speeds))
    yield f"{result.speed:,.0f}" if result.speed else ""
    yield f"{ours / result.speed:.2f}" if ours and result.speed else ""
    yield f"{result.peak / 1e6:,.0f} MB" if result.peak else ""
    yield f"{result.accuracy:.2%}" if result.accuracy is not None else ""
    yield _lost(competitor, result, results)
    yield escape(f"failed: {result.failure}" if result.failure else result.computed_by)


def _lost(competitor: Competitor, result: Result, results: dict[str, Result]) -> str:
    """Points of accuracy lost compared with float32 of the same network."""
    reference = results.get(competitor.float32 or "", Result()).accuracy
    return (
        f"{100 * (reference - result.accuracy):+.2f}"
        if reference is not None and result.accuracy is not None
        else ""
    )


def chosen(only: str | None) -> list[str]:
    """The competitors named, all by default.

    Raises:
        SystemExit: one is unknown.
    """
    names = [name.strip() for name in only.split(",")] if only else list(COMPETITORS)
    unknown = [name for name in names if name not in COMPETITORS]
    if unknown:
        raise SystemExit(
            f"unknown competitor {', '.join(unknown)}; there are {', '.join(COMPETITORS)}"
        )
    return names


def console() -> Console:
    """As wide as the terminal; in a pipe, with plain text, as wide as any table."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all rounds and print each run, then the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--rows",
        type=int,
        help=(
            "so many rows: fewer are spread over the file, more repeat it with a number in every"
            " text"
        ),
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=f"some of {', '.join(COMPETITORS)}, separated by commas")
    parser.add_argument(
        "--limit", type=float, help="seconds, loading included, for one run of one competitor"
    )
    parser.add_argument("--text", help="the text column or columns")
    parser.add_argument("--label", help="the label column")
    options = parser.parse_args(arguments)
    names, out = chosen(options.only), console()
    try:
        rows = read_input(options.data, read_config(options.model), options.text, options.label)
    except BertCNNError as error:
        raise SystemExit(str(error)) from None
    rows = rows.repeated(options.rows) if options.rows else rows
    print(
        f"{len(rows.texts):,} rows of {options.data} ({rows.columns}), model {options.model}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as scratch:
        contest = Contest(rows, Models(options.model, Path(scratch)), Path(scratch), options.limit)
        for number in range(options.rounds):
            for name in names:
                print(f"round {number + 1}, {name}: {contest.run(name)}", flush=True)
    out.print(table_of(contest.results, options.rounds))


if __name__ == "__main__":
    main()
