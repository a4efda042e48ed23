"""The commands in odd surroundings.

Pipes and devices in place of files, and names at the limits of the system.
"""

import json
import os
import shutil
import signal

import pytest

from tests.cli.outcomes import refused
from tests.tickets import as_csv, tickets

LONGEST = 255  # bytes


@pytest.fixture(autouse=True)
def _no_hanging():
    """Fail after 240 s instead of waiting for a pipe for ever."""

    def stop(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder, with a table in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(as_csv(*tickets(4)))
    return tmp_path


ODD = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_unrelated_manifest_next_to_the_output_does_not_matter(run, model, place, kind):
    ODD[kind](place / "manifest.json")
    assert run("score", model, "in.csv", "out.csv")[0] == 0
    figures = ("--json", "figures.json", "--report", "report.html")
    assert run("evaluate", model, "in.csv", *figures)[0] == 0


PLACES = {
    "rejects": (".csv.rejects.csv", lambda model: ("score", model, "in.csv", "x.csv")),
    "output": (".csv", lambda model: ("score", model, "in.csv", "x.csv", "--force")),
    "input": (".csv", lambda model: ("score", model, "x.csv", "out.csv")),
    "texts": (".txt", lambda _: ("pretrain", "x.txt", "--out", "new")),
    "settings": (".json", lambda _: ("train", "in.csv", "--settings", "x.json", "--out", "new")),
    "figures": (
        ".json",
        lambda model: ("evaluate", model, "in.csv", "--json", "x.json", "--force"),
    ),
    "page": (".html", lambda model: ("evaluate", model, "in.csv", "--report", "x.html", "--force")),
    "model": ("", lambda _: ("classify", "x", "router")),
    "encoder": ("", lambda _: ("encoder", "info", "./x")),
    "study": (
        ".json.study",
        lambda _: ("tune", "in.csv", "--out", "x.json", "--trials", 1, "--force"),
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_pipe_in_place_of_a_file_is_a_one_line_error(run, model, encoder_folder, place, case):
    ending, command = PLACES[case]
    os.mkfifo(place / f"x{ending}")
    extra = ("--encoder", encoder_folder) if case == "study" else ()
    refused(run(*command(model), *extra), f"x{ending}")


def test_a_pipe_in_place_of_a_journal_or_an_encoder_file_is_an_error(
    run, model, encoder_folder, place
):
    os.mkfifo(place / ".out.csv.journal")
    refused(run("score", model, "in.csv", "out.csv"), ".out.csv.journal", "not one of bertcnn's")
    shutil.copytree(encoder_folder, place / "encoder")
    (place / "encoder" / "tokenizer_config.json").unlink()
    os.mkfifo(place / "encoder" / "tokenizer_config.json")
    refused(
        run("train", "in.csv", "--encoder", "./encoder", "--out", "new"), "tokenizer_config.json"
    )


def test_pipes_in_the_cache_are_ignored(run, model, place, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(place / "cache"))
    assert run("classify", model, "router")[0] == 0
    (kept,) = (place / "cache" / "engines").glob("*.blob")
    kept.unlink()
    os.mkfifo(kept)
    assert run("classify", model, "router")[0] == 0
    (place / "cache" / "encoders" / "minilm-l6").mkdir(parents=True)
    os.mkfifo(place / "cache" / "encoders" / "minilm-l6" / "origin.json")
    code, out, _ = run("encoder", "info", "minilm-l6")
    assert (code, "no: downloaded at first use" in out) == (0, True)


def named(size, ending="", letter="x"):
    """A name of exactly `size` bytes."""
    name = letter * ((size - len(ending)) // len(letter.encode()))
    return name + "y" * (size - len((name + ending).encode())) + ending


TOO_LONG = {
    "scored": (".csv", lambda model, name: ("score", model, "in.csv", name)),
    "input": (".csv", lambda model, name: ("score", model, name, "out.csv")),
    "model": ("", lambda _, name: ("classify", name, "router")),
    "figures": (".json", lambda model, name: ("evaluate", model, "in.csv", "--json", name)),
    "report": ("", lambda model, name: ("evaluate", model, "in.csv", "--report", name)),
    "checked": (".csv", lambda _, name: ("check", "in.csv", "--fix", name)),
    "trained": ("", lambda _, name: ("train", "in.csv", "--out", name)),
    "settings": (".json", lambda _, name: ("train", "in.csv", "--out", "new", "--settings", name)),
    "texts": (".txt", lambda _, name: ("pretrain", name, "--out", "new")),
    "encoder": ("", lambda _, name: ("encoder", "info", f"./{name}")),
    "encoder's name": ("", lambda _, name: ("train", "in.csv", "--out", "new", "--encoder", name)),
    "copied": ("", lambda encoder, name: ("encoder", "export", encoder, "--to", name)),
}


@pytest.mark.parametrize("case", TOO_LONG)
def test_a_name_that_is_too_long_is_reported_with_its_length(
    run, model, encoder_folder, place, case
):
    ending, command = TOO_LONG[case]
    given = encoder_folder if case == "copied" else model
    refused(
        run(*command(given, named(LONGEST + 1, ending))),
        "is too long (256 bytes); expected at most 255 bytes",
    )
    # 100 characters
    refused(run(*command(given, named(300, ending, "字"))), "is too long (300 bytes)")
    deep = "/".join(["d" * 200] * 25 + [f"x{ending}"])
    refused(run(*command(given, deep)), "the path '", "is too long (5,", "at most 4,095 bytes")


@pytest.mark.parametrize(("size", "letter"), [(231, "字"), (LONGEST, "x"), (LONGEST, "🎫")])
def test_any_name_that_the_system_allows_works(run, encoder_folder, place, size, letter):
    model, scored, figures, page = (
        named(size, ending, letter) for ending in ("", ".csv", ".json", ".html")
    )
    options = ("--encoder", encoder_folder, "--recipe", "frozen", "--epochs", 1)
    training = ("train", "in.csv", "--out", model, *options)
    assert run(*training)[0] == 0
    refused(run(*training), "--force")
    assert run(*training, "--force")[0] == 0
    with (place / "in.csv").open("a") as file:
        file.write('9,"half a row\n')
    for force in ((), ("--force",)):
        assert run("score", model, "in.csv", scored, *force)[0] == 0
        assert run("evaluate", model, "in.csv", "--json", figures, "--report", page, *force)[0] == 0
    assert json.loads((place / figures).read_text())["rows"] == 12
    assert len(list(place.iterdir())) == 6  # with the rejects; no temporary file remains
