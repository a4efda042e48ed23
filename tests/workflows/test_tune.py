"""The settings search: never worse than the defaults, deterministic, in time, and resumable."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from bertcnn.errors import LabelError, OutputError, SettingsError, TrainingError
from bertcnn.settings import FROZEN
from bertcnn.storage.folders import held_folder
from bertcnn.workflows.search import divide, tune
from bertcnn.workflows.tuned import read_tuned
from tests.listener import Listener, interrupt
from tests.tickets import as_csv, tickets

TRIALS = 5

pytestmark = pytest.mark.usefixtures("quick_trials")


class AfterNote(Listener):
    """Each `advance` calls `at` after a note that begins with `when`."""

    def __init__(self, when, at=interrupt):
        super().__init__()
        self._when, self._at = when, at

    def advance(self, done, **figures):
        super().advance(done, **figures)
        if any(note.startswith(self._when) for note in self.notes):
            self._at()


def search(folder, encoder, out="settings.json", **changes):
    given = {"valid": folder / "valid.csv", "trials": TRIALS, "seed": 3, "recipe": "frozen"}
    return tune(folder / "tickets.csv", folder / out, encoder=encoder, **{**given, **changes})


def figures(tuned):
    """The figures of all trials, without durations."""
    return [{**trial, "seconds": 0} for trial in tuned.trials]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "tickets.csv").write_text(as_csv(*tickets(20)))
    (folder / "valid.csv").write_text(as_csv(*tickets(40)))
    return folder


@pytest.fixture(scope="module")
def encoder(shallow_encoder_folder):
    return shallow_encoder_folder


@pytest.fixture(scope="module", autouse=True)
def early_pruning():
    """A trial is compared with one other, not with four."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertcnn.workflows.search._COMPARED", 1)
        yield


@pytest.fixture(scope="module")
def unbroken(folder, encoder):
    listener = Listener()
    return search(folder, encoder, progress=listener), listener


def test_the_defaults_are_tried_first_and_a_better_trial_is_chosen(unbroken, folder):
    tuned, listener = unbroken
    first, best = tuned.trials[0], tuned.trials[tuned.best_trial]
    assert first["training"]["learning_rate"] == 3e-3
    assert (first["training"]["epochs"], first["head"]["filters"]) == (8, 64)
    assert tuned.default_macro_f1 == first["macro_f1"]
    assert tuned.best_trial > 0
    assert tuned.macro_f1 == best["macro_f1"] > tuned.default_macro_f1 + 0.05
    assert tuned.chance <= 0.05
    assert "its settings are chosen" in tuned.verdict
    assert (tuned.training, tuned.head.model_dump(mode="json")) == (best["training"], best["head"])
    assert (tuned.folds, tuned.validation_rows, len(tuned.trials)) == (1, 120, TRIALS)
    assert tuned.finished
    assert listener.stages[-1][0] == "tuning"
    assert sum(note.startswith("trial ") for note in listener.notes) == TRIALS
    assert read_tuned(folder / "settings.json") == tuned
    assert sorted(path.name for path in folder.glob("settings.json*")) == ["settings.json"]


def test_worse_trials_are_pruned(unbroken):
    tuned, listener = unbroken
    pruned = [trial for trial in tuned.trials if trial["outcome"] == "pruned"]
    assert pruned
    assert all(trial["epochs"] < trial["training"]["epochs"] for trial in pruned)
    assert any(f"trial {pruned[0]['number']}: " in n and "(pruned)" in n for n in listener.notes)


def test_a_killed_search_resumes_to_the_same_result(unbroken, folder, encoder):
    program = f"""if True:
        import os, pathlib, pytest, signal
        from tests.conftest import shorten_trials
        from tests.workflows.test_tune import AfterNote, search
        shorten_trials(pytest.MonkeyPatch())
        killed = AfterNote("trial 0:", lambda: os.kill(os.getpid(), signal.SIGKILL))
        folder = pathlib.Path({str(folder)!r})
        search(folder, {str(encoder)!r}, out="killed.json", progress=killed)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    kept = read_tuned(folder / "killed.json")
    assert (len(kept.trials), kept.finished) == (1, False)
    listener = Listener()
    tuned = search(folder, str(encoder), out="killed.json", trials=2, progress=listener)
    assert tuned.finished
    assert figures(tuned) == figures(unbroken[0])[:2]
    assert any(note.startswith("resuming after 1 trial") for note in listener.notes)
    assert not (folder / "killed.json.study").exists()


def test_after_ctrl_c_the_same_call_resumes_and_others_need_force(
    unbroken, folder, encoder, encoder_folder
):
    with pytest.raises(KeyboardInterrupt):
        search(folder, encoder, out="stopped.json", progress=AfterNote("trial 0:"))
    kept = read_tuned(folder / "stopped.json")
    assert (len(kept.trials), kept.finished, kept.head) == (1, False, None)
    (folder / "other.csv").write_text(as_csv(*tickets(9)))
    for changes in (
        {"seed": 4},
        {"recipe": "full"},
        {"valid": folder / "other.csv"},
        {"encoder": encoder_folder},
    ):
        with pytest.raises(OutputError, match=r"another data file, encoder, .*--force"):
            search(folder, **{"encoder": encoder, "out": "stopped.json", **changes})
    assert read_tuned(folder / "stopped.json") == kept
    part = search(folder, encoder, out="stopped.json", most_trainings=1)
    assert (len(part.trials), part.finished) == (2, False)
    assert figures(part) == figures(unbroken[0])[:2]
    tuned = search(folder, encoder, out="stopped.json", seed=4, trials=1, overwrite=True)
    assert (len(tuned.trials), tuned.seed, tuned.finished) == (1, 4, True)


def test_the_time_limit_ends_a_trial_in_progress(folder, encoder, monkeypatch):
    hours = [0]

    def wait():
        hours[0] = 1

    monkeypatch.setattr(
        "bertcnn.workflows.search.time",
        SimpleNamespace(time=lambda: time.time() + 3600 * hours[0]),
    )
    late = AfterNote("trial 0:", wait)
    tuned = search(folder, encoder, out="limited.json", trials=None, progress=late)
    assert (len(tuned.trials), tuned.finished, tuned.head) == (1, True, None)
    assert "the defaults are kept" in tuned.verdict
    assert read_tuned(folder / "limited.json") == tuned
    assert not (folder / "limited.json.study").exists()


def test_few_rows_are_validated_by_cross_validation(folder, encoder, monkeypatch):
    monkeypatch.setattr("bertcnn.workflows.search._ENOUGH", 20)
    tuned = search(folder, encoder, out="folds.json", valid=None, trials=1)
    assert (tuned.folds, tuned.validation_rows) == (2, 24)
    assert tuned.trials[0]["epochs"] == 2 * 8


def test_random_labels_keep_the_defaults(folder, encoder):
    texts, labels = tickets(20)
    noise = np.random.default_rng(0).permutation(labels).tolist()
    (folder / "noise.csv").write_text(as_csv(texts, noise))
    tuned = search(folder, encoder, out="noise.json", valid=folder / "noise.csv", trials=3)
    assert (tuned.training, tuned.head) == ({}, None)
    assert tuned.macro_f1 == tuned.default_macro_f1
    assert "the defaults are kept" in tuned.verdict


def test_a_diverged_trial_is_not_chosen_and_diverged_defaults_end_the_search(
    folder, encoder, monkeypatch
):
    monkeypatch.setattr("bertcnn.workflows.space._LEARNING_RATES", {"frozen": (1e29, 1e30)})
    tuned = search(folder, encoder, out="infinite.json", trials=2)
    assert [trial["outcome"] for trial in tuned.trials] == ["complete", "diverged"]
    assert (tuned.best_trial, tuned.head) == (0, None)
    monkeypatch.setattr(
        "bertcnn.workflows.space.FROZEN", FROZEN.model_copy(update={"learning_rate": 1e30})
    )
    with pytest.raises(TrainingError, match="became"):
        search(folder, encoder, out="never.json")


def test_existing_outputs_and_bad_requests_are_refused(unbroken, folder, encoder):
    with pytest.raises(OutputError, match=r"settings.json' exists.*--force"):
        search(folder, encoder)
    with pytest.raises(OutputError, match="or in none"):
        search(folder, encoder, out="no/such/settings.json")
    for changes, words in (
        ({"minutes": 0}, "0 minutes"),
        ({"minutes": 1e-4}, r"not even the defaults.*more --minutes"),
        ({"trials": 0}, "0 trials"),
        ({"recipe": "few-shot"}, "recipe 'few-shot'"),
    ):
        with pytest.raises(SettingsError, match=words):
            search(folder, encoder, out="new.json", **changes)
    (folder / "unknown.csv").write_text(as_csv(["a text", "another"], ["sales", "spam"]))
    with pytest.raises(LabelError, match="no row that can be validated"):
        search(folder, encoder, out="new.json", valid=folder / "unknown.csv")
    study = folder / "new.json.study"
    with held_folder(study, does="is tuning with"), pytest.raises(OutputError, match="another run"):
        search(folder, encoder, out="new.json")
    study.mkdir()
    (study / "trials.db").write_bytes(b"no database " * 1000)
    with pytest.raises(OutputError, match=r"cannot be read \(file is not a database\).*--force"):
        search(folder, encoder, out="new.json")
    assert not (folder / "new.json").exists()
    data = folder / "own.csv"
    data.write_text(as_csv(*tickets(4)))
    with pytest.raises(OutputError, match=r"own.csv' for --out and for another file"):
        tune(data, data, encoder=encoder, overwrite=True)
    assert data.read_text() == as_csv(*tickets(4))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "x.json.* cannot be read"),
        (b"\xff\xfe", "x.json.* no JSON file"),
        (b"[1]", "expected input should be an object"),
        ({"version": 2}, "version was '2'; expected"),
        ({"learning_rate": 1}, "unknown key 'learning_rate'"),
        ({"head": {"filters": 0}}, "head.filters was '0'"),
    ],
)
def test_other_files_than_settings_are_refused(unbroken, tmp_path, content, words):
    if isinstance(content, dict):
        content = json.dumps({**unbroken[0].model_dump(mode="json"), **content}).encode()
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(SettingsError, match=words):
        read_tuned(tmp_path / "x.json")


def rows(count):
    """Numbered texts of two labels, with letters for digits."""
    letters = "abcdefghij"
    texts = ["".join(letters[int(digit)] for digit in f"{row:05}") for row in range(count)]
    return [(text, "even" if row % 2 else "odd") for row, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("count", "folds", "least"),
    [(100, 5, 100), (1200, 5, 1200), (2500, 2, 900), (6000, 1, 950), (12000, 1, 1150)],
)
def test_the_fewer_rows_there_are_the_more_folds(count, folds, least):
    parts = divide(rows(count))[2]
    assert len(parts) == folds
    assert sum(len(valid) for _, valid in parts) >= least
    for train, valid in parts:
        assert sorted([*train, *valid]) == list(range(count))


def test_duplicates_stay_in_one_fold_and_every_label_is_in_training():
    more = [("Only one!", "lonely"), ("only ONE", "lonely"), ("dup a", "odd"), ("Dup A", "odd")]
    texts, labels, parts = divide(rows(60) + more)
    assert len(texts) == 64
    for train, valid in parts:
        assert {labels[row] for row in train} == {"even", "odd", "lonely"}
        assert not {60, 61} & set(valid.tolist())
        assert len({62, 63} & set(valid.tolist())) in (0, 2)


def test_rows_that_cannot_be_split_are_refused():
    with pytest.raises(LabelError, match="no row that can be validated"):
        divide([("a 1", "a"), ("a 2", "a"), ("b 1", "b"), ("b 2", "b")])


def test_validation_rows_with_an_untrained_label_are_left_out():
    texts, labels, parts = divide(rows(20), [("x", "odd"), ("y", "spam")])
    assert (texts[20:], labels[20:]) == (["x"], ["odd"])
    assert [part.tolist() for part in parts[0]] == [list(range(20)), [20]]
