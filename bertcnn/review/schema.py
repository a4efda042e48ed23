"""The tables of a review store.

Times are seconds since 1970, UTC. Only `ticket`, `note`, `ticket_value` and the search index hold a
ticket's text; they are erased together. Other tables hold offsets and keyed hashes, so a ticket's
text can be erased while its decisions stay.
"""

from __future__ import annotations

import time

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Computed,
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
    text,
)

VERSION = 4
STATES = (  # of a ticket
    "waiting",
    "skipped",  # waiting, and somebody skipped it
    "decided",
    "automatic",
    "audited_wrong",  # an automatic answer that people found wrong
    "disagreement",  # people decided differently, and nobody has settled it
    "erased",  # before anybody decided
)

tables = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER only


def _ticket(*, primary: bool = True) -> Column[int]:
    return Column("ticket", _ID, ForeignKey("ticket.id"), primary_key=primary, nullable=False)


def _model(*, primary: bool = False) -> Column[str]:
    return Column("model", String(64), ForeignKey("model.id"), primary_key=primary, nullable=False)


setting = Table(  # `version`, the `secret` of keyed hashes, and settings of the team
    "setting",
    tables,
    Column("name", String(32), primary_key=True),
    Column("value", Text, nullable=False),
)

upload = Table(  # files that tickets came from
    "upload",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),  # of the file
    Column("actor", String(200), nullable=False),
    Column("at", Double, nullable=False),
    Column("columns", JSON, nullable=False),  # all, in the file's order
    Column("text_columns", JSON, nullable=False),
    Column("id_column", Text),  # null if the file has none
    Column("time_column", Text),
    Column("tickets", Integer, nullable=False, default=0),
)

upload_ticket = Table(  # all tickets of a file, also those known before
    "upload_ticket",
    tables,
    Column("upload", Integer, primary_key=True),
    Column("arrived_at", Double, primary_key=True),
    Column("ticket", _ID, primary_key=True),
    sqlite_with_rowid=False,
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
    Column("upload", Integer, ForeignKey("upload.id")),  # the first; null if a program added it
    # the time for ordering and counting tickets
    Column("arrived_at", Double, Computed("coalesce(received_at, added_at)", True), nullable=False),
    # derived from the other tables, see `states`
    Column("state", String(16), nullable=False, default="automatic"),  # one of STATES
    Column("label", Text),  # people's, else the model's; null while the answer is hidden
    Column("confidence", Double),  # of the model
    Column("reason", String(32)),  # the model's decision
    Column("assigned_to", String(200)),
    Column("later_at", Double),  # when it was put off; null if it was not
    Column("doubled_at", Double),  # when it was chosen to be decided by two people
    UniqueConstraint("external_id", "source", "text_hash"),  # a changed text is a new version
    Index("ticket_by_hash", "text_hash"),
)
arrived_at = ticket.c.arrived_at
for _name in ("state", "label", "reason"):
    Index(f"ticket_by_{_name}", ticket.c[_name], arrived_at, ticket.c.id)
Index("ticket_by_arrival", arrived_at, ticket.c.id)
for _name in ("assigned_to", "later_at", "doubled_at"):
    _few = ticket.c[_name].is_not(None)
    Index(
        f"ticket_by_{_name}",
        *(ticket.c[_name], arrived_at, ticket.c.id),
        sqlite_where=_few,
        postgresql_where=_few,
    )

column_value = Table(  # values of the tickets' further columns, for columns with few of them
    "column_value",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(200), nullable=False),  # of the column
    Column("value", String(200)),  # null: the column has too many values
    Column("tickets", Integer, nullable=False),
    UniqueConstraint("name", "value"),
)

ticket_value = Table(
    "ticket_value",
    tables,
    Column("value", Integer, primary_key=True),  # of `column_value`
    Column("arrived_at", Double, primary_key=True),
    Column("ticket", _ID, primary_key=True),
    sqlite_with_rowid=False,
)

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

_BATCH = text("batch IS NOT NULL")
event = Table(  # append-only and without texts; the sender's key prevents duplicates
    "event",
    tables,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False, unique=True),  # the sender's
    _ticket(primary=False),
    Column("actor", String(200), nullable=False),
    # label, none, skip or undo; settle, back, assign, later, now or note
    Column("kind", String(16), nullable=False),
    Column("label", Text),
    Column("undoes", String(64)),  # the key of another event
    Column("batch", String(64)),  # equal for events of one action on several tickets
    Column("assignee", String(200)),
    Column("model", String(64)),  # whose answer was shown or hidden
    Column("blind", Boolean, nullable=False),
    Column("shown_at", Double),
    Column("decided_at", Double, nullable=False),
    Column("stored_at", Double, nullable=False),
    Index("event_by_ticket", "ticket"),
    Index("event_by_actor", "actor", "id"),
    Index("event_by_batch", "batch", sqlite_where=_BATCH, postgresql_where=_BATCH),
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
    Column("shown_at", Double),
    Column("decided_at", Double, nullable=False),
    Column("event", _ID, nullable=False),
    Column("arrived_at", Double, nullable=False),  # of the ticket
    Index("decision_by_time", "decided_at"),
    Index("decision_by_event", "actor", "event"),
    Index("decision_by_arrival", "actor", "arrived_at", "ticket"),
)

settlement = Table(  # settled disagreements; derived
    "settlement",
    tables,
    _ticket(),
    Column("actor", String(200), nullable=False),
    Column("key", String(64), nullable=False),
    Column("label", Text),  # null for none of the labels
    Column("settled_at", Double, nullable=False),
)

note = Table(
    "note",
    tables,
    Column("key", String(64), primary_key=True),  # of its event
    _ticket(primary=False),
    Column("actor", String(200), nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Double, nullable=False),
    Index("note_by_ticket", "ticket"),
)

mention = Table(  # people named in notes
    "mention",
    tables,
    Column("person", String(200), primary_key=True),
    Column("note", String(64), ForeignKey("note.key"), primary_key=True),
    _ticket(primary=False),
    Index("mention_by_ticket", "ticket"),
)

person = Table(  # people who have opened the desk
    "person",
    tables,
    Column("name", String(200), primary_key=True),
    Column("seen_at", Double, nullable=False),
    Column("claimed", Integer, nullable=False),  # tickets so far, to mix audits in
)

queue = Table(  # tickets that wait for a person; derived
    "queue",
    tables,
    _ticket(),
    _model(),
    Column("audit", Boolean, nullable=False),
    Column("double", Boolean, nullable=False, default=False),  # for two people
    Column("second", Boolean, nullable=False, default=False),  # one of the two has decided
    Column("place", Integer, nullable=False),  # hour of arrival
    Column("certainty", Double, nullable=False),  # the lowest first within an hour
    Column("label", Text),  # predicted
    Column("similar", String(32), nullable=False),  # equal for near duplicates
    Column("blind", Boolean, nullable=False),  # shown without the model's answer
    Index("queue_in_order", "audit", "place", "certainty", "ticket"),
)

lease = Table(
    "lease",
    tables,
    _ticket(),
    Column("actor", String(200), nullable=False),
    Column("tab", String(64), nullable=False, default=""),  # of the browser; empty for any
    Column("until", Double, nullable=False),
    Index("lease_by_actor", "actor"),
)

label = Table(
    "label",
    tables,
    Column("name", Text, primary_key=True),
    Column("place", Integer, nullable=False),  # in the list of labels
    Column("used", Boolean, nullable=False),  # kept for its guide when it was removed
    Column("color", String(7), nullable=False, default=""),  # such as #1f77b4
    Column("hint", Text, nullable=False, default=""),  # one line
    Column("guide", Text, nullable=False, default=""),  # Markdown
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
