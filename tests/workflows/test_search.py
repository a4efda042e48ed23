"""The search for settings: never worse than the defaults, repeatable, in time, and resumed."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from bertcnn import BertCNNClassifier
from bertcnn.errors import LabelError, OutputError, SettingsError
from bertcnn.workflows.search import TuningInterrupted, tune
from bertcnn.workflows.study import Record, Study, study_path
from bertcnn.workflows.tuned import read_tuned
from tests.tickets import as_csv, tickets

TRIALS = 2

pytestmark = pytest.mark.usefixtures("quick_trials")


class Listener:
    """Keeps the notes; `at` is done when a note begins with `when`."""

    def __init__(self, when=None, at=None):
        self.notes, self.stages, self.seconds, self._when, self._at = [], [], 0, when, at

    def stage(self, name, total, unit="rows"):
        self.stages.append((name, total, unit))

    def advance(self, done, **figures):  # noqa: ARG002
        self.seconds += done
        if self._when and any(note.startswith(self._when) for note in self.notes):
            self._at()

    def note(self, message):
        self.notes.append(message)


def search(folder, encoder_folder, out="settings.json", **changes):
    given = {"valid": folder / "valid.csv", "trials": TRIALS, "seed": 3, **changes}
    return tune(
        folder / "tickets.csv", folder / out, encoder=encoder_folder, recipe="frozen", **given
    )


def found(tuned):
    """All of an outcome but for the clock."""
    kept = tuned.model_dump()
    trials = [
        {name: value for name, value in trial.items() if name != "seconds"}
        for trial in kept.pop("trials")
    ]
    return {**kept, "seconds": 0}, trials


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuning")
    (folder / "tickets.csv").write_text(as_csv(*tickets(8)))
    (folder / "valid.csv").write_text(as_csv(*tickets(6)))
    return folder


@pytest.fixture(scope="module")
def unbroken(folder, encoder_folder):
    listener = Listener()
    return search(folder, encoder_folder, progress=listener), listener


def test_the_defaults_come_first_and_the_result_is_at_least_as_good(unbroken, folder):
    tuned, listener = unbroken
    first = tuned.trials[0]
    assert (first.training["learning_rate"], first.training["epochs"], first.head.filters) == (
        3e-3,
        30,
        64,
    )
    assert tuned.default_macro_f1 == first.macro_f1
    assert tuned.macro_f1 >= first.macro_f1
    assert tuned.trials[tuned.best_trial].macro_f1 == max(
        trial.macro_f1 for trial in tuned.trials if trial.outcome == "complete"
    )
    assert (tuned.head is None) == (tuned.chance > 0.05) == ("defaults are kept" in tuned.verdict)
    assert (tuned.folds, tuned.validation_rows, len(tuned.trials), tuned.finished) == (
        1,
        18,
        TRIALS,
        True,
    )
    assert listener.stages[-1][0] == "tuning"
    assert sum(note.startswith("trial ") for note in listener.notes) == TRIALS
    assert read_tuned(folder / "settings.json") == tuned
    assert sorted(path.name for path in folder.glob("settings.json*")) == ["settings.json"]


def test_a_killed_search_goes_on_and_finds_what_an_unbroken_one_finds(
    unbroken, folder, encoder_folder
):
    program = f"""if True:
        import os, pathlib, pytest, signal
        from tests.conftest import shorten_trials
        from tests.workflows.test_search import Listener, search
        shorten_trials(pytest.MonkeyPatch())
        killed = Listener("trial 0:", lambda: os.kill(os.getpid(), signal.SIGKILL))
        folder = pathlib.Path({str(folder)!r})
        search(folder, {str(encoder_folder)!r}, out="killed.json", progress=killed)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (folder / "killed.json").exists()
    listener = Listener()
    assert found(
        search(folder, str(encoder_folder), out="killed.json", progress=listener)
    ) == found(unbroken[0])
    assert any(note.startswith("resuming after 1 trial, ") for note in listener.notes)
    assert not study_path(folder / "killed.json").exists()


def test_ctrl_c_keeps_what_was_found_and_the_same_call_goes_on(unbroken, folder, encoder_folder):
    def press():
        raise KeyboardInterrupt

    with pytest.raises(TuningInterrupted) as stop:
        search(folder, encoder_folder, out="stopped.json", progress=Listener("trial 0:", press))
    kept = read_tuned(folder / "stopped.json")
    assert kept == stop.value.tuned
    assert (len(kept.trials), kept.finished) == (1, False)
    (folder / "other.csv").write_text(as_csv(*tickets(9)))
    for changes, words in (
        ({"seed": 4}, "another seed"),
        ({"recipe": "full"}, "another recipe and another space of settings"),
    ):
        with pytest.raises(OutputError, match=f"belongs to a search with {words}; .*--force"):
            tune(
                folder / "tickets.csv",
                folder / "stopped.json",
                valid=folder / "valid.csv",
                encoder=encoder_folder,
                **{"recipe": "frozen", "seed": 3, **changes},
            )
    with pytest.raises(OutputError, match="belongs to a search with another data file"):
        tune(
            folder / "other.csv",
            folder / "stopped.json",
            encoder=encoder_folder,
            recipe="frozen",
            seed=3,
        )
    assert read_tuned(folder / "stopped.json") == kept
    assert found(search(folder, encoder_folder, out="stopped.json")) == found(unbroken[0])


def test_the_time_limit_ends_a_trial_in_the_middle(folder, encoder_folder, monkeypatch):
    hours, advances = [0], []

    def wait():
        advances.append(1)
        # the first is of the trial's end, then batches of the next one follow
        hours[0] = len(advances) > 3

    monkeypatch.setattr(
        "bertcnn.workflows.clock.time",
        SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * hours[0]),
    )
    late = Listener("trial 0:", wait)
    tuned = search(
        folder, encoder_folder, out="limited.json", minutes=30, trials=None, progress=late
    )
    assert (len(tuned.trials), tuned.finished, tuned.head) == (1, True, None)
    assert tuned.seconds > 3600  # of the second trial, which was begun
    assert "only the defaults were tried" in tuned.verdict
    assert read_tuned(folder / "limited.json") == tuned


def test_too_little_time_for_the_defaults_is_told(folder, encoder_folder):
    with pytest.raises(
        SettingsError, match=r"not even the defaults could be trained.*more --minutes"
    ):
        search(folder, encoder_folder, out="none.json", minutes=1e-4)
    assert not list(folder.glob("none.json*"))


def test_full_has_settings_of_its_own(folder, shallow_encoder_folder):
    out, valid = folder / "full.json", folder / "valid.csv"
    tuned = tune(
        folder / "tickets.csv",
        out,
        valid=valid,
        encoder=shallow_encoder_folder,
        recipe="full",
        trials=2,
    )
    assert (tuned.folds, tuned.validation_rows, tuned.recipe) == (1, 18, "full")
    assert {"layer_decay", "head_multiplier"} <= tuned.trials[1].training.keys()


def test_what_was_found_trains_a_classifier(unbroken, encoder_folder):
    trial = unbroken[0].trials[-1]
    classifier = BertCNNClassifier(
        encoder_folder, recipe="frozen", training={**trial.training, "epochs": 1}, head=trial.head
    )
    assert classifier.fit(*tickets(8)).predict(["my invoice"]).shape == (1,)


def test_a_place_that_is_taken_and_bad_requests_are_refused(unbroken, folder, encoder_folder):
    with pytest.raises(OutputError, match=r"settings.json' exists.*--force"):
        search(folder, encoder_folder)
    with pytest.raises(OutputError, match="or in none"):
        search(folder, encoder_folder, out="no/such/settings.json")
    with pytest.raises(SettingsError, match="0 minutes; expected more than 0"):
        search(folder, encoder_folder, out="new.json", minutes=0)
    with pytest.raises(SettingsError, match="0 trials; expected at least 1"):
        search(folder, encoder_folder, out="new.json", trials=0)
    (folder / "unknown.csv").write_text(as_csv(["a text", "another"], ["sales", "spam"]))
    with pytest.raises(LabelError, match="validation rows with the label 'sales'"):
        search(folder, encoder_folder, out="new.json", valid=folder / "unknown.csv")
    study_path(folder / "new.json").write_bytes(b"no database " * 1000)
    with pytest.raises(OutputError, match=r"cannot be used \(file is not a database\).*--force"):
        search(folder, encoder_folder, out="new.json")
    assert not (folder / "new.json").exists()
    data = folder / "own.csv"
    data.write_text(as_csv(*tickets(4)))
    for given, valid in ((data, None), (folder / "tickets.csv", data)):
        with pytest.raises(
            OutputError,
            match=(
                r"own.csv' for --out and for another file of this command; expected different files"
            ),
        ):
            tune(given, data, valid=valid, encoder=encoder_folder, overwrite=True)
    assert data.read_text() == as_csv(*tickets(4))


def test_a_memory_opened_again_asks_for_what_it_would_have_asked_for(tmp_path):
    def asked(path, breaks=()):
        study, points = Study(path, {}, seed=5, warmup=0), []
        for number in range(13):  # the first ten are tried at random
            if number in breaks:
                study.close()
                study = Study(path, {}, seed=5, warmup=0)
            trial = study.ask({"rate": 0.5})
            rate = trial.suggest_float("rate", 0.0, 1.0)
            study.tell(trial, Record("complete", 1 - (rate - 0.3) ** 2, 1, 1.0, {"rate": rate}, []))
            points.append(rate)
        study.close()
        return points

    whole = asked(None)
    assert len(set(whole)) == 13
    assert asked(tmp_path / "broken.study", (1, 3, 11)) == whole


def test_one_search_at_a_time(folder, encoder_folder):
    with (
        Study(study_path(folder / "busy.json"), {}, seed=0, warmup=0),
        pytest.raises(OutputError, match="another run is tuning"),
    ):
        search(folder, encoder_folder, out="busy.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version '2'; expected version 1"),
        ({"format": "other"}, "some other JSON file"),
        ({"learning_rate": 1}, "unknown key 'learning_rate'"),
        ({"training": {"pace": 3}}, "unknown key 'pace'"),
        ({"training": {"epochs": 0}}, "epochs was '0'"),
        ({"trials": []}, "trials"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_settings_file_that_was_changed_is_refused_in_one_line(unbroken, tmp_path, change, words):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({**unbroken[0].model_dump(mode="json"), **change}))
    with pytest.raises(SettingsError) as refused:
        read_tuned(path)
    assert words in str(refused.value)
    assert "settings.json" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"{", "no JSON file"),
        (b"\xff\xfe", "no JSON file"),
        (b"[1]", "other JSON"),
    ],
)
def test_what_is_no_settings_file_is_refused(tmp_path, content, words):
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(SettingsError, match=words):
        read_tuned(tmp_path / "x.json")
