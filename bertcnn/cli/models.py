"""`bertcnn models`: which model serves, and who decided that."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import command_line, print_message, show
from bertcnn.cli.options import Model, argument, option
from bertcnn.cli.review import Name, Store, opened, person
from bertcnn.cli.startup import local_model

models_app = typer.Typer(
    help="Compare models, promote one, or go back to the one before.", no_args_is_help=True
)

Identity = Annotated[str, argument("Id, or its beginning.", metavar="MODEL")]
Reason = Annotated[str, option("Why, in words.")]


@models_app.command("add")
def add(model: Model, store: Store, name: Name = None) -> None:
    """Add a model to a store, creating the store if needed; the first model serves."""
    from bertcnn.bundle import read_bundle
    from bertcnn.review import add_model, open_review, serving_model

    folder = local_model(model)
    read_bundle(folder)  # before the store is created
    opened_store = open_review(store)
    added = add_model(opened_store, folder, person(name))
    serving = serving_model(opened_store)
    serves = serving is not None and serving.id == added.id
    print_message(
        f"Model {added.id[:12]} is in {opened_store.name}{' and serves' if serves else ''}."
    )


@models_app.command("list")
def listed(store: Store) -> None:
    """All models, and what happened to each."""
    from bertcnn.review import list_models, model_history, serving_model

    opened_store = opened(store)
    serving = serving_model(opened_store)
    for one in list_models(opened_store):
        serves = "serves" if serving is not None and one.id == serving.id else ""
        show(f"{one.id[:12]} {serves:6} {len(one.labels)} labels {one.folder}")
        for what in model_history(opened_store, one.id):
            moment = datetime.fromtimestamp(what.at, UTC).isoformat(" ", "seconds")
            said = what.reason or what.figures.get("verdict", "")
            show(f"  {moment} {what.kind} by {what.actor}{': ' if said else ''}{said}")


@models_app.command("compare")
def compare(
    store: Store,
    model: Identity,
    learned: Annotated[
        Path | None, option("Training file of the serving model; its texts do not count.")
    ] = None,
    name: Name = None,
) -> None:
    """Compare a model with the serving one on rows that neither has learned."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.review import compare_models, find_model, hashes_of

    opened_store = opened(store)
    with show_progress() as progress:
        learned_hashes = hashes_of(opened_store, learned, progress=progress) if learned else ()
        comparison = compare_models(
            opened_store,
            find_model(opened_store, model).id,
            person(name),
            learned=learned_hashes,
            progress=progress,
        )
    for line in comparison.lines():
        show(line)


@models_app.command("promote")
def promoted(store: Store, model: Identity, reason: Reason = "", name: Name = None) -> None:
    """Let a model serve that was compared with the serving one."""
    from bertcnn.review import promote

    chosen = promote(opened(store), model, person(name), reason=reason)
    print_message(f"Model {chosen.id[:12]} serves now.")
    print_message(f"Next: {command_line('review', 'answer', '--store', store)}")


@models_app.command("rollback")
def rollback(store: Store, reason: Reason = "", name: Name = None) -> None:
    """Let the model serve again that served before."""
    from bertcnn.review import roll_back

    chosen = roll_back(opened(store), person(name), reason=reason)
    print_message(f"Model {chosen.id[:12]} serves again.")
