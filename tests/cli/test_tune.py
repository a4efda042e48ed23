"""`bertcnn tune` and `bertcnn train --settings`, as people type them."""

import json
import signal
import subprocess
import sys

import pytest

from bertcnn.bundle.bundle import read_config
from tests.tickets import as_csv, tickets

pytestmark = pytest.mark.usefixtures("quick_trials")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    (folder / "tickets.csv").write_text(as_csv(*tickets(8)))
    (folder / "valid.csv").write_text(as_csv(*tickets(4)))
    return folder


def tuned(folder, encoder, **changes):
    """A settings file written by tuning."""
    head = {"window_sizes": [1, 2], "filters": 32, "dropout": 0.2}
    training = {"learning_rate": 0.01, "epochs": 2, "fewest_steps": 0}
    trial = {"outcome": "complete", "epochs": 2, "seconds": 1.0, "training": training, "head": head}
    content = {
        "format": "bertcnn settings",
        "version": 1,
        "recipe": "frozen",
        "encoder": str(encoder),
        "training": training,
        "head": head,
        "verdict": "trial 1 is better",
        "macro_f1": 0.9,
        "default_macro_f1": 0.8,
        "best_trial": 1,
        "chance": 0.01,
        "validation_rows": 12,
        "folds": 1,
        "seed": 0,
        "seconds": 2.0,
        "finished": True,
        "trials": [
            {**trial, "number": 0, "macro_f1": 0.8},
            {**trial, "number": 1, "macro_f1": 0.9},
        ],
        **changes,
    }
    path = folder / "chosen.json"
    path.write_text(json.dumps(content))
    return path


def test_tuning_prints_its_result_and_the_next_step(run, folder, encoder_folder):
    out = folder / "settings.json"
    options = ("--valid", folder / "valid.csv", "--encoder", encoder_folder)
    arguments = (folder / "tickets.csv", "--out", out, *options)
    code, printed, told = run("tune", *arguments, "--recipe", "frozen", "--trials", 2)
    assert (code, printed) == (0, "")
    assert "trial 0: macro-F1 " in told
    assert "the defaults" in told
    assert f"Wrote {out}: 2 trials" in told
    assert f"Next: bertcnn train {folder / 'tickets.csv'} --settings {out} --out MODEL" in told
    assert len(json.loads(out.read_text())["trials"]) == 2
    code, _, told = run("tune", *arguments)
    assert (code, told.count("\n")) == (2, 1)
    assert "exists; expected" in told


def test_training_takes_tuned_settings_and_options_win(run, folder, encoder_folder):
    settings = tuned(folder, encoder_folder)
    options = ("--settings", settings, "--epochs", 1, "--out", folder / "model")
    code, _, told = run("train", folder / "tickets.csv", *options)
    assert code == 0, told
    config = read_config(folder / "model")
    assert (config.recipe, config.encoder_name) == ("frozen", "tiny")
    assert (config.head.window_sizes, config.head.filters) == ((1, 2), 32)
    metrics = json.loads((folder / "model" / "metrics.json").read_text())
    assert metrics["kept_epoch"] == 1
    assert "training again from the start" not in told
    again = ("--settings", settings, "--epochs", 1, "--refit", "--out", folder / "again")
    told = run("train", folder / "tickets.csv", *again)[2]
    assert "training again from the start, now with the" in told


def test_unusable_settings_are_refused_in_one_line(run, folder, encoder_folder):
    settings = tuned(folder, encoder_folder)
    for arguments, words in (
        (("--settings", settings, "--recipe", "full"), "tuned for the recipe frozen"),
        (("--settings", folder / "none.json"), "cannot be read"),
        (("--settings", folder / "tickets.csv"), "no JSON file"),
    ):
        code, _, told = run("train", folder / "tickets.csv", *arguments, "--out", folder / "new")
        assert (code, told.count("\n")) == (2, 1), told
        assert words in told
        assert not (folder / "new").exists()


def test_a_search_continues_in_a_new_process_after_so_many_trainings(folder, encoder_folder):
    out = folder / "renewed.json"
    arguments = ["tune", folder / "tickets.csv", "--valid", folder / "valid.csv", "--out", out]
    arguments += ["--encoder", encoder_folder, "--recipe", "frozen", "--trials", 2, "--json"]
    program = f"""if True:
        import pytest, sys
        from bertcnn.cli import tune
        from bertcnn.cli.start import main
        from bertcnn.review.jobs.command import run_recorded
        from tests.conftest import shorten_trials
        shorten_trials(pytest.MonkeyPatch())
        tune._MOST_TRAININGS = 1
        sys.argv = ["bertcnn", *{[str(argument) for argument in arguments]!r}]
        run_recorded(main)
    """
    with (folder / "record").open("w+") as record:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=record,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert (folder / "record").read_text() == "0\n"
    assert "resuming after 1 trial" in done.stderr
    assert done.stderr.count("trial 0: ") == done.stderr.count("trial 1: ") == 1
    assert json.loads(done.stdout) == json.loads(out.read_text())
    assert not (folder / "renewed.json.study").exists()


def test_ctrl_c_prints_that_rerunning_continues(folder, encoder_folder):
    out = folder / "interrupted.json"
    command = [sys.executable, "-m", "bertcnn", "tune", folder / "tickets.csv", "--out", out]
    command += ["--encoder", encoder_folder, "--recipe", "frozen", "--minutes", "10"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as search:
        told = ""
        while "tuning: " not in told:
            told += search.stderr.readline()
        search.send_signal(signal.SIGINT)
        told += search.stderr.read()
    assert search.returncode == 130, told
    assert "interrupted; the same command continues" in told
    assert (folder / "interrupted.json.study").is_dir()


def test_the_other_commands_start_without_optuna():
    modules = (
        "bertcnn.cli.main, bertcnn.inference.predictor, bertcnn.scoring.score,"
        " bertcnn.workflows.space, bertcnn.workflows.tuned"
    )
    program = f"import sys, {modules}; print({{'optuna', 'sqlalchemy'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
