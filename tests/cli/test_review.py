"""`bertcnn review`, `models` and `retrain`."""

import json
import re

import pytest

from bertcnn.review.store import open_review
from bertcnn.review.tickets import find_ticket
from tests.tickets import as_csv, tickets


@pytest.fixture
def inbox(tmp_path):
    """A file of tickets with ids and times."""
    texts, _ = tickets(6)
    path = tmp_path / "inbox.csv"
    path.write_text(
        "ticket_id,created_at,text\n"
        + "".join(
            f'T-{row},2026-05-{row + 1:02}T10:00:00,"{text}"\n' for row, text in enumerate(texts)
        )
    )
    return path


@pytest.fixture
def store(run, model, inbox, tmp_path):
    """A store with a model and the file's tickets; half of the automatic ones are audited."""
    place = tmp_path / "review.db"
    code, _, told = run("models", "add", model, "--store", place)
    assert (code, "and serves." in told) == (0, True)
    code, _, told = run("review", "add", inbox, "--store", place, "--audit", "0.5")
    assert (code, "18 tickets added, 0 known already" in told) == (0, True)
    return place


def test_from_a_file_to_a_figure(run, store, inbox):
    code, _, told = run("review", "add", inbox, "--store", store)
    assert (code, "Done: 0 tickets added, 18 known already" in told) == (0, True)
    code, out, _ = run("review", "next", "--store", store, "--most", "50", "--person", "ann")
    leased = [json.loads(line) for line in out.splitlines()]
    assert leased
    assert leased[0]["columns"] == {}
    assert leased[0]["received_text"]  # the cell of the file's column of times
    first = leased[0]["ticket"]
    assert re.fullmatch(r"T-\d+", first)
    assert find_ticket(open_review(store), leased[0]["number"]) == find_ticket(
        open_review(store), first
    )
    assert run("review", "label", first, "billing", "--store", store, "--person", "ann")[0] == 0
    assert run("review", "label", "T-0", "--none", "--store", store, "--person", "bob")[0] == 0
    code, out, _ = run("review", "history", first, "--store", store)
    assert (code, "ann: billing" in out) == (0, True)
    assert "bob: no label" in run("review", "history", "T-0", "--store", store)[1]
    code, out, _ = run("review", "stats", "--store", store)
    assert code == 0
    assert "ann: 1" in out
    code, out, _ = run("review", "audit", "--store", store)
    assert code == 0
    assert "automatic answer" in out


def test_the_audit_ends_with_1_where_the_promise_is_broken(run, store, tmp_path):
    from bertcnn.review import audit_report

    code, out, _ = run("review", "next", "--store", store, "--most", "50")
    audits = [one["number"] for one in map(json.loads, out.splitlines())]
    file = tmp_path / "decided.csv"
    file.write_text("ticket,label\n" + "".join(f"{one},\n" for one in audits))
    code, _, told = run("review", "label", "--file", file, "--store", store)
    assert (code, f"{len(audits)} decision" in told) == (0, True)
    target = tmp_path / "audit.json"
    code, out, _ = run("review", "audit", "--store", store, "--json", target)
    figures = json.loads(target.read_text())
    assert figures["broken"] == audit_report(open_review(store)).broken == (code == 1)
    assert run("review", "audit", "--store", store, "--json", target)[0] == 2


def test_a_folder_that_is_no_model_leaves_no_store(run, tmp_path):
    code, _, told = run("models", "add", tmp_path, "--store", tmp_path / "review.db")
    assert code == 2
    assert told.startswith("bertcnn: ")
    assert not (tmp_path / "review.db").exists()


def test_a_store_with_nothing_in_it(run, model, tmp_path):
    place = tmp_path / "review.db"
    assert run("models", "add", model, "--store", place)[0] == 0
    assert run("review", "audit", "--store", place)[:2] == (
        0,
        "There are no automatic answers yet.\n",
    )
    assert run("jobs", "list", "--store", place)[:2] == (0, "no jobs\n")


def test_labels_are_added_and_removed(run, store):
    _, out, _ = run("review", "labels", "--store", store, "--add", "fibre")
    assert out.split() == ["billing", "hardware", "software", "fibre"]
    _, out, _ = run("review", "labels", "--store", store, "--remove", "billing")
    assert out.split() == ["hardware", "software", "fibre"]


def test_the_export_and_erasing(run, store, tmp_path):
    assert run("review", "label", "T-1", "hardware", "--store", store)[0] == 0
    assert run("review", "export", tmp_path / "out.csv", "--store", store)[0] == 0
    assert "hardware" in (tmp_path / "out.csv").read_text()
    assert run("review", "erase", "T-1", "--store", store)[0] == 0
    assert run("review", "export", tmp_path / "out.csv", "--store", store, "--force")[0] == 0
    assert "hardware" not in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("review", "stats", "--store", "nothing.db"), r"no review store at \S*nothing.db"),
        (("review", "label", "--store", "STORE"), "no ticket and label"),
        (("review", "label", "T-1", "--none", "bills", "--store", "STORE"), "--none and bills"),
        (("review", "label", "T-99", "billing", "--store", "STORE"), "no ticket 'T-99'"),
        (("review", "label", "T-1", "bills", "--store", "STORE"), "the label 'bills'"),
        (("review", "label", "--file", "FILE", "--store", "STORE"), "3 rows of .* with labels"),
        (("review", "add", "INBOX", "--store", "STORE", "--audit", "0"), "an audit share of 0"),
        (("review", "add", "INBOX", "--store", "STORE", "--id", "no"), "no"),
        (("models", "promote", "zzz", "--store", "STORE"), "no model 'zzz'"),
        (("models", "rollback", "--store", "STORE"), "no model served before"),
        (("models", "add", "nowhere", "--store", "STORE"), "nowhere"),
    ],
)
def test_wrong_input_is_one_clear_line(run, store, inbox, tmp_path, arguments, message):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("ticket,label\nT-1,bills\nT-2,bills\nT-3,bill\nT-4,billing\n")
    names = {"STORE": store, "FILE": wrong, "INBOX": inbox}
    code, out, told = run(*[names.get(word, word) for word in arguments])
    assert (code, out) == (2, "")
    [line] = [line for line in told.splitlines() if line.startswith("bertcnn: ")]
    assert re.search(message, line)


def test_a_new_model_is_trained_compared_and_promoted(
    run, store, encoder_folder, tmp_path, monkeypatch
):
    data = tmp_path / "old.csv"
    texts, labels = tickets()
    data.write_text(as_csv([f"{text} please" for text in texts], labels))
    code, out, _ = run("review", "next", "--store", store, "--most", "50")
    for one in map(json.loads, out.splitlines()):
        assert run("review", "label", one["ticket"], "billing", "--store", store)[0] == 0
    new = tmp_path / "next"
    asked = ("retrain", data, "--store", store, "--out", new, "--encoder", encoder_folder)
    code, out, told = run(*asked, "--recipe", "frozen", "--no-check")
    assert code == 0
    assert "cannot tell: Cannot tell yet" in out
    assert "models promote" in told
    assert run(*asked)[0] == 2
    code, out, _ = run("models", "list", "--store", store)
    assert (code, out.count("labels")) == (0, 2)
    identity = out.split()[0]
    assert run("models", "compare", identity, "--store", store)[0] == 0
    assert run("models", "promote", identity, "--store", store)[0] == 0
    assert run("models", "rollback", "--store", store, "--reason", "complaints")[0] == 0
    code, out, _ = run("models", "list", "--store", store)
    assert "rolled_back by" in out
    assert "complaints" in out


def test_from_a_file_without_labels_to_named_groups(run, encoder_folder, tmp_path):
    source, place = tmp_path / "old.csv", tmp_path / "new.db"
    source.write_text(as_csv(*tickets()))
    given = ("--store", place, "--text", "text", "--encoder", encoder_folder)
    code, _, err = run("review", "start", tmp_path / "none.csv", *given)
    assert (code, place.exists()) == (2, False)
    code, out, _ = run("review", "start", source, *given)
    assert code == 0
    groups = [line.rpartition(": ")[0] for line in out.splitlines() if not line.startswith("  ")]
    assert len(groups) == 5
    assert sum(line.startswith("  ") for line in out.splitlines()) > 5  # example texts
    named = [f"--name={groups[0]}=billing", f"--name={groups[1]}=billing", f"--name={groups[2]}="]
    code, out, _ = run("review", "groups", "--store", place, *named)
    assert (code, out.splitlines()[0].startswith("billing: ")) == (0, True)
    assert groups[2] not in out
    code, _, err = run("review", "groups", "--store", place, "--name", "billing")
    assert (code, "expected GROUP=LABEL" in err) == (2, True)
    code, out, _ = run("review", "next", "--store", place)
    assert json.loads(out)["label"] in ("billing", *groups[3:])
    code, _, err = run("review", "answer", "--store", place)
    assert (code, "has no model" in err) == (2, True)


def test_after_a_promotion_waiting_tickets_are_answered_again(run, store):
    code, _, told = run("review", "answer", "--store", store)
    assert (code, told.splitlines()[-1][:15]) == (0, "Done: 0 tickets")


def test_a_user_without_a_name_needs_the_option_person(run, model, tmp_path, monkeypatch):
    def nobody():
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr("getpass.getuser", nobody)
    code, _, err = run("models", "add", model, "--store", tmp_path / "new.db")
    assert code == 2
    assert "add --person NAME, or set BERTCNN_PERSON" in err
