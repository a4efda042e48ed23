"""The sample tickets in data/: complete, tidy, varied, and without leaks of the labels."""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
LABELS = {"hardware", "software", "billing"}
CHANNELS = {"email", "web_form", "chat", "phone_note", "social", "app"}

Row = dict[str, str]


def read_rows(name: str) -> list[Row]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


@pytest.fixture(scope="module")
def tickets() -> list[Row]:
    return read_rows("isp_tickets.csv")


@pytest.fixture(scope="module")
def inbox() -> list[Row]:
    return read_rows("isp_inbox.csv")


@pytest.fixture(scope="module")
def truth() -> list[Row]:
    return read_rows("isp_inbox_truth.csv")


def character_4_grams(text: str) -> frozenset[str]:
    """The 4-grams of the text in lower case with collapsed white space."""
    folded = " ".join(text.lower().split())
    return frozenset(folded[start : start + 4] for start in range(max(1, len(folded) - 3)))


def near_duplicate_pairs(texts: list[str]) -> list[tuple[str, str]]:
    """Every pair of texts whose sets of 4-grams have a Jaccard similarity over 0.5."""
    gram_sets = [character_4_grams(text) for text in texts]
    column = {gram: place for place, gram in enumerate(frozenset().union(*gram_sets))}
    presence = np.zeros((len(texts), len(column)), dtype=np.float32)  # [texts, grams]
    for row, grams in enumerate(gram_sets):
        presence[row, [column[gram] for gram in grams]] = 1
    shared = presence @ presence.T
    sizes = presence.sum(axis=1)
    similarity = shared / (sizes[:, None] + sizes - shared)
    return [
        (texts[first], texts[second])
        for first, second in np.argwhere(np.triu(similarity > 0.5, k=1))
    ]


def accuracy_of_guess_by(clue: Callable[[Row], str], rows: list[Row]) -> float:
    """The accuracy on every other row of the most frequent label of each value of a clue."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows[::2]:
        seen[clue(row)][row["label"]] += 1
    default = Counter(row["label"] for row in rows[::2])
    guesses = [seen.get(clue(row), default).most_common(1)[0][0] for row in rows[1::2]]
    return sum(map(str.__eq__, guesses, (row["label"] for row in rows[1::2]))) / len(guesses)


def test_the_tables_have_the_documented_rows_columns_and_labels(
    tickets: list[Row], inbox: list[Row], truth: list[Row]
) -> None:
    assert (len(tickets), len(inbox), len(truth)) == (1040, 200, 200)
    assert list(tickets[0]) == ["ticket_id", "created_at", "channel", "text", "label"]
    assert list(inbox[0]) == ["ticket_id", "created_at", "channel", "text"]
    assert {row["label"] for row in tickets} == LABELS
    assert {row["channel"] for row in tickets + inbox} == CHANNELS
    ids = [row["ticket_id"] for row in tickets + inbox]
    assert len(set(ids)) == len(ids)
    assert [row["ticket_id"] for row in truth] == ids[len(tickets) :]
    assert {row["label"] for row in truth} == LABELS | {"out_of_scope"}
    assert all(row["text"] == row["text"].strip() != "" for row in tickets + inbox)


@pytest.mark.parametrize("name", ["isp_tickets.csv", "isp_inbox.csv", "isp_inbox_truth.csv"])
def test_the_files_are_utf8_with_lf_and_minimal_quoting(name: str, tmp_path: Path) -> None:
    rows = read_rows(name)
    again = tmp_path / name
    with again.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    assert again.read_bytes() == (DATA / name).read_bytes()


def test_times_ascend_and_the_inbox_is_the_month_after(
    tickets: list[Row], inbox: list[Row]
) -> None:
    times = [datetime.fromisoformat(row["created_at"]) for row in tickets + inbox]
    assert times == sorted(times)
    assert {(time.year, time.month) for time in times[len(tickets) :]} == {(2026, 4)}
    assert times[len(tickets) - 1] < datetime(2026, 4, 1, tzinfo=times[0].tzinfo)


def test_at_most_two_percent_are_near_duplicates_within_and_across_the_files(
    tickets: list[Row], inbox: list[Row]
) -> None:
    texts = [row["text"] for row in tickets + inbox]
    involved = {text for pair in near_duplicate_pairs(texts) for text in pair}
    assert len(involved) / len(texts) <= 0.02, sorted(involved)


def test_the_measures_find_a_planted_copy_and_leak(tickets: list[Row]) -> None:
    original = "My router has no light at all since Monday, please send somebody."
    reworded = "my router has no light at all since Tuesday, please send somebody"
    pairs = near_duplicate_pairs([original, "Why was I charged twice in May?", reworded])
    assert pairs == [(original, reworded)]
    assert accuracy_of_guess_by(lambda row: row["label"][0], tickets) == 1.0


CLUES: dict[str, Callable[[Row], str]] = {
    "channel": lambda row: row["channel"],
    "hour": lambda row: row["created_at"][11:13],
    "month": lambda row: row["created_at"][:7],
    "weekday": lambda row: str(datetime.fromisoformat(row["created_at"]).weekday()),
    "last digit of the id": lambda row: row["ticket_id"][-1],
    "block of the id": lambda row: row["ticket_id"][:5],
}


@pytest.mark.parametrize("clue", CLUES)
def test_only_the_text_predicts_the_label(clue: str, tickets: list[Row]) -> None:
    always_the_commonest = accuracy_of_guess_by(lambda _: "", tickets)
    assert accuracy_of_guess_by(CLUES[clue], tickets) < always_the_commonest + 0.05


def test_no_text_holds_an_address_or_a_phone_number(tickets: list[Row], inbox: list[Row]) -> None:
    for row in tickets + inbox:
        assert not re.search(r"\w@\w|https?://|\bwww\.", row["text"]), row["ticket_id"]
        assert not re.search(r"(?<![\d.])\+?\d(?:[ /-]?\d){6,}", row["text"]), row["ticket_id"]


def test_the_hard_cases_in_the_readme_are_in_the_data(
    tickets: list[Row],
) -> None:
    by_id = {row["ticket_id"]: row for row in tickets}
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| (T-\d{5}) \| (.+?) \| `(\w+)` \| .+ \|$", readme, flags=re.MULTILINE)
    assert len(quoted) >= 15
    for ticket_id, words, label in quoted:
        row = by_id[ticket_id]
        assert row["label"] == label
        for piece in words.split(" [...] "):
            assert piece in " ".join(row["text"].split()), ticket_id


def test_the_counts_in_the_readme_match_the_files(
    tickets: list[Row], inbox: list[Row], truth: list[Row]
) -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    labels = ["hardware", "software", "billing"]
    labelled_inbox = [row | answer for row, answer in zip(inbox, truth, strict=True)]
    for rows, columns in ((tickets, labels), (labelled_inbox, [*labels, "out_of_scope"])):
        for channel in sorted(CHANNELS):
            counts = Counter(row["label"] for row in rows if row["channel"] == channel)
            cells = [str(counts[label]) for label in columns] + [str(counts.total())]
            assert f"| {channel} | {' | '.join(cells)} |" in readme


def test_every_intent_has_14_different_messages_and_none_is_about_banking() -> None:
    rows = read_rows("intents.csv")
    messages: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        messages[row["domain"], row["intent"]].add(row["text"])
    assert len(rows) == 13_440
    assert {len(texts) for texts in messages.values()} == {14}
    domains = Counter(domain for domain, _ in messages)
    assert (len(domains), set(domains.values())) == (16, {60})
    banking = (
        r"\b(my bank|bank account|(bank|debit|credit) card|atm|cash machine|exchange rate)s?\b"
    )
    assert not [row["text"] for row in rows if re.search(banking, row["text"], re.IGNORECASE)]


def test_spans_are_whole_words_and_held_out_tickets_are_separate() -> None:
    names = ("ticket_spans.jsonl", "ticket_spans_test.jsonl")
    parts = [(DATA / name).read_text(encoding="utf-8").splitlines() for name in names]
    assert [len(part) for part in parts] == [236, 78]
    rows: list[dict[str, Any]] = [json.loads(line) for part in parts for line in part]
    assert near_duplicate_pairs([row["text"] for row in rows]) == []
    counts: Counter[str] = Counter()
    for row in rows:
        end = 0
        for span in row["spans"]:
            marked = row["text"][span["start"] : span["end"]]
            assert marked == marked.strip() != ""
            assert end <= span["start"]
            end = span["end"]
            counts[span["label"]] += 1
    assert set(counts) == {"NAME", "ORDER", "DATE", "AMOUNT", "PRODUCT"}
    assert counts.total() == 650


def test_summaries_are_one_line_and_held_out_tickets_are_separate() -> None:
    parts = [read_rows(f"ticket_summaries{part}.csv") for part in ("", "_test")]
    assert [len(part) for part in parts] == [530, 90]
    rows = [row for part in parts for row in part]
    assert near_duplicate_pairs([row["ticket"] for row in rows]) == []
    assert near_duplicate_pairs([row["summary"] for row in rows]) == []
    for row in rows:
        assert 4 <= len(row["summary"].split()) <= 14
        assert "\n" not in row["summary"]
        assert len(row["summary"].split()) < len(row["ticket"].split())


# cities of which data/cities.txt says where they are, but never in these words
PUT_TOGETHER = (  # noqa: SIM905
    "Nanjing Kobe Busan Chennai Hue Izmir Turin Seville Bordeaux Hamburg Gdansk Porto Leeds Ghent"
    " Mombasa Fez Kumasi Boston Montreal Guadalajara Medellin Rosario Perth"
).split()


def test_city_texts_are_many_and_held_out_texts_are_separate() -> None:
    texts, held_out = (
        [text.strip() for text in (DATA / name).read_text(encoding="utf-8").split("\n\n")]
        for name in ("cities.txt", "cities_test.txt")
    )
    assert [len(texts), len(held_out)] == [965, 82]
    assert near_duplicate_pairs([*texts, *held_out]) == []
    sentences = [set(re.split(r"(?<=[.?!])\s", " ".join(part))) for part in (texts, held_out)]
    assert sentences[0].isdisjoint(sentences[1])


def test_city_texts_state_some_facts_and_imply_others() -> None:
    text = (DATA / "cities.txt").read_text(encoding="utf-8")
    stated = set(re.findall(r"([A-Z][A-Za-z' ]*) is a city in", text))
    assert len(stated) == 214
    assert stated.isdisjoint(PUT_TOGETHER)
    held_out = (DATA / "cities_test.txt").read_text(encoding="utf-8")
    for city in PUT_TOGETHER:
        assert f"{city} is a city in" in held_out
        assert len(re.findall(rf"\b{city}\b", text)) >= 7
