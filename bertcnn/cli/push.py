"""`bertcnn push` and `bertcnn pull`: models by URL."""

from __future__ import annotations

from typing import Annotated

from bertcnn.cli.console import command_line, print_message
from bertcnn.cli.options import AnyModel, argument, option
from bertcnn.cli.startup import local_model


def push(
    model: AnyModel,
    url: Annotated[
        str,
        argument(
            "s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, hf://ORG/NAME or file:///FOLDER.",
            metavar="URL",
        ),
    ],
    force: Annotated[bool, option("Replace another model there.", "--force")] = False,
) -> None:
    """Copy a model to a URL, where every command can use it.

    Every file is compared with the model's manifest first.
    Readers see the old or the new model.
    After Ctrl-C or a kill, run the same command again.
    """
    from bertcnn.bundle import push_model
    from bertcnn.cli.progress import amount, show_progress

    with show_progress() as progress:
        done = push_model(model, url, overwrite=force, progress=progress)
    if not done.pushed:
        print_message(f"Model {done.bundle_id[:12]} is at {done.url} already.")
        return
    print_message(
        f"Pushed model {done.bundle_id[:12]} to {done.url} ({amount(done.size, 'bytes')})."
    )
    print_message(f"Next: {command_line('classify', url, 'TEXT')}")


def pull(model: AnyModel) -> None:
    """Fetch a model from a URL and print its folder.

    Other commands do this too; a later one finds the model in the cache.
    A model in a folder is compared with its manifest.
    """
    from bertcnn.bundle import verified

    folder = local_model(model)
    verified(folder)
    print(folder, flush=True)
