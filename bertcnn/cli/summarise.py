"""`bertcnn summarise`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import check_json, command_line, print_message, show_figures
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
from bertcnn.cli.tasks import TaskFlags, add_answers, check_files, checked_model, task_training

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
    max_tokens: Annotated[int | None, option("Tokens of a text, at most.", default="160")] = None,
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

    with task_training(out, flags) as run:
        from bertcnn.tasks.summaries import Summariser

        run.model = Summariser(
            encoder,
            model=given(source_tokens=max_tokens),
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            progress=run.progress,
        ).fit(corpus.sources, corpus.targets, savepoints=run.savepoints)
    figures = run.model.metrics_
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
    """Compare summaries and first sentences with given summaries, by ROUGE-L."""
    from bertcnn.tasks.summaries import FOLDER, read_summaries

    check_json(json_file, force, pairs)
    examples = read_summaries(pairs, text=text, summary=summary, least=1)
    folder = checked_model(model, FOLDER)
    from bertcnn.tasks.summaries import Summariser

    figures = Summariser.load(folder).evaluate(examples.sources, examples.targets, beam=beam)
    show_figures(figures.lines, figures.to_json(), json_file, force)


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
    from bertcnn.tasks import summaries

    check_files(source, target, flags)
    folder = checked_model(model, summaries.FOLDER)
    summarised = partial(summaries.summarise_csv, folder, source, target, beam=beam)
    add_answers(summarised, target, flags, as_json, written="summary")
