"""A store with a tiny model and waiting tickets, for the tests of decisions."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, update

from bertcnn import load
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.models import add_model, note_comparison, promote, serving_model
from bertcnn.review.people import Person
from bertcnn.review.schema import decision, lease
from bertcnn.review.tickets import NewTicket, add_tickets
from tests.tiny import saved_with_scope

ADMIN, ANN, BOB = Person("root"), Person("ann", "reviewer"), Person("bob", "reviewer")
WORDS = ("invoice", "router", "password", "cable", "refund", "login", "socket", "price")
HOUR = 3600.0


def texts(count: int) -> list[str]:
    """Texts that are all different, even without their numbers."""
    return [
        f"{WORDS[place % 8]} {WORDS[place // 8 % 8]} {'x' * (place % 7 + 1)} {'y' * (place // 56)}"
        for place in range(count)
    ]


def filled(store, encoder_folder, count: int = 40, *, audited: float = 0.5, hour: float = HOUR):
    """The tiny model's predictor, and tickets in the store, one an hour."""
    predictor = load(saved_with_scope(encoder_folder))
    add_model(store, saved_with_scope(encoder_folder), ADMIN)
    new = [
        NewTicket(f"T-{place}", text, {"channel": "mail"}, 1e9 + place * hour)
        for place, text in enumerate(texts(count))
    ]
    add_tickets(store, predictor, new, source="inbox", audited=audited)
    return predictor


def serve(store, folder):
    """Add a model and let it serve; returns it as the store knows it."""
    before, added = serving_model(store), add_model(store, folder, ADMIN)
    if before is not None:
        note_comparison(store, added.id, ADMIN, {"champion": before.id, "verdict": "better"})
        promote(store, added.id, ADMIN)
    return added


def decide(store, person: Person, ticket: int, label: str | None, key: str = "", **more):
    """Record one decision; None means none of the labels."""
    return record(store, person, [_decision(person, ticket, label, key, **more)])


def decide_all(store, person: Person, labels: Mapping[int, str | None]) -> None:
    """Record a decision on each ticket, all at once."""
    new = [_decision(person, ticket, label) for ticket, label in labels.items()]
    assert not record(store, person, new).refused


def _decision(person: Person, ticket: int, label: str | None, key: str = "", **more) -> NewDecision:
    key = key or f"{person.name}-{ticket}-{label}"
    return NewDecision(key, ticket, "none" if label is None else "label", label, **more)


def ids(leased: Sequence) -> list[int]:
    """The ids of leased tickets."""
    return [one.id for one in leased]


def release(store, person: Person) -> None:
    """End the leases of a person."""
    with store.writing() as connection:
        connection.execute(delete(lease).where(lease.c.actor == person.name))


def pass_time(store, seconds: float) -> None:
    """Let time pass for leases and decisions: both were that much earlier."""
    with store.writing() as connection:
        connection.execute(update(lease).values(until=lease.c.until - seconds))
        connection.execute(update(decision).values(decided_at=decision.c.decided_at - seconds))
