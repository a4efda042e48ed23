"""`bertcnn`: the commands; each calls a public function."""

from __future__ import annotations

import copy
import errno
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.check import check
from bertcnn.cli.classify import classify
from bertcnn.cli.console import print_message
from bertcnn.cli.distill import distill
from bertcnn.cli.encoder import encoder_app, fill_mask
from bertcnn.cli.evaluate import evaluate
from bertcnn.cli.export import export
from bertcnn.cli.interrupts import (
    INTERRUPTED,
    RUN_AGAIN,
    WRONG_INPUT,
    AlreadyReported,
    interrupted,
    show_interrupted,
)
from bertcnn.cli.jobs import jobs_app
from bertcnn.cli.language_model import lm_app
from bertcnn.cli.memory import is_out_of_memory, out_of_memory
from bertcnn.cli.models import models_app
from bertcnn.cli.options import option
from bertcnn.cli.pretrain import pretrain
from bertcnn.cli.push import pull, push
from bertcnn.cli.qa import qa_app
from bertcnn.cli.recalibrate import recalibrate
from bertcnn.cli.retrain import retrain
from bertcnn.cli.review import review_app
from bertcnn.cli.score import RayCommand, score
from bertcnn.cli.serve import serve
from bertcnn.cli.summarise import summarise_app
from bertcnn.cli.texts import Commands, TextsCommand
from bertcnn.cli.tokens import tokens_app
from bertcnn.cli.train import train
from bertcnn.cli.translate import translate_app
from bertcnn.cli.tune import tune
from bertcnn.errors import BertCNNError, OutputError, explain_missing_packages
from bertcnn.storage import DISK_FULL, MORE_ROOM, output_error


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"bertcnn {version('bertcnn')}")
        raise typer.Exit


app = typer.Typer(
    name="bertcnn",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with: bertcnn train tickets.csv --out models/triage",
)


@app.callback()
def bertcnn(
    version: Annotated[
        bool,
        option("Show the version and exit.", "--version", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """From a CSV of labelled tickets to a text classifier a support team can trust."""


app.add_typer(encoder_app, name="encoder")
app.add_typer(jobs_app, name="jobs")
app.add_typer(lm_app, name="lm")
app.add_typer(qa_app, name="qa")
app.add_typer(summarise_app, name="summarise")
app.add_typer(tokens_app, name="tokens")
app.add_typer(translate_app, name="translate")
app.add_typer(review_app, name="review")
app.add_typer(models_app, name="models")
app.command()(train)
app.command()(evaluate)
app.command(cls=TextsCommand)(classify)
app.command(cls=RayCommand)(score)
app.command()(serve)
app.command()(recalibrate)
app.command()(retrain)
app.command()(distill)
app.command()(check)
app.command()(export)
app.command()(push)
app.command()(pull)
app.command()(pretrain)
app.command()(tune)
app.command("fill-mask", cls=TextsCommand)(fill_mask)


def _app_for(arguments: list[str]) -> typer.Typer:
    """The app with only the requested command (building all takes 0.05 s), or with all."""
    name = arguments[0] if arguments else None
    commands = [
        command
        for command in app.registered_commands
        if name == (command.name or getattr(command.callback, "__name__", None))
    ]
    groups = [group for group in app.registered_groups if group.name == name]
    if name is None or not (commands or groups):
        return app
    smaller = copy.copy(app)
    smaller.registered_commands, smaller.registered_groups = commands, groups
    return smaller


def main() -> None:
    """Run a command.

    Errors that a user can act on are printed in one line. Exit codes: 0 for success; 2 for wrong
    input; 75 if the same command can resume, for example after a full disk or SIGTERM; 130 after
    Ctrl-C.
    """
    try:
        with explain_missing_packages():
            try:
                # the script file may have another name
                _app_for(sys.argv[1:])(prog_name="bertcnn")
            finally:
                sys.stdout.flush()
    except BertCNNError as error:
        lacks_memory = isinstance(
            error.__context__, RuntimeError | MemoryError
        ) and is_out_of_memory(error.__context__)
        print_message(f"bertcnn: {out_of_memory() if lacks_memory else error}", error=True)
        sys.exit(RUN_AGAIN if error.passes else WRONG_INPUT)
    except AlreadyReported:
        sys.exit(interrupted())
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        sys.exit(show_interrupted())
    except (MemoryError, ImportError, OSError, RuntimeError, SystemError, ValueError) as error:
        message = _lack_of_room(error)
        if message is None:
            raise
        print_message(f"bertcnn: {message}")
        sys.exit(RUN_AGAIN if message.passes else WRONG_INPUT)


def _lack_of_room(error: BaseException) -> BertCNNError | None:
    """The message for a lack of memory or disk space, or a too long file name; else None."""
    if is_out_of_memory(error):
        return out_of_memory()
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG and error.filename:
        return output_error(Path(os.fsdecode(error.filename)), error)
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        where = f" ({error.filename})" if error.filename else ""
        return OutputError(
            f"no space left on a disk{where}",
            expected="room for what is written",
            fix=MORE_ROOM,
            passes=True,
        )
    return None


if __name__ == "__main__":
    main()
