"""`bertcnn score`."""

from __future__ import annotations

from typing import Annotated

import typer

from bertcnn.cli.console import tell
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported
from bertcnn.cli.options import (
    AllowRejects,
    AutoPrecision,
    Engine,
    Force,
    Model,
    Raw,
    Restart,
    Source,
    Target,
    Text,
)
from bertcnn.cli.startup import prepare_engine
from bertcnn.wording import count, duration


def score(
    model: Model,
    source: Source,
    target: Target,
    text: Text = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write a p_LABEL column for every label.")
    ] = False,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Also write why each decision is what it is.")
    ] = False,
    auto_precision: AutoPrecision = None,
    raw: Raw = False,
    force: Force = False,
    restart: Restart = False,
    allow_rejects: AllowRejects = False,
    engine: Engine = "auto",
) -> None:
    """Classify every row of a file.

    The output has all rows and columns of the input, followed by the answers.
    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    from bertcnn.bundle.bundle import read_config
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables.formats import check_input
    from bertcnn.tables.writing import check_output

    check_output(target, force)
    check_input(source)
    read_config(model)
    prepare_engine(engine)
    from bertcnn.scoring.score import ScoringInterrupted, score_csv

    try:
        with show_progress() as progress:
            report = score_csv(
                model,
                source,
                target,
                text=text,
                auto_precision=auto_precision,
                probabilities=probabilities,
                reasons=reasons,
                raw=raw,
                overwrite=force,
                restart=restart,
                allow_rejects=allow_rejects,
                engine=engine,  # type: ignore[arg-type]
                progress=progress,
            )
    except ScoringInterrupted as stop:
        again = "The same command without --restart" if restart else "The same command"
        tell(
            f"\nbertcnn: interrupted; the answers for {stop.rows:,} rows are kept. {again}"
            " continues from there."
        )
        raise AlreadyReported(INTERRUPTED) from None
    if not report.rows and not report.rejected:
        tell(f"{source} has no rows, so {target} has only a header.")
        return
    frequent = (
        ", ".join(f"{name} {rows:,}" for name, rows in list(report.labels.items())[:8])
        or "no labels"
    )
    tell(f"Wrote {target}: {count(report.rows, 'row')} in {duration(report.seconds)} ({frequent}).")
    decided = ", ".join(
        f"{name} {rows:,} ({rows / report.rows:.0%})" for name, rows in report.decisions.items()
    )
    if decided:
        tell(f"Decisions: {decided}.")
    if report.blank:
        tell(f"{count(report.blank, 'row')} without a text got no label.")
    if report.padded:
        tell(f"{count(report.padded, 'row')} lacked the last cells; they were read as blank.")
    if report.repeated_headers:
        tell(
            f"{count(report.repeated_headers, 'row')} repeating the header left out: see"
            f" {report.rejects}."
        )
    unread = report.rejected - report.repeated_headers
    if unread:
        tell(f"{count(unread, 'row')} could not be read: see the reasons in {report.rejects}.")
