"""The dashboard, driven as a person would.

In Streamlit's test harness, and once in a real browser if one is installed.
"""

import csv
import gzip
import json
import shutil
import tomllib
import urllib.request
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xlsxwriter
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from bertcnn import BertCNNClassifier
from bertcnn.bundle.bundle import read_bundle
from bertcnn.bundle.schemas import Calibration, Decisions, HeldOut
from bertcnn.tables.tables import open_table, read_table
from bertcnn.tables.writing import TableWriter
from tests.apps.dashboards import (
    APP,
    CHROMIUM,
    LABELS,
    browsing,
    on_page,
    open_app,
    part,
    said,
    save_model,
    serving,
)

ROWS = [("1", "my router is not working"), ("2", "charged twice"), ("3", "=1+1")]
CSV = "id,text\n" + "".join(f"{number},{text}\n" for number, text in ROWS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with one saved model."""
    return save_model(tmp_path_factory.mktemp("models") / "tiny").parent


@pytest.fixture
def app(models, monkeypatch):
    """The Classify page."""
    return open_app(models, monkeypatch)


@pytest.fixture
def inbox(models, monkeypatch):
    """The Inbox page."""
    return open_app(models, monkeypatch, "inbox")


def press(app, label):
    next(button for button in app.button if button.label == label).click().run()
    return app


def upload(app, name, content):
    app.file_uploader[0].set_value(
        (name, content if isinstance(content, bytes) else content.encode(), "")
    ).run()
    return app


def scored_file(app):
    return app.session_state["scored"][1]


# --- the model ------------------------------------------------------------------------------------


def test_the_model_is_found_and_described(app):
    assert not app.exception
    assert Path(app.selectbox[0].value).name == "tiny"
    assert "3 labels: billing, hardware, soft*ware*" in said(app.caption)
    assert "trained 2026-01-02" in said(app.markdown)
    (details,) = [one for one in app.expander if one.label == "Details"]
    assert "macro-F1 0.912" in said(details.caption)
    assert "encoder tiny" in said(details.caption)


def test_the_report_saved_with_a_model_can_be_had(app, tmp_path, monkeypatch):
    assert not app.get("download_button")  # this model was saved without a report
    save_model(tmp_path / "tiny", report="<!DOCTYPE html><title>how it went</title>")
    (button,) = open_app(tmp_path, monkeypatch).get("download_button")
    assert button.proto.label == "Report"


def test_models_are_found_two_levels_down_and_in_the_working_folder(models, tmp_path, monkeypatch):
    shutil.copytree(models / "tiny", tmp_path / "demo" / "model")
    shutil.copytree(models / "tiny", tmp_path / "models" / "team" / "triage")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BERTCNN_MODELS", raising=False)
    app = on_page(AppTest.from_file(str(APP), default_timeout=60).run(), "classify")
    assert app.selectbox[0].options == ["demo/model", "models/team/triage"]


def test_the_model_chosen_stays_when_others_appear_and_nothing_answers_when_it_is_gone(
    tmp_path, monkeypatch
):
    for name in ("b", "c"):
        save_model(tmp_path / name)
    (tmp_path / "c" / "engine").mkdir()
    # has a manifest but is not a model
    (tmp_path / "c" / "engine" / "manifest.json").write_text("{}")
    app = open_app(tmp_path, monkeypatch)
    assert [Path(folder).name for folder in app.selectbox[0].options] == ["b", "c"]
    app.selectbox[0].set_value(str(tmp_path / "c")).run()
    save_model(tmp_path / "a")
    press(app, "Classify")
    assert app.selectbox[0].value == str(tmp_path / "c")
    assert app.query_params["model"] in ("c", ["c"])  # without the folder's place
    shutil.rmtree(tmp_path / "c")
    app.run()
    assert app.selectbox[0].value == str(tmp_path / "c")
    assert "is not a saved model" in said(app.error)
    assert not app.metric
    app.selectbox[0].set_value(str(tmp_path / "a")).run()
    assert not app.error
    assert app.metric


def test_a_folder_without_models_gets_advice(models, tmp_path, monkeypatch):
    app = open_app(tmp_path, monkeypatch)
    assert not app.exception
    assert "There is no model yet." in said(app.info)
    assert "make demo" not in said(app.info)


def asked_for(model):
    """The page that its address asks for a model."""
    app = AppTest.from_file(str(APP), default_timeout=120)
    app.query_params["model"] = model
    return on_page(app.run(), "classify")


def test_a_folder_too_deep_to_be_listed_is_found_by_its_address(models, tmp_path, monkeypatch):
    deep = tmp_path / "teams" / "2026" / "triage" / "first"
    shutil.copytree(models / "tiny", deep)
    monkeypatch.setenv("BERTCNN_MODELS", str(tmp_path))
    for asked in ("teams/2026/triage/first", str(deep), "x/../teams/2026/triage/first"):
        assert "3 labels" in said(asked_for(asked).caption)


OUTSIDE = {
    "another model": lambda _, outside: str(outside / "tiny"),
    "none there": lambda _, outside: str(outside / "none"),
    "up": lambda _, outside: f"../{outside.name}/tiny",
    "up from a root": lambda models, outside: f"{models}/tiny/../../{outside.name}/tiny",
    "percent": lambda _, outside: f"%2e%2e/{outside.name}/tiny",
    "home": lambda _models, _: "~/tiny",
    "share": lambda _, outside: f"//localhost/{outside}/tiny",
    "address": lambda _, outside: f"file://{outside}/tiny",
    "through a link": lambda models, outside: f"{models}/linked/../{outside.name}/tiny",
    "below a link": lambda models, _: f"{models}/linked/deep/er/tiny",
    "system": lambda _models, _: "/etc",
    "nul": lambda _, outside: f"{outside}/tiny\0",
    "long": lambda _, outside: f"{outside}/{'x' * 300}",
}


@pytest.fixture
def beside_the_models(tmp_path, monkeypatch):
    """The folder for models, and a folder outside it."""
    models, outside = tmp_path / "models", tmp_path / "outside"
    save_model(models / "tiny", labels=("ours", "b", "c"))
    save_model(outside / "tiny", labels=("secret", "b", "c"))
    shutil.copytree(outside / "tiny", outside / "deep" / "er" / "tiny")
    (models / "linked").symlink_to(outside)
    monkeypatch.setenv("HOME", str(outside))
    monkeypatch.setenv("BERTCNN_MODELS", str(models))
    return models, outside


def refuses(app, models):
    assert not app.exception
    assert "secret" not in said(app.caption)
    (refused,) = [element.value.replace("\\", "").replace("\u2060", "") for element in app.error]
    behind = (
        f"is not a saved model; expected a folder with manifest.json below {models}. What to do:"
        " choose one from the list, or start"
    )
    assert behind in refused


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_folder_outside_the_model_folders_in_the_url_is_refused(beside_the_models, case):
    refuses(asked_for(OUTSIDE[case](*beside_the_models)), beside_the_models[0])


def test_a_link_in_the_model_folder_is_followed(tmp_path, monkeypatch):
    save_model(tmp_path / "elsewhere" / "v7")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "live").symlink_to(tmp_path / "elsewhere" / "v7")
    (tmp_path / "root").symlink_to(tmp_path / "models")
    app = open_app(tmp_path / "root", monkeypatch)
    assert not app.error
    assert app.selectbox[0].value == str(tmp_path / "root" / "live")
    assert "3 labels" in said(app.caption)


@pytest.mark.parametrize("asked", ["no/such/folder", "~nobody-of-this-name/x", "a\0b", "x" * 5000])
def test_an_address_without_a_model_is_a_one_line_error(models, monkeypatch, asked):
    monkeypatch.setenv("BERTCNN_MODELS", str(models))
    app = asked_for(asked)
    assert not app.exception
    assert "is not a saved model; expected a folder with manifest.json" in said(app.error)


def test_a_changed_model_is_a_one_line_error(models, tmp_path, monkeypatch):
    shutil.copytree(models / "tiny", tmp_path / "changed")
    (tmp_path / "changed" / "labels.json").write_text('["a", "b", "c"]')
    app = open_app(tmp_path, monkeypatch)
    assert not app.exception
    assert "labels.json" in said(app.error)


def test_a_model_saved_again_is_loaded_again(tmp_path, monkeypatch):
    save_model(tmp_path / "tiny")
    app = open_app(tmp_path, monkeypatch)
    save_model(tmp_path / "tiny", labels=("a", "b", "c"))
    assert "3 labels: a, b, c" in said(app.run().caption)


# --- one complaint --------------------------------------------------------------------------------


def test_a_complaint_gets_a_label_with_its_confidence(app):
    app.text_area[0].set_value("my router is not working")
    press(app, "Classify")
    assert not app.exception
    assert said(app.metric) in LABELS
    assert app.metric[0].delta.endswith("% confidence")


def test_no_answer_is_called_certain(tmp_path, monkeypatch):
    app = open_app(tmp_path, monkeypatch)
    save_model(tmp_path / "tiny", calibration=Calibration(temperature=1e-3, fitted_on_rows=10))
    app.run().text_area[0].set_value("my router is not working")
    press(app, "Classify")
    assert app.metric[0].delta == "over 99% confidence"


def test_the_words_that_moved_the_answer_are_marked_in_the_text(app):
    app.text_area[0].set_value(
        "my *router's* led is [not] working, :red[twice] charged " + "x " * 3000
    )
    press(app, "Classify")
    (marked,) = [element.value for element in app.markdown if "-background[" in element.value]
    assert r"\:red\[twice\]" in marked or r"\:red\[" in marked
    assert len(marked) < 2500
    assert any("largest effect on the answer" in caption.value for caption in app.caption)


def test_attention_is_shown_to_who_opens_its_part(app, models):
    text = "my router is not working"
    app.text_area[0].set_value(text)
    press(app, "Classify")
    assert len(app.selectbox) == 1, "nothing is computed before"
    app.session_state["attention"] = True
    app.run()
    assert not app.exception
    _, layer, head = app.selectbox
    layer.set_value(1).run()
    head.set_value(2).run()
    (drawn,) = app.get("vega_lite_chart")[-1].proto.datasets
    rows = pa.ipc.open_stream(drawn.data.data).read_all().to_pydict()
    (wanted,) = BertCNNClassifier.load(models / "tiny").attention([text])
    assert rows["to"][: len(wanted.tokens)] == [
        f"{place} {piece}" for place, piece in enumerate(wanted.tokens)
    ]
    np.testing.assert_allclose(rows["weight"], wanted.weights[0, 1].ravel(), rtol=1e-6)


def test_an_answer_and_its_text_stay_while_another_page_is_open(app):
    app.text_area[0].set_value("my bill")
    press(app, "Classify")
    answer = said(app.metric)
    on_page(app, "inbox")
    assert not app.metric
    on_page(app, "classify")
    assert (said(app.metric), app.text_area[0].value) == (answer, "my bill")


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u200b"])
def test_a_blank_complaint_gets_a_friendly_line(app, text):
    app.text_area[0].set_value(text)
    press(app, "Classify")
    assert "no text to classify" in said(app.info)
    assert not app.metric


def test_a_label_is_shown_letter_by_letter_not_as_markdown(tmp_path, monkeypatch):
    save_model(tmp_path / "tiny", labels=("**a** <b>", "[c](http://d)", ":red[e] $f$"))
    app = press(open_app(tmp_path, monkeypatch), "Classify")
    shown = app.metric[0].value.replace("\u2060", "")  # joiner: no address may become a link
    assert shown in {r"\*\*a\*\* \<b\>", r"\[c\]\(http\://d\)", r"\:red\[e\] \$f\$"}


def test_a_label_is_no_icon_arrow_or_emoji_and_hides_nothing(tmp_path, monkeypatch):
    save_model(
        tmp_path / "tiny",
        labels=(":material/home: :tada:", "a -> b -- c", "\x1b[31m \u202egnillib"),
    )
    shown = said(open_app(tmp_path, monkeypatch).caption)
    # Streamlit interprets these even behind Markdown's escapes
    assert ":\u2060material/home: :\u2060tada:" in shown
    assert "a \u2060-> b \u2060-- c" in shown
    assert "\ufffd[31m \ufffdgnillib" in shown


def test_the_decision_is_shown_for_one_text_and_counted_for_a_file(tmp_path, monkeypatch):
    for threshold, badge, counted in (
        (0.0, "can be handled automatically", "3 rows (100%)"),
        (1.0, "is also possible", "0 rows (0%)"),
    ):
        save_model(tmp_path / "tiny", decisions=Decisions(thresholds=(threshold,) * len(LABELS)))
        app = press(open_app(tmp_path, monkeypatch), "Classify")
        assert badge in said(app.markdown)
        upload(on_page(app, "inbox"), "in.csv", CSV)
        press(app, "Score the file")
        assert f"{counted} can be handled automatically" in said(app.info)


def test_a_text_may_have_several_labels_or_none_and_rows_are_filtered_by_each(
    tmp_path, monkeypatch
):
    folder = save_model(tmp_path / "tiny")
    config = read_bundle(folder, weights=False).config.model_copy(update={"label_separator": ";"})
    shown = {}
    for threshold in (0.0, 1.0):
        calibration = Calibration(
            temperature=1.0, fitted_on_rows=10, label_thresholds=(0.0, threshold, threshold)
        )
        save_model(folder, config=config, calibration=calibration)
        app = press(open_app(tmp_path, monkeypatch), "Classify")
        assert "may have several labels, or none" in said(app.caption)
        shown[threshold] = (app.metric or app.header)[0].value
    assert shown[1.0] == "billing"
    assert sorted(shown[0.0].replace("\\", "").split("; ")) == sorted(LABELS)
    save_model(
        folder,
        config=config,
        calibration=Calibration(temperature=1.0, fitted_on_rows=10, label_thresholds=(1.0,) * 3),
    )
    app = press(open_app(tmp_path, monkeypatch), "Classify")
    assert (app.metric[0].value, "no label is probable enough" in said(app.markdown)) == (
        "none",
        True,
    )
    save_model(
        folder,
        config=config,
        calibration=Calibration(
            temperature=1.0, fitted_on_rows=10, label_thresholds=(0.0, 0.0, 1.0)
        ),
    )
    app = upload(open_app(tmp_path, monkeypatch, "inbox"), "in.csv", CSV)
    press(app, "Score the file")
    app.multiselect[1].set_value(["hardware"]).run()
    assert len(app.dataframe[-1].value) == len(ROWS)
    app.multiselect[1].set_value([""]).run()
    assert not len(app.dataframe[-1].value)


def test_bars_show_at_most_ten_labels_in_order_of_confidence_on_an_axis_in_percent():
    chart = (
        part("charts")
        .confidence_bars({f"label {index}": index / 66 for index in range(12)})
        .to_dict()
    )
    rows = next(iter(chart["datasets"].values()))
    assert [row["label"] for row in rows] == [f"label {index}" for index in range(11, 1, -1)]
    assert rows[0]["figure"] == "16.7%"
    axis = chart["layer"][0]["encoding"]["x"]
    assert (axis["title"], axis["axis"]["format"], axis["scale"]["domain"]) == (
        "confidence",
        "%",
        [0, 1],
    )


def test_counts_are_shown_with_their_shares():
    chart = part("charts").count_bars({"billing": 1, "hardware": 3}, 8).to_dict()
    figures = [row["figure"] for row in next(iter(chart["datasets"].values()))]
    assert figures == ["3 (38%)", "1 (12%)"]  # a share of all rows, including those without a text


# --- a file ---------------------------------------------------------------------------------------


def in_format(name, folder):
    """The three tickets in the format of this file name."""
    with TableWriter(folder / name, ["id", "text"], raw=True) as writer:
        writer.write(ROWS)
    return (folder / name).read_bytes()


@pytest.mark.parametrize(
    "name", ["in.csv", "in.tsv", "in.jsonl", "in.parquet", "in.xlsx", "in.csv.gz", "in.jsonl.gz"]
)
def test_a_file_is_scored_shown_and_written_in_its_own_format(inbox, tmp_path, name):
    upload(inbox, name, in_format(name, tmp_path))
    assert inbox.multiselect[0].value == ["text"]
    press(inbox, "Score the file")
    assert not inbox.exception
    assert "3 rows scored" in said(inbox.success)
    shown = inbox.dataframe[-1].value
    assert list(shown.columns) == [
        "predicted_label",
        "confidence",
        "decision",
        "because",
        "text",
        "id",
    ]
    assert list(shown["id"]) == ["1", "2", "3"]
    assert shown["confidence"].between(0, 1).all()
    assert scored_file(inbox).name == f"scored-{name}"
    written = read_table(scored_file(inbox))
    assert written.columns == ("id", "text", "predicted_label", "confidence", "decision", "because")
    assert written.rows[2][1] == "=1+1"
    is_text = name.startswith(("in.csv", "in.tsv"))  # escaped, since a spreadsheet would run it
    with open_table(scored_file(inbox), as_written=True) as reader:
        assert next(reader.chunks()).rows[2][1] == ("'=1+1" if is_text else "=1+1")


def test_probabilities_are_written_on_request(inbox):
    upload(inbox, "in.csv", CSV)
    inbox.checkbox[0].check()
    press(inbox, "Score the file")
    assert read_table(scored_file(inbox)).columns[-3:] == (
        "p_billing",
        "p_hardware",
        "p_soft*ware*",
    )


def test_a_file_without_an_obvious_text_asks_for_the_column(inbox):
    upload(inbox, "in.csv", "a,b\n1,2\n3,4\n")
    assert inbox.multiselect[0].value == []
    assert next(button for button in inbox.button if button.label == "Score the file").disabled
    inbox.multiselect[0].set_value(["b"]).run()
    press(inbox, "Score the file")
    assert "2 rows scored" in said(inbox.success)


def test_other_columns_than_those_scored_take_the_result_away(inbox):
    upload(inbox, "in.csv", CSV)
    press(inbox, "Score the file")
    inbox.multiselect[0].set_value(["id", "text"]).run()
    assert not inbox.success


def test_rows_are_filtered_by_label_in_the_whole_file(inbox):
    upload(inbox, "in.csv", "id,text\n" + "1,my bill\n" * 1200 + "2,\n" * 12)
    press(inbox, "Score the file")
    assert len(inbox.dataframe[-1].value) == 1000
    assert "The first 1,000 of 1,212 rows" in said(inbox.caption)
    inbox.multiselect[1].set_value([""]).run()  # the rows without a label are below the first page
    assert list(inbox.dataframe[-1].value["id"]) == ["2"] * 12
    assert "The first 1,000" not in said(inbox.caption)


def test_rows_are_filtered_by_what_was_decided_in_words_for_people(inbox):
    upload(inbox, "in.csv", "id,text\n" + "1,my bill\n" * 3 + "2,\n" * 2)
    press(inbox, "Score the file")
    assert "5 need a review: 3 not certain enough, 2 no text" in said(inbox.info)
    inbox.multiselect[2].set_value(["review:empty"]).run()
    assert list(inbox.dataframe[-1].value["decision"]) == ["review: no text"] * 2


def test_sheets_that_are_not_read_are_told_of_at_once(inbox, tmp_path):
    book = xlsxwriter.Workbook(str(tmp_path / "in.xlsx"))
    for name in ("2025", "2024"):
        book.add_worksheet(name).write_column(0, 0, ["text", "my bill", "the router"])
    book.close()
    upload(inbox, "in.xlsx", (tmp_path / "in.xlsx").read_bytes())
    assert "only the sheet '2025' of 'in.xlsx' is read; other sheets: '2024' (3 rows)" in said(
        inbox.warning
    )


def test_a_run_that_was_broken_off_by_another_press_goes_on(inbox, monkeypatch):
    upload(inbox, "in.csv", CSV)

    def broken(*_, **__):
        raise StopException

    with monkeypatch.context() as patch:
        patch.setattr("bertcnn.score_csv", broken)
        press(inbox, "Score the file")
    assert "scored" not in inbox.session_state
    assert next(button for button in inbox.button if button.label == "Score the file").disabled
    inbox.run()
    assert "3 rows scored" in said(inbox.success)
    assert not next(button for button in inbox.button if button.label == "Score the file").disabled


def test_a_file_and_its_result_stay_while_another_page_is_open(inbox):
    upload(inbox, "in.csv", CSV)
    inbox.multiselect[0].set_value(["id", "text"])
    inbox.checkbox[0].check()
    press(inbox, "Score the file")
    on_page(inbox, "classify")
    assert scored_file(inbox).exists()
    on_page(inbox, "inbox")
    assert inbox.file_uploader[0].value is None
    assert "in.csv was uploaded before" in said(inbox.caption)
    assert "3 rows scored" in said(inbox.success)
    press(inbox, "Remove")
    assert not inbox.success
    assert not scored_file(inbox).exists()


def test_a_model_that_answers_nothing_says_why(tmp_path, monkeypatch):
    held_out = HeldOut(confidence=(0.9,) * 40, predicted=(0,) * 40, right=(True,) * 40)
    save_model(
        tmp_path / "tiny",
        decisions=Decisions(thresholds=(None,) * len(LABELS), held_out=held_out, reachable=0.94),
    )
    app = press(open_app(tmp_path, monkeypatch), "Classify")
    assert "This model gives no automatic answers yet" in said(app.info)
    (details,) = [one for one in app.expander if one.label == "Details"]
    assert (
        "95% precision cannot be shown on 40 held-out rows; 94% is the most they can show"
        in said(details.caption)
    )
    assert "like all texts with this model" in said(app.markdown)


def test_blank_rejected_and_renamed_rows_and_columns_are_reported(inbox):
    upload(inbox, "in.csv", "text,confidence\nmy bill\n ,low\none,cell,too many\n")
    press(inbox, "Score the file")
    assert "2 rows scored" in said(inbox.success)
    assert "1 row without a text" in said(inbox.info)
    assert "already has a column confidence; the new one is called bertcnn_confidence" in said(
        inbox.info
    )
    assert "1 row could not be read" in said(inbox.warning)
    assert list(inbox.dataframe[1].value["content_start"]) == ["one,cell,too many"]
    assert "1 row lacked the last cells" in said(inbox.info)
    inbox.multiselect[1].set_value([""]).run()
    assert list(inbox.dataframe[-1].value["confidence"]) == ["low"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("picture.csv", b"\x89PNG\r\n\x1a\n" + bytes(64), "a PNG image"),
        ("text.xlsx", b"id,text\n1,a\n", "'text.xlsx' does not fit its extension"),
        ("broken.csv.gz", gzip.compress(CSV.encode() * 99, mtime=0)[:-30], "broken.csv.gz"),
        ("archive.zip.gz", gzip.compress(b"PK", mtime=0), "archive.zip.gz"),
    ],
)
def test_an_unreadable_file_is_a_one_line_error_without_our_folder(inbox, name, content, expected):
    upload(inbox, name, content)
    if inbox.button:  # its first rows can be read
        press(inbox, "Score the file")
    assert not inbox.exception
    assert expected in said(inbox.error)
    assert "bertcnn-dashboard" not in said(inbox.error)


@pytest.mark.parametrize("content", ["text\n", ""])
def test_a_file_without_rows_is_scored_to_nothing_without_an_error(inbox, content):
    upload(inbox, "in.csv", content)
    press(inbox, "Score the file")
    assert not inbox.exception
    assert "0 rows scored" in said(inbox.success)


def test_long_cells_are_cut_and_half_characters_replaced_on_the_page(inbox):
    rows = [{"text": "a" * 10_000}, {"text": "half \ud83d a character"}]
    upload(inbox, "in.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    press(inbox, "Score the file")
    assert not inbox.exception
    shown = list(inbox.dataframe[-1].value["text"])
    assert shown[0] == "a" * 497 + "..."
    assert "\ud83d" not in shown[1]


def test_a_new_upload_replaces_the_old_files_and_taking_it_away_removes_them(inbox):
    upload(inbox, "first.csv", CSV)
    press(inbox, "Score the file")
    folder = scored_file(inbox).parent
    assert {file.name for file in folder.iterdir()} == {"first.csv", "scored-first.csv"}
    upload(inbox, "second.csv", CSV)
    assert {file.name for file in folder.iterdir()} == {"second.csv"}
    inbox.file_uploader[0].set_value(None).run()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("../../my inbox (1).csv.gz", "my inbox _1_.csv.gz"),
        ("C:\\tickets\\in.xlsx", "in.xlsx"),
        ("..", "upload."),
        ("--raw.csv", "raw.csv"),  # a leading dash, which a job's command would parse as an option
        ("..csv", "upload.csv"),
        ("a\0\n.csv", "a__.csv"),
        ("é" * 300 + ".csv", "é" * 80 + ".csv"),
        ("字" * 300 + ".csv", "字" * 53 + ".csv"),
        ("a." + "c" * 300, "a." + "c" * 40),
    ],
)
def test_an_uploaded_name_cannot_leave_its_folder(given, safe):
    assert part("uploads").safe_name(given) == safe


# --- the whole ------------------------------------------------------------------------------------


def test_the_server_listens_here_only_and_keeps_its_protections():
    settings = tomllib.loads((APP.parent / ".streamlit" / "config.toml").read_text())
    assert settings["server"]["address"] == "127.0.0.1"
    assert settings["server"]["maxUploadSize"] == 200
    assert settings["client"]["showErrorDetails"] == "none"
    assert settings["browser"]["gatherUsageStats"] is False
    assert not {"enableCORS", "enableXsrfProtection"} & set(settings["server"])


def test_nothing_but_our_own_style_is_ever_drawn_as_html():
    style = 'st.html(Path(__file__).with_name("frame.css"))'
    doors = {
        ".py": ("unsafe_allow_html", "st.html", "components.v1", "st.iframe"),
        ".js": ("innerHTML", "outerHTML", "insertAdjacentHTML", "ContextualFragment", "eval("),
    }
    for suffix, names in doors.items():
        files = [*APP.parent.rglob(f"*{suffix}")]
        assert files
        for file in files:
            content = file.read_text().replace(style, "")
            assert not any(door in content for door in names), file


@pytest.fixture
def served(models, tmp_path):
    """The app's address on this machine; its temporary files go to `tmp_path / "temporary"`."""
    with serving(tmp_path / "temporary", ["--models", models]) as server:
        yield server.address


def test_in_a_browser_a_complaint_is_classified_and_a_file_downloaded(served, tmp_path):
    """In headless Chromium; without one, the page is only requested over HTTP."""
    if CHROMIUM is None:
        warnings.warn(
            "no chromium on PATH: the dashboard was only asked for over HTTP", stacklevel=1
        )
        assert b"streamlit" in urllib.request.urlopen(served, timeout=10).read().lower()
        return
    (tmp_path / "inbox.csv").write_text(
        "id,text\n7,my bill <img src=x onerror=alert(1)>\n8,the app crashes\n"
    )
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 900})
        page.set_default_timeout(60_000)
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(f"{served}/try")
        page.get_by_role("textbox", name="Text").fill("my bill <img src=x onerror=alert(1)>")
        page.get_by_role("textbox", name="Text").press("Control+Enter")
        page.get_by_test_id("stMetricDelta").get_by_text("% confidence").wait_for()
        page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
        # no element overflows on a phone
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.set_viewport_size({"width": 1000, "height": 900})
        page.get_by_role("link", name="Inbox").click()
        page.locator("input[type=file]").set_input_files(tmp_path / "inbox.csv")
        page.get_by_role("button", name="Score the file").click()
        page.get_by_text("2 rows scored").wait_for()
        for name, title in (("Try a text", "Try a text"), ("Inbox", "Score an inbox")):
            page.get_by_role("link", name=name).click()
            page.get_by_role("heading", level=1, name=title).wait_for()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download", exact=True).click()
        download.value.save_as(tmp_path / "scored.csv")
        assert list((tmp_path / "temporary").glob("bertcnn-dashboard-*/scored-inbox.csv"))
    rows = list(csv.DictReader((tmp_path / "scored.csv").open()))
    assert [row["id"] for row in rows] == ["7", "8"]
    assert all(0 < float(row["confidence"]) <= 1 for row in rows)
    assert np.isin([row["predicted_label"] for row in rows], LABELS).all()
    assert not dialogs


def test_a_column_whose_name_was_quoted_for_spreadsheets_is_shown_by_its_name(tmp_path):
    path = tmp_path / "scored.csv"
    path.write_text("'@message,predicted_label\n'=1+1,billing\n")
    # bypasses the cache, which needs a session
    shown = part("uploads").first_rows.__wrapped__(path, 0, ())
    assert list(shown.columns) == ["@message", "predicted_label"]
