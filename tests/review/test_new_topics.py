"""Topics among out-of-scope tickets."""

import numpy as np
import pytest
from sqlalchemy import update

from bertcnn.errors import StoreError
from bertcnn.review.daily_figures import DAY, start_of
from bertcnn.review.labels import add_labels, labels_in_use, merge_labels
from bertcnn.review.new_topics import store_topics
from bertcnn.review.schema import prediction, ticket
from bertcnn.review.tickets import erase_ticket
from tests.review.conftest import refused
from tests.review.desk import ADMIN, ANN, decide, decide_all
from tests.review.history import LAST, with_history

UNTIL = start_of(LAST) + DAY
ABOUT = "solar panel stopped feeding"


def with_topic(store, encoder_folder):
    """Out-of-scope tickets of seven days; returns the ids of those about one topic."""
    with_history(store, encoder_folder, 7, 20, outside=1.0)
    chance = np.random.default_rng(0)
    tickets = list(range(1, 141, 8))
    centre = chance.normal(size=32)
    with store.writing() as connection:
        for number in range(1, 141):
            about = number in tickets
            vector = centre + 0.2 * chance.normal(size=32) if about else chance.normal(size=32)
            values = {"embedding": (vector / np.linalg.norm(vector)).astype(np.float16).tobytes()}
            mine = prediction.c.ticket == number
            connection.execute(update(prediction).where(mine).values(values))
            if about:
                text = f"{ABOUT} {chance.choice(['today', 'again', 'now'])} {number}"
                connection.execute(update(ticket).where(ticket.c.id == number).values(text=text))
    return tickets


def test_a_topic_has_a_name_tickets_and_examples(store, encoder_folder):
    tickets = with_topic(store, encoder_folder)
    found = store_topics(store, until=UNTIL)
    [topic] = found.topics
    assert set(topic.tickets) <= set(tickets)
    assert len(topic.tickets) >= 10
    assert set(topic.name.split(", ")) <= set(ABOUT.split())
    assert 3 <= topic.days <= 7
    assert len(topic.examples) == 3
    assert all(text.startswith(ABOUT) for text in topic.examples)
    said = found.lines()
    assert said[0].startswith("1 topic among ")
    assert said[1].startswith(f"{topic.name}: {len(topic.tickets)} tickets on {topic.days} days")
    assert found.to_json()["topics"][0]["tickets"] == [f"#{one}" for one in topic.tickets]


def test_labelled_erased_and_older_tickets_are_left_out(store, encoder_folder):
    tickets = with_topic(store, encoder_folder)
    every = store_topics(store, until=UNTIL).looked_at
    decide(store, ANN, tickets[0], "billing")
    decide(store, ANN, tickets[1], None)  # none of the labels: it may get a new one
    erase_ticket(store, tickets[2], ADMIN)
    assert store_topics(store, until=UNTIL).looked_at == every - 2
    decide_all(store, ANN, dict.fromkeys(tickets[3:], "billing"))
    found = store_topics(store, until=UNTIL)
    assert found.topics == ()
    assert found.lines()[0].startswith("No topics among ")
    assert store_topics(store, days=1, until=UNTIL).looked_at > 0
    assert store_topics(store).looked_at == 0  # from the last 30 days


@pytest.mark.parametrize("separator", ["; ", ",", "[]"])
def test_a_name_that_would_be_read_as_several_labels_is_refused(store, separator):
    with store.writing() as connection:
        merge_labels(connection, ["billing"], separator)
    assert add_labels(store, ADMIN, ["solar panels"]).names == ("billing", "solar panels")
    if separator != "[]":
        with refused(StoreError, "stands between labels"):
            add_labels(store, ADMIN, [f"solar{separator}panels"])
    assert labels_in_use(store).names == ("billing", "solar panels")
