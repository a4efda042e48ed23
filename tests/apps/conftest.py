"""A store for the pages of the dashboard, and a browser."""

from types import SimpleNamespace

import pytest

from bertcnn.review.store import open_review
from tests.apps.dashboards import browsing, open_app, set_start
from tests.review.jobs.runners import IDLE, run_jobs_with


@pytest.fixture
def dashboard(models, tmp_path, monkeypatch):
    """An empty store and the pages of an admin on this machine; jobs do nothing.

    Each test module has its own `models`, the folder with saved models.
    """
    (tmp_path / "files").mkdir()
    store = open_review(tmp_path / "review.db")
    set_start(monkeypatch, store=store.name, files=tmp_path / "files", person="root")
    run_jobs_with(monkeypatch, IDLE)

    def page(name):
        return open_app(models, monkeypatch, name)

    return SimpleNamespace(folder=tmp_path, models=models, store=store, page=page)


@pytest.fixture(scope="module")
def browser():
    with browsing() as started:
        yield started
