"""What all task models have in common: how they are trained, saved, loaded and refused."""

import copy
import json
import pickle
import re
import subprocess
import sys

import pytest

from bertcnn.bundle.bundle import FORMAT as BUNDLE
from bertcnn.bundle.bundle import read_bundle
from bertcnn.errors import BundleError, OutputError, SettingsError, TrainingError
from bertcnn.storage.manifest import MANIFEST, write_manifest
from tests.listener import Listener, interrupt
from tests.tasks.kinds import KINDS, LANGUAGE_MODEL


@pytest.fixture(params=KINDS.values(), ids=KINDS, scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """Engines are in int8, and are used."""


@pytest.fixture(scope="module")
def fitted(kind, shallow_encoder_folder):
    """Do not change it."""
    return kind.fitted(shallow_encoder_folder)


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    """Its saved folder; do not write to it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted.save(folder)
    return folder


def refused(error, message, act):
    """Assert that a call is refused in one line."""
    with pytest.raises(error, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


# === Training ===


def test_an_interrupted_training_ends_with_the_same_model_as_another(
    kind, folder, shallow_encoder_folder, tmp_path
):
    stop, listener = Listener(interrupt, kind.stop, stage="training"), Listener()
    with pytest.raises(KeyboardInterrupt):
        kind.fitted(shallow_encoder_folder, tmp_path / "points", progress=stop)
    resumed = kind.fitted(shallow_encoder_folder, tmp_path / "points", progress=listener)
    assert listener.has("resuming an interrupted training after step ")
    whole = kind.model._folder.read(folder)
    assert resumed.save(tmp_path / "resumed") == whole.identity  # the hash of all members


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, "1"])
def test_a_wrong_seed_is_refused(kind, shallow_encoder_folder, seed):
    refused(
        SettingsError,
        "seed .*; expected a whole number from 0",
        lambda: kind.fitted(shallow_encoder_folder, seed=seed),
    )


def test_wrong_settings_are_refused(kind, shallow_encoder_folder):
    for training, message in (
        ({"epochs": 0}, "epochs was '0'"),
        ({"epoch": 1}, "unknown key 'epoch'"),
    ):
        refused(SettingsError, message, lambda wrong=training: kind.model(training=wrong))
    if kind.has_encoder:
        refused(
            SettingsError,
            r"max_tokens \d+ and an encoder with 64 positions; expected at most 64",
            lambda: kind.model(shallow_encoder_folder).fit(*kind.examples),
        )


# === Answers ===


def test_a_text_is_answered_alike_alone_and_among_others(kind, fitted):
    if kind is LANGUAGE_MODEL:
        pytest.skip("it continues one text at a time")
    odd = ["it is slow and still down " * 12, "", "?", "\ud83d\x00 the router is dead", "☃ 你好"]
    texts = [*kind.texts[:24], *odd]
    together = [kind.parts(one) for one in kind.answers(fitted, texts)]
    backwards = [kind.parts(one)[0] for one in kind.answers(fitted, texts[::-1])[::-1]]
    assert backwards == [one[0] for one in together]
    for row in (0, 1, *range(23, len(texts))):
        (alone,) = (kind.parts(one) for one in kind.answers(fitted, [texts[row]]))
        assert alone[0] == together[row][0]
        assert alone[1] == pytest.approx(together[row][1], abs=kind.tolerance)
    assert kind.answers(fitted, []) == []


def test_one_string_in_place_of_a_list_is_refused(kind, fitted):
    refused(SettingsError, "expected a list of strings", lambda: kind.answers(fitted, "router"))


def test_without_training_there_is_nothing_to_ask_or_save(kind, tmp_path):
    for use in (
        lambda: kind.answers(kind.model(), kind.texts),
        lambda: kind.model().save(tmp_path / "new"),
    ):
        refused(TrainingError, f"a {kind.name} without a model", use)


# === Folders ===


def test_a_saved_model_answers_alike(kind, fitted, folder, tmp_path):
    again = kind.model.load(folder)
    assert repr(kind.answers(again, kind.texts)) == repr(kind.answers(fitted, kind.texts))
    assert again.metrics_ == fitted.metrics_
    assert again.identity == fitted.identity == again.save(tmp_path / "model")
    refused(OutputError, f"holds a saved {kind.name}", lambda: again.save(tmp_path / "model"))
    again.save(tmp_path / "model", overwrite=True)


def test_a_saved_model_needs_keras_only_to_write_texts(kind, fitted, folder):
    if kind.needs_keras:
        pytest.skip("it writes texts with Keras")
    script = (
        "import json, sys\n"
        f"from {kind.model.__module__} import {kind.model.__name__} as model\n"
        "folder, (method, *first), texts = map(json.loads, sys.argv[1:])\n"
        "print(repr(getattr(model.load(folder), method)(*first, texts)))\n"
        "print(sorted({'keras', 'tensorflow', 'jax', 'torch', 'nncf'} & set(sys.modules)))\n"
    )
    arguments = map(json.dumps, (str(folder), kind.ask, kind.texts))
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    answers, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    words = re.compile(r"(?:text|start|end|label)=([^,)]+)")  # scores depend on the CPU
    assert words.findall(answers) == words.findall(repr(kind.answers(fitted, kind.texts)))


@pytest.mark.parametrize("use", [pickle.dumps, copy.deepcopy])
def test_a_trained_model_is_saved_not_pickled(kind, fitted, shallow_encoder_folder, use):
    refused(
        SettingsError,
        rf"joblib\.dump or deepcopy a {kind.name}, .*save it with \.save\(folder\)",
        lambda: use(fitted),
    )
    assert use(kind.new(shallow_encoder_folder))


def test_a_folder_of_another_kind_is_neither_loaded_nor_overwritten(kind, fitted, folder, tmp_path):
    for form in (BUNDLE, *(other.model._folder.form for other in KINDS.values())):
        if form is kind.model._folder.form:
            continue
        place = tmp_path / form.name
        place.mkdir()
        (place / MANIFEST).write_bytes(write_manifest(form, {})[1])  # it is read first
        message = f"holds a '{form.name}'; expected a bertcnn {kind.name}"
        refused(BundleError, message, lambda place=place: kind.model.load(place))
        message = f"is not a saved {kind.name}"
        refused(OutputError, message, lambda place=place: fitted.save(place, overwrite=True))
    message = f"holds a 'bertcnn {kind.name}'; expected a bertcnn bundle"
    refused(BundleError, message, lambda: read_bundle(folder))
