"""Data checks: each finding on a file that has it and on a file that does not, and `fix`."""

import csv
import json
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcnn.bundle.scope import unit
from bertcnn.doctor.check import check_csv
from bertcnn.doctor.dataset import read_dataset
from bertcnn.doctor.mislabelled import label_errors, no_information
from bertcnn.doctor.multi_label import examine_sets
from bertcnn.doctor.out_of_fold import OutOfFold
from bertcnn.errors import ColumnError, LabelError, OutputError, TableError
from bertcnn.progress import Silent
from bertcnn.tables.tables import open_table, read_table

WORDS = {
    "billing": ("invoice", "refund", "charged", "price", "bill", "money"),
    "hardware": ("router", "cable", "modem", "socket", "power", "box"),
    "software": ("app", "login", "password", "update", "crash", "screen"),
}
FILLERS = (  # noqa: SIM905
    "the my your is are was today again still since please help nothing working slow down new old"
    " time me"
).split()


def healthy(each=30, seed=0):
    """Clean rows of id, text and label."""
    chance, rows = random.Random(seed), []
    for place in range(each * len(WORDS)):
        label = list(WORDS)[place % len(WORDS)]
        words = [*chance.sample(WORDS[label], 3), *chance.sample(FILLERS, 5)]
        chance.shuffle(words)
        rows.append([f"T-{place}", " ".join(words), label])
    return rows


def write(path, rows, header=("id", "text", "label")):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture
def look(tmp_path, encoder_folder):
    """Check rows with the tiny encoder."""

    def check(rows, header=("id", "text", "label"), **options):
        return check_csv(
            write(tmp_path / "data.csv", rows, header), encoder=encoder_folder, **options
        )

    return check


def kinds(report):
    return {finding.kind for finding in report.findings}


def test_a_healthy_file_has_no_findings(look):
    report = look(healthy())
    assert kinds(report) <= {
        "label_errors",
        "overlapping_labels",
    }  # a random encoder may suspect labels wrongly
    assert len(report.suggestions) <= 8
    assert report.facts["labels"] == {"billing": 30, "hardware": 30, "software": 30}


def blank(rows):
    rows[3][1], rows[4][1] = "", " \u200b"


def repeat(rows):
    rows[6][1] = rows[3][1] + " "


def conflict(rows):
    rows[4][1] = rows[3][1]


def nearly(rows):
    rows[3][1] = "the router in my old house is not working since today please help me"
    rows[6][1] = "The router in my old house is not working since today, please help me!"
    rows[9][1] = "the router in my old house is not workin since today please help me"


def misspelled(rows):
    for row in rows[:9:3]:
        row[2] = "Billing "


def plural(rows):
    for row in rows[:30:3]:
        row[2] = "billings"


def rare(rows):
    rows[0][2] = "refunds desk"


def unlabelled(rows):
    rows[0][2] = "  "


def long(rows):
    rows[0][1] = "invoice " * 70


def tagged(rows):
    for row in rows[::3]:
        row[1] += " [queue-billing]"


def signed(rows):
    for number, row in enumerate(rows[::3]):
        row[1] += f"\nCase {number}\nYour friendly team"


def foreign(rows):
    rows[0][1] = "Bonjour, ma facture de ce mois-ci est presque le double et je ne comprends pas"
    rows[6][1] = "Please help me, the bill is wrong again this month"
    rows[7][1] = "Nothing is working since this morning, please help"


def damaged(rows):
    rows[0][1] = "the cafÃ© router and thatâ€™s it"


def tagged_as_html(rows):
    rows[0][1] = "<div>the <b>router</b> is dead&nbsp;</div>"
    rows[1][1] += " it says <3 and if a<b then b>a & so on; see <unknown> at 5 < 6 > 4"


def unfilled(rows):
    marks = ("{product_purchased}", "[FIRST NAME]", "%s", "<e_mail>")
    for row, mark in zip(rows, marks, strict=False):
        row[1] += f" {mark}"
    rows[9][1] += " [urgent] {} 50%s <b> see {1}"


def from_a_form(rows):
    for number, row in enumerate(rows[:20]):
        row[1] = f"Ticket {number} came in by the form of the new web shop: {row[1]}"


ABOUT_TEXTS = {  # kind: how rows get it, and the number of rows that it names
    "empty_texts": (blank, 2),
    "duplicate_texts": (repeat, 2),  # and the conflict repeats a text
    "conflicting_labels": (conflict, 2),
    "near_duplicates": (nearly, 2),
    "long_texts": (long, 2),  # and the foreign text is one too
    "languages": (foreign, 1),
    "broken_characters": (damaged, 1),
    "markup": (tagged_as_html, 0),
    "placeholders": (unfilled, 0),
}
OTHERS = {  # each needs a file of its own
    "templates": (from_a_form, 0),
    "label_spellings": (misspelled, 3),
    "similar_names": (plural, 0),
    "rare_labels": (rare, 1),
    "missing_labels": (unlabelled, 1),
}


def check_finding(finding, affected):
    assert len(finding.rows) == affected, finding
    assert finding.examples
    assert finding.title
    assert finding.advice.endswith(".")


def test_findings_about_texts_name_their_rows(look):
    part = 24
    rows = healthy(part * len(ABOUT_TEXTS) // len(WORDS))
    for number, (make_sick, _) in enumerate(ABOUT_TEXTS.values()):
        make_sick(rows[number * part :])
    report = look(rows)
    for kind, (_, affected) in ABOUT_TEXTS.items():
        check_finding(report.finding(kind), affected)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_findings_name_their_rows(kind, look):
    make_sick, affected = OTHERS[kind]
    rows = healthy()
    make_sick(rows)
    check_finding(look(rows).finding(kind), affected)


def test_markup_placeholders_and_near_duplicates_are_counted_with_examples(look):
    rows = healthy()
    tagged_as_html(rows), unfilled(rows[50:]), nearly(rows[20:])
    report = look(rows)
    markup = report.finding("markup")
    assert markup.figures == {"texts": 1}
    assert (markup.examples[0].line, markup.examples[0].says) == (2, "'<div>'")
    counts = {"{product_purchased}": 1, "[FIRST NAME]": 1, "%s": 1, "<e_mail>": 1}
    assert report.finding("placeholders").figures == {"texts": 4, "placeholders": counts}
    near = report.finding("near_duplicates")
    assert near.title == "2 texts nearly the same as an earlier one"
    shown = [(example.line, example.says) for example in near.examples]
    assert shown == [(25, "'software'"), (28, "'software', like line 25")]


def test_labels_drawn_by_chance_come_first_and_none_is_called_wrong(look):
    chance = random.Random(0)
    rows = [[*row[:2], chance.choice("abcdefghij")] for row in healthy(160)]
    report = look(rows)
    first = report.findings[0]
    assert (first.kind, first.severity) == ("no_information", "problem")
    assert first.title.startswith("the text does not tell the label: ")
    assert kinds(report).isdisjoint({"label_errors", "overlapping_labels"})
    assert not report.suggestions
    assert np.isnan(report.suspicion).all()


def test_too_few_rows_call_no_label_wrong(look):
    chance = random.Random(0)
    report = look([[*row[:2], chance.choice("ab")] for row in healthy(10)])
    assert "label_errors" not in kinds(report)
    assert len(report.suspicion) == 30
    assert "30 rows cannot show that the text predicts the label" in " ".join(report.skipped)


def test_inseparable_labels_are_not_called_mistakes_of_each_other():
    generator = np.random.default_rng(0)
    labels = np.arange(3000) % 3
    called = np.where(labels < 2, generator.integers(0, 2, 3000), 2)
    called[:30] = 2 - called[:30]  # wrong labels that are not from this pair
    probabilities = np.full((3000, 3), 0.05)
    probabilities[np.arange(3000), called] = 0.9
    judged = OutOfFold(np.arange(3000), ("a", "b", "c"), labels, probabilities)
    known = no_information(judged, np.arange(3000))
    assert known.inseparable == (("a", "b"),)
    errors = label_errors(judged, known)
    moves = {(int(labels[place]), int(called[place])) for place in errors}
    assert moves
    assert moves.isdisjoint({(0, 1), (1, 0)})


@pytest.mark.parametrize(
    ("make_sick", "mark"), [(tagged, "[queue-billing]"), (signed, "Your friendly team")]
)
def test_a_token_that_determines_the_label_is_found(make_sick, mark, look):
    rows = healthy()
    make_sick(rows)
    finding = look(rows).finding("leaks_in_text")
    assert finding.severity == "problem"
    assert mark in {leak["mark"] for leak in finding.figures["marks"]}
    assert set(finding.rows) >= set(range(0, 90, 3))


@pytest.mark.parametrize("times", [1, 3])
def test_repeated_texts_do_not_change_a_tokens_row_count(look, times):
    rows = healthy()
    tagged(rows)
    finding = look(rows * times).finding("leaks_in_text")
    assert any("100% of 'billing'" in example.says for example in finding.examples)
    assert set(finding.rows) >= {row for row in range(90 * times) if row % 90 % 3 == 0}


def test_a_row_without_a_label_gets_the_label_of_the_same_text_suggested(look):
    rows = healthy()
    first, same = len(rows), "the very same text about nothing"
    labels = ["", "billing", "hardware", ""]
    rows += [[str(900 + place), same, label] for place, label in enumerate(labels)]
    told = look(rows).finding("conflicting_labels").rows
    billing, hardware = (
        f"same text as line {first + 2 + place}, which is labelled '{labels[place]}'"
        for place in (1, 2)
    )
    assert [told[first + place] for place in range(4)] == [billing, hardware, billing, billing]


def test_a_token_of_all_labels_is_not_a_leak(look):
    rows = healthy()
    for row in rows:
        row[1] += "\nKind regards [queue-all]"
    assert look(rows).finding("leaks_in_text") is None


def test_columns_that_determine_the_label_and_constant_ones_are_found(look):
    queues = {"billing": "Q1", "hardware": "Q2", "software": "Q3"}
    rows = [
        [f"{label[:2]}-{place}", text, label, queues[label], "web", str(place % 7)]
        for place, (_, text, label) in enumerate(healthy())
    ]
    report = look(rows, ("id", "text", "label", "queue", "source", "hour"))
    assert report.finding("leaks_in_columns").figures["columns"] == ["id", "queue"]
    assert report.finding("constant_columns").figures["constant"] == ["source"]


@pytest.mark.parametrize(("text", "severity"), [("text", "note"), ("Resolution", "problem")])
def test_columns_written_after_the_decision_are_named(look, text, severity):
    rows = [[*row, row[1]] for row in healthy()]
    report = look(rows, ("id", "text", "label", "Resolution"), text=text, label="label")
    assert report.finding("after_decision").severity == severity
    assert report.finding("after_decision").figures == {"columns": ["Resolution"]}


def test_a_column_with_each_value_in_two_rows_is_not_a_leak(look):
    rows = healthy()
    random.Random(1).shuffle(rows)
    paired = [[*row, f"batch {place // 2}"] for place, row in enumerate(rows)]
    assert look(paired, ("id", "text", "label", "batch")).finding("leaks_in_columns") is None


def test_flipped_labels_are_found_and_the_right_ones_suggested(look):
    rows = healthy(60)
    truth = {row: rows[row][2] for row in range(5, 180, 22)}
    for row, label in truth.items():
        rows[row][2] = next(name for name in WORDS if name != label)
    report = look(rows)
    found = set(report.finding("label_errors").rows)
    assert len(found & set(truth)) >= 0.7 * len(truth)
    assert all(report.suggestions[row] == truth[row] for row in found & set(truth))
    suspicious = np.argsort(-report.suspicion, kind="stable")[: 2 * len(truth)]
    assert len(set(suspicious.tolist()) & set(truth)) >= 0.7 * len(truth)


def test_labels_mixed_up_with_each_other_overlap(look):
    chance, rows = random.Random(3), healthy(60)
    for row in rows:
        if row[2] != "software":
            row[2] = chance.choice(("refunds", "returns"))
    pairs = look(rows).finding("overlapping_labels").figures["pairs"]
    assert [pair["labels"] for pair in pairs] == [["refunds", "returns"]]


def test_the_majority_of_equal_texts_suggests_its_label(look):
    rows = healthy()
    for row in (3, 6, 10):
        rows[row][1] = "invoice bill refund today please"
    report = look(rows)
    assert report.suggestions[10] == "billing"
    assert 3 not in report.suggestions


def test_one_label_in_two_spellings_is_not_a_conflict(look):
    rows = healthy()
    misspelled(rows)
    rows[9][1] = rows[0][1]
    report = look(rows)
    assert report.finding("conflicting_labels") is None
    assert report.suggestions[0] == "billing"


def test_a_file_without_labels_gets_the_checks_of_texts_only(look):
    rows = [row[:2] for row in healthy()]
    rows[1][1] = rows[0][1]
    report = look(rows, ("id", "text"))
    assert kinds(report) == {"duplicate_texts"}
    assert "only the texts" in report.skipped[0]
    assert np.isnan(report.suspicion).all()


def test_labels_with_one_row_are_reported_though_no_model_can_judge_them(look):
    rows = [
        [str(place), f"router number {word} is old", f"label {word}"]
        for place, word in enumerate(("app", "bill", "cable", "money"))
    ]
    report = look(rows, label="label")
    assert report.finding("rare_labels").severity == "problem"
    assert "label errors" in report.skipped[0]


GERMAN = (
    "Mein Router zeigt seit gestern Abend nur noch ein rotes Licht und das Internet geht nicht",
    "Ich habe die Rechnung zweimal bezahlt und möchte mein Geld so schnell wie möglich zurück",
    "Die App stürzt jedes Mal ab, wenn ich versuche, mein Passwort über das Menü zu ändern",
)


def test_a_file_in_a_language_unknown_to_the_default_encoder_is_reported(look):
    rows = [
        [f"T-{row}", f"{GERMAN[row % 3]}, bitte helfen Sie, Vorgang {row}", list(WORDS)[row % 3]]
        for row in range(30)
    ]
    found = look(rows).finding("languages")
    assert re.match(r"the [23]\d of 30 texts whose language is recognised are in 'de'", found.title)
    assert "train with one that knows 'de'" in found.advice
    english = "please tell me why the invoice of last month is twice as high as usual"
    found = look([*rows, ["T-x", english, "billing"]]).finding("languages")
    assert list(found.rows) == [30]
    assert "train with one that knows 'de' and the others" in found.advice
    assert "Sort other languages out" not in found.advice


def test_the_label_separator_can_be_given(look):
    rows = healthy()
    for row in rows[::3]:
        row[2] = "billing, hardware"
    assert "billing, hardware" in look(rows).facts["labels"]
    apart = look(rows, multi_label=",").facts["labels"]
    assert apart.keys() == {"billing", "hardware", "software"}
    for place, row in enumerate(rows):
        row[2] = ("EU|billing", "EU|hardware", "US|software")[place % 3]
    together = look(rows, multi_label="no").facts["labels"]
    assert together.keys() == {"EU|billing", "EU|hardware", "US|software"}


def test_the_same_file_gives_the_same_report(look):
    rows = healthy()
    conflict(rows), nearly(rows), misspelled(rows)
    first, second = look(rows).to_json(), look(rows).to_json()
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert json.loads(json.dumps(first)) == first


def test_the_order_of_rows_changes_no_suggestion(look):
    rows = healthy(40)
    rows[7][2] = "billing"
    found, backwards = (
        {given[row][0] for row in look(given).suggestions} for given in (rows, rows[::-1])
    )
    assert found == backwards


def test_fix_keeps_every_byte_and_adds_two_columns(look, tmp_path):
    rows = healthy()
    conflict(rows), misspelled(rows), blank(rows)
    rows[20][1], rows[21][1] = '=1+1, "quoted"\nand two lines', "'@home the router, again"
    report = look(rows, fix=tmp_path / "out.csv")
    with open_table(tmp_path / "out.csv", as_written=True) as reader:
        fixed = reader.whole()
    assert fixed.columns == ("id", "text", "label", "suggested_label", "finding")
    assert [list(row[:3]) for row in fixed.rows] == rows
    write(tmp_path / "again.csv", [row[:3] for row in fixed.rows])
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "data.csv").read_bytes()
    assert {row: cells[3] for row, cells in enumerate(fixed.rows) if cells[3]} == report.suggestions
    touched = {row for finding in report.findings for row in finding.rows}
    assert {row for row, cells in enumerate(fixed.rows) if cells[4]} == touched
    assert all(cells[3] != cells[2] for cells in fixed.rows)


def test_fix_uses_names_that_are_free_and_keeps_those_of_the_file(look, tmp_path):
    rows = [[*row[:2], "x", row[2], "y", "mine"] for row in healthy(10)]
    header = ("Labels", "text", "", "label", "Labels", " finding")
    look(rows, header, text="text", label="label", fix=tmp_path / "out.csv")
    written = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert written == "Labels,text,,label,Labels, finding,suggested_label,bertcnn_finding"


def test_a_formula_that_was_safe_in_another_format_is_quoted_in_csv_and_the_other_way_round(
    look, encoder_folder, tmp_path
):
    rows = healthy(10)
    rows[3][1], rows[4][1] = "'=1+1 is what the router says", "@home the router, again"
    look(rows, fix=tmp_path / "out.jsonl")
    plain = read_table(tmp_path / "out.jsonl").column("text")[3:5]
    assert plain == ["=1+1 is what the router says", "@home the router, again"]
    lines = [json.dumps(dict(zip(("id", "text", "label"), row, strict=True))) for row in rows]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    check_csv(tmp_path / "in.jsonl", encoder=encoder_folder, fix=tmp_path / "out.csv")
    with open_table(tmp_path / "out.csv", as_written=True) as reader:
        quoted = reader.whole().column("text")[3:5]
    assert quoted == ["''=1+1 is what the router says", "'@home the router, again"]


def test_rows_that_are_short_or_cannot_be_read_are_findings_and_kept(tmp_path, encoder_folder):
    path = write(tmp_path / "data.csv", healthy())
    path.write_text(path.read_text() + "only one cell\n9,the router is dead again\n")
    options = {"text": "text", "label": "label", "encoder": encoder_folder}
    report = check_csv(path, fix=tmp_path / "out.csv", **options)
    assert report.finding("short_rows").figures == {"short": 1}
    assert report.finding("rejected_rows").examples[0].line == 92
    assert "only one cell" in report.rejects.read_text()
    assert len(read_table(tmp_path / "out.csv")) == 91
    write(path, healthy())
    again = check_csv(path, fix=tmp_path / "out.csv", overwrite=True, **options)
    assert again.rejects is None
    assert not report.rejects.exists()


def test_unusable_files_are_refused_with_a_reason(look, tmp_path):
    with pytest.raises(TableError, match="there is no file"):
        check_csv(tmp_path / "none.csv")
    with pytest.raises(LabelError, match="1 label"):
        look([[*row[:2], "same"] for row in healthy()])
    with pytest.raises(ColumnError, match="did you mean 'label'"):
        look(healthy(), label="lable")
    with pytest.raises(OutputError, match="input and output"):
        look(healthy(), fix=tmp_path / "data.csv")
    (tmp_path / "there.csv").write_text("x")
    with pytest.raises(OutputError, match="exists"):
        look(healthy(), fix=tmp_path / "there.csv")


@settings(max_examples=12)
@given(
    st.lists(
        st.tuples(st.text(max_size=30), st.sampled_from(["a", "b", "A ", ""])),
        min_size=6,
        max_size=25,
    )
)
def test_any_texts_and_labels_are_checked_or_refused_in_words(encoder_folder, tmp_path, cells):
    path, out = tmp_path / "any.jsonl", tmp_path / "any_out.jsonl"
    path.write_text("".join(f"{json.dumps({'text': text, 'label': own})}\n" for text, own in cells))
    options = {"text": "text", "label": "label", "encoder": encoder_folder}
    try:
        report = check_csv(path, fix=out, overwrite=True, **options)
    except LabelError:
        assert len({label for _, label in cells if label}) < 2
        return
    assert [row[:2] for row in read_table(out).rows] == read_table(path).rows
    assert set(report.suggestions.values()) <= {"a", "b", "A"}


def two_labels(each=40):
    """Rows; a third have two labels, and words of both."""
    chance, rows, names = random.Random(3), [], list(WORDS)
    for place in range(each * 3):
        own = [names[place % 3]]
        if place % 3 == 0:
            own.append(names[(place + 1 + place % 2) % 3])
        words = [word for label in own for word in chance.sample(WORDS[label], 3)]
        words += chance.sample(FILLERS, 4)
        chance.shuffle(words)
        rows.append([f"T-{place}", " ".join(words), "; ".join(own)])
    return rows


def test_rows_with_several_labels_are_judged_label_by_label(tmp_path, minilm_folder):
    rows = two_labels()
    rows[5][2], rows[9][2] = "billing", rows[9][2].split("; ")[0]  # one wrong label, one missing
    rows[20][2] += "; Hardware"
    rows.append(["T-x", "my parrot has eaten the remote", "pets; billing"])
    data, fixed = write(tmp_path / "data.csv", rows), tmp_path / "fixed.csv"
    report = check_csv(data, encoder=minilm_folder, fix=fixed)
    assert report.facts["labels"].keys() == {"billing", "hardware", "software", "pets", "Hardware"}
    assert report.finding("rare_labels").figures["labels"] == {"Hardware": 1, "pets": 1}
    assert report.finding("label_spellings").figures["spellings"] == {"Hardware": "hardware"}
    found = report.finding("label_errors").rows
    assert "label probably wrong: 'billing'" in found[5]
    assert "label probably missing: 'software'" in found[5]
    assert len(found) < 12
    assert {5, 9} <= set(np.argsort(-np.nan_to_num(report.suspicion))[:12].tolist())
    table = read_table(fixed)
    assert table.column("label") == [row[2] for row in rows]
    suggested = table.column("suggested_label")
    assert "software" in suggested[5]
    assert "billing" not in suggested[5]
    assert "Hardware" not in suggested[20]


def test_several_labels_drawn_by_chance_are_never_called_wrong_or_missing(tmp_path):
    chance, generator = random.Random(0), np.random.default_rng(0)
    names = [";".join(chance.sample("abcd", chance.randint(1, 3))) for _ in range(900)]
    rows = [[*row[:2], own] for row, own in zip(healthy(300), names, strict=True)]
    dataset = read_dataset(write(tmp_path / "data.csv", rows), None, None, "auto", None, Silent())
    sets = dict(enumerate(map(dataset.names_in, names)))
    features = unit(generator.normal(size=(900, 8)).astype(np.float32))
    suspicion = np.full(900, np.nan)
    (finding,), suggestions = examine_sets(
        dataset, sets, features, np.arange(900), suspicion, Silent()
    )
    assert (finding.kind, finding.severity) == ("no_information", "problem")
    assert finding.title.startswith("the text does not tell any of the labels")
    assert not suggestions
    assert np.isnan(suspicion).all()


def test_a_sample_of_a_large_file_is_examined_and_fix_keeps_all_rows(look, tmp_path, monkeypatch):
    monkeypatch.setattr("bertcnn.doctor.dataset.MOST_ROWS", 60)
    report = look(healthy(), fix=tmp_path / "fixed.csv")
    assert (report.facts["rows"], len(report.lines)) == (90, report.facts["examined"])
    assert 30 <= report.facts["examined"] <= 60
    left_out = 90 - report.facts["examined"]
    assert report.skipped[0].startswith(f"{left_out} of 90 rows")
    fixed = read_table(tmp_path / "fixed.csv")
    assert [row[:3] for row in fixed.rows] == [tuple(row) for row in healthy()]
    assert fixed.column("finding").count("not examined") == left_out


def test_an_even_sample_of_a_table_is_kept_in_the_order_of_its_rows(tmp_path):
    path = write(tmp_path / "in.csv", [[str(row), "text", "a"] for row in range(20_000)])
    with open_table(path) as reader:
        table = reader.whole(most=3000)
    chosen = [int(row[0]) for row in table.rows]
    assert table.line_numbers == [row + 2 for row in chosen] == sorted(table.line_numbers)
    assert 1500 <= len(chosen) <= 3000
    assert table.left_out == 20_000 - len(chosen)
    assert sum(row < 10_000 for row in chosen) / len(chosen) == pytest.approx(0.5, abs=0.05)
