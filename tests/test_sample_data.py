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


def word_counts(rows: list[Row]) -> list[int]:
    return [len(row["text"].split()) for row in rows]


def accuracy_of_guess_by(clue: Callable[[Row], str], rows: list[Row]) -> float:
    """The accuracy of guessing labels from a clue.

    Learns the most frequent label for each value of the clue on every other row, and predicts the
    rest.
    """
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows[::2]:
        seen[clue(row)][row["label"]] += 1
    default = Counter(row["label"] for row in rows[::2]).most_common(1)[0][0]
    hits = sum(
        row["label"] == (seen[clue(row)].most_common(1)[0][0] if clue(row) in seen else default)
        for row in rows[1::2]
    )
    return hits / len(rows[1::2])


def test_the_files_have_the_documented_rows_and_columns(
    tickets: list[Row], inbox: list[Row], truth: list[Row]
) -> None:
    assert len(tickets) == 1040
    assert len(inbox) == len(truth) == 200
    assert list(tickets[0]) == ["ticket_id", "created_at", "channel", "text", "label"]
    assert list(inbox[0]) == ["ticket_id", "created_at", "channel", "text"]
    assert list(truth[0]) == ["ticket_id", "label"]


@pytest.mark.parametrize("name", ["isp_tickets.csv", "isp_inbox.csv", "isp_inbox_truth.csv"])
def test_the_bytes_are_plain_utf8_with_lf_and_minimal_quoting(name: str, tmp_path: Path) -> None:
    rows = read_rows(name)
    again = tmp_path / name
    with again.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    assert again.read_bytes() == (DATA / name).read_bytes()


def test_every_label_and_channel_is_known_and_every_label_comes_through_every_channel(
    tickets: list[Row], inbox: list[Row]
) -> None:
    assert {row["label"] for row in tickets} == LABELS
    assert {row["channel"] for row in tickets + inbox} == CHANNELS
    assert min(Counter((row["label"], row["channel"]) for row in tickets).values()) >= 30


def test_no_label_is_rare(tickets: list[Row]) -> None:
    assert all(
        0.28 <= count / len(tickets) <= 0.40
        for count in Counter(row["label"] for row in tickets).values()
    )


def test_ids_are_unique_and_the_inbox_shares_none(tickets: list[Row], inbox: list[Row]) -> None:
    ids = [row["ticket_id"] for row in tickets + inbox]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"T-1\d{4}", ticket_id) for ticket_id in ids)


def test_times_ascend_over_nine_months_and_the_inbox_is_the_month_after(
    tickets: list[Row], inbox: list[Row]
) -> None:
    times = [datetime.fromisoformat(row["created_at"]) for row in tickets]
    inbox_times = [datetime.fromisoformat(row["created_at"]) for row in inbox]
    assert times == sorted(times)
    assert inbox_times == sorted(inbox_times)
    assert {(time.year, time.month) for time in times} == {
        (2025, month) for month in range(7, 13)
    } | {(2026, month) for month in (1, 2, 3)}
    assert {(time.year, time.month) for time in inbox_times} == {(2026, 4)}


def test_texts_are_not_blank_and_carry_no_loose_white_space(
    tickets: list[Row], inbox: list[Row]
) -> None:
    for row in tickets + inbox:
        assert row["text"] == row["text"].strip() != ""
        assert not re.search(r"[\t\r\x00]", row["text"])


def test_at_most_two_percent_are_near_duplicates_within_and_across_the_files(
    tickets: list[Row], inbox: list[Row]
) -> None:
    texts = [row["text"] for row in tickets + inbox]
    involved = {text for pair in near_duplicate_pairs(texts) for text in pair}
    assert len(involved) / len(texts) <= 0.02, sorted(involved)


def test_the_near_duplicate_measure_finds_a_reworded_copy() -> None:
    original = "My router has no light at all since Monday, please send somebody."
    reworded = "my router has no light at all since Tuesday, please send somebody"
    assert near_duplicate_pairs([original, "Why was I charged twice in May?", reworded]) == [
        (original, reworded)
    ]


def test_openings_are_not_a_habit(tickets: list[Row], inbox: list[Row]) -> None:
    openings = Counter(
        " ".join(re.findall(r"[\w']+", row["text"].lower())[:4]) for row in tickets + inbox
    )
    assert openings.most_common(1)[0][1] <= 2


def test_lengths_run_from_one_liners_to_rambles(tickets: list[Row]) -> None:
    counts = word_counts(tickets)
    assert sum(count <= 15 for count in counts) / len(counts) >= 0.25
    assert sum(count >= 110 for count in counts) / len(counts) >= 0.09
    assert max(counts) >= 200
    for label in LABELS:
        of_label = word_counts([row for row in tickets if row["label"] == label])
        assert sum(count >= 110 for count in of_label) >= 30
        assert sum(count <= 15 for count in of_label) >= 80


def test_the_truth_file_follows_the_inbox_row_by_row(inbox: list[Row], truth: list[Row]) -> None:
    assert [row["ticket_id"] for row in truth] == [row["ticket_id"] for row in inbox]
    assert {row["label"] for row in truth} == LABELS | {"out_of_scope"}


def test_a_tenth_of_the_inbox_is_out_of_scope(truth: list[Row]) -> None:
    assert Counter(row["label"] for row in truth)["out_of_scope"] == len(truth) // 10


@pytest.mark.parametrize(
    "clue",
    [
        pytest.param(lambda row: row["channel"], id="channel"),
        pytest.param(lambda row: row["created_at"][11:13], id="hour"),
        pytest.param(lambda row: row["created_at"][:7], id="month"),
        pytest.param(
            lambda row: str(datetime.fromisoformat(row["created_at"]).weekday()), id="weekday"
        ),
        pytest.param(lambda row: row["ticket_id"][-1], id="last digit of the id"),
        pytest.param(lambda row: row["ticket_id"][:5], id="block of the id"),
    ],
)
def test_nothing_but_the_text_gives_the_label_away(
    clue: Callable[[Row], str], tickets: list[Row]
) -> None:
    always_the_commonest = accuracy_of_guess_by(lambda _: "", tickets)
    assert accuracy_of_guess_by(clue, tickets) < always_the_commonest + 0.05


def test_the_leak_check_sees_a_leak(tickets: list[Row]) -> None:
    assert accuracy_of_guess_by(lambda row: row["label"][0], tickets) == 1.0


def test_no_text_holds_an_address_or_a_phone_number(tickets: list[Row], inbox: list[Row]) -> None:
    for row in tickets + inbox:
        assert not re.search(r"\w@\w|https?://|\bwww\.", row["text"]), row["ticket_id"]
        assert not re.search(r"(?<![\d.])\+?\d(?:[ /-]?\d){6,}", row["text"]), row["ticket_id"]


def test_the_hard_cases_quoted_in_the_readme_are_in_the_data_with_that_label(
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


def test_the_counts_in_the_readme_are_those_of_the_files(
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
    messages: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        messages.setdefault((row["domain"], row["intent"]), set()).add(row["text"])
    assert len(rows) == 13_440
    assert {len(texts) for texts in messages.values()} == {14}
    assert set(Counter(domain for domain, _ in messages).values()) == {60}
    assert len({domain for domain, _ in messages}) == 16
    banking = re.compile(
        r"\b(my bank|bank account|bank card|debit card|credit card|atm|cash machine|exchange"
        r" rate)s?\b",
        re.IGNORECASE,
    )
    assert not [row["text"] for row in rows if banking.search(row["text"])]


def test_messages_of_an_intent_do_not_begin_alike() -> None:
    first_words: dict[tuple[str, str], Counter[str]] = {}
    for row in read_rows("intents.csv"):
        start = " ".join(row["text"].lower().split()[:3])
        first_words.setdefault((row["domain"], row["intent"]), Counter())[start] += 1
    assert max(counts.most_common(1)[0][1] for counts in first_words.values()) <= 2


def test_spans_of_tickets_are_whole_words_and_the_held_out_tickets_are_others() -> None:
    rows: list[list[dict[str, Any]]] = [
        [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
        for name in ("ticket_spans.jsonl", "ticket_spans_test.jsonl")
    ]
    texts = [row["text"] for part in rows for row in part]
    assert (len(rows[0]), len(rows[1])) == (236, 78)
    assert near_duplicate_pairs(texts) == []
    counts: Counter[str] = Counter()
    for row in (row for part in rows for row in part):
        end = 0
        for span in row["spans"]:
            marked = row["text"][span["start"] : span["end"]]
            assert marked == marked.strip() != ""
            assert end <= span["start"]
            end = span["end"]
            counts[span["label"]] += 1
    assert set(counts) == {"NAME", "ORDER", "DATE", "AMOUNT", "PRODUCT"}
    assert min(counts.values()) > 100
    assert counts.total() == 650


def test_summaries_are_one_line_and_the_held_out_tickets_are_others() -> None:
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
PUT_TOGETHER = [
    "Nanjing",
    "Kobe",
    "Busan",
    "Chennai",
    "Hue",
    "Izmir",
    "Turin",
    "Seville",
    "Bordeaux",
    "Hamburg",
    "Gdansk",
    "Porto",
    "Leeds",
    "Ghent",
    "Mombasa",
    "Fez",
    "Kumasi",
    "Boston",
    "Montreal",
    "Guadalajara",
    "Medellin",
    "Rosario",
    "Perth",
]


def test_texts_about_cities_are_many_and_the_held_out_texts_are_others() -> None:
    texts, held_out = (
        [text.strip() for text in (DATA / name).read_text(encoding="utf-8").split("\n\n")]
        for name in ("cities.txt", "cities_test.txt")
    )
    assert [len(texts), len(held_out)] == [965, 82]
    assert [sum(len(text.split()) for text in part) for part in (texts, held_out)] == [40_378, 3120]
    assert near_duplicate_pairs([*texts, *held_out]) == []
    sentences = [set(re.split(r"(?<=[.?!])\s", " ".join(part))) for part in (texts, held_out)]
    assert sentences[0].isdisjoint(sentences[1])


def test_texts_about_cities_state_some_facts_and_leave_others_to_be_put_together() -> None:
    text = (DATA / "cities.txt").read_text(encoding="utf-8")
    stated = set(re.findall(r"([A-Z][A-Za-z' ]*) is a city in", text))
    assert len(stated) == 214
    assert stated.isdisjoint(PUT_TOGETHER)
    held_out = (DATA / "cities_test.txt").read_text(encoding="utf-8")
    for city in PUT_TOGETHER:
        assert f"{city} is a city in" in held_out
        assert len(re.findall(rf"\b{city}\b", text)) >= 7
