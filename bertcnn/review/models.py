"""The models of a store: which one serves, and the history of promotions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select

from bertcnn.bundle import Bundle, local_folder, read_bundle
from bertcnn.errors import BundleError, StoreError, one_line
from bertcnn.review.labels import merge_labels
from bertcnn.review.people import Person
from bertcnn.review.rows import insert_new
from bertcnn.review.schema import model, model_event
from bertcnn.review.store import ReviewStore, now

EventKind = Literal["added", "compared", "promoted", "rolled_back", "alarm"]
NO_MODEL = "none"  # stands in for a model if tickets came before the first model
WORSE = "worse"  # the verdict that needs a written reason
_SERVES = ("promoted", "rolled_back")
_WATCH = "audits"  # the actor of an alarm
_SHORTEST_REASON = 10  # characters


@dataclass(frozen=True)
class KnownModel:
    """A model in the store.

    Attributes:
        id: of the bundle.
        separator: between labels in one string if a ticket may have several; else None.
        precision: promised for automatic answers.
        added_at: seconds since 1970, UTC.
    """

    id: str
    folder: str
    labels: tuple[str, ...]
    separator: str | None
    precision: float
    added_at: float


@dataclass(frozen=True)
class ModelEvent:
    """An event in a model's history.

    Attributes:
        model: id of the bundle.
        kind: added, compared, promoted, rolled_back, or alarm (a broken promise).
        at: seconds since 1970, UTC.
        figures: the evidence, such as a comparison.
    """

    model: str
    kind: EventKind
    actor: str
    at: float
    reason: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


def add_model(
    store: ReviewStore,
    folder: str | os.PathLike[str],
    person: Person,
    *,
    figures: Mapping[str, Any] | None = None,
) -> KnownModel:
    """Add a saved model, whose folder must stay in place; the first one serves at once.

    `figures` are kept with the event, as JSON.

    Raises:
        RoleError: the person is not an admin.
        BundleError: the folder is not a model.
    """
    person.needs("admin", "add a model")
    folder = local_folder(folder)
    bundle = read_bundle(folder)
    with store.writing() as connection:
        added = insert_new(connection, model).returning(model.c.id)
        fresh = connection.execute(added, _row(bundle, folder)).first() is not None
        if fresh:
            separator = bundle.config.label_separator if bundle.multi_label else None
            merge_labels(connection, bundle.labels, separator)
            event = ModelEvent(bundle.bundle_id, "added", person.name, now(), figures=figures or {})
            _write(connection, event)
            if _serving(connection) is None:
                first = ModelEvent(
                    bundle.bundle_id, "promoted", person.name, now(), "the first model"
                )
                _write(connection, first)
        return _model(connection, bundle.bundle_id)


def list_models(store: ReviewStore) -> list[KnownModel]:
    """All models, newest first."""
    with store.reading() as connection:
        rows = connection.execute(
            select(model)
            .where(model.c.id != NO_MODEL)
            .order_by(model.c.added_at.desc(), model.c.id)
        )
        return [_known(row) for row in rows]


def find_model(store: ReviewStore, identity: str) -> KnownModel:
    """A model by its id or the start of it; StoreError unless exactly one matches."""
    with store.reading() as connection:
        return _model(connection, identity)


def serving_model(store: ReviewStore) -> KnownModel | None:
    """The serving model; None before the first one was added."""
    with store.reading() as connection:
        identity = _serving(connection)
        return None if identity is None else _model(connection, identity)


def require_serving_model(store: ReviewStore) -> KnownModel:
    """The serving model; StoreError if no model was added yet."""
    serving = serving_model(store)
    if serving is None:
        raise StoreError(
            f"{store.name} has no model",
            expected="one that answers",
            fix="add a trained model: bertcnn models add MODEL --store STORE",
        )
    return serving


def earlier_model(store: ReviewStore) -> KnownModel | None:
    """The model that `roll_back` returns to, or None."""
    with store.reading() as connection:
        identity = _earlier(connection)
        return None if identity is None else _model(connection, identity)


def last_comparison(store: ReviewStore, identity: str) -> dict[str, Any] | None:
    """The last comparison with the serving model, as `ModelComparison.to_json`, or None."""
    with store.reading() as connection:
        return _comparison(connection, identity, _serving(connection)) or None


def model_history(store: ReviewStore, identity: str | None = None) -> list[ModelEvent]:
    """All events in order, or those of one model."""
    statement = select(model_event).order_by(model_event.c.id)
    if identity is not None:
        statement = statement.where(model_event.c.model == identity)
    with store.reading() as connection:
        return [_event(row) for row in connection.execute(statement)]


def note_comparison(
    store: ReviewStore, challenger: str, person: Person, figures: Mapping[str, Any]
) -> None:
    """Record a comparison of a model with the serving one."""
    with store.writing() as connection:
        _write(connection, ModelEvent(challenger, "compared", person.name, now(), figures=figures))


def find_alarm(store: ReviewStore, identity: str) -> ModelEvent | None:
    """The alarm about a model's broken promise, or None."""
    with store.reading() as connection:
        return _alarm(connection, identity)


def note_alarm(
    store: ReviewStore, identity: str, reason: str, figures: Mapping[str, Any]
) -> ModelEvent:
    """Record that audits show a broken promise; only the first alarm of a model counts."""
    with store.writing() as connection:
        alarm = _alarm(connection, identity)
        if alarm is None:
            alarm = ModelEvent(identity, "alarm", _WATCH, now(), reason, figures)
            _write(connection, alarm)
        return alarm


def promote(store: ReviewStore, identity: str, person: Person, *, reason: str = "") -> KnownModel:
    """Let a model serve that was compared with the serving one.

    Raises:
        RoleError: the person is not an admin.
        StoreError: no such model, not compared with the serving one, or worse without a reason.
    """
    person.needs("admin", "promote a model")
    _check_folder(find_model(store, identity))
    with store.writing() as connection:
        chosen, serving = _model(connection, identity), _serving(connection)
        if chosen.id == serving:
            raise StoreError(
                f"the model {chosen.id[:12]} serves already",
                expected="another model",
                fix="see `bertcnn models list`",
            )
        figures = _comparison(connection, chosen.id, serving)
        if figures is None:
            raise StoreError(
                f"the model {chosen.id[:12]} was not compared with the serving one",
                expected="a comparison on rows that neither has learned",
                fix="compare them first with `bertcnn models compare`",
            )
        if figures.get("verdict") == WORSE and len(reason.strip()) < _SHORTEST_REASON:
            raise StoreError(
                f"the model {chosen.id[:12]} is worse, and the reason {one_line(reason)}",
                expected="a written reason for using it anyway",
                fix="write one, or do not promote it",
            )
        _write(
            connection,
            ModelEvent(chosen.id, "promoted", person.name, now(), reason.strip(), figures),
        )
        merge_labels(connection, chosen.labels, chosen.separator)
        return chosen


def roll_back(store: ReviewStore, person: Person, *, reason: str = "") -> KnownModel:
    """Let the previous model serve again; RoleError for non-admins, StoreError if there is none."""
    person.needs("admin", "roll back a model")
    with store.reading() as connection:
        target = _earlier(connection)
    if target is not None:
        _check_folder(find_model(store, target))
    with store.writing() as connection:
        earlier = _earlier(connection)
        if earlier is None or earlier != target:
            raise StoreError(
                "no model served before this one",
                expected="an earlier promotion",
                fix="see `bertcnn models list`",
            )
        _write(connection, ModelEvent(earlier, "rolled_back", person.name, now(), reason.strip()))
        return _model(connection, earlier)


def _check_folder(one: KnownModel) -> None:
    try:
        saved_id = read_bundle(one.folder).bundle_id
    except BundleError as error:
        saved_id = str(error)
    if saved_id != one.id:
        raise StoreError(
            f"the model {one.id[:12]} is not in {one.folder} any more",
            expected="the folder as it was when the model was added",
            fix="restore the folder, or add the model again from another place",
        )


def _serving(connection: Connection) -> str | None:
    return connection.scalar(
        select(model_event.c.model)
        .where(model_event.c.kind.in_(_SERVES))
        .order_by(model_event.c.id.desc())
        .limit(1)
    )


def _earlier(connection: Connection) -> str | None:
    """The rollback's target: each rollback undoes the last promotion still in effect."""
    stack: list[str] = []
    for row in connection.execute(
        select(model_event.c.model, model_event.c.kind)
        .where(model_event.c.kind.in_(_SERVES))
        .order_by(model_event.c.id)
    ):
        if row.kind == "promoted":
            stack.append(row.model)
        else:
            stack.pop()
    return stack[-2] if len(stack) > 1 else None


def _alarm(connection: Connection, identity: str) -> ModelEvent | None:
    row = connection.execute(
        select(model_event)
        .where(model_event.c.model == identity, model_event.c.kind == "alarm")
        .order_by(model_event.c.id)
        .limit(1)
    ).first()
    return None if row is None else _event(row)


def _comparison(
    connection: Connection, challenger: str, champion: str | None
) -> dict[str, Any] | None:
    if champion is None:
        return {}
    statement = (
        select(model_event.c.figures)
        .where(model_event.c.model == challenger, model_event.c.kind == "compared")
        .order_by(model_event.c.id.desc())
    )
    return next(
        (dict(one) for one in connection.scalars(statement) if one.get("champion") == champion),
        None,
    )


def _row(bundle: Bundle, folder: str | os.PathLike[str]) -> dict[str, Any]:
    return {
        "id": bundle.bundle_id,
        "folder": str(Path(folder).resolve()),
        "labels": list(bundle.labels),
        "separator": bundle.config.label_separator if bundle.multi_label else None,
        "precision": bundle.decisions.auto_precision.overall,
        "added_at": now(),
    }


def _model(connection: Connection, identity: str) -> KnownModel:
    rows = list(
        connection.execute(
            select(model)
            .where(model.c.id.startswith(identity, autoescape=True), model.c.id != NO_MODEL)
            .limit(2)
        )
    )
    if len(rows) != 1 or not identity:
        raise StoreError(
            f"{'several models begin with' if rows else 'no model'} {one_line(identity)}",
            expected="the id of a model in the store, or its beginning",
            fix="see `bertcnn models list`",
        )
    return _known(rows[0])


def _known(row: Row[Any]) -> KnownModel:
    return KnownModel(
        row.id, row.folder, tuple(row.labels), row.separator, row.precision, row.added_at
    )


def _event(row: Row[Any]) -> ModelEvent:
    return ModelEvent(row.model, row.kind, row.actor, row.at, row.reason, dict(row.figures))


def _write(connection: Connection, one: ModelEvent) -> None:
    connection.execute(
        insert(model_event).values(
            model=one.model,
            kind=one.kind,
            actor=one.actor,
            at=one.at,
            reason=one.reason,
            figures=dict(one.figures),
        )
    )
