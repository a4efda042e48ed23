"""`bertcnn summarise`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertcnn.cli.console import command_line, print_message
from bertcnn.cli.options import (
    Encoder,
    FileFlags,
    Force,
    JsonFile,
    OutFolder,
    Source,
    Summary,
    Target,
    argument,
    given,
    grouped,
    option,
)
from bertcnn.cli.startup import load_keras, local_model
from bertcnn.cli.tasks import TaskFlags, add_texts, check_files, show_figures, train_task

if TYPE_CHECKING:
    from bertcnn.progress import Progress
    from bertcnn.tasks.summaries import Summariser

summarise_app = typer.Typer(
    help="Write a line for each text, learned from texts with summaries.", no_args_is_help=True
)

SummariserModel = Annotated[str, argument("Folder or URL of a summariser.", metavar="MODEL")]
Pairs = Annotated[Path, argument("Table of texts and summaries.")]
TextColumn = Annotated[str, option("Column of texts.", "--text", metavar="COLUMN")]
SummaryColumn = Annotated[str, option("Column of summaries.", "--summary", metavar="COLUMN")]
Beam = Annotated[int, option("Summaries searched at once; 1: greedy.")]


@dataclass(frozen=True, kw_only=True)
class SummariserFlags:
    """Changes of `SummaryTrainingSettings`."""

    epochs: Annotated[int | None, option("Passes over the pairs.", default="25")] = None
    learning_rate: Annotated[float | None, option("Peak learning rate.", default="1e-3")] = None


@summarise_app.command("train")
@grouped
def train(
    pairs: Pairs,
    out: OutFolder,
    text: TextColumn = "ticket",
    summary: SummaryColumn = "summary",
    encoder: Encoder = "minilm-l6",
    max_tokens: Annotated[int | None, option("Most tokens of a text.", default="160")] = None,
    *,
    settings: SummariserFlags,
    flags: TaskFlags,
) -> None:
    """Train a summariser on texts with summaries.

    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.tasks.summaries import FOLDER, read_summaries

    FOLDER.check_target(out, flags.overwrite)
    corpus = read_summaries(pairs, text=text, summary=summary)

    def fit(_: Path, savepoints: Path, progress: Progress) -> Summariser:
        from bertcnn.tasks.summaries import Summariser

        return Summariser(
            encoder,
            model={} if max_tokens is None else {"source_tokens": max_tokens},
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            progress=progress,
        ).fit(corpus.sources, corpus.targets, savepoints=savepoints)

    figures = train_task(out, flags, fit).metrics_
    print_message(
        f"On {figures['validation_pairs']:,} validation pairs, which chose the epoch: ROUGE-L"
        f" {figures['validation_rouge_l']:.1%}, first sentence"
        f" {figures['validation_first_sentence']:.1%}."
    )
    print_message(f"Next: {command_line('summarise', 'evaluate', out, 'HELD_OUT')}")


@summarise_app.command("evaluate")
def evaluate(
    model: SummariserModel,
    pairs: Pairs,
    text: TextColumn = "ticket",
    summary: SummaryColumn = "summary",
    beam: Beam = 4,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Compare summaries with given ones, beside the first sentence of each text, by ROUGE-L."""
    from bertcnn.storage import check_file_target
    from bertcnn.tasks.summaries import FOLDER, read_summaries

    if json_file is not None:
        check_file_target(json_file, force, others=(pairs,), option="--json")
    examples = read_summaries(pairs, text=text, summary=summary, least=1)
    folder = local_model(model)
    FOLDER.read(folder)
    load_keras()
    from bertcnn.tasks.summaries import Summariser

    figures = Summariser.load(folder).evaluate(examples.sources, examples.targets, beam=beam)
    show_figures(figures, json_file, force)


@summarise_app.command("run")
@grouped
def run(
    model: SummariserModel,
    source: Source,
    target: Target,
    beam: Beam = 4,
    *,
    flags: FileFlags,
    as_json: Summary = False,
) -> None:
    """Summarise every text of a file: all columns, and a new one, `summary`.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    from bertcnn.tasks.summaries import FOLDER

    check_files(source, target, flags)
    folder = local_model(model)
    FOLDER.read(folder)
    load_keras()
    from bertcnn.tasks.summaries import summarise_csv

    summarised = partial(summarise_csv, folder, source, target, beam=beam)
    add_texts(summarised, target, flags, what="summary", as_json=as_json)
