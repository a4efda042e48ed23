"""The report saved with a model, and a report on the user's own rows."""

import json
import re

import numpy as np
import pytest

import bertcnn
from bertcnn import BertCNNClassifier, evaluate_csv, train_csv
from bertcnn.bundle.bundle import read_bundle
from bertcnn.data.hierarchy import Hierarchy
from bertcnn.errors import OutputError, SettingsError
from bertcnn.evaluation.decisions import automation, decide
from bertcnn.evaluation.scored_predictions import GroundTruth, ScoredPredictions
from bertcnn.reports.reporting import Provenance, certain_enough, marked, report_path
from bertcnn.settings import DECISIONS, PrecisionTargets
from bertcnn.storage.files import sha256_of
from tests.listener import Listener
from tests.pages import read_page
from tests.test_classifier import QUICK, quick
from tests.tickets import tickets

CHANNELS = ("chat", "mail")


@pytest.fixture(scope="module")
def trained(encoder_folder, tmp_path_factory):
    """A folder with a data file and the model trained on it.

    Every billing ticket is signed by one agent.
    """
    folder = tmp_path_factory.mktemp("report")
    texts, labels = tickets()
    signed = [
        f"{text} thanks {'Sandra' if label == 'billing' else 'all'}"
        for text, label in zip(texts, labels, strict=True)
    ]
    rows = "".join(
        f'{row},2026-0{1 + row % 2}-01,{CHANNELS[row % 2]},"{text}",{label}\n'
        for row, (text, label) in enumerate(zip(signed, labels, strict=True))
    )
    (folder / "data.csv").write_text("id,created,channel,text,label\n" + rows)
    classifier = quick(encoder_folder, training={**QUICK, "epochs": 3}, seed=7, progress=Listener())
    train_csv(
        folder / "data.csv",
        folder / "model",
        classifier,
        command="bertcnn train data.csv --out model",
    )
    return folder


def tickets_of(folder):
    """The texts of the data file."""
    return [line.split('"')[1] for line in (folder / "data.csv").read_text().splitlines()[1:]]


def words(text):
    return re.findall(r"\w+", text.lower())


def test_the_saved_report_has_the_figures_of_metrics_json(trained):
    metrics = json.loads((trained / "model" / "metrics.json").read_text())
    page = read_page((trained / "model" / "report.html").read_text())
    assert page.one(id="accuracy").value == metrics["accuracy"]
    assert page.one(id="macro-f1").value == metrics["macro_f1"]
    assert page.one(id="ece-before").value == metrics["calibration"]["before"]
    assert page.one(id="ece-after").value == metrics["calibration"]["after"]
    assert page.one(id="automatic").value == metrics["decisions"]["automatic"]
    reason = metrics["automation_limits"]["reason"]
    assert page.one(id="limits").text.lower() == reason.lower()
    labels = page.table("label-table")
    assert [row[0].text for row in labels] == [label["name"] for label in metrics["labels"]]
    assert sum(row[5].value for row in labels) + metrics["rows"] == 60
    assert int(page.one(id="profile-rows").text) == 60
    assert len(list(page.one(id="chart-loss").all("circle"))) == len(metrics["epochs"]) == 3


def test_it_shows_slices_suspicious_words_and_provenance(trained):
    page = read_page((trained / "model" / "report.html").read_text())
    slices = {
        table.attributes["data-slice"]: table
        for table in page.all("table", **{"class": "slice-table"})
    }
    assert list(slices) == ["length", "channel", "month of created"]
    assert {row.text.strip() for row in slices["channel"].all("th", scope="row")} == set(CHANNELS)
    assert ("Sandra", "name", "billing") in [
        tuple(cell.text for cell in row[:3]) for row in page.table("word-table")
    ]
    for told in (page.one(id="about").text, (trained / "model" / "MODEL_CARD.md").read_text()):
        assert "bertcnn train data.csv --out model" in told
        assert sha256_of(trained / "data.csv") in told
        assert "seed" in told
        assert "keras 3" in told


def test_the_saved_report_quotes_no_text(trained):
    content = (trained / "model" / "report.html").read_text()
    found = " ".join(words(read_page(content).text))
    for text in tickets_of(trained):
        assert text not in content
        for start in range(len(words(text)) - 4):
            assert " ".join(words(text)[start : start + 5]) not in found
    assert "quotes no text" in content


def test_it_is_in_the_manifest_and_is_kept_when_saved_again(trained, tmp_path):
    again = BertCNNClassifier.load(trained / "model")
    again.save(tmp_path / "again", engine="keras")
    saved = (trained / "model" / "report.html").read_bytes()
    assert (tmp_path / "again" / "report.html").read_bytes() == saved
    (tmp_path / "again" / "report.html").write_text("other figures")
    with pytest.raises(bertcnn.errors.BundleError, match=r"report\.html was changed"):
        read_bundle(tmp_path / "again")


def test_a_report_on_given_rows_has_the_evaluations_figures_and_marked_examples(trained, tmp_path):
    place = tmp_path / "new" / "mine"
    figures = evaluate_csv(trained / "model", trained / "data.csv", report=place)
    page = read_page((place / "report.html").read_text())
    assert page.one(id="accuracy").value == figures.accuracy
    assert [row[3].value for row in page.table("label-table")] == [
        label.f1 for label in figures.labels
    ]
    examples = list(page.all("article"))
    texts = [next(example.all("p")).text for example in examples]
    assert texts
    assert set(texts) <= set(tickets_of(trained))
    assert any(list(example.all("mark")) for example in examples)
    confidence = [float(re.search(r"with ([\d.]+)%", example.text)[1]) for example in examples]
    assert confidence  # the most confident errors first, then the least confident rows
    wrong = round(figures.rows * (1 - figures.accuracy))
    first = confidence[: min(8, wrong)]
    assert first == sorted(first, reverse=True)
    decided = bertcnn.load(trained / "model").answer(tickets_of(trained)).decisions
    assert page.one(id="automatic").value == (decided == DECISIONS.index("auto")).sum()


def test_rows_out_of_scope_are_not_automatic_in_slices(encoder_folder, tmp_path):
    texts, labels = tickets(24)
    classifier = quick(encoder_folder, auto_precision=0.5).fit(texts, labels, valid=tickets(120))
    classifier.save(tmp_path / "model", engine="keras")
    found = automation(read_bundle(tmp_path / "model").decisions)
    assert found.out_of_scope > 0
    cells = re.findall(
        r'<td class="n">([\d,]+)</td><td class="n" data-value="[\d.]+">.*?</td><td class="n"'
        r' data-value="([\d.]+)">',
        (tmp_path / "model" / "report.html").read_text(),
    )  # of each length, the rows and the share of automatic answers
    automatic = sum(int(rows) * float(share) for rows, share in cells)
    assert automatic == pytest.approx(found.automatic)


def test_rows_without_a_label_are_not_automatic_in_slices():
    generator, names = np.random.default_rng(0), tuple("abcd")
    multi_hot = generator.random((400, 4)) < 0.15
    multi_hot[200:] = False
    logits = (np.where(multi_hot, 5.0, -5.0) + generator.normal(0, 1.2, multi_hot.shape)).astype(
        np.float32
    )
    truth = GroundTruth(names, multi_hot.argmax(axis=1), multi_hot)
    judgement = ScoredPredictions(truth, logits, truth.calibrate(logits))
    decisions = decide(judgement.held_out(), names, PrecisionTargets())
    sure = certain_enough(decisions, Hierarchy.of(names), judgement)
    assert not sure[~judgement.predicted.any(axis=1)].any()
    assert sure.sum() == automation(decisions).automatic > 0


def test_parents_count_among_the_automatic_answers():
    generator, names = np.random.default_rng(0), ("net > a", "net > b", "app")
    labels = generator.integers(0, 3, 400)
    logits = generator.normal(0, 0.5, (400, 3)) + 3 * np.eye(3)[np.where(labels == 2, 2, 0)]
    logits[labels < 2, 1] += 3  # the two under the parent are mixed up
    truth, hierarchy = GroundTruth(names, labels), Hierarchy.of(names)
    scored = ScoredPredictions(truth, logits, truth.calibrate(logits))
    held_out = scored.held_out(hierarchy=hierarchy)
    decisions = decide(held_out, names, PrecisionTargets(overall=0.9))
    found = automation(decisions)
    assert found.parents > 0
    assert certain_enough(decisions, hierarchy, scored).sum() == found.automatic


def test_nothing_is_overwritten_without_force(trained, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    with pytest.raises(OutputError, match="exists"):
        evaluate_csv(trained / "model", trained / "data.csv", report=tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    evaluate_csv(trained / "model", trained / "data.csv", report=tmp_path / "mine", overwrite=True)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"notes.txt", "report.html"}
    assert (tmp_path / "mine" / "notes.txt").read_text() == "kept"
    with pytest.raises(OutputError, match="exists"):
        report_path(tmp_path / "mine" / "report.html")


def test_invalid_report_paths_are_refused(trained, tmp_path):
    model = trained / "model"
    for place in (model, model / "new.html", model / "engine" / "x"):
        with pytest.raises(OutputError, match="the model's folder"):
            report_path(place, model=model, overwrite=True)
    (tmp_path / "file").write_text("x")
    (tmp_path / "data.html").write_text("x")
    (tmp_path / "folder" / "report.html").mkdir(parents=True)
    for place, message in (
        ("file", "is a file"),
        ("file/below/report.html", "is a file"),
        ("folder", "is a folder"),
        ("data.html", "as data and as output"),
    ):
        with pytest.raises(OutputError, match=message):
            report_path(tmp_path / place, data=tmp_path / "data.html", overwrite=True)
    assert report_path(tmp_path / "new.HTML") == tmp_path / "new.HTML"
    (tmp_path / "empty").mkdir()
    assert report_path(tmp_path / "empty") == tmp_path / "empty" / "report.html"


def test_slices_need_a_value_for_each_row():
    assert Provenance(slices={"channel": ["a", "b", "c"]}).of_rows([2, 0]).slices == {
        "channel": ["c", "a"]
    }
    with pytest.raises(SettingsError, match="2 values of the slice 'channel'"):
        Provenance(slices={"channel": ["a", "b"]}).of_rows([2])


def test_a_long_text_is_shown_around_its_first_mark():
    text = "x" * 1000 + " router " + "y" * 1000
    parts = marked(text, [[1001, 1007], [0, 0]])
    assert ("router", True) in parts
    assert "".join(words for words, _ in parts).startswith("… x")
    assert sum(len(words) for words, _ in parts) < 720
    assert marked("abc", np.array([[0, 2], [1, 3]]).tolist()) == (("ab", True), ("c", True))
