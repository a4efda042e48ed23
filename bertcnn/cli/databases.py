"""`bertcnn score` for a database: its options and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from bertcnn.cli.console import print_message, summary
from bertcnn.cli.options import option
from bertcnn.cli.resumable import answers_are_kept, show_figures
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.errors import SettingsError, one_line

if TYPE_CHECKING:
    from bertcnn.cli.score import ScoringFlags


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


def check_no_query(flags: DatabaseFlags) -> None:
    """Raise SettingsError if a database option is given for a file or a folder."""
    for name, value in vars(flags).items():
        if value is not None:
            raise SettingsError(
                f"--{name} for a file",
                expected="a database as IN, such as postgresql://USER@HOST/DATABASE",
                fix=f"give its address, or leave out --{name}",
            )


def check_no_file(target: object, shard: str | None, flags: ScoringFlags) -> None:
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


def score_database(
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
