"""`bertcnn review`: tickets, people's decisions, audits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bertcnn.cli.console import (
    answer,
    check_json,
    command_line,
    print_message,
    print_result,
    show,
    show_figures,
    summary,
)
from bertcnn.cli.options import Force, JsonFile, Raw, Summary, Text, argument, grouped, option
from bertcnn.tables import DateOrder
from bertcnn.wording import count

if TYPE_CHECKING:
    from bertcnn.review import Person, ReviewStore

_WIDTH = 76  # characters of an example
_LEASE = 300.0  # seconds, since nothing renews the leases of a command

review_app = typer.Typer(
    help="Let people decide the doubtful tickets, and measure the model's accuracy.",
    no_args_is_help=True,
)

Store = Annotated[
    str,
    option(
        "Review store: a file, or postgresql://user@host/database.",
        "--store",
        envvar="BERTCNN_STORE",
    ),
]
Name = Annotated[
    str | None,
    option("Who you are.", "--person", default="your user name", envvar="BERTCNN_PERSON"),
]

Tickets = Annotated[Path, argument("File of tickets.", metavar="FILE")]

Identity = Annotated[str | None, option("Column of the tickets' ids.", "--id", default="guessed")]

Dates = Annotated[
    DateOrder | None,
    option(
        "Order in dates such as 01/02/2025: day-first, month-first or year-first.",
        "--dates",
        default="guessed from the whole column",
        metavar="ORDER",
    ),
]
Source = Annotated[
    str,
    option(
        "System that the ids are from, if tickets of several systems are added.",
        "--source",
        metavar="NAME",
    ),
]
NAMED = "Own id, SOURCE/ID, or number in quotes, such as '#12'."


@dataclass(frozen=True, kw_only=True)
class TicketFlags:
    """How a file's tickets are read, as `add_file` names it."""

    text: Text = None
    identity: Identity = None
    dates: Dates = None
    source: Source = ""


def person(name: str | None) -> Person:
    """The acting person; a command-line user has every role, as they can read the store's file."""
    from bertcnn.review import Person, own_name

    return Person(own_name(name))


def opened(place: str) -> ReviewStore:
    """Open an existing store."""
    from bertcnn.review import open_review

    return open_review(place, create=False)


@review_app.command("add")
@grouped
def add(
    file: Tickets,
    store: Store,
    *,
    flags: TicketFlags,
    label: Annotated[
        str | None,
        option(
            "Column of labels that people gave; they become your decisions.",
            default=False,
        ),
    ] = None,
    audit: Annotated[float, option("Share of automatic answers that people check.")] = 0.03,
    name: Name = None,
    as_json: Summary = False,
) -> None:
    """Add a file's tickets with the serving model's answers.

    Tickets that the model may not decide wait for people, and so does a random share of the others,
    to measure how right the model is. The same command again adds what is missing, and so
    does another file with some of the tickets. A ticket is known by its own id and text.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.review import add_file
    from bertcnn.tables import rejects_of

    opened_store = opened(store)
    with show_progress() as progress:
        added = add_file(
            opened_store,
            file,
            **vars(flags),
            label=label,
            audited=audit,
            person=person(name),
            progress=progress,
        )
    if as_json:
        summary(added)
    left = {
        "repeated in the file": added.repeated,
        "without an id": added.without_id,
        "unreadable": added.unreadable,
    }
    others = "".join(f", {number:,} {what}" for what, number in left.items() if number)
    print_result(
        f"{count(added.added, 'ticket')} added, {added.known:,} known already{others};"
        f" {added.for_people:,} wait for people, {added.audits:,} of them as audits."
    )
    if label is not None:
        print_result(f"{count(added.labelled, 'label')} of the file recorded as decisions.")
    if added.unknown_labels:
        print_result(f"{count(added.unknown_labels, 'label')} that nobody uses here left out.")
    if added.changed:
        print_result(
            f"{count(added.changed, 'ticket')} of those added have the id of an earlier one but"
            " another text: both are kept, each with its own number."
        )
    if added.without_id or added.unreadable:
        print_message(f"Rows without an id and unreadable ones: see {rejects_of(file)}")
    print_message(f"Next: {command_line('review', 'stats', '--store', store)}")


@review_app.command("answer")
def answer_again(store: Store) -> None:
    """Let the serving model answer the tickets that wait with another one's answer.

    Do so after a promotion: desks then show what the new model says, and
    tickets that it may answer on its own wait no more.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.review import answer_waiting, serving_predictor

    opened_store = opened(store)
    with show_progress() as progress:
        report = answer_waiting(opened_store, serving_predictor(opened_store), progress=progress)
    print_result(
        f"{count(report.added, 'ticket')} answered again; {report.for_people:,} wait for people,"
        f" {report.audits:,} of them as audits."
    )


@review_app.command("start")
@grouped
def start(
    file: Tickets,
    store: Store,
    *,
    flags: TicketFlags,
    encoder: Annotated[
        str, option("Published encoder that reads the tickets, or a folder.")
    ] = "minilm-l6",
    name: Name = None,
) -> None:
    """Start without labels and without a model.

    Groups the file's tickets by what they are about, and offers each group
    as a first label. The store is created if needed.
    """
    from bertcnn.cli.progress import show_progress
    from bertcnn.review import open_review, start_review, ticket_groups, waiting_tickets
    from bertcnn.tables import check_input

    check_input(file)  # before the store is created
    opened_store = open_review(store)
    with show_progress() as progress:
        start_review(
            opened_store, file, person(name), **vars(flags), encoder=encoder, progress=progress
        )
    _show_groups(opened_store)
    waiting = waiting_tickets(opened_store)["reviews"]
    groups = count(len(ticket_groups(opened_store)), "group")
    print_result(f"{count(waiting, 'ticket')} added, in {groups}.")
    print_message(f"Next: {command_line('review', 'groups', '--store', store, '--help')}")


@review_app.command("groups")
def groups(
    store: Store,
    names: Annotated[
        list[str] | None,
        option('GROUP=LABEL, as often as needed; "GROUP=" for no label.', "--name"),
    ] = None,
    name: Name = None,
) -> None:
    """Show the groups of `review start`, or give them their labels.

    Groups with the same label are one.
    """
    from bertcnn.errors import SettingsError
    from bertcnn.review import name_groups

    opened_store, label_by_group = opened(store), {}
    for one in names or ():
        group, separator, label = one.partition("=")
        if not separator:
            raise SettingsError(
                f"--name {one}", expected="GROUP=LABEL", fix="such as --name 'bill, twice=billing'"
            )
        label_by_group[group] = label
    if label_by_group:
        name_groups(opened_store, person(name), label_by_group)
    _show_groups(opened_store)


def _show_groups(store: ReviewStore) -> None:
    from bertcnn.review import ticket_groups

    for group in ticket_groups(store):
        show(f"{group.name}: {count(group.tickets, 'ticket')}")
        for example in group.examples:
            show(f"  {_shortened(example)}")


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _WIDTH else f"{words[: _WIDTH - 3]}..."


@review_app.command("next")
def next_tickets(
    store: Store, name: Name = None, most: Annotated[int, option("Tickets.", "--most")] = 1
) -> None:
    """Lease the next tickets to you, one JSON line each.

    Nobody else gets them for five minutes.
    """
    from bertcnn.review import claim, number_of

    for one in claim(opened(store), person(name), most=most, seconds=_LEASE):
        shown = {"ticket": one.external_id, "number": number_of(one.id), **asdict(one)}
        del shown["id"], shown["external_id"]
        answer(json.dumps(shown, ensure_ascii=False))


@review_app.command("label")
def label(
    store: Store,
    ticket: Annotated[str | None, argument(NAMED, metavar="TICKET")] = None,
    names: Annotated[str | None, argument("Label.", metavar="LABEL")] = None,
    none: Annotated[bool, option("Instead of LABEL: no label fits.", "--none")] = False,
    file: Annotated[
        Path | None,
        option(
            "A file with the columns ticket and label, such as one from export; an empty"
            " label is for none of them."
        ),
    ] = None,
    name: Name = None,
) -> None:
    """Decide a ticket, or all of a file."""
    import uuid

    from bertcnn.errors import SettingsError, StoreError
    from bertcnn.review import NewDecision, find_ticket, label_file, record

    opened_store = opened(store)
    if file is not None:
        done = label_file(opened_store, file, person(name))
        print_message(f"{count(len(done.stored), 'decision')} recorded.")
        return
    if ticket is None or (names is None) != none:
        raise SettingsError(
            "no ticket and label" if not none or ticket is None else f"--none and {names}",
            expected="a ticket and its label or --none, or --file",
            fix=command_line("review", "label", "--store", store, "T-17", "billing"),
        )
    identity = find_ticket(opened_store, ticket)
    one = NewDecision(uuid.uuid4().hex, identity, "none" if none else "label", names)
    done = record(opened_store, person(name), [one])
    for reason in done.refused.values():
        raise StoreError(
            f"the decision on ticket {ticket} was refused ({reason.split(';')[0]})",
            expected="a label in use",
            fix=f"see {command_line('review', 'labels', '--store', store)}",
        )
    print_message("1 decision recorded.")


@review_app.command("labels")
def labels(
    store: Store,
    add_names: Annotated[list[str] | None, option("A further label.", "--add")] = None,
    remove: Annotated[str | None, option("A label that the desk stops offering.")] = None,
    name: Name = None,
) -> None:
    """Show the labels in use, or change them."""
    from bertcnn.review import add_labels, labels_in_use, remove_label

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
    from bertcnn.review import decided, disagreements, name_of, waiting_tickets

    opened_store = opened(store)
    waiting = waiting_tickets(opened_store)
    show(f"waiting: {waiting['reviews']:,} for review, {waiting['audits']:,} audits")
    decisions = decided(opened_store)
    show(f"decided: {count(decisions.tickets, 'ticket')}, {decisions.skipped:,} only skipped")
    for who, number in decisions.people.items():
        show(f"  {who}: {number:,}")
    differing = disagreements(opened_store)
    show(f"people disagree on {count(len(differing), 'ticket')}")
    for one in differing[:10]:
        answers = ", ".join(f"{who}: {what or 'no label'}" for who, what in one.labels.items())
        show(f"  {name_of(one.external_id, one.ticket, one.source)}: {answers}")


@review_app.command("audit")
def audit(
    store: Store,
    model: Annotated[
        str | None, option("Id, or its beginning.", default="the serving model")
    ] = None,
    days: Annotated[
        float | None, option("Answers of the last days only.", default="all", min=0)
    ] = None,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """How right the automatic answers are, by audits, and whether the promise holds.

    Ends with 1 if it no longer holds.
    """
    from bertcnn.review import audit_report, now, shadow_report

    check_json(json_file, force)
    since = 0.0 if days is None else now() - 86400 * days
    opened_store = opened(store)
    report = audit_report(opened_store, model=model, since=since)
    beside = shadow_report(opened_store) if model is None and days is None else None
    said, figures = report.lines(), report.to_json()
    if beside is not None:
        said, figures = said + beside.lines(), figures | {"beside": beside.to_json()}
    show_figures(said, figures, json_file, force)
    if report.broken:
        raise typer.Exit(1)


@review_app.command("drift")
def drift(
    store: Store,
    days: Annotated[
        int, option("Days of new words and of the estimated shares of labels.", min=1, max=90)
    ] = 7,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Show changes in the tickets and in the model's answers.

    The last day is compared with the same weekday of eight weeks, and its
    week with these weeks. Ends with 1 where something has changed.
    """
    from bertcnn.cli.startup import prepare_engine
    from bertcnn.errors import BundleError
    from bertcnn.review import drift_report, serving_predictor

    check_json(json_file, force)
    opened_store = opened(store)
    prepare_engine("auto")
    try:
        predictor = serving_predictor(opened_store)
    except BundleError as error:
        print_message(f"No shares of labels are estimated: {error}")
        predictor = None
    report = drift_report(opened_store, recent=days, predictor=predictor)
    show_figures(report.lines(), report.to_json(), json_file, force)
    if report.changed:
        raise typer.Exit(1)


@review_app.command("topics")
def topics(
    store: Store,
    days: Annotated[float, option("Number of recent days.", min=1)] = 30,
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Topics among the tickets that the model has no label for, or is not sure of.

    Each is a candidate for a label: add it with `bertcnn review labels --add`.
    """
    from bertcnn.review import store_topics

    check_json(json_file, force)
    report = store_topics(opened(store), days=days)
    show_figures(report.lines(), report.to_json(), json_file, force)


@review_app.command("history")
def ticket_history(store: Store, ticket: Annotated[str, argument(NAMED)]) -> None:
    """All that happened to a ticket."""
    from bertcnn.review import find_ticket, history

    opened_store = opened(store)
    for row in history(opened_store, find_ticket(opened_store, ticket)):
        moment = datetime.fromtimestamp(row.stored_at, UTC).isoformat(" ", "seconds")
        what = {"label": row.label, "none": "no label"}.get(row.kind, row.kind)
        show(f"{moment} {row.actor}: {what}{' (blind)' if row.blind else ''}")


@review_app.command("export")
def export(
    target: Annotated[Path, argument("File to write.", metavar="OUT")],
    store: Store,
    raw: Raw = False,
    force: Force = False,
) -> None:
    """Write all decided tickets to a file."""
    from bertcnn.review import export_corrections

    rows = export_corrections(opened(store), target, raw=raw, overwrite=force)
    print_message(f"{count(rows, 'ticket')} in {target}.")


@review_app.command("erase")
def erase(store: Store, ticket: Annotated[str, argument(NAMED)], name: Name = None) -> None:
    """Erase a ticket's text and columns for ever; its decisions stay.

    Copies of the store that you have made are not touched.
    """
    from bertcnn.review import erase_ticket, find_ticket, number_of

    opened_store = opened(store)
    identity = find_ticket(opened_store, ticket)
    erase_ticket(opened_store, identity, person(name))
    print_message(f"Ticket {ticket} ({number_of(identity)}) erased.")
