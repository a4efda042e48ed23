"""Train on a new label set: copy this file, change what you need.

Reads a labelled file, shows its labels, holds out a part, trains, evaluates on the held-out part,
saves the model, and scores a file without labels.

    python apps/train_new_labels.py tickets.csv --out runs/tickets --score inbox.csv
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import bertcnn

HELD_OUT = 0.2  # share of rows held out for the evaluation


def main(arguments: list[str] | None = None) -> None:
    """Run all steps, announcing each."""
    options, steps = parse(arguments), Steps()
    model, figures_file = options.out / "model", options.out / "evaluation.json"
    scored = options.out / "scored.csv" if options.score else None
    for path in filter(None, (model, figures_file, scored)):
        if path.exists() and not options.force:
            raise bertcnn.BertCNNError(
                f"{str(path)!r} exists",
                expected="a name that is free",
                fix="choose another folder, or overwrite with --force",
            )

    steps.start("reading", f"reading {options.data}")
    with bertcnn.show_progress() as progress:
        data = bertcnn.read_labelled(
            options.data, text=options.text, label=options.label, progress=progress
        )
    print(f"  {describe(data)}", flush=True)
    kept, held_out = data.split(HELD_OUT)

    steps.start("loading", "loading Keras and TensorFlow")
    bertcnn.load_keras()

    steps.start("training", f"training, with {HELD_OUT:.0%} of the rows kept aside")
    train(options, kept, model)

    steps.start("evaluating", f"evaluating on the {len(held_out)} rows kept aside")
    predictor = bertcnn.load(model)
    figures = bertcnn.evaluate_csv(predictor, held_out)
    bertcnn.show_evaluation(figures)
    content = json.dumps(figures.to_json(), indent=1, ensure_ascii=False) + "\n"
    figures_file.write_bytes(content.encode("utf-8", "backslashreplace"))

    if scored is not None:
        steps.start("scoring", f"scoring {options.score}")
        with bertcnn.show_progress() as progress:
            report = bertcnn.score_csv(
                predictor,
                options.score,
                scored,
                probabilities=True,
                overwrite=options.force,
                restart=True,
                progress=progress,
            )
        print(f"  {report.rows} rows: {amounts(report.labels)}", flush=True)
        print(f"  decisions: {amounts(report.decisions)}", flush=True)

    print(f"\n{steps.summary()}\n  model              {model}  (card: {model / 'MODEL_CARD.md'})")
    print(f"  report             {model / 'report.html'}\n  figures            {figures_file}")
    if scored is not None:
        print(f"  scored file        {scored}")
    program = Path(sys.executable).parent / "bertcnn"
    shown = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program
    print(f'\nNext:  {shown} classify {model} "My router\'s led is not working"')


def train(options: argparse.Namespace, rows: bertcnn.LabelledTable, model: Path) -> None:
    """Train on these rows; see docs/reference/settings.md for further settings."""
    settings = {
        name: getattr(options, name) for name in ("epochs", "max_tokens", "time_budget", "folds")
    }
    with bertcnn.show_progress() as progress:
        classifier = bertcnn.BertCNNClassifier(
            options.encoder,
            recipe=options.recipe,
            seed=options.seed,
            training={name: value for name, value in settings.items() if value is not None},
            progress=progress,
        )
        command = shlex.join(["python", *sys.argv])
        bertcnn.train_csv(rows, model, classifier, overwrite=options.force, command=command)


def describe(data: bertcnn.LabelledTable) -> str:
    """The number of rows and the labels."""
    rows = [names for text, names in zip(data.texts, data.sets, strict=True) if text and names]
    labels = Counter(name for names in rows for name in names)
    several = sum(len(names) > 1 for names in rows)
    message = f"{len(rows)} rows" + (f", {several} with several labels" if data.separator else "")
    return f"{message}, {len(labels)} labels: {amounts(dict(labels.most_common(10)))}"


def amounts(counts: Mapping[str, int]) -> str:
    """Each name with its number."""
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line."""
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
    parser.add_argument(
        "--folds",
        type=int,
        help="trainings without a part of the rows each, so that all rows set the thresholds",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--force", action="store_true", help="replace what is in the folder")
    return parser.parse_args(arguments)


class Steps:
    """Announces each step and measures its duration."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._times: list[float] = []

    def start(self, name: str, what: str) -> None:
        """Start a step, and end the previous one."""
        self._names.append(name)
        self._times.append(time.perf_counter())
        print(f"\n== {len(self._names)}. {what}", flush=True)

    def summary(self) -> str:
        """The total duration and each step's, in one line."""
        times = [*self._times, time.perf_counter()]
        each = ", ".join(
            f"{name} {duration(end - start)}"
            for name, start, end in zip(self._names, times[:-1], times[1:], strict=True)
        )
        return f"Done in {duration(times[-1] - times[0])}: {each}."


def duration(seconds: float) -> str:
    """Seconds as text."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    try:
        main()
    except bertcnn.BertCNNError as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; nothing was half-written")
