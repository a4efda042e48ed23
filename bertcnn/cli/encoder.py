"""`bertcnn encoder`: which pretrained encoders there are, and having them on hand."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

encoder_app = typer.Typer(help="Pretrained encoders: list them, fetch one, look at one.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name from `bertcnn encoder list`, keras_hub:NAME, or a folder.", show_default=False)]


@encoder_app.command("list")
def list_() -> None:
    """Show the encoders known by name."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from bertcnn.encoders.download import list_encoders

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("weights", justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("description")
    for info in list_encoders():
        table.add_row(
            info.name, f"{info.parameters / 1e6:.1f} M", info.licence or "unknown", "yes" if info.cached else "no", info.description
        )
    Console(highlight=False).print(table)


@encoder_app.command()
def pull(name: Name) -> None:
    """Fetch an encoder into the cache, so that training needs no network."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.encoders.download import fetch_encoder

    with show_progress() as progress:
        fetched = fetch_encoder(name, progress=progress)
    print(f"{fetched.name} is in {fetched.folder} (from {fetched.source})", file=sys.stderr)


@encoder_app.command()
def info(name: Name) -> None:
    """Show an encoder's shape, licence and where it comes from."""
    from bertcnn.encoders.download import encoder_info

    found = encoder_info(name)
    shape = found.encoder
    rows = {
        "name": found.name,
        "description": found.description,
        "weights": f"{found.parameters:,}",
        "layers": f"{shape.layers} of width {shape.width}, {shape.heads} heads, feed-forward {shape.feed_forward_width}",
        "vocabulary": f"{shape.vocabulary_size:,} pieces",
        "longest text": f"{shape.max_positions} tokens",
        "activation": shape.activation,
        "licence": found.licence or "unknown",
        "revision": found.revision or "not pinned",
        "sha256": found.sha256 or "as the source announces",
        "here": str(found.folder) if found.cached else "no: fetched when first used, or with `bertcnn encoder pull`",
    }
    for key, value in rows.items():
        print(f"{key:<13} {value}")
