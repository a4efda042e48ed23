"""`bertcnn tokens`: token labels."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import answer, command_line, print_message, show, summary
from bertcnn.cli.devices import Devices, Distributed, start_training
from bertcnn.cli.local_model import local_model
from bertcnn.cli.options import (
    AllowRejects,
    Force,
    Precision,
    Raw,
    Restart,
    Source,
    Summary,
    Target,
    Text,
    given,
)
from bertcnn.cli.resumable import answers_are_kept, savepoints_beside, show_unread
from bertcnn.cli.startup import skip_converter
from bertcnn.cli.texts import TextsCommand, given_texts
from bertcnn.wording import count, duration

tokens_app = typer.Typer(
    help="Find names, order numbers, dates and other spans in texts.", no_args_is_help=True
)

Labeller = Annotated[
    str, typer.Argument(metavar="MODEL", help="Folder or URL of a model.", show_default=False)
]
_FORMS = "Texts with spans: .jsonl, .csv (text, spans) or .conll (a word and its tag in each line)."


@tokens_app.command("train")
def train(
    data: Annotated[Path, typer.Argument(help=_FORMS, show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to save the model in.", show_default=False)],
    valid: Annotated[
        Path | None,
        typer.Option(help="Held-out texts; by default a share of the texts.", show_default=False),
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="Published encoder to start from, or a folder.")
    ] = "minilm-l6",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the texts.", show_default="10")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate.", show_default="2e-4")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a window of a text.", show_default="256")
    ] = None,
    precision: Precision = None,
    devices: Devices = None,
    distributed: Distributed = False,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    force: Force = False,
    as_json: Summary = False,
) -> None:
    """Fine-tune an encoder on texts with labelled spans.

    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import rejects_of
    from bertcnn.tasks.token_labels import FOLDER, SpanFigures

    FOLDER.check_target(out, force)
    output_folder = start_training(out, devices, distributed)
    from bertcnn.tasks.token_labels import train_token_labels

    started = time.perf_counter()
    with show_progress() as progress, savepoints_beside(output_folder) as savepoints:
        labeller = train_token_labels(
            data,
            valid=valid,
            encoder=encoder,
            windows={}
            if max_tokens is None
            else {"max_tokens": max_tokens, "stride": max(1, max_tokens // 2)},
            training=given(epochs=epochs, learning_rate=learning_rate, precision=precision),
            seed=seed,
            rejects=rejects_of(output_folder),
            savepoints=savepoints,
            progress=progress,
        )
        identity = labeller.save(output_folder, overwrite=force)
    if as_json:
        summary({"model": identity, **labeller.metrics_})
    print_message(
        f"Saved {out} (model {identity[:12]}) after {duration(time.perf_counter() - started)}."
        " Validation texts:"
    )
    for line in SpanFigures.from_json(labeller.metrics_).lines:
        print_message(line)
    print_message(f"Next: {command_line('tokens', 'mark', out, 'TEXT')}")


@tokens_app.command("evaluate")
def evaluate(
    model: Labeller,
    data: Annotated[Path, typer.Argument(help=_FORMS, show_default=False)],
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the figures to this file.", show_default=False),
    ] = None,
    force: Force = False,
) -> None:
    """Precision, recall and F1 of exact spans, by label and over all."""
    from bertcnn.storage import as_json, check_file_target, write_whole
    from bertcnn.tasks.token_labels import read_labelled_texts

    if json_file is not None:
        check_file_target(json_file, force, others=(data,), option="--json")
    from bertcnn.cli.progress import show_progress

    with show_progress() as progress:
        texts, folder = read_labelled_texts(data, progress=progress), local_model(model)
    skip_converter()
    from bertcnn.tasks.token_labels import load_token_labeller

    figures = load_token_labeller(folder).evaluate(texts)
    for line in figures.lines:
        show(line)
    if json_file is not None:
        write_whole(json_file, as_json(figures.to_json()), overwrite=force)


@tokens_app.command("extract")
def extract(
    model: Labeller,
    source: Source,
    target: Target,
    text: Text = None,
    raw: Raw = False,
    force: Force = False,
    restart: Restart = False,
    allow_rejects: AllowRejects = False,
    as_json: Summary = False,
) -> None:
    """Add the column `spans`, a JSON list, to a file of texts.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input, check_output

    check_output(target, force)
    check_input(source)
    skip_converter()
    from bertcnn.tasks.token_labels import extract_spans

    with answers_are_kept(restart), show_progress() as progress:
        report = extract_spans(
            model,
            source,
            target,
            text=text,
            raw=raw,
            overwrite=force,
            restart=restart,
            allow_rejects=allow_rejects,
            progress=progress,
        )
    if as_json:
        summary(report)
    spans = ", ".join(f"{label} {number:,}" for label, number in report.answered.items())
    print_message(
        f"Wrote {target}: {count(report.rows, 'row')} in {duration(report.seconds)}"
        f" (spans: {spans})."
    )
    show_unread(report)


@tokens_app.command("mark", cls=TextsCommand)
def mark(
    model: Labeller,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Texts; by default the lines of standard input."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Show a JSON list of spans for each text.")
    ] = False,
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
