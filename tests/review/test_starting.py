"""From tickets without labels to a first model."""

import pytest
from sqlalchemy import select

from bertcnn import load
from bertcnn.errors import RoleError, StoreError
from bertcnn.review import starting
from bertcnn.review.decisions import NewDecision, record
from bertcnn.review.labels import labels_in_use
from bertcnn.review.models import add_model, list_models, serving_model
from bertcnn.review.queue import claim, waiting_tickets
from bertcnn.review.retraining import retrain
from bertcnn.review.schema import draw, prediction, queue, ticket
from bertcnn.review.similarity import similar
from bertcnn.review.starting import name_groups, start_review, ticket_groups
from bertcnn.review.store import open_review
from bertcnn.review.tickets import answer_waiting
from tests.review.desk import ADMIN, ANN, BOB, decide, filled
from tests.test_classifier import quick
from tests.tickets import as_csv, tickets

TRUTH = {str(row): label for row, label in enumerate(tickets()[1])}


@pytest.fixture
def file(tmp_path):
    """60 tickets; their label column is not read."""
    path = tmp_path / "old.csv"
    path.write_text(as_csv(*tickets()))
    return path


@pytest.fixture
def started(store, file, encoder_folder):
    """A store started from the file."""
    start_review(store, file, ADMIN, text="text", encoder=encoder_folder)
    return store


def of_queue(store, column):
    with store.reading() as connection:
        return list(connection.scalars(select(column).order_by(queue.c.ticket)))


def true_label(store, number):
    with store.reading() as connection:
        return TRUTH[connection.scalar(select(ticket.c.external_id).where(ticket.c.id == number))]


def test_every_ticket_waits_in_a_group_and_the_groups_take_turns(started):
    groups = ticket_groups(started)
    assert sum(group.tickets for group in groups) == 60
    assert len(groups) == 5  # of 60 tickets
    assert labels_in_use(started).names == tuple(
        sorted((one.name for one in groups), key=labels_in_use(started).names.index)
    )
    for group in groups:
        assert 1 <= len(group.examples) <= 3
    first = claim(started, ANN, most=15)
    turns = [{one.label for one in first[turn : turn + 5]} for turn in (0, 5, 10)]
    assert turns[0] == {group.name for group in groups}  # one of each
    assert not first[0].blind
    assert first[0].confidence is None
    assert "no model" in first[0].reason
    assert similar(started, first[0].id, ANN, at_least=-1)
    assert serving_model(started) is None
    assert list_models(started) == []


def test_groups_are_named_merged_and_left_without_a_suggestion(started):
    one, two, three, *_ = ticket_groups(started)
    # rename the first group to the second's name, and merge the second and third
    name_groups(started, ADMIN, {one.name: two.name, two.name: "bills", three.name: "bills"})
    sizes = {group.name: group.tickets for group in ticket_groups(started)}
    assert sizes[two.name] == one.tickets
    assert sizes["bills"] == two.tickets + three.tickets
    name_groups(started, ADMIN, {"bills": ""})
    assert "bills" not in labels_in_use(started).names
    assert two.name in labels_in_use(started).names
    labels = [ticket.label for ticket in claim(started, ANN, most=60)]
    assert labels.count(None) == two.tickets + three.tickets
    assert of_queue(started, queue.c.label).count(None) == two.tickets + three.tickets


def test_wrong_names_and_people_are_refused(started):
    with pytest.raises(StoreError, match="no group 'bills'; expected one of"):
        name_groups(started, ADMIN, {"bills": "billing"})
    name = ticket_groups(started)[0].name
    with pytest.raises(StoreError, match="expected 1 to 200 characters"):
        name_groups(started, ADMIN, {name: "x" * 201})
    assert ticket_groups(started)[0].name == name
    with pytest.raises(RoleError):
        name_groups(started, ANN, {name: "billing"})


def test_a_store_is_started_once_by_an_admin_with_enough_tickets(
    store, file, encoder_folder, tmp_path
):
    short = tmp_path / "short.csv"
    short.write_text(as_csv(*tickets(6)).replace("invoice", " "))
    with pytest.raises(RoleError):
        start_review(store, file, BOB, text="text", encoder=encoder_folder)
    with pytest.raises(StoreError, match=r"18 tickets in .*; expected at least 20"):
        start_review(store, short, ADMIN, text="text", encoder=encoder_folder)
    assert waiting_tickets(store) == {"audits": 0, "reviews": 0}
    start_review(store, file, ADMIN, text="text", encoder=encoder_folder)
    with pytest.raises(StoreError, match="has a model or tickets already; expected a new store"):
        start_review(store, file, ADMIN, text="text", encoder=encoder_folder)


def test_a_large_file_is_sampled(file, encoder_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(starting, "MOST_TICKETS", 25)
    ids = []
    for number in range(2):
        store = open_review(tmp_path / f"{number}.db")
        start_review(store, file, ADMIN, text="text", encoder=encoder_folder)
        with store.reading() as connection:
            ids.append(set(connection.scalars(select(ticket.c.external_id))))
    assert len(ids[0]) == len(ids[1]) == 25
    assert ids[0] != ids[1]  # depends on each store's secret


def test_the_first_model_answers_what_waits(started, encoder_folder, tmp_path):
    groups = [group.name for group in ticket_groups(started)]
    name_groups(started, ADMIN, dict.fromkeys(groups[3:], ""))
    name_groups(started, ADMIN, dict(zip(groups, set(TRUTH.values()), strict=False)))
    first = claim(started, ANN, most=40)
    record(
        started,
        ANN,
        [NewDecision(f"k{one.id}", one.id, "label", true_label(started, one.id)) for one in first],
    )
    done = retrain(started, None, tmp_path / "model", ADMIN, quick(encoder_folder), check=False)
    assert serving_model(started).id == done.model
    assert [one.id for one in list_models(started)] == [done.model]
    with started.reading() as connection:
        answered = set(
            connection.scalars(select(prediction.c.ticket).where(prediction.c.model == done.model))
        )
    assert len(answered) == 20
    assert answered.isdisjoint(one.id for one in first)
    assert set(of_queue(started, queue.c.model)) <= {done.model}


def test_another_model_answers_what_waits_but_audits_and_decided_tickets_stay(
    store, encoder_folder, tmp_path
):
    filled(store, encoder_folder, audited=0.3)
    other = tmp_path / "other"
    quick(encoder_folder, seed=5).fit(*tickets(), valid=tickets(18)).save(other)
    add_model(store, other, ADMIN)
    predictor = load(other)
    audits = waiting_tickets(store)["audits"]
    reviews = [one.id for one in claim(store, ANN, most=60) if one.decision]
    assert audits
    assert len(reviews) > 2
    decide(store, ANN, reviews[0], "billing")
    before = waiting_tickets(store)["reviews"]
    found = answer_waiting(store, predictor, audited=1.0)
    assert found.added == before
    assert waiting_tickets(store)["audits"] == audits + found.audits
    assert waiting_tickets(store)["reviews"] == found.for_people - found.audits
    with store.reading() as connection:
        theirs = connection.execute(
            select(prediction.c.ticket, prediction.c.decision, draw.c.drawn)
            .outerjoin(
                draw, (draw.c.ticket == prediction.c.ticket) & (draw.c.model == prediction.c.model)
            )
            .where(prediction.c.model == predictor.bundle.bundle_id)
        ).all()
    assert reviews[0] not in {row.ticket for row in theirs}
    assert all((row.decision == "auto") == bool(row.drawn) for row in theirs)
    assert answer_waiting(store, predictor).added == 0


def test_an_automatic_answer_that_is_undone_waits_for_nobody(store, encoder_folder):
    filled(store, encoder_folder, audited=1e-9)
    with store.reading() as connection:
        automatic = connection.scalar(
            select(prediction.c.ticket).where(prediction.c.decision == "auto")
        )
    assert automatic is not None
    before = waiting_tickets(store)
    decide(store, ANN, automatic, "billing", key="k")
    record(store, ANN, [NewDecision("u", automatic, "undo", undoes="k")])
    assert waiting_tickets(store) == before
