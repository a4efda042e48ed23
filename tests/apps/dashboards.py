"""Shared helpers for the dashboard tests: tiny models, running servers, a browser."""

import importlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import streamlit.config
from streamlit.testing.v1 import AppTest

from bertcnn.bundle.bundle import Bundle, write_bundle
from bertcnn.bundle.schemas import BundleConfig, Calibration
from bertcnn.models.classifier import build_classifier
from bertcnn.models.weights import extract
from bertcnn.settings import EncoderSettings, HeadSettings, TokenizerSettings
from tests.apps.doors import CLIENT, SECRET

ROOT = Path(__file__).parents[2]
APP = ROOT / "apps" / "dashboard" / "app.py"
WORDS = (
    *("router", "led", "bill", "app", "not", "working", "the", "my", "is", "twice", "charged"),
    *("crashes", ".", ",", "'", "s"),
)
LABELS = ("billing", "hardware", "soft*ware*")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
LOGIN = {  # the section [auth] of Streamlit's secrets
    "redirect_uri": "https://tickets.example.org/oauth2callback",
    "cookie_secret": "0123456789abcdef" * 4,
    "client_id": CLIENT,
    "client_secret": SECRET,
    "server_metadata_url": "https://login.example.org/.well-known/openid-configuration",
}
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# the test harness does not read the config file in the app's folder
streamlit.config.set_option("server.address", "127.0.0.1")
streamlit.config.set_option("runner.postScriptGC", False)


def save_model(folder, **changes):
    """A saved model with random weights, of 2 layers and width 16."""
    vocabulary = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    encoder = EncoderSettings(
        vocabulary_size=len(vocabulary),
        width=16,
        layers=2,
        heads=2,
        feed_forward_width=32,
        max_positions=64,
    )
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
        created_at="2026-01-02T00:00:00+00:00",
    )
    labels = changes.get("labels", LABELS)
    parts = {
        "config": config,
        "labels": labels,
        "vocabulary": vocabulary,
        "tensors": extract(build_classifier(encoder, head, len(labels)).weights),
        "calibration": Calibration(temperature=1.0, fitted_on_rows=10),
        "metrics": {"macro_f1": 0.912, "rows": 1234},
        "model_card": "# tiny\n",
    }
    write_bundle(Bundle(**{**parts, **changes}), folder, overwrite=True)
    return folder


def set_start(monkeypatch, address="127.0.0.1", **options):
    """The address on which the dashboard listens, and its start options."""
    monkeypatch.setattr(
        "streamlit.get_option",
        lambda name: address if name == "server.address" else streamlit.config.get_option(name),
    )
    for name, value in options.items():
        monkeypatch.setenv(f"BERTCNN_{name.upper()}", str(value))


def logged_in(email, login=LOGIN, **claims):
    """The app as seen by somebody who logged in with this e-mail address; it has not run yet."""
    app = AppTest.from_file(str(APP), default_timeout=60)
    app.secrets["auth"] = login
    app.user = {"is_logged_in": True, "email": email, "email_verified": True, **claims}
    return app


def open_app(models, monkeypatch, page="classify"):
    """Run the app on a page in Streamlit's test harness."""
    monkeypatch.setenv("BERTCNN_MODELS", str(models))
    # the first run registers the addresses of the pages
    return on_page(AppTest.from_file(str(APP), default_timeout=120).run(), page)


def on_page(app, page):
    """Run the app and press a page's button."""
    return app.switch_page(f"pages_/{page}.py").run()


def part(name):
    """Import a module from the app's folder."""
    if str(APP.parent) not in sys.path:
        sys.path.append(str(APP.parent))  # as the app does
    return importlib.import_module(name)


def said(elements):
    """The elements' text as a person reads it.

    Strips the backslashes and joiners that keep Markdown from interpreting it.
    """
    return "\n".join(element.value.replace("\\", "") for element in elements)


def press(app, label):
    """Press the only button with this label."""
    (button,) = [button for button in app.button if button.label.replace("\\", "") == label]
    return button.click().run()


def labels_of(buttons):
    return [button.label.replace("\\", "") for button in buttons]


class Server:
    """The dashboard on its own port; its temporary files are removed when it ends."""

    def __init__(self, temporary, options, environment, app=APP):
        temporary.mkdir(exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.temporary, self.options = temporary, [str(option) for option in options]
        self.app, self.log = app, temporary / "server.log"
        self.environment = {**os.environ, "TMPDIR": str(temporary), **environment}

    def start(self):
        command = [sys.executable, "-m", "streamlit", "run", str(self.app)]
        settings = ["--server.headless", "true", "--server.port", str(self.port)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *settings, "--", *self.options],
                cwd=ROOT,
                env=self.environment,
                stderr=subprocess.STDOUT,
                stdout=log,
            )
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=2)
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.25)
            else:
                return
        raise AssertionError("the server did not answer within a minute")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        assert not list(self.temporary.glob("bertcnn-dashboard-*"))


@contextmanager
def serving(temporary, options, app=APP, **environment):
    server = Server(temporary, options, environment, app)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def browsing(*flags):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*_FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()
