"""How long lists of tickets take in a store with many tickets, and what the search costs.

    python -m benchmarks.ticket_list [--tickets 1000000] [--store FILE|URL]

Adds tickets as `add_tickets` does, but with made-up answers, unless the store has tickets already.
Prints the rows added in a second and the size of the store, then for each filter the time of the
first page, of the second page and of the counts by state: the median of five, and the shortest. At
last, the time of a batch of the queue, and of an erased ticket.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert, text

from bertcnn.review import (
    NewDecision,
    NewTicket,
    Person,
    ReviewStore,
    TicketView,
    claim,
    count_tickets,
    erase_ticket,
    list_tickets,
    open_review,
    record,
)
from bertcnn.review.labels import merge_labels
from bertcnn.review.schema import model
from bertcnn.review.tickets import Answer, _keep_new, insert_tickets

_LABELS = [f"label {number}" for number in range(77)]
_CHANNELS, _SHARES = ("mail", "phone", "chat", "letter", "fax"), (0.5, 0.3, 0.15, 0.049, 0.001)
_REASONS = ("auto", "review:ambiguous", "review:out_of_scope")
_AT_ONCE = 512
_START = 1.7e9
_EVERY = 60.0  # seconds between two tickets
_REPEATS = 5


def vocabulary(chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Words, and their frequencies after Zipf."""
    letters = np.array(list("etaoinshrdlu"))
    words = np.array(
        ["".join(chance.choice(letters, size)) for size in chance.integers(3, 11, 30_000)]
    )
    ranks = 1 / np.arange(2, len(words) + 2)
    return words, ranks / ranks.sum()


def fill(store: ReviewStore, tickets: int) -> float:
    """Add tickets with made-up answers; returns the rows added in a second."""
    chance = np.random.default_rng(0)
    words, shares = vocabulary(chance)
    with store.writing() as connection:
        connection.execute(
            insert(model).values(id="m", folder="", labels=_LABELS, precision=0.95, added_at=0.0)
        )
        merge_labels(connection, _LABELS)
    seconds = 0.0
    for first in range(0, tickets, _AT_ONCE):
        places = range(first, min(tickets, first + _AT_ONCE))
        sizes = chance.integers(8, 50, len(places))
        drawn = np.split(chance.choice(words, sizes.sum(), p=shares), np.cumsum(sizes)[:-1])
        channels = chance.choice(_CHANNELS, len(places), p=_SHARES)
        labels = chance.choice(_LABELS, len(places))
        reasons = chance.choice(_REASONS, len(places), p=(0.87, 0.1, 0.03))
        new = [
            NewTicket(
                f"T-{place}",
                " ".join(some),
                {"channel": str(channel), "customer": f"C{place % 100_000}"},
                _START + _EVERY * place,
            )
            for place, some, channel in zip(places, drawn, channels, strict=True)
        ]
        answers = [
            Answer(str(label), 0.9, str(reason), [(str(label), 0.9)], [(0, 5)], "", None)
            for label, reason in zip(labels, reasons, strict=True)
        ]
        started = time.perf_counter()
        with store.writing() as connection:
            numbers = insert_tickets(store, connection, new, "", answers)
            _keep_new(store, connection, new, numbers, answers, "m", 0.03)
        seconds += time.perf_counter() - started
    return tickets / seconds


def views(tickets: int) -> dict[str, TicketView]:
    """The measured filters."""
    words, _ = vocabulary(np.random.default_rng(0))
    day = datetime.fromtimestamp(_START + _EVERY * tickets / 2, UTC).date()
    channel = (("channel", "mail"),)
    return {
        "all": TicketView(),
        "state waiting": TicketView(state="waiting"),
        "state automatic": TicketView(state="automatic"),
        "state disagreement, none": TicketView(state="disagreement"),
        "label": TicketView(label=_LABELS[5]),
        "reason": TicketView(reason="review:out_of_scope"),
        "column, half of the tickets": TicketView(columns=channel),
        "column, one in a thousand": TicketView(columns=(("channel", "fax"),)),
        "own number": TicketView(number=f"T-{tickets // 3}"),
        "a day": TicketView(first_day=day, last_day=day),
        "all before a day": TicketView(last_day=day),
        "person": TicketView(person="ann"),
        "word, most tickets": TicketView(text=str(words[0])),
        "word, one in a hundred": TicketView(text=str(words[300])),
        "word, one in ten thousand": TicketView(text=str(words[20_000])),
        "two words": TicketView(text=f"{words[2]} {words[500]}"),
        "beginning of words": TicketView(text=f"{words[200][:4]}*"),
        "label, channel and state": TicketView(label=_LABELS[5], columns=channel, state="waiting"),
        "word, label and channel": TicketView(
            text=str(words[3]), label=_LABELS[5], columns=channel
        ),
        "channel before a day": TicketView(columns=channel, last_day=day),
    }


def timed(work: Callable[[], Any]) -> tuple[str, Any]:
    """The median and the shortest time of some repetitions, and the result."""
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        result = work()
        times.append(1000 * (time.perf_counter() - started))
    return f"{np.median(times):.0f} ({min(times):.0f}) ms", result


def size(store: ReviewStore) -> int:
    """Bytes of the database."""
    with store.reading() as connection:
        if connection.dialect.name == "sqlite":
            return Path(store.name).stat().st_size
        return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)


def measure(store: ReviewStore, tickets: int) -> None:
    """Print the times of each filter."""
    for name, view in views(tickets).items():
        first, page = timed(partial(list_tickets, store, view))
        second = "-"
        if page.after:
            second, _ = timed(partial(list_tickets, store, view, after=page.after))
        counting, counts = timed(partial(count_tickets, store, view))
        number = f"{sum(counts.states.values()):,}{'+' * counts.at_least}"
        print(f"| {name} | {number} | {first} | {second} | {counting} |", flush=True)


def main() -> None:
    """Fill a store, measure the lists, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=1_000_000)
    parser.add_argument("--store", default=None, help="an empty database; a new file by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        store = open_review(options.store or str(Path(scratch) / "review.db"))
        tickets, ann = options.tickets, Person("ann")
        if not sum(count_tickets(store, TicketView()).states.values()):
            print(f"{fill(store, tickets):,.0f} rows/s", flush=True)
            for number in range(1, 200):
                record(store, ann, [NewDecision(f"k{number}", number, "label", _LABELS[0])])
        print(f"{tickets:,} tickets, {size(store) / 1e6:,.0f} MB", flush=True)
        measure(store, tickets)
        print(f"claim: {timed(partial(claim, store, ann))[0]}", flush=True)
        started = time.perf_counter()
        erase_ticket(store, tickets // 2, ann)
        print(f"erase: {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
