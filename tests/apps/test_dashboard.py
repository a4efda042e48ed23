"""The page that classifies a text, its model, and the safety of what the pages draw."""

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from bertcnn import BertCNNClassifier
from bertcnn.bundle.bundle import read_bundle
from bertcnn.bundle.schemas import Calibration, Decisions, HeldOut
from bertcnn.errors import BundleError
from tests.apps.dashboards import (
    APP,
    LABELS,
    on_page,
    open_app,
    part,
    press,
    said,
    save_model,
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with one saved model."""
    return save_model(tmp_path_factory.mktemp("models") / "tiny").parent


@pytest.fixture
def app(models, monkeypatch):
    """The Classify page."""
    return open_app(models, monkeypatch)


# --- the model ------------------------------------------------------------------------------------


def test_the_model_is_found_and_described(app):
    assert not app.exception
    assert Path(app.selectbox[0].value).name == "tiny"
    assert "3 labels: billing, hardware, soft*ware*" in said(app.caption)
    assert "trained 2026-01-02" in said(app.markdown)
    (details,) = [one for one in app.expander if one.label == "Details"]
    assert "macro-F1 0.912" in said(details.caption)
    assert "encoder tiny" in said(details.caption)


def test_the_report_saved_with_a_model_is_offered(app, tmp_path, monkeypatch):
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


def test_a_chosen_model_stays_when_others_appear_and_answers_nothing_when_it_is_gone(
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


def asked_for(model):
    """The page that its address asks for a model."""
    app = AppTest.from_file(str(APP), default_timeout=120)
    app.query_params["model"] = model
    return on_page(app.run(), "classify")


@pytest.fixture
def folders(models, tmp_path, monkeypatch):
    """A folder for models with one deep inside, and a folder outside with links to it."""
    root, outside = tmp_path / "models", tmp_path / "outside"
    for folder in (root / "teams" / "2026" / "triage" / "first", outside / "tiny"):
        shutil.copytree(models / "tiny", folder)
    shutil.copytree(models / "tiny", outside / "deep" / "er" / "tiny")
    (root / "linked").symlink_to(outside)
    (root / "live").symlink_to(outside / "tiny")
    (tmp_path / "root").symlink_to(root)
    monkeypatch.setenv("HOME", str(outside))
    monkeypatch.setenv("BERTCNN_MODELS", str(root))
    return tmp_path


@pytest.mark.parametrize(
    "given",
    [
        "teams/2026/triage/first",
        "{models}/teams/2026/triage/first",
        "x/../teams/2026/triage/first",
        "live",
        "{folder}/root/live",
    ],
)
def test_a_model_below_the_model_folders_is_found(folders, given):
    roots = [folders / "models", folders / "root"]
    given = given.format(folder=folders, models=roots[0])
    path, _ = part("model_folders").model_folder(given, roots)
    assert (path / "manifest.json").is_file()


@pytest.mark.parametrize(
    "given",
    [
        "{outside}/tiny",
        "{outside}/none",
        "../outside/tiny",
        "{models}/teams/../../outside/tiny",
        "%2e%2e/outside/tiny",
        "~/tiny",
        "//localhost/{outside}/tiny",
        "file://{outside}/tiny",
        "{models}/linked/../outside/tiny",
        "{models}/linked/deep/er/tiny",
        "/etc",
        "{outside}/tiny\0",
        "{outside}/" + "x" * 300,
        "no/such/folder",
        "~nobody-of-this-name/x",
        "x" * 5000,
    ],
)
def test_other_model_folders_are_refused_without_revealing_whether_they_exist(folders, given):
    models = folders / "models"
    given = given.format(outside=folders / "outside", models=models)
    with pytest.raises(BundleError) as refused:
        part("model_folders").model_folder(given, [models])
    assert str(refused.value).endswith(
        f"is not a saved model; expected a folder with manifest.json below {models}. What to do:"
        " choose one from the list, or start the dashboard with -- --models FOLDER."
    )


def test_an_address_names_a_model_below_the_model_folders(folders):
    assert "3 labels" in said(asked_for("teams/2026/triage/first").caption)
    app = asked_for(str(folders / "outside" / "tiny"))
    assert not app.exception
    assert "is not a saved model; expected a folder with manifest.json" in said(app.error)
    assert "labels" not in said(app.caption)


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


def test_attention_is_shown_once_its_part_is_opened(app, models):
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
    on_page(app, "tickets")
    assert not app.metric
    on_page(app, "classify")
    assert (said(app.metric), app.text_area[0].value) == (answer, "my bill")


def test_a_blank_complaint_gets_a_friendly_line(app):
    for text in ("", "  \n\t ", "\u200b"):
        app.text_area[0].set_value(text)
        press(app, "Classify")
        assert "no text to classify" in said(app.info)
        assert not app.metric


def test_the_decision_is_shown(tmp_path, monkeypatch):
    for threshold, badge in ((0.0, "can be handled automatically"), (1.0, "is also possible")):
        save_model(tmp_path / "tiny", decisions=Decisions(thresholds=(threshold,) * len(LABELS)))
        app = press(open_app(tmp_path, monkeypatch), "Classify")
        assert badge in said(app.markdown)


def test_a_text_may_have_several_labels_or_none(tmp_path, monkeypatch):
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
