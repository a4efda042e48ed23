"""How long reviewers wait for the store: claiming tickets and recording decisions.

    python -m benchmarks.review_store [--tickets 1000000] [--store FILE|URL]

Fills a store with tickets; 13 % of them wait for review. Then five reviewers, each a separate
process, claim 20 and decide them one by one, at two decisions a second in all. Prints percentiles
of both times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import delete, insert

from bertcnn.review import NewDecision, Person, ReviewStore, claim, open_review, record
from bertcnn.review.labels import merge_labels
from bertcnn.review.schema import lease, model, prediction, queue, ticket

_WAITING = 0.13
_AT_ONCE = 20_000
_LABELS = ("billing", "hardware", "software")
_REVIEWERS = 5
_A_SECOND = 2.0  # decisions of all reviewers together
_TEXT = "My router's led is not working since Monday and nobody has called me back, please help. "


def fill(store: ReviewStore, tickets: int) -> None:
    """Insert tickets with answers; some of them wait for review."""
    chance = np.random.default_rng(0)
    with store.writing() as connection:
        connection.execute(
            insert(model).values(
                id="m", folder="", labels=list(_LABELS), precision=0.95, added_at=0.0
            )
        )
        merge_labels(connection, _LABELS)
    for first in range(0, tickets, _AT_ONCE):
        places = range(first, min(tickets, first + _AT_ONCE))
        waits = chance.random(len(places)) < _WAITING
        scores = chance.random(len(places))
        rows: list[dict[str, Any]] = [
            {
                "id": place + 1,
                "source": "s",
                "external_id": str(place),
                "text": _TEXT + str(place),
                "text_hash": f"{place:032x}",
                "columns": {"channel": "mail"},
                "received_at": 1.7e9 + 10.0 * place,
            }
            for place in places
        ]
        answers = [
            {
                "ticket": row["id"],
                "model": "m",
                "label": _LABELS[row["id"] % 3],
                "confidence": 0.9,
                "decision": "review:ambiguous" if wait else "auto",
                "probable": [[_LABELS[row["id"] % 3], 0.9]],
                "because": [[0, 9]],
                "reason": "",
                "predicted_at": 1.0,
            }
            for row, wait in zip(rows, waits, strict=True)
        ]
        waiting = [
            {
                "ticket": row["id"],
                "model": "m",
                "audit": False,
                "place": int(row["received_at"] // 3600),
                "certainty": float(score),
                "label": _LABELS[row["id"] % 3],
                "similar": row["text_hash"],
                "blind": False,
            }
            for row, wait, score in zip(rows, waits, scores, strict=True)
            if wait
        ]
        with store.writing() as connection:
            for table, values in ((ticket, rows), (prediction, answers), (queue, waiting)):
                connection.execute(insert(table), values)


def review(place: str, name: str, seconds: float, results: Any) -> None:
    """One reviewer: the seconds of each claim and of each decision."""
    store, person = open_review(place, create=False), Person(name, "reviewer")
    chance = np.random.default_rng([ord(letter) for letter in name])
    claims, decisions = [], []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        started = time.perf_counter()
        tickets = claim(store, person)
        claims.append(time.perf_counter() - started)
        for one in tickets:
            time.sleep(chance.exponential(_REVIEWERS / _A_SECOND))
            if time.perf_counter() > until:
                break
            started = time.perf_counter()
            record(store, person, [NewDecision(uuid.uuid4().hex, one.id, "label", _LABELS[0])])
            decisions.append(time.perf_counter() - started)
    results.put((claims, decisions))


def main() -> None:
    """Fill the store, measure one reviewer and all together, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tickets", type=int, default=1_000_000)
    parser.add_argument("--store", default=None, help="an empty database; a new file by default")
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = options.store or str(Path(scratch) / "review.db")
        store = open_review(place)
        started = time.perf_counter()
        fill(store, options.tickets)
        print(f"{options.tickets:,} tickets in {time.perf_counter() - started:.0f} s", flush=True)
        alone = []
        for number in range(100):
            person = Person(f"alone-{number}", "reviewer")
            started = time.perf_counter()
            claim(store, person)
            alone.append(time.perf_counter() - started)
            if number % 10 == 9:
                with store.writing() as connection:
                    connection.execute(delete(lease))
        show("claim 20, alone", alone)
        results: Any = multiprocessing.Queue()
        people = [
            multiprocessing.Process(
                target=review, args=(place, f"p{number}", options.seconds, results)
            )
            for number in range(_REVIEWERS)
        ]
        for one in people:
            one.start()
        both = [results.get() for _ in people]
        for one in people:
            one.join()
        show(f"claim 20, {_REVIEWERS} reviewers", [t for claims, _ in both for t in claims])
        show(f"record, {_REVIEWERS} reviewers", [t for _, decisions in both for t in decisions])


def show(what: str, seconds: list[float]) -> None:
    """Print percentiles in milliseconds."""
    middle, high, highest = np.percentile(1000 * np.array(seconds), [50, 95, 99])
    print(
        f"| {what} | {len(seconds)} | p50 {middle:.1f} ms | p95 {high:.1f} ms |"
        f" p99 {highest:.1f} ms |",
        flush=True,
    )


if __name__ == "__main__":
    main()
