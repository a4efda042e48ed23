"""The tables of a review store.

Times are seconds since 1970, UTC. Only `ticket` has text; other tables hold offsets and keyed
hashes, so a ticket's text can be erased while its decisions stay.
"""

from __future__ import annotations

import time

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
)

VERSION = 3

tables = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER only


def _ticket(*, primary: bool = True) -> Column[int]:
    return Column("ticket", _ID, ForeignKey("ticket.id"), primary_key=primary, nullable=False)


def _model(*, primary: bool = False) -> Column[str]:
    return Column("model", String(64), ForeignKey("model.id"), primary_key=primary, nullable=False)


setting = Table(  # `version` of the tables, and the `secret` of keyed hashes
    "setting",
    tables,
    Column("name", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)

ticket = Table(
    "ticket",
    tables,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("source", String(200), nullable=False),  # a system's name; empty for the default one
    Column("external_id", String(200), nullable=False),  # the ticket's id in that system
    Column("text", Text, nullable=False),
    Column("text_hash", String(32), nullable=False),  # keyed, ignoring case and spaces
    Column("columns", JSON, nullable=False),  # the other cells of its row, by column
    Column("received_at", Double),  # null if unknown
    Column("added_at", Double, nullable=False, default=time.time),
    Column("erased_at", Double),
    UniqueConstraint("external_id", "source", "text_hash"),  # a changed text is a new version
    Index("ticket_by_hash", "text_hash"),
)
# the time for ordering and counting tickets
arrived_at = func.coalesce(ticket.c.received_at, ticket.c.added_at)

model = Table(
    "model",
    tables,
    Column("id", String(64), primary_key=True),  # of the bundle
    Column("folder", Text, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("separator", String(8)),  # of several labels; null for single labels
    Column("precision", Double, nullable=False),  # promised for automatic answers
    Column("added_at", Double, nullable=False),
)

prediction = Table(
    "prediction",
    tables,
    _ticket(),
    _model(primary=True),
    Column("label", Text),
    Column("confidence", Double),
    Column("decision", String(32), nullable=False),
    Column("probable", JSON, nullable=False),  # [[label, probability], ...], the best five
    Column("because", JSON, nullable=False),  # [[start, end], ...], characters
    Column("reason", Text, nullable=False),
    Column("embedding", LargeBinary),  # float16 [D], length 1; only for tickets in review
    Column("predicted_at", Double, nullable=False),  # 0: only to compare the model, see `shadow`
)

draw = Table(  # the audit lottery, for every automatic answer
    "draw",
    tables,
    _ticket(),
    _model(primary=True),
    Column("stratum", String(200), nullable=False),
    Column("probability", Double, nullable=False),
    Column("drawn", Boolean, nullable=False),
    Index("draw_by_stratum", "model", "stratum", "drawn"),
)

event = Table(  # append-only; the sender's key prevents duplicates
    "event",
    tables,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False, unique=True),  # the sender's
    _ticket(primary=False),
    Column("actor", String(200), nullable=False),
    Column("kind", String(16), nullable=False),  # label, none, skip or undo
    Column("label", Text),
    Column("undoes", String(64)),  # the key of another event
    Column("model", String(64)),  # whose answer was shown or hidden
    Column("blind", Boolean, nullable=False),
    Column("shown_at", Double),
    Column("decided_at", Double, nullable=False),
    Column("stored_at", Double, nullable=False),
    Index("event_by_ticket", "ticket"),
    Index("event_by_actor", "actor", "id"),
)

decision = Table(  # current decisions, one row per person and ticket; derived
    "decision",
    tables,
    _ticket(),
    Column("actor", String(200), primary_key=True),
    Column("key", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("label", Text),
    Column("blind", Boolean, nullable=False),
    Column("decided_at", Double, nullable=False),
    Index("decision_by_time", "decided_at"),
)

queue = Table(  # tickets that wait for a person; derived
    "queue",
    tables,
    _ticket(),
    _model(),
    Column("place", Integer, nullable=False),  # hour of arrival; 0 for audits, which come first
    Column("certainty", Double, nullable=False),  # the lowest first within an hour
    Column("label", Text),  # predicted
    Column("similar", String(32), nullable=False),  # equal for near duplicates
    Column("blind", Boolean, nullable=False),  # shown without the model's answer
    Index("queue_in_order", "place", "certainty", "ticket"),
)

lease = Table(
    "lease",
    tables,
    _ticket(),
    Column("actor", String(200), nullable=False),
    Column("until", Double, nullable=False),
    Index("lease_by_actor", "actor"),
)

test_row = Table(  # rows held out from every training
    "test_row",
    tables,
    Column("text_hash", String(32), primary_key=True),
    Column("label", Text, nullable=False),
    Column("added_at", Double, nullable=False),
)

model_event = Table(  # append-only; the last promotion or rollback names the serving model
    "model_event",
    tables,
    Column("id", _ID, primary_key=True, autoincrement=True),
    _model(),
    Column("kind", String(16), nullable=False),  # added, compared, promoted, rolled_back or alarm
    Column("actor", String(200), nullable=False),
    Column("at", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("figures", JSON, nullable=False),
)

job = Table(
    "job",
    tables,
    Column("id", String(32), primary_key=True),
    Column("arguments", JSON, nullable=False),  # of the command `bertcnn`
    Column("folder", Text, nullable=False),  # working directory
    Column("actor", String(200), nullable=False),
    Column("state", String(16), nullable=False),  # waiting, running, done, failed or cancelled
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("host", String(300)),  # of the process that runs it
    Column("pid", Integer),
    Column("pid_started", Double),  # because process numbers are reused
    Column("heartbeat", Double),
    Column("starts", Integer, nullable=False),
    Column("exit_code", Integer),
    Column("progress", JSON, nullable=False),
    Column("message", Text, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Index("job_by_time", "created_at"),
)

APPEND_ONLY = ("event", "model_event")
