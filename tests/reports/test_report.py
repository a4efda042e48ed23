"""The report page: figures, safety, size."""

import base64
import hashlib
import re
import shutil

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
)

from bertcnn.evaluation.calibration import calibration_error, compare_calibration
from bertcnn.evaluation.decisions import Automation
from bertcnn.evaluation.metrics import evaluate
from bertcnn.reports.profile import profile_rows
from bertcnn.reports.report import (
    LARGEST_MATRIX,
    Epoch,
    ExampleGroups,
    ExampleRow,
    Operation,
    Reliability,
    Report,
    render,
    risk_coverage,
)
from bertcnn.reports.slices import Answered, slice_by_length, slice_by_value
from bertcnn.reports.spurious_tokens import SpuriousToken
from tests.pages import read_page

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
NASTY = (
    "<script>alert(1)</script>",
    "</script></style><img src=x onerror=alert(2)>",
    'it\'s "quoted" & {{ 7 * 7 }}',
    "שלום עולם \u202eevil",
    "long " * 60,
    "null\x00 and \ud83d",
)


def made(names, rows=300, seed=0, **changes):
    """A report on random answers and these rows."""
    generator = np.random.default_rng(seed)
    names = list(names)
    actual = generator.integers(0, len(names), rows)
    predicted = np.where(
        generator.random(rows) < 0.8, actual, generator.integers(0, len(names), rows)
    )
    confidence, right = generator.uniform(0.3, 1, rows), predicted == actual
    before, lengths = confidence**2, generator.integers(3, 60, rows)
    true, called = [names[place] for place in actual], [names[place] for place in predicted]
    automatic = confidence > 0.6
    answered = Answered(right, confidence, automatic)
    parts = {
        "title": f"Text classifier with {len(names)} labels",
        "rows_are": "validation rows",
        "caution": "Measured on the validation rows.",
        "about": (("command", "bertcnn train 'a b.csv' --out <m>"), ("seed", "7")),
        "profile": profile_rows(
            [f"text {row}" for row in range(rows)], true, lengths, truncated=3, limit=64
        ),
        "figures": evaluate(names, true, called),
        "reliability": Reliability.of(
            compare_calibration(before, confidence, right), before, confidence, right
        ),
        "operation": Operation(
            Automation(rows, int(automatic.sum()), 0, int(right[automatic].sum()), 0, "0.95"),
            0.95,
            "told",
            risk_coverage(confidence, right),
        ),
        "slices": {
            "length": slice_by_length(lengths, answered),
            "channel": slice_by_value([NASTY[row % 4] for row in range(rows)], answered),
        },
        "trained_on": dict.fromkeys(names, 9),
        "epochs": (Epoch(1, 2.0, 0.5, 0.6), Epoch(2, 1.0, 0.7, 0.8)),
        "kept_epoch": 2,
        "spurious_tokens": (SpuriousToken("code", "<b>INC####", names[0], 9, 8, 6, 5),),
    }
    return Report(**{**parts, **changes}), true, called, confidence, before


def test_the_page_begins_with_a_three_sentence_summary():
    page = read_page(render(made(["billing", "<b>"])[0]))
    first = page.one(id="in-short").text
    assert [word in first for word in ("get the right label", "It answers", "Watch")] == 3 * [True]
    assert not list(page.one(id="in-short").all("b"))


def test_an_uninformative_model_is_marked_above_all_figures():
    plain = render(made(["a", "b"])[0])
    assert "no-information" not in plain
    assert "The weights of epoch 2 were kept" in plain
    assert "the mean of the weights in the last" in render(made(["a", "b"], averaged=True)[0])
    page = render(made(["a", "b"], warning="The text does not tell <b>.")[0])
    assert page.index("The text does not tell &lt;b&gt;.") < page.index('class="tiles"')


def test_long_texts_and_texts_with_different_labels_are_observations():
    profile = profile_rows(["a", "a", "b"], ["x", "y", "y"], np.full(3, 9), truncated=2, limit=9)
    html = render(made(["a", "b"], profile=profile)[0])
    assert "66.7% of the texts are longer than 9 tokens" in html
    assert "1 text stands in rows with different labels" in html


@pytest.mark.parametrize("labels", [3, 77])
def test_its_figures_equal_scikit_learns_and_the_evaluations(labels):
    names = [f"label_{place:02}" for place in range(labels)]
    report, true, called, confidence, before = made(names, rows=900)
    page = read_page(render(report))
    right = np.array(true) == np.array(called)
    assert page.one(id="accuracy").value == accuracy_score(true, called)
    assert page.one(id="macro-f1").value == f1_score(true, called, average="macro")
    assert page.one(id="weighted-f1").value == f1_score(true, called, average="weighted")
    assert page.one(id="ece-before").value == pytest.approx(
        calibration_error(before, right), abs=1e-12
    )
    assert page.one(id="ece-after").value == pytest.approx(
        calibration_error(confidence, right), abs=1e-12
    )
    rows = page.table("label-table")
    assert [row[0].text for row in rows] == names
    expected = precision_recall_fscore_support(true, called, labels=names, zero_division=0.0)
    for column, values in enumerate(expected, start=1):
        assert [row[column].value for row in rows] == values.tolist()
    matrix = {
        row[0].text: [int(cell.attributes.get("data-value", 0)) for cell in row[1:]]
        for row in page.table("confusion-table")
    }
    order = list(matrix)
    assert sorted(order) == names
    assert (labels > 20) == (
        order != names
    )  # many labels are sorted next to those they are confused with
    assert [matrix[name] for name in order] == confusion_matrix(true, called, labels=order).tolist()
    pairs = [(row[0].text, row[1].text, int(row[2].text)) for row in page.table("pair-table")]
    assert pairs == [
        (pair.actual, pair.predicted, pair.count) for pair in report.figures.most_confused
    ]
    bins = page.table("reliability-table")
    gaps = sum(abs(row[0].value - row[1].value) * int(row[2].text) for row in bins) / len(true)
    assert gaps == pytest.approx(calibration_error(confidence, right), abs=1e-12)


def test_user_texts_are_escaped_everywhere():
    parts = ((NASTY[1], True), (NASTY[5], False))
    row = ExampleRow(parts, NASTY[3], NASTY[4], 0.9, "auto")
    examples = ExampleGroups(((NASTY[0], (row,)),))
    report, *_ = made(NASTY, title=NASTY[1], about=(("command", NASTY[1]),), examples=examples)
    html = render(report)
    html.encode("utf-8")
    assert "\x00" not in html
    assert "<script>alert" not in html
    page = read_page(html)
    assert [element.tag for element in page.all("script")] == ["script"]
    assert not list(page.all("img"))
    assert not any(name.startswith("on") for element in page.all() for name in element.attributes)
    rows = page.table("label-table")  # templates in labels are not run
    assert [row[0].text for row in rows] == [*NASTY[:5], "null\ufffd and \ufffd"]
    assert {row[0].children[0].tag for row in rows} == {"bdi"}  # right-to-left stays in its cell
    assert NASTY[1] in page.one(id="about").text


def test_it_loads_nothing_and_runs_only_its_own_script():
    html = render(made(NASTY)[0])

    asking = ("src", "href", "xlink:href", "action", "srcset", "data", "poster")
    links = [
        value
        for element in read_page(html).all()
        for name, value in element.attributes.items()
        if name in asking
    ]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "http" not in html.replace("http-equiv", "")
    assert "@import" not in html
    assert "url(" not in html
    script = re.search(r"<script>(.*?)</script>", html, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html


def test_every_link_has_a_target_and_scrolling_parts_are_focusable():
    page = read_page(render(made(NASTY)[0]))
    places = {element.attributes.get("id") for element in page.all()}
    assert {link.attributes["href"][1:] for link in page.all("a")} <= places
    scrolling = [
        element
        for element in page.all("div")
        if "scroll" in element.attributes.get("class", "").split()
    ]
    assert scrolling
    assert all(
        part.attributes["tabindex"] == "0" and part.attributes["aria-label"] for part in scrolling
    )
    assert all(drawing.attributes.get("aria-label") for drawing in page.all("svg", role="img"))


def test_a_thousand_labels_take_under_a_megabyte_with_the_worst_in_the_matrix():
    html = render(made([f"label {place}" for place in range(1000)], rows=3000)[0])
    assert len(html.encode()) < 1_000_000
    page = read_page(html)
    assert len(page.table("label-table")) == 1000
    assert len(page.table("confusion-table")) == LARGEST_MATRIX


def test_unknown_figures_are_not_shown():
    perfect = evaluate(["a", "b"], ["a", "b", "b"], ["a", "b", "b"])
    confidence, right = np.array([0.9, 0.8, 0.7]), np.ones(3, bool)
    slices = slice_by_length(np.array([3, 3, 3]), Answered(right, confidence, ~right))
    curve = risk_coverage(confidence, right)
    report, *_ = made(
        ["a", "b"],
        figures=perfect,
        epochs=(),
        spurious_tokens=None,
        trained_on={},
        slices={"length": slices},
        operation=Operation(Automation(3, 0, 0, 0, 0, "0.95"), 0.95, "told", curve),
    )
    page = read_page(render(report))
    places = {element.attributes.get("id") for element in page.all()}
    assert not places & {"training", "words", "examples", "pair-table"}
    assert "No two labels were mixed up" in page.text
    assert "all go to review" in page.text


def test_no_allowed_error_is_drawn_if_labels_have_their_own_targets():
    curve = risk_coverage(np.array([0.9, 0.8, 0.7]), np.array([True, True, False]))
    one, several = (
        render(made(["a", "b"], operation=Operation(counts, target, "told", curve))[0])
        for counts, target in (
            (Automation(3, 2, 0, 2, 0, "0.9"), 0.9),
            (Automation(3, 2, 0, 2, 0, "0.9,a=0.8"), None),
        )
    )
    assert ">allowed<" in one
    assert ">allowed<" not in several
    assert ">wrong answers<" in several


def test_rows_of_equal_confidence_are_answered_together():
    curve = risk_coverage(np.full(10, 0.5), np.arange(10) < 7)
    assert curve == ((1.0, pytest.approx(0.3)),)
    generator = np.random.default_rng(0)
    many = risk_coverage(generator.random(5000), generator.random(5000) < 0.9)
    assert len(many) == 240
    assert many[-1][0] == 1.0


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_in_a_browser_nothing_overflows_and_headings_sort(tmp_path):
    from playwright.sync_api import sync_playwright

    (tmp_path / "report.html").write_text(
        render(made([*NASTY, *(f"label {place}" for place in range(30))])[0]), encoding="utf-8"
    )
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="dark")
        page.set_default_timeout(30_000)
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.goto((tmp_path / "report.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator("#label-table thead button").nth(3).press("Enter")
        scores = page.evaluate(
            "[...document.querySelectorAll('#label-table tbody tr')].map(row =>"
            " Number(row.cells[3].dataset.value))"
        )
        browser.close()
    assert scores == sorted(scores)
    assert (len(asked), said) == (1, [])
