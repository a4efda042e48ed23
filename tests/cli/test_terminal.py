"""No command lets a name, label or text control the terminal."""

import csv
import os
import re
import shutil
import sys
import threading

import pytest

from bertcnn.cli.console import print_message
from bertcnn.cli.main import main
from bertcnn.cli.screen import Screen
from bertcnn.wording import visible
from tests.test_classifier import quick
from tests.tickets import tickets

# a title, a screen erase, a link, C1 controls, an overwritten word, bidirectional controls, tags,
# line separators, rich's own markup
HOSTILE = (
    "a\x1b]0;t\x07b\x1b[2J\x1b]8;;http:x\x1b\\c\x9b2Jd\x08\x7f\u202e\u2066e\u200b"
    "\U000e0041\u2028\ufeff[red][link=http:x]f[/]:bug:"
)
SHOWN = visible(HOSTILE)
NAME = HOSTILE.replace("/", "")  # without "/", which a file name cannot contain
# rich's own output: colours, cursor up, erase line
DRAWN = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*A|2K)|\r")


def escapes(written):
    """Control characters in the output, except those that rich draws with."""
    return sorted(
        {
            character
            for character in DRAWN.sub("", written)
            if not character.isprintable() and character not in "\t\n"
        }
    )


@pytest.fixture
def terminal(monkeypatch):
    """Run a command in this process with a terminal as standard output and error.

    Returns the exit code and the terminal's output.
    """
    pty, tty = pytest.importorskip("pty"), pytest.importorskip("tty")

    def call(*arguments):
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        written = bytearray()

        def read():
            try:
                while piece := os.read(ours, 1 << 16):
                    written.extend(piece)
            except OSError:  # the other end is closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setattr(sys, "argv", ["bertcnn", *map(str, arguments)])
        code = 0
        with (
            open(os.dup(theirs), "w", encoding="utf-8") as out,  # noqa: PTH123
            open(theirs, "w", encoding="utf-8") as error,  # noqa: PTH123
        ):
            monkeypatch.setattr(sys, "stdout", out)
            monkeypatch.setattr(sys, "stderr", error)
            assert sys.stdout.isatty()
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
            monkeypatch.undo()
        reader.join()
        os.close(ours)
        return code, written.decode()

    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory, encoder_folder):
    """A folder with a hostile name; it holds a model and an encoder with such names, and a table.

    The table's labels, columns and texts are hostile too.
    """
    folder = tmp_path_factory.mktemp("hostile") / NAME
    shutil.copytree(encoder_folder, folder / f"encoder {NAME}")
    texts, labels = tickets(8)
    texts, labels = (
        [f"{text} {HOSTILE}" for text in texts],
        [f"{label} {HOSTILE}" for label in labels],
    )
    with (folder / f"{NAME}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["id", f"text {HOSTILE}", f"label {HOSTILE}"])
        writer.writerows(
            [row, text, label] for row, (text, label) in enumerate(zip(texts, labels, strict=True))
        )
    quick(folder / f"encoder {NAME}").fit(texts, labels).save(folder / "model")
    return folder


COLUMNS = ("--text", f"text {HOSTILE}", "--label", f"label {HOSTILE}")
LEARN = "--label LABEL --text COLUMN --encoder ENCODER --recipe frozen"


def words_of(command, place):
    """The words of a command, with names and texts in place of capitals."""
    hostile = {
        "MODEL": place / "model",
        "TABLE": place / f"{NAME}.csv",
        "ENCODER": place / f"encoder {NAME}",
        "NONE": place / f"none {NAME}",
        "COLUMN": COLUMNS[1],
        "LABEL": COLUMNS[3],
        "HOSTILE": HOSTILE,
        "--HOSTILE": f"--{HOSTILE}",
    }
    return [
        place / f"new {NAME}{word.removeprefix('NEW')}"
        if word.startswith("NEW")
        else hostile.get(word, word)
        for word in command.split()
    ]


@pytest.mark.usefixtures("quick_trials")
@pytest.mark.parametrize(
    "command",
    [
        "classify MODEL --probabilities HOSTILE",
        "score MODEL TABLE NEW.csv --text COLUMN",
        "evaluate MODEL TABLE --text COLUMN --label LABEL --json NEW.json --report NEW.html",
        "check TABLE --text COLUMN --label LABEL --encoder ENCODER --fix NEW-fix.csv",
        f"train TABLE {LEARN} --out NEW --epochs 1",
        f"tune TABLE {LEARN} --out NEW-tuned.json --trials 1 --valid TABLE",
        "export MODEL --format openvino --out NEW-export",
        "encoder info ENCODER",
        "encoder pull ENCODER",
        "encoder export ENCODER --to NEW-copy",
    ],
)
def test_no_command_lets_a_users_text_act_on_the_terminal(terminal, place, command):
    code, written = terminal(*words_of(command, place))
    assert code == 0, written
    assert escapes(written) == []
    assert "\x1b[2J" not in written
    assert "[2J" in written  # shown, but without effect
    if not command.startswith("evaluate"):  # its narrow columns break the link
        assert "[link=http:x]" in re.sub(r"\s", "", DRAWN.sub("", written))


def test_pretraining_and_guessing_words_are_no_different(terminal, place):
    short = "--steps 1 --size tiny --batch-size 2 --sequence-length 32"
    for command in (
        f"pretrain TABLE --text COLUMN --out NEW-encoder {short}",
        "fill-mask NEW-encoder [MASK]",
    ):
        code, written = terminal(*words_of(command, place))
        assert code == 0, written
        assert escapes(written) == []


@pytest.mark.parametrize(
    "command",
    [
        "classify NONE router",
        "encoder info HOSTILE",
        "classify MODEL --engine HOSTILE router",
        "train TABLE --seed HOSTILE --out NEW-other",
        "train --HOSTILE",
        "HOSTILE",
        "encoder HOSTILE",
        "encoder info minilm-l6 HOSTILE",
    ],
)
def test_no_error_lets_typed_text_act_on_the_terminal(terminal, place, command):
    code, written = terminal(*words_of(command, place))
    assert code == 2, written
    assert escapes(written) == []
    assert "\x1b[2J" not in written


def test_in_a_pipe_labels_are_unchanged_but_messages_are_escaped(run, place):
    code, out, _ = run("classify", place / "model", "router")
    assert code == 0
    assert " ".join(HOSTILE.split()) in out.split("\t")[0]  # programs need the label unchanged
    code, _, err = run("classify", place / f"none {NAME}", "router")
    assert code == 2
    assert escapes(err) == []
    code, out, err = run("evaluate", place / "model", place / f"{NAME}.csv", *COLUMNS)
    assert code == 0
    assert escapes(out + err) == []


def test_visible_characters_stay():
    for text in (
        "größe ¾ 中文",
        "no\u00a0break\u3000space",
        "می\u200cخواهم",
        "क्\u200dष",
        "👨\u200d👩\u200d👧",
        "C:\\x [red] :bug:",
        "",
    ):
        assert visible(text) == text
    assert visible("a\u200db\u200c \u200d") == "a\ufffdb\ufffd \ufffd"
    assert (
        visible("tag\U000e0041\U000e007f sep\u2028\u2029\x85 half\ud83d\udcff")
        == "tag\ufffd\ufffd sep\ufffd\ufffd\ufffd half\ufffd\ufffd"
    )


def test_only_line_breaks_of_ours_reach_the_log(capsys):
    print_message("\nbertcnn: Wrote a\nbertcnn: all fine")
    assert capsys.readouterr().err == "\nbertcnn: Wrote a\ufffdbertcnn: all fine\n"
    Screen().print("a\x1b[2J\nb", "[red]c")
    assert capsys.readouterr().out == "a\ufffd[2J\nb [red]c\n"
