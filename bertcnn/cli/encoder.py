"""`bertcnn encoder` and `bertcnn fill-mask`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import answer, print_message, show
from bertcnn.cli.options import Force, Label, Text, argument, grouped, option

encoder_app = typer.Typer(
    help="List, fetch, show, export and compare pretrained encoders.", no_args_is_help=True
)

Name = Annotated[str, argument("Name from `bertcnn encoder list`, keras_hub:NAME, or a folder.")]


@encoder_app.command("list")
def list_() -> None:
    """List the published encoders that can be given by name."""
    from rich import box
    from rich.table import Table

    from bertcnn.cli.screen import Screen
    from bertcnn.encoders import list_encoders

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("weights", justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("cached", no_wrap=True)
    table.add_column("description")
    for info in list_encoders():
        table.add_row(
            info.name,
            f"{info.parameters / 1e6:.1f} M",
            info.licence or "unknown",
            "yes" if info.cached else "no",
            info.description,
        )
    Screen().print(table)


@encoder_app.command()
def pull(name: Name) -> None:
    """Download an encoder into the cache, so that training needs no network."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.encoders import fetch_encoder

    with show_progress() as progress:
        fetched = fetch_encoder(name, progress=progress)
    print_message(f"{fetched.name} is in {fetched.folder} (from {fetched.source})")


@encoder_app.command()
def info(name: Name) -> None:
    """Show an encoder's shape, licence and source."""
    from bertcnn.encoders import encoder_info

    encoder = encoder_info(name)
    shape = encoder.encoder
    rows = {
        "name": encoder.name,
        "description": encoder.description,
        "weights": f"{encoder.parameters:,}",
        "layers": (
            f"{shape.layers} of width {shape.width}, {shape.heads} heads, feed-forward"
            f" {shape.feed_forward_width}"
        ),
        "vocabulary": f"{shape.vocabulary_size:,} pieces",
        "longest text": f"{shape.max_positions} tokens",
        "activation": shape.activation,
        "licence": encoder.licence or "unknown",
        "revision": encoder.revision or "not pinned",
        "sha256": encoder.sha256 or "not pinned: the source's own is checked",
        "cached": (
            str(encoder.folder)
            if encoder.cached
            else "no: downloaded at first use, or with `bertcnn encoder pull`"
        ),
    }
    for key, value in rows.items():
        show(f"{key:<13} {value}")


@encoder_app.command()
def export(
    name: Name, to: Annotated[Path, option("Folder to write.", "--to")], force: Force = False
) -> None:
    """Write an encoder in the layout that transformers and sentence-transformers load."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.encoders import check_encoder_target, export_encoder

    check_encoder_target(to, force)
    with show_progress() as progress:
        report = export_encoder(name, to, overwrite=force, progress=progress)
    heads = " and ".join(
        {"pooler": "the pooler", "mlm": "the MLM head", "nsp": "the NSP head"}[head]
        for head in report.heads
    )
    print_message(f"Exported {to} ({report.name}, with {heads or 'no head'}).")
    if "mlm" not in report.heads:
        print_message("It has no MLM head: AutoModelForMaskedLM will initialise a new head.")


@dataclass(frozen=True, kw_only=True)
class ComparisonFlags:
    """The rows and seeds of a comparison, as `compare_encoders` names them."""

    test: Annotated[
        Path | None, option("Labelled file to test on.", default="three tenths of DATA")
    ] = None
    rows_per_label: Annotated[
        int | None, option("Training rows per label.", "--rows", default="all")
    ] = None
    seeds: Annotated[int, option("Classifiers trained from each encoder.")] = 5
    text: Text = None
    label: Label = None
    multi_label: Annotated[
        str, option("no: one label per cell, even with separators.", default="detected")
    ] = "auto"


@encoder_app.command()
@grouped
def compare(
    old: Name, new: Name, data: Annotated[Path, argument("Labelled file.")], flags: ComparisonFlags
) -> None:
    """Compare classifiers trained from two encoders, OLD and NEW.

    Several seeds are trained from each, to get a confidence interval.
    """
    from bertcnn.cli.pretrain import check_verdict, show_verdict
    from bertcnn.cli.startup import load_keras

    check_verdict(old, (data, flags.test), flags.seeds, option="--seeds")
    load_keras()
    show_verdict(data, old, new, **vars(flags))


def fill_mask(
    encoder: Name,
    text: Annotated[str, argument('Text with one or more [MASK]: "Rome is the [MASK] of Italy."')],
    best: Annotated[int, option("Guesses for each [MASK].")] = 5,
) -> None:
    """Predict the words behind [MASK].

    Output, separated by tabs: number of the gap, word, probability.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.cli.startup import load_keras

    load_keras()
    from bertcnn.pretraining import fill_mask as best_words

    with show_progress() as progress:
        gaps = best_words(encoder, text, best=best, progress=progress)
    for number, guesses in enumerate(gaps, 1):
        for guess in guesses:
            answer(str(number), guess.piece, f"{guess.probability:.4f}")
