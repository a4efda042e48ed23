"""A server for tests that only send requests, and its models."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

import bertcnn
from bertcnn.bundle.bundle import read_bundle, write_bundle
from tests.serving.served import serving
from tests.tiny import saved

# without the extra, and on Windows
collect_ignore_glob = [] if find_spec("uvloop") else ["test_*.py"]


@pytest.fixture(scope="session")
def model(encoder_folder):
    """A model's folder; do not write to it."""
    return saved(encoder_folder)


@pytest.fixture(scope="session")
def renamed(model):
    """The same with other labels and without an engine."""
    bundle = read_bundle(model)
    labels = ("bills", *bundle.labels[1:])
    folder = model.with_name("renamed")
    write_bundle(replace(bundle, labels=labels), folder)
    return folder


@pytest.fixture(scope="session")
def predictor(model):
    return bertcnn.load(model)


@pytest.fixture(scope="session")
def server(model, renamed, tmp_path_factory):
    """A server with two models, `tiny` and `other`; do not load others."""
    folder = tmp_path_factory.mktemp("serving")
    names = (f"tiny={model}", f"other={renamed}")
    with serving(folder, *names, "--most-texts", 200, "--drain", 0) as started:
        yield started
