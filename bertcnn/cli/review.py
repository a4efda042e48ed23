"""`bertcnn review`: tickets, people's decisions on them, audits."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertcnn.cli.console import answer, command_line, show, tell
from bertcnn.cli.options import Force, Raw, Text
from bertcnn.wording import count

if TYPE_CHECKING:
    from bertcnn.review.people import Person
    from bertcnn.review.store import ReviewStore

review_app = typer.Typer(
    help="Let people decide what the model may not, and measure how right it is.",
    no_args_is_help=True,
)

Store = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="BERTCNN_STORE",
        help="Review store: a file, or postgresql://user@host/database.",
        show_default=False,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--person",
        envvar="BERTCNN_PERSON",
        help="Who you are.",
        show_default="your user name",
    ),
]


def person(name: str | None) -> Person:
    """Whoever types the command may do everything: they can read the store's file anyway."""
    from bertcnn.review.people import Person

    return Person(name or getpass.getuser())


def opened(place: str) -> ReviewStore:
    """A store that is there."""
    from bertcnn.review.store import open_review

    return open_review(place, create=False)


@review_app.command("add")
def add(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of tickets.", show_default=False)
    ],
    store: Store,
    text: Text = None,
    identity: Annotated[
        str | None,
        typer.Option("--id", help="Column of the tickets' ids.", show_default="guessed"),
    ] = None,
    audit: Annotated[
        float, typer.Option(help="Share of automatic answers that people check.")
    ] = 0.03,
) -> None:
    """Add a file's tickets with the serving model's answers.

    Tickets that the model may not decide wait for people, and so does a random share of the others,
    to measure how right the model is. The same command again adds what is missing.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.review.files import add_file

    opened_store = opened(store)
    with show_progress() as progress:
        added = add_file(
            opened_store, source, text=text, identity=identity, audited=audit, progress=progress
        )
    tell(
        f"{count(added.added, 'ticket')} added, {added.known:,} known already;"
        f" {added.for_people:,} wait for people, {added.audits:,} of them as audits."
    )
    tell(f"Next: {command_line('review', 'stats', '--store', store)}")


@review_app.command("next")
def next_tickets(
    store: Store,
    name: Name = None,
    most: Annotated[int, typer.Option("--most", help="Tickets.")] = 1,
) -> None:
    """Lease the next tickets to you, one JSON line each.

    Nobody else gets them for five minutes.
    """
    from dataclasses import asdict

    from bertcnn.review.queue import claim

    for one in claim(opened(store), person(name), most=most):
        answer(json.dumps(asdict(one), ensure_ascii=False))


@review_app.command("label")
def label(
    store: Store,
    ticket: Annotated[
        str | None, typer.Argument(metavar="TICKET", help="Number or id.", show_default=False)
    ] = None,
    names: Annotated[
        str | None,
        typer.Argument(
            metavar="LABEL", help='Label, or "none" for none of them.', show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file with the columns ticket and label.", show_default=False),
    ] = None,
    name: Name = None,
) -> None:
    """Decide a ticket, or all of a file."""
    import uuid

    from bertcnn.errors import SettingsError, StoreError
    from bertcnn.review.decisions import NewDecision, record
    from bertcnn.review.files import label_file
    from bertcnn.review.tickets import find_ticket

    opened_store = opened(store)
    if file is not None:
        done = label_file(opened_store, file, person(name))
        tell(f"{count(len(done.stored), 'decision')} recorded.")
        return
    if ticket is None or names is None:
        raise SettingsError(
            "no ticket and label",
            expected="a ticket and its label, or --file",
            fix=command_line("review", "label", "--store", store, "17", "billing"),
        )
    none = names == "none"
    one = NewDecision(
        uuid.uuid4().hex,
        find_ticket(opened_store, ticket),
        "none" if none else "label",
        None if none else names,
    )
    done = record(opened_store, person(name), [one])
    for reason in done.refused.values():
        raise StoreError(
            f"the decision on ticket {ticket} was refused ({reason.split(';')[0]})",
            expected="a label in use",
            fix=f"see {command_line('review', 'labels', '--store', store)}",
        )
    tell("1 decision recorded.")


@review_app.command("labels")
def labels(
    store: Store,
    add_names: Annotated[
        list[str] | None, typer.Option("--add", help="A further label.", show_default=False)
    ] = None,
    remove: Annotated[
        str | None, typer.Option(help="A label to offer no more.", show_default=False)
    ] = None,
    name: Name = None,
) -> None:
    """Show the labels in use, or change them."""
    from bertcnn.review.labels import add_labels, labels_in_use, remove_label

    opened_store = opened(store)
    if add_names:
        add_labels(opened_store, person(name), add_names)
    if remove is not None:
        remove_label(opened_store, person(name), remove)
    for one in labels_in_use(opened_store).names:
        answer(one)


@review_app.command("stats")
def stats(store: Store) -> None:
    """What waits, what was decided and by whom, and where people disagree."""
    from bertcnn.review.decisions import disagreements
    from bertcnn.review.queue import waiting_tickets
    from bertcnn.review.statistics import decided

    opened_store = opened(store)
    waiting = waiting_tickets(opened_store)
    show(f"waiting: {waiting['reviews']:,} for review, {waiting['audits']:,} audits")
    found = decided(opened_store)
    show(f"decided: {count(found.tickets, 'ticket')}, {found.skipped:,} only skipped")
    for who, number in found.people.items():
        show(f"  {who}: {number:,}")
    differing = disagreements(opened_store)
    show(f"people disagree on {count(len(differing), 'ticket')}")
    for one in differing[:10]:
        answers = ", ".join(f"{who}: {what or 'none'}" for who, what in one.labels.items())
        show(f"  ticket {one.ticket}: {answers}")


@review_app.command("audit")
def audit(
    store: Store,
    model: Annotated[
        str | None,
        typer.Option(help="Id, or its beginning.", show_default="the serving model"),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(min=0, help="Answers of the last days only.", show_default="all"),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Also write the figures to this file.", show_default=False),
    ] = None,
    force: Force = False,
) -> None:
    """How right the automatic answers are, by audits, and whether the promise holds.

    Ends with 1 where it does not hold any more.
    """
    from bertcnn.review.audits import audit_report
    from bertcnn.review.store import now
    from bertcnn.storage.files import as_json, check_file_target, write_whole

    if json_file is not None:
        check_file_target(json_file, force, option="--json")
    since = 0.0 if days is None else now() - 86400 * days
    found = audit_report(opened(store), model=model, since=since)
    for line in found.lines():
        show(line)
    if json_file is not None:
        write_whole(json_file, as_json(found.to_json()), overwrite=force)
    if found.broken:
        raise typer.Exit(1)


@review_app.command("history")
def ticket_history(
    store: Store,
    ticket: Annotated[str, typer.Argument(help="Number or id.", show_default=False)],
) -> None:
    """All that happened to a ticket."""
    from bertcnn.review.decisions import history
    from bertcnn.review.tickets import find_ticket

    opened_store = opened(store)
    for row in history(opened_store, find_ticket(opened_store, ticket)):
        moment = datetime.fromtimestamp(row.stored_at, UTC).isoformat(" ", "seconds")
        what = row.label or row.kind
        show(f"{moment} {row.actor}: {what}{' (blind)' if row.blind else ''}")


@review_app.command("export")
def export(
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="File to write.", show_default=False)
    ],
    store: Store,
    raw: Raw = False,
    force: Force = False,
) -> None:
    """Write all decided tickets to a file."""
    from bertcnn.review.corrected_rows import export_corrections

    rows = export_corrections(opened(store), target, raw=raw, overwrite=force)
    tell(f"{count(rows, 'ticket')} in {target}.")


@review_app.command("erase")
def erase(
    store: Store,
    ticket: Annotated[str, typer.Argument(help="Number or id.", show_default=False)],
    name: Name = None,
) -> None:
    """Erase a ticket's text and columns for ever; its decisions stay.

    Copies of the store that you have made are not touched.
    """
    from bertcnn.review.tickets import erase_ticket, find_ticket

    opened_store = opened(store)
    erase_ticket(opened_store, find_ticket(opened_store, ticket), person(name))
    tell("1 ticket erased.")
