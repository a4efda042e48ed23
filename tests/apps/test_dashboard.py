"""The dashboard, driven as a person would: through Streamlit's own test harness, and once in a real browser where there is one."""

import csv
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bertcnn.bundle import Bundle, BundleConfig, Calibration, write_bundle
from bertcnn.models.classifier import build_classifier
from bertcnn.models.weights import extract
from bertcnn.settings import EncoderSettings, HeadSettings, TokenizerSettings

APP = Path(__file__).parents[2] / "apps" / "dashboard" / "app.py"
WORDS = ("router", "led", "bill", "app", "not", "working", "the", "my", "is", "twice", "charged", "crashes", ".", ",", "'", "s")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with one tiny saved model."""
    root = tmp_path_factory.mktemp("models")
    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    encoder = EncoderSettings(vocabulary_size=len(vocabulary), width=16, layers=2, heads=2, feed_forward_width=32, max_positions=64)
    head = HeadSettings(filters=8)
    config = BundleConfig(
        encoder=encoder,
        encoder_name="tiny",
        head=head,
        tokenizer=TokenizerSettings(max_tokens=64, head_tokens=16),
        text_columns=("text",),
        label_column="label",
        recipe="frozen",
        seed=0,
        versions={"bertcnn": "0"},
        created_at="2026-01-01T00:00:00+00:00",
    )
    model = build_classifier(encoder, head, 3)
    bundle = Bundle(
        config=config,
        labels=("billing", "hardware", "soft*ware*"),
        vocabulary=vocabulary,
        tensors=extract(model.weights),
        calibration=Calibration(temperature=1.0, fitted_on_rows=10),
        metrics={"macro_f1": 0.9, "rows": 10},
        model_card="# tiny\n",
    )
    write_bundle(bundle, root / "tiny")
    return root


@pytest.fixture
def app(models, monkeypatch):
    monkeypatch.setenv("BERTCNN_MODELS", str(models))
    return AppTest.from_file(str(APP), default_timeout=120).run()


def upload(app, name, content):
    return app.file_uploader[0].upload(name, content.encode()).run()


def test_the_model_is_found_and_described(app):
    assert not app.exception
    assert app.selectbox[0].value.name == "tiny"
    assert "3 labels" in app.caption[0].value


def test_a_complaint_gets_a_label_with_its_confidence(app):
    app.text_area[0].set_value("my router is not working")
    app.button[0].click().run()
    assert not app.exception
    metric = app.metric[0]
    assert metric.value.replace("\\", "") in {"billing", "hardware", "soft*ware*"}
    assert "confidence" in metric.delta


def test_a_blank_complaint_gets_a_friendly_line(app):
    app.text_area[0].set_value("   ")
    app.button[0].click().run()
    assert "no text to classify" in app.info[0].value


def test_a_folder_without_models_gets_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_MODELS", str(tmp_path))
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not app.exception
    assert "make demo" in app.info[0].value


def test_a_typed_folder_that_is_no_model_is_told_in_one_line(app, tmp_path):
    app.text_input[0].set_value(str(tmp_path)).run()
    assert "not a saved model" in app.error[0].value.replace("\\", "")


def test_a_changed_model_is_told_in_one_line(models, tmp_path, monkeypatch):
    shutil.copytree(models / "tiny", tmp_path / "changed")
    (tmp_path / "changed" / "labels.json").write_text('["a", "b", "c"]')
    monkeypatch.setenv("BERTCNN_MODELS", str(tmp_path))
    app = AppTest.from_file(str(APP), default_timeout=60).run()
    assert not app.exception
    assert "labels" in app.error[0].value


def test_an_uploaded_file_is_scored_shown_and_offered(app):
    upload(app, "inbox.csv", "id,text\n1,my router is not working\n2,charged twice\n3,=1+1\n")
    assert app.multiselect[0].value == ["text"]
    next(button for button in app.button if button.label == "Score the file").click().run()
    assert not app.exception
    assert "3 rows" in app.success[0].value.replace("\\", "")
    table = app.dataframe[0].value
    assert list(table["id"]) == ["1", "2", "3"]
    assert list(table.columns[:2]) == ["predicted_label", "confidence"]
    assert table["text"].iloc[2] == "'=1+1"


def test_a_file_that_cannot_be_read_is_told_in_one_line(app):
    upload(app, "broken.csv", "")
    assert not app.exception
    assert "empty" in app.error[0].value


def test_user_text_is_never_drawn_as_html():
    assert "unsafe_allow_html" not in APP.read_text().replace("st.html", "unsafe_allow_html")


@pytest.fixture
def served(models):
    """The app's address on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(APP), "--server.headless", "true", "--server.port", str(port)]
    with subprocess.Popen([*command, "--", "--models", str(models)], cwd=APP.parents[2], stderr=subprocess.DEVNULL) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/_stcore/health", timeout=2)
                    break
                except OSError:
                    time.sleep(0.25)
            yield address
        finally:
            server.terminate()


def test_in_a_browser_a_complaint_is_classified_and_a_file_downloaded(served, tmp_path):
    """In headless Chromium; on a machine without one the page is only asked for over HTTP."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        assert b"streamlit" in urllib.request.urlopen(served, timeout=10).read().lower()
        return
    from playwright.sync_api import sync_playwright

    (tmp_path / "inbox.csv").write_text("id,text\n7,my bill <img src=x onerror=alert(1)>\n8,the app crashes\n")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*flags, "--disable-component-update", "--disable-sync"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(served)
        page.get_by_role("button", name="Classify").click(timeout=60_000)
        page.get_by_text("confidence", exact=False).first.wait_for(timeout=60_000)
        page.get_by_role("tab", name="A file").click()
        page.locator("input[type=file]").set_input_files(tmp_path / "inbox.csv")
        page.get_by_role("button", name="Score the file").click(timeout=60_000)
        with page.expect_download(timeout=60_000) as download:
            page.get_by_role("button", name="Download", exact=True).click(timeout=60_000)
        download.value.save_as(tmp_path / "scored.csv")
        browser.close()
    rows = list(csv.DictReader((tmp_path / "scored.csv").open()))
    assert [row["id"] for row in rows] == ["7", "8"]
    assert all(0 < float(row["confidence"]) <= 1 for row in rows)
    assert np.isin([row["predicted_label"] for row in rows], ["billing", "hardware", "soft*ware*"]).all()
    assert not dialogs
