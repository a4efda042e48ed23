"""`bertcnn score`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bertcnn.cli.console import print_message, summary
from bertcnn.cli.interrupts import WRONG_INPUT
from bertcnn.cli.options import (
    AutoPrecision,
    Engine,
    FileFlags,
    Model,
    Summary,
    argument,
    grouped,
    option,
)
from bertcnn.cli.resumable import answers_are_kept, show_figures, show_unread
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.errors import SettingsError, one_line
from bertcnn.wording import count

if TYPE_CHECKING:
    from bertcnn.scoring import FolderReport, ScoringReport

LOCAL = "local"  # as in `bertcnn.scoring.ray_connection`, which imports Ray

_OPTION = "--ray"
_ADDRESS = re.compile(r"local|auto|[^\s/\\]+:\d+")  # never matches a path or an option

Ray = Annotated[
    str | None,
    option(
        "Use a Ray cluster: auto or HOST:PORT; without it, start Ray here.",
        _OPTION,
        metavar="[ADDRESS]",
    ),
]


class RayCommand(TyperCommand):
    """A command with the option `--ray [ADDRESS]`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's Context
        """Insert the default address if none follows `--ray`."""
        end = args.index("--") if "--" in args else len(args)
        for index in range(end - 1, -1, -1):
            following = args[index + 1] if index + 1 < end else ""
            if args[index] == _OPTION and not _ADDRESS.fullmatch(following):
                args = [*args[:index], f"{_OPTION}={LOCAL}", *args[index + 1 :]]
        return super().parse_args(ctx, args)


@dataclass(frozen=True, kw_only=True)
class ScoringFlags(FileFlags):
    """How texts are classified, as well: `ScoringOptions`."""

    probabilities: Annotated[
        bool, option("Also write a p_LABEL column for every label.", "--probabilities")
    ] = False
    reasons: Annotated[bool, option("Also write why each decision is what it is.", "--reasons")] = (
        False
    )
    auto_precision: AutoPrecision = None
    engine: Engine = "auto"
    cluster: Ray = None


@dataclass(frozen=True, kw_only=True)
class DatabaseFlags:
    """The texts and the table of answers, as `score_table` names them."""

    query: Annotated[
        str | None,
        option("SELECT that returns the texts (databases only).", "--query", metavar="SQL"),
    ] = None
    into: Annotated[
        str | None,
        option("Table that gets the answers (databases only).", "--into", metavar="TABLE"),
    ] = None
    id: Annotated[
        str | None,
        option(
            "Column of ids in the query (databases only).", "--id", default="id", metavar="COLUMN"
        ),
    ] = None


@grouped
def score(
    model: Model,
    source: Annotated[
        str,
        argument(
            "File of texts: .csv .tsv .jsonl .json (.gz) .parquet .xlsx; or a folder, or a"
            " database.",
            metavar="IN",
        ),
    ],
    target: Annotated[
        Path | None,
        argument("File to write; its extension gives the format. Or a folder.", metavar="OUT"),
    ] = None,
    shard: Annotated[str | None, option("Score only this part of a folder.", metavar="I/N")] = None,
    *,
    flags: ScoringFlags,
    database: DatabaseFlags,
    as_json: Summary = False,
) -> None:
    """Classify every row of a file, of all files in a folder, or of a query.

    The output has all rows and columns of the input, followed by the answers.
    After Ctrl-C, a kill or a full disk, run the same command again to continue.

    In a folder, files already scored are skipped: run it every night.
    With --shard 1/4 to 4/4, four processes share a folder's files.
    --shard 4 takes the number from $JOB_COMPLETION_INDEX.

    With --ray auto or --ray HOST:PORT, all nodes of a Ray cluster answer.

    IN may be postgresql://USER@HOST/DATABASE or sqlite:///FILE, without OUT.
    Then --query SQL gives the texts, and answers go --into TABLE by their ids.
    """
    from bertcnn.tables.sql import is_address

    if is_address(source):
        _check_no_file(target, shard, flags)
        _score_database(model, source, flags, database, as_json=as_json)
        return
    _check_no_query(database)
    if target is None:
        raise SettingsError(
            f"no output for {one_line(source)}",
            expected="the file or folder to write",
            fix="give OUT after IN",
        )
    if Path(source).is_dir():
        _score_folder(model, Path(source), target, shard, flags, as_json=as_json)
        return
    if shard is not None:
        raise SettingsError(
            f"--shard {shard} for a file", expected="a folder", fix="leave out --shard"
        )
    _score_file(model, Path(source), target, flags, as_json=as_json)


def _score_folder(
    model: str, source: Path, target: Path, shard: str | None, flags: ScoringFlags, *, as_json: bool
) -> None:
    from bertcnn.cli.progress import show_progress

    folder = _ready(model, flags)
    from bertcnn.scoring import ScoringOptions, Shard, score_folder

    part, options = None if shard is None else Shard.of(shard), ScoringOptions(**vars(flags))
    with answers_are_kept(flags.restart), show_progress() as progress:
        report = score_folder(folder, source, target, options, shard=part, progress=progress)
    if as_json:
        summary(report.to_json())
    _show_folder_report(report, target)


def _score_file(
    model: str, source: Path, target: Path, flags: ScoringFlags, *, as_json: bool
) -> None:
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input, check_output

    check_output(target, flags.overwrite)
    check_input(source)
    folder = _ready(model, flags)
    from bertcnn.scoring import ScoringOptions, score_csv

    options = ScoringOptions(**vars(flags))
    with answers_are_kept(flags.restart), show_progress() as progress:
        report = score_csv(folder, source, target, options, progress=progress)
    if as_json:
        summary(report)
    _show_file_report(report, source, target)


def _ready(model: str, flags: ScoringFlags) -> Path:
    """The model's folder, with what its engine imports; an invalid model or engine is refused."""
    from bertcnn.bundle import read_config

    folder = local_model(model)
    read_config(folder)
    prepare_engine(flags.engine if flags.cluster is None else "openvino")
    return folder


def _show_folder_report(report: FolderReport, target: Path) -> None:
    skipped = f"; {len(report.there):,} were there already" if report.there else ""
    print_message(
        f"Wrote {count(len(report.scored), 'file')} with {count(report.rows, 'row')} to"
        f" {target}{skipped}."
    )
    for path, reason in report.failed.items():
        print_message(f"Not scored: {path}: {reason}")
    if report.failed:
        raise typer.Exit(WRONG_INPUT)


def _show_file_report(report: ScoringReport, source: Path, target: Path) -> None:
    if not report.rows and not report.rejected:
        print_message(f"{source} has no rows, so {target} has only a header.")
        return
    show_figures(report, target)
    show_unread(report)


def _check_no_query(flags: DatabaseFlags) -> None:
    """Raise SettingsError if a database option is given for a file or a folder."""
    for name, value in vars(flags).items():
        if value is not None:
            raise SettingsError(
                f"--{name} for a file",
                expected="a database as IN, such as postgresql://USER@HOST/DATABASE",
                fix=f"give its address, or leave out --{name}",
            )


def _check_no_file(target: object, shard: str | None, flags: ScoringFlags) -> None:
    """Raise SettingsError if an output or a file option is given for a database."""
    if target is not None:
        raise SettingsError(
            f"the output {one_line(target)} for a database",
            expected="a table in the same database",
            fix="leave it out and name the table with --into",
        )
    options = {
        "--raw": flags.raw,
        "--force": flags.overwrite,
        "--allow-rejects": flags.allow_rejects,
        "--shard": shard,
        "--ray": flags.cluster,
    }
    for name, value in options.items():
        if value:
            raise SettingsError(
                f"{name} for a database",
                expected="a file or a folder as IN",
                fix=f"leave out {name}",
            )


def _score_database(
    model: str, address: str, flags: ScoringFlags, database: DatabaseFlags, *, as_json: bool
) -> None:
    """Score a query into a table and print a summary."""
    from bertcnn.bundle import read_config
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables.sql import database_at

    query, into = database.query, database.into
    if query is None or into is None:
        missing = "--query" if query is None else "--into"
        raise SettingsError(
            f"a database without {missing}",
            expected="the SELECT of the texts, and the table of answers",
            fix='add --query "select id, text from tickets" --into answers',
        )
    database_at(address)
    folder = local_model(model)
    read_config(folder)
    prepare_engine(flags.engine)
    from bertcnn.scoring import ScoringOptions, score_table

    options = ScoringOptions(**vars(flags))
    with answers_are_kept(flags.restart), show_progress() as progress:
        report = score_table(
            folder,
            address,
            query=query,
            into=into,
            id=database.id or "id",
            options=options,
            progress=progress,
        )
    if as_json:
        summary(report)
    if report.rows:
        show_figures(report, f"the table {into}")
    else:
        print_message(f"The query gives no rows, so none were written to the table {into}.")
