"""A store with weeks of tickets and made-up answers of a tiny model."""

import hashlib
from collections import Counter
from datetime import date, timedelta

import numpy as np
from sqlalchemy import insert

from bertcnn.review.daily_figures import DAY, start_of
from bertcnn.review.models import add_model
from bertcnn.review.schema import draw, prediction, ticket
from bertcnn.review.statistics import CONFIDENCE_EDGES, LENGTH_EDGES, DailyFigures
from tests.review.desk import ADMIN
from tests.tiny import saved_with_scope

LAST = date(2026, 4, 30)  # a Thursday
WORDS = ("invoice", "router", "password", "cable", "refund", "login", "socket", "price", "lamp")


def with_history(
    store, encoder_folder, days=63, each=20, *, seed=0, last=LAST, folder=None, **recent
):
    """A model, and tickets on each day up to the last; `recent` changes the last seven days.

    Args:
        last: the last day.
        folder: the model's folder; by default the tiny model's.
        recent: shares of tickets out of scope and of "billing" among the others, their mean
            confidence, and words added to each text.
    """
    model = add_model(store, folder or saved_with_scope(encoder_folder), ADMIN)
    chance = np.random.default_rng(seed)
    rows = []
    for back in range(days - 1, -1, -1):
        given = {"outside": 0.05, "billing": 0.5, "confidence": 0.9, "words": ""}
        given |= recent if back < 7 else {}
        start = start_of(last - timedelta(days=back))
        rows += [_row(chance, len(rows) + n + 1, start, given) for n in range(each)]
    with store.writing() as connection:
        connection.execute(insert(ticket), [one for one, _ in rows])
        connection.execute(insert(prediction), [{**two, "model": model.id} for _, two in rows])
    return model


def daily_figures(day, lengths, outside, labels, confidence, counts=None):
    """The figures of a day, counted from its texts; `outside` are out of scope."""
    inside = ~np.asarray(outside, bool)
    return DailyFigures(
        day,
        len(inside),
        int((~inside).sum()),
        dict(Counter(np.asarray(labels)[inside].tolist())),
        tuple(np.histogram(np.asarray(confidence)[inside], CONFIDENCE_EDGES)[0].tolist()),
        tuple(np.histogram(np.minimum(lengths, LENGTH_EDGES[-1]), LENGTH_EDGES)[0].tolist()),
        dict(counts or {}),
    )


def _row(chance, number, start, given):
    text = " ".join([*chance.choice(WORDS, 4), f"{number:x}", given["words"]]).strip()
    confidence = float(np.clip(chance.normal(given["confidence"], 0.05), 0.34, 0.999))
    outside = chance.random() < given["outside"]
    decision = "review:out_of_scope" if outside else "auto"
    if not outside and confidence < 0.85:
        decision = "review:ambiguous"
    received = start + float(chance.random()) * (DAY - 1)
    label = "billing" if chance.random() < given["billing"] else "hardware"
    return (
        {
            "id": number,
            "source": "s",
            "external_id": str(number),
            "text": text,
            "text_hash": hashlib.sha256(text.encode()).hexdigest()[:32],
            "columns": {},
            "received_at": received,
        },
        {
            "ticket": number,
            "label": label,
            "confidence": confidence,
            "decision": decision,
            "probable": [],
            "because": [],
            "reason": "",
            "predicted_at": received,
        },
    )


def draw_audits(store, model, tickets, *, probability=0.5):
    """Draw these automatic answers for audit."""
    row = {"model": model.id, "stratum": "billing/1", "probability": probability, "drawn": True}
    with store.writing() as connection:
        connection.execute(insert(draw), [{"ticket": one, **row} for one in tickets])
