"""`bertcnn tokens`: token labels."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import answer, check_json, command_line, print_message, show, show_figures
from bertcnn.cli.options import (
    Encoder,
    FileFlags,
    Force,
    JsonFile,
    OutFolder,
    Source,
    Summary,
    Target,
    TaskModel,
    Texts,
    argument,
    given,
    grouped,
    option,
)
from bertcnn.cli.startup import local_model, skip_converter
from bertcnn.cli.tasks import TaskFlags, add_answers, check_files, task_training
from bertcnn.cli.texts import TextsCommand, given_texts

tokens_app = typer.Typer(
    help="Find names, order numbers, dates and other spans in texts.", no_args_is_help=True
)

_FORMS = "Texts with spans: .jsonl, .csv (text, spans) or .conll (a word and its tag in each line)."


@dataclass(frozen=True, kw_only=True)
class LabellerFlags:
    """Changes of the training's settings."""

    epochs: Annotated[int | None, option("Passes over the texts.", default="10")] = None
    learning_rate: Annotated[float | None, option("Peak learning rate.", default="2e-4")] = None


@tokens_app.command("train")
@grouped
def train(
    data: Annotated[Path, argument(_FORMS)],
    out: OutFolder,
    valid: Annotated[
        Path | None, option("Held-out texts; by default a share of the texts.")
    ] = None,
    encoder: Encoder = "minilm-l6",
    max_tokens: Annotated[
        int | None, option("Tokens of a window of a text.", default="256")
    ] = None,
    *,
    settings: LabellerFlags,
    flags: TaskFlags,
) -> None:
    """Fine-tune an encoder on texts with labelled spans.

    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.tables import rejects_of
    from bertcnn.tasks.token_labels import FOLDER, SpanFigures

    FOLDER.check_target(out, flags.overwrite)

    stride = None if max_tokens is None else max(1, max_tokens // 2)
    with task_training(out, flags) as run:
        from bertcnn.tasks.token_labels import train_token_labels

        run.model = train_token_labels(
            data,
            valid=valid,
            encoder=encoder,
            windows=given(max_tokens=max_tokens, stride=stride),
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            rejects=rejects_of(run.folder),
            savepoints=run.savepoints,
            progress=run.progress,
        )
    print_message("Validation texts:")
    for line in SpanFigures.from_json(run.model.metrics_).lines:
        print_message(line)
    print_message(f"Next: {command_line('tokens', 'mark', out, 'TEXT')}")


@tokens_app.command("evaluate")
def evaluate(
    model: TaskModel,
    data: Annotated[Path, argument(_FORMS)],
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Precision, recall and F1 of exact spans, by label and over all."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.tasks.token_labels import read_labelled_texts

    check_json(json_file, force, data)
    with show_progress() as progress:
        texts, folder = read_labelled_texts(data, progress=progress), local_model(model)
    skip_converter()
    from bertcnn.tasks.token_labels import load_token_labeller

    figures = load_token_labeller(folder).evaluate(texts)
    show_figures(figures.lines, figures.to_json(), json_file, force)


@tokens_app.command("extract")
@grouped
def extract(
    model: TaskModel, source: Source, target: Target, flags: FileFlags, as_json: Summary = False
) -> None:
    """Add the column `spans`, a JSON list, to a file of texts.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    check_files(source, target, flags)
    skip_converter()
    from bertcnn.tasks.token_labels import extract_spans

    extracted = partial(extract_spans, model, source, target)
    add_answers(extracted, target, flags, as_json, counted="spans")


@tokens_app.command("mark", cls=TextsCommand)
def mark(
    model: TaskModel,
    texts: Texts = None,
    as_json: Annotated[bool, option("Show a JSON list of spans for each text.", "--json")] = False,
) -> None:
    """Find the spans of single texts.

    Output, separated by tabs: label, the words of the span, its start and end, its probability.
    """
    skip_converter()
    from bertcnn.tasks.token_labels import load_token_labeller

    labeller = load_token_labeller(local_model(model))
    for line in given_texts(texts):
        (spans,) = labeller.spans([line])
        if as_json:
            show(json.dumps([asdict(span) for span in spans], ensure_ascii=False))
            continue
        for span in spans:
            words = " ".join(line[span.start : span.end].split())
            answer(span.label, words, f"{span.start}:{span.end}", f"{span.probability:.4f}")
