"""The start of a command: loading the engine early does not change its answers."""

import inspect
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from bertcnn.cli import startup
from bertcnn.cli.main import app, encoder_app
from bertcnn.cli.start import is_fast_classify, main
from bertcnn.inference import compiled
from tests.cli.outcomes import refused


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "bertcnn.cli.start", *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["classify", "MODEL", "a text"], True),
        (["classify", "MODEL"], True),
        (["classify", "MODEL", "--engine", "openvino", "a text"], True),
        (["classify", "MODEL", "--engine", "keras", "a text"], False),
        (["classify", "MODEL", "--engine=keras", "a text"], False),
        (["classify", "MODEL", "--help"], False),
        (["classify", "elsewhere", "a text"], False),
        (["classify", "long" * 2000, "a text"], False),
        (["classify", "\0", "a text"], False),
        (["classify"], False),
        (["score", "MODEL", "in.csv", "out.csv"], False),
        (["--help"], False),
        ([], False),
    ],
)
def test_only_classify_begins_with_its_engine(model, arguments, expected):
    assert (
        is_fast_classify(
            [str(model) if argument == "MODEL" else argument for argument in arguments]
        )
        is expected
    )


@pytest.mark.parametrize(
    ("engine", "compiled", "gpu", "imported"),
    [
        ("auto", False, True, True),
        ("auto", False, False, False),
        ("auto", True, True, False),
        ("openvino", False, True, False),
        ("keras", False, False, True),
    ],
)
def test_keras_is_imported_for_an_engine_that_needs_it(
    monkeypatch, engine, compiled, gpu, imported
):
    loads = []
    monkeypatch.setattr(startup, "load_keras", lambda: loads.append(True))
    monkeypatch.setattr(startup, "skip_converter", lambda: loads.append(False))
    monkeypatch.setattr(startup, "jax_has_gpu", lambda: gpu)
    startup.prepare_engine(engine, compiled=compiled)
    assert loads == [imported]


def test_an_early_engine_does_not_change_the_answers(run, model):
    _, expected, _ = run("classify", model, "the router cable", "refund money")
    for _ in range(2):  # with and without a cached engine
        done = command("classify", model, "the router cable", "refund money")
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_a_mistake_is_still_reported_in_one_line(model):
    done = command("classify", model, "--engine", "gpu", "a text")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bertcnn: engine 'gpu'; expected one of")


@pytest.mark.parametrize(
    "arguments",
    [
        ["classify"],  # a usage error
        ["classify", "--help"],
        ["review", "--help"],
        ["review", "nexxt"],
        ["fill-mask", "--help"],
        ["scorre", "MODEL"],
        ["--help"],
        [],
    ],
    ids=" ".join,
)
def test_one_command_alone_prints_the_same_as_among_all(arguments, run, monkeypatch):
    alone = run(*arguments)
    monkeypatch.setattr("bertcnn.cli.main._app_for", lambda _: app)
    assert alone == run(*arguments)


def test_no_other_command_waits_for_openvino():
    code = (
        "import sys; sys.argv = ['bertcnn', '--help']\nfrom bertcnn.cli.start import main\ntry:"
        " main()\nexcept SystemExit: pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print('openvino' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_the_engine_is_read_while_python_imports(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["bertcnn", "classify", str(model), "the router"])
    readers, read = [], compiled.read_kept
    monkeypatch.setattr(
        compiled,
        "read_kept",
        lambda path: (readers.append(threading.current_thread().name), read(path))[1],
    )
    for _ in range(2):
        with suppress(SystemExit):
            main()
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert readers == [
        "bertcnn-read-ahead",
        "MainThread",
        "bertcnn-read-ahead",
    ]  # nothing is cached on the first run


@pytest.mark.parametrize(
    "command",
    [found.callback for found in (*app.registered_commands, *encoder_app.registered_commands)],
    ids=lambda command: command.__name__,
)
def test_the_help_breaks_no_line_within_a_sentence_at_80_columns(command):
    """Below the first paragraph, docstring lines are printed as they are."""
    _, *paragraphs = inspect.getdoc(command).split("\n\n")
    for line in "\n".join(paragraphs).splitlines():
        assert line.endswith(".")
        assert len(line) <= 78


def test_sigterm_ends_a_command_without_progress_in_one_line(model):
    with subprocess.Popen(
        [sys.executable, "-m", "bertcnn", "classify", str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        running.stdin.write("the router\n")
        running.stdin.flush()
        running.stdout.readline()
        # Python may miss one signal just before it waits for its input
        while running.poll() is None:
            running.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                running.wait(10)
        told = running.stderr.read()
    assert running.returncode == 75
    assert told.split("\n")[1:] == [
        "bertcnn: interrupted; nothing was half-written. Run the same command to start again.",
        "",
    ]


def printed_to(output, model, words):
    given = [str(model) if word == "MODEL" else word for word in words]
    command = [sys.executable, "-m", "bertcnn", *given]
    return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)


PRINTING = (["--help"], ["--version"], ["encoder", "list"], ["classify", "MODEL", "the router"])


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_output_pipe_ends_a_command_quietly(model, words):
    nobody, output = os.pipe()
    os.close(nobody)
    done = printed_to(output, model, words)
    os.close(output)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it")  # noqa: PTH110
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_output_lost_on_a_full_disk_is_a_one_line_error(model, words):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = printed_to(full, model, words)
    refused((done.returncode, "", done.stderr), "standard output cannot be written (No space left")


def test_a_wrong_command_without_standard_error_is_still_wrong_input():
    nobody, log = os.pipe()
    os.close(nobody)
    done = subprocess.run(
        [sys.executable, "-m", "bertcnn", "no-such-command"], stderr=log, check=False
    )
    os.close(log)
    assert done.returncode == 2
