"""Train on a new label set: copy this file, change what you need.

Reads a labelled file, shows its labels, keeps a part aside, trains, evaluates on the part kept
aside, saves the model, and scores a file without labels.

    python apps/train_new_labels.py tickets.csv --out runs/tickets --score inbox.csv
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bertcnn.bundle.bundle import check_bundle_target
from bertcnn.cli.evaluation import show_evaluation
from bertcnn.cli.progress import show_progress
from bertcnn.cli.startup import load_keras
from bertcnn.data.label_cells import read_label_column
from bertcnn.data.label_sets import LabelSet, rarest
from bertcnn.data.labels import check_labels
from bertcnn.data.splits import split_validation
from bertcnn.errors import BertCNNError
from bertcnn.storage.files import as_json, check_file_target, write_whole
from bertcnn.tables.columns import ColumnChoice, guess_columns, join_texts
from bertcnn.tables.slices import slice_columns
from bertcnn.tables.tables import column_position, read_table
from bertcnn.tables.writing import check_output
from bertcnn.text.cleaning import is_blank
from bertcnn.wording import count, duration

HELD_OUT = 0.2  # share of rows the model never sees, to evaluate on


def main(arguments: list[str] | None = None) -> None:
    """Run all steps, saying what each is doing."""
    options = parse(arguments)
    steps = Steps()
    model, figures_file, scored = (
        options.out / "model",
        options.out / "evaluation.json",
        options.out / "scored.csv",
    )
    check_bundle_target(model, options.force)
    options.out.mkdir(parents=True, exist_ok=True)
    check_file_target(figures_file, options.force)
    if options.score is not None:
        check_output(scored, options.force)

    steps.start("reading", f"reading {options.data}")
    data = read(options.data, options.text, options.label)

    steps.start("loading", "loading Keras and TensorFlow")
    load_keras()
    from bertcnn import BertCNNClassifier, load, score_csv
    from bertcnn.classifier import Columns
    from bertcnn.evaluation.metrics import evaluate, evaluate_sets
    from bertcnn.reports.reporting import Provenance, sha256_of

    steps.start("training", f"training, with {HELD_OUT:.0%} of the rows kept aside")
    kept, held_out = split_validation(data.texts, data.rarest, HELD_OUT)
    with show_progress() as progress:
        given = {
            "epochs": options.epochs,
            "max_tokens": options.max_tokens,
            "time_budget": options.time_budget,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        classifier = BertCNNClassifier(
            options.encoder,
            recipe=options.recipe,
            seed=options.seed,
            training=changes,
            progress=progress,
        )
        origin = Provenance(
            command=shlex.join(["python", *sys.argv]),
            file=options.data.name,
            sha256=sha256_of(options.data),
            slices={name: [values[row] for row in kept] for name, values in data.slices.items()},
        )
        classifier.fit(
            [data.texts[row] for row in kept],
            [data.labels[row] for row in kept],
            unlabelled=data.unlabelled,
            columns=Columns(data.columns.text, data.columns.label, data.separator),
            origin=origin,
        )
    classifier.save(model, overwrite=options.force)

    steps.start("evaluating", f"evaluating on the {len(held_out)} rows kept aside")
    predictor = load(model)
    compare, predicted = (
        evaluate if data.separator is None else evaluate_sets,
        predictor.predict([data.texts[row] for row in held_out]),
    )
    figures = compare(predictor.labels, [data.labels[row] for row in held_out], list(predicted))
    show_evaluation(figures)
    write_whole(figures_file, as_json(figures.to_json()), overwrite=True)

    if options.score is not None:
        steps.start("scoring", f"scoring {options.score}")
        with show_progress() as progress:
            report = score_csv(
                predictor,
                options.score,
                scored,
                probabilities=True,
                overwrite=options.force,
                restart=True,
                progress=progress,
            )
        print(
            f"  {report.rows} rows: "
            + ", ".join(f"{name} {rows}" for name, rows in report.labels.items()),
            flush=True,
        )
        print(
            "  decisions: "
            + ", ".join(f"{name} {rows}" for name, rows in report.decisions.items()),
            flush=True,
        )

    print(f"\n{steps.summary()}\n  model              {model}  (card: {model / 'MODEL_CARD.md'})")
    print(f"  report             {model / 'report.html'}\n  figures            {figures_file}")
    if options.score is not None:
        print(f"  scored file        {scored}")
    program = Path(sys.executable).parent / "bertcnn"
    shown = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program
    print(f'\nNext:  {shown} classify {model} "My router\'s led is not working"')


@dataclass(frozen=True)
class Data:
    """The rows of a file that have a text and a label.

    Attributes:
        texts: one a row.
        labels: one a row, or where rows may have several, all of each.
        rarest: of each row's labels.
        separator: what stands between several labels; None where each row has one.
        unlabelled: texts of the rows that have no label yet.
        columns: where they came from.
        slices: what the report tells apart, such as channel or month.
    """

    texts: list[str]
    labels: list[str] | list[LabelSet]
    rarest: list[str]
    separator: str | None
    unlabelled: list[str]
    columns: ColumnChoice
    slices: dict[str, list[str]]


def read(data: Path, text: str | None, label: str | None) -> Data:
    """The rows of a file, and a look at them."""
    table = read_table(data)
    columns = guess_columns(table, text=text, label=label)
    print(f"  text: {columns.reasons['text']}\n  label: {columns.reasons['label']}", flush=True)
    places = [column_position(name, table.columns) for name in columns.text]
    texts, labels = (
        [join_texts(row[place] for place in places) for row in table.rows],
        table.column(str(columns.label)),
    )
    written = [row for row in range(len(table)) if not is_blank(texts[row])]
    usable, unlabelled = (
        [row for row in written if not is_blank(labels[row])],
        [texts[row] for row in written if is_blank(labels[row])],
    )
    texts, labels = [texts[row] for row in usable], [labels[row] for row in usable]
    slices = {
        name: [values[row] for row in usable]
        for name, values in slice_columns(table, columns).items()
    }
    left_out = table.rejected + len(table) - len(written)
    if left_out:
        print(
            f"  {count(left_out, 'row')} left out: {table.rejected} could not be read, the others"
            " have no text",
            flush=True,
        )
    column = read_label_column(labels)
    for remark in column.remarks:
        print(f"  {remark}", flush=True)
    sets, separator = column.sets, column.separator
    found = Counter(name for names in sets for name in names)
    check_labels(list(found.elements()))
    counts = ", ".join(f"{name} {rows}" for name, rows in found.most_common(10))
    several = (
        ""
        if separator is None
        else f", {sum(len(names) > 1 for names in sets)} with several labels"
    )
    print(f"  {len(labels)} rows{several}, {len(found)} labels: {counts}", flush=True)
    return Data(
        texts,
        column.single if separator is None else sets,
        rarest(sets),
        separator,
        unlabelled,
        columns,
        slices,
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train, evaluate and score on a new label set.")
    parser.add_argument("data", type=Path, help="labelled file")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for the model, the figures and the scored file",
    )
    parser.add_argument("--score", type=Path, help="file without labels to classify")
    parser.add_argument(
        "--text", help="text column, or several with commas between (guessed by default)"
    )
    parser.add_argument("--label", help="label column (guessed by default)")
    parser.add_argument("--encoder", default="minilm-l6", help="published encoder or folder")
    parser.add_argument("--recipe", default="auto", choices=("auto", "few-shot", "frozen", "full"))
    parser.add_argument(
        "--epochs",
        type=int,
        help=(
            "passes over the rows, at most; where auto takes frozen, that recipe's own (by recipe)"
        ),
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        help="longest input; of a longer text a quarter is its start, the rest its end (512)",
    )
    parser.add_argument(
        "--time-budget",
        type=float,
        help="minutes; the recipe auto measures this machine and keeps within them",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--force", action="store_true", help="replace what is in the folder")
    return parser.parse_args(arguments)


class Steps:
    """Announces each step, and knows how long each took."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._times: list[float] = []

    def start(self, name: str, what: str) -> None:
        """End the step before, if any, and begin this one."""
        self._names.append(name)
        self._times.append(time.perf_counter())
        print(f"\n== {len(self._names)}. {what}", flush=True)

    def summary(self) -> str:
        """One line: how long all of it took, and each step."""
        times = [*self._times, time.perf_counter()]
        each = ", ".join(
            f"{name} {duration(end - start)}"
            for name, start, end in zip(self._names, times[:-1], times[1:], strict=True)
        )
        return f"Done in {duration(times[-1] - times[0])}: {each}."


if __name__ == "__main__":
    try:
        main()
    except BertCNNError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; nothing was half-written")
