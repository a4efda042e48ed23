"""Documentation: code runs or parses, references are current, lines are short, links resolve."""

import json
import re
import shlex
import shutil
import sqlite3
import sys
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
import typer
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient

from bertcnn.cli.main import app, main
from docs.generate import pages
from tests.test_doors import DOORS
from tests.tickets import tickets
from tests.tiny import saved

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"]
)
ARCHITECTURE = ROOT / "docs" / "how" / "architecture.md"
LONGEST_LINE, LONGEST_README = 100, 200
QUICK = {"epochs": 2, "fewest_steps": 0}  # training settings
FENCE = re.compile(
    r"(?P<not_run><!-- not run: [^>]+ -->\n)?^(?P<mark>"
    r" *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^ *```$",
    re.S | re.M,
)


@dataclass(frozen=True)
class Block:
    """A block of code on a page.

    A block that is too slow for a test is only parsed; a comment before it marks it.
    """

    language: str
    code: str
    runs: bool


def blocks(page: Path, language: str) -> list[Block]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [
        Block(one["language"], one["code"], not one["not_run"])
        for one in found
        if one["language"] == language
    ]


def lines(block: Block) -> list[list[str]]:
    """The words of each command."""
    return [
        words
        for line in block.code.replace("\\\n", " ").splitlines()
        if (words := shlex.split(line, comments=True))
    ]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def with_blocks(language: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, language)]


@pytest.fixture
def workplace(tmp_path, encoder_folder, monkeypatch):
    """A folder with the files and the model that the pages mention."""
    texts, labels = tickets(12)
    as_rows = [
        f'{row},ticket {row},"{text}",{label}'
        for row, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    for name in ("tickets.csv", "checked.csv"):
        (tmp_path / name).write_text(
            "\n".join(["id,subject,body,team", *as_rows]) + "\n", encoding="utf-8"
        )
    (tmp_path / "inbox.csv").write_text(
        "id,subject,body\n" + "".join(f"{row},hello,router {row}\n" for row in range(9)),
        encoding="utf-8",
    )
    with closing(sqlite3.connect(tmp_path / "desk.db")) as desk, desk:
        desk.execute("CREATE TABLE tickets (id integer PRIMARY KEY, body text)")
        desk.executemany("INSERT INTO tickets (body) VALUES (?)", [(text,) for text in texts])
    (tmp_path / "inbox").mkdir()
    shutil.copy(tmp_path / "inbox.csv", tmp_path / "inbox")
    pairs = [
        f"{label}; {'hardware' if label == 'billing' else 'billing'}" if row % 3 == 0 else label
        for row, label in enumerate(labels)
    ]
    levels = ["network > wifi", "network > cable", "account"]
    for name, column in (
        ("several.csv", pairs),
        ("levels.csv", [levels[row % 3] for row in range(len(texts))]),
    ):
        (tmp_path / name).write_text(
            "body,team\n"
            + "".join(f'"{text}",{label}\n' for text, label in zip(texts, column, strict=True)),
            encoding="utf-8",
        )
    strange = [f"{row},{row},dear {word} sir,misc" for row, word in enumerate("abcdefgh")]
    for name, rows in (
        ("corrected.csv", as_rows),
        ("mailbox.csv", [*as_rows, *strange]),
        ("spam.csv", strange),
    ):
        (tmp_path / name).write_text(
            "\n".join(["id,subject,body,team", *rows]) + "\n", encoding="utf-8"
        )
    (tmp_path / "pairs.tsv").write_text(
        "".join(
            f"{text}\t{label} {row}\n"
            for row, (text, label) in enumerate(zip(texts, labels, strict=True))
        )
    )
    summaries = "".join(f'"{text}",{text.split()[0]}\n' for text in texts)
    for name in ("summaries.csv", "summaries_test.csv"):
        (tmp_path / name).write_text(f"ticket,summary\n{summaries}")
    (tmp_path / "notes.txt").write_text("\n\n".join(texts))
    asked = [
        {"question": "what is it", "context": text, "answer": text.split()[0] if row % 4 else ""}
        for row, text in enumerate(texts)
    ]
    lines = [f"{json.dumps({**one, 'start': 0 if one['answer'] else -1})}\n" for one in asked]
    for name, part in (("questions.jsonl", lines), ("held_out.jsonl", lines[::5])):
        (tmp_path / name).write_text("".join(part))
    (tmp_path / "spans.jsonl").write_text(
        "".join(f"{json.dumps({'text': one, 'spans': [[0, 2, 'NAME']]})}\n" for one in texts)
    )
    shutil.copytree(saved(encoder_folder), tmp_path / "models" / "triage")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", with_blocks("python"), ids=named)
def test_the_python_of_a_page_runs(page, workplace, shallow_encoder_folder):
    texts, labels = tickets(8)
    names = {
        "texts": texts,
        "labels": labels,
        "label_lists": [
            [label, "urgent"] if row % 3 == 0 else [label] for row, label in enumerate(labels)
        ],
        "others": texts[:5],
        "TINY": shallow_encoder_folder,
        "QUICK": QUICK,
    }
    for block in blocks(page, "python"):
        code = compile(with_the_tiny_encoder(block.code), named(page), "exec")
        if block.runs:
            exec(code, names)


SHORT = {"max_tokens": 64, "question_tokens": 16, "stride": 16}  # the tiny encoder's limits
WINDOWS = {"max_tokens": 64, "stride": 32}
TEXTS = {"source_tokens": 64}


def with_the_tiny_encoder(code: str) -> str:
    """`code` changed to use the tiny encoder and to train briefly."""
    code = re.sub(r'encoder="minilm-l6"', "encoder=TINY", code)
    code = re.sub(r'load_encoder\("minilm-l6"\)', "load_encoder(TINY)", code)
    code = re.sub(r"BertCNNClassifier\((\s*recipe)", r"BertCNNClassifier(TINY, \1", code)
    code = code.replace(
        "QuestionAnswerer(encoder=TINY", f"QuestionAnswerer(TINY, questions={SHORT}"
    )
    code = code.replace("TokenLabeller(encoder=TINY", f"TokenLabeller(TINY, windows={WINDOWS}")
    code = code.replace("Summariser(encoder=TINY", f"Summariser(TINY, model={TEXTS}")
    code = re.sub(r'(recipe="[a-z-]+")\)', r"\1, training=QUICK)", code)
    return re.sub(r'(check_csv\("[^"]+")', r"\1, encoder=TINY", code)


@pytest.mark.parametrize("page", with_blocks("bash"), ids=named)
def test_the_commands_of_a_page_run(
    page, workplace, encoder_folder, trained_on, monkeypatch, capsys
):
    for block in blocks(page, "bash"):
        for words in lines(block):
            CHECKS[words[0]](words)
            if (
                words[0] == "bertcnn"
                and block.runs
                and "benchmarks" not in page.parts
                and is_news(words, trained_on)
            ):
                monkeypatch.setattr(sys, "argv", quickly(words, str(encoder_folder)))
                assert ended(main) == 0, (words, capsys.readouterr().err)


@pytest.fixture(scope="module")
def trained_on() -> set[str]:
    """The kinds of input that trainings have covered so far.

    Each training takes five seconds; those that cover nothing new are only parsed.
    """
    return set()


def is_news(words: list[str], trained_on: set[str]) -> bool:
    if words[1] != "train":
        return True
    reads = {words[2], *({"--text", "--valid"} & set(words))}
    news = reads - trained_on
    trained_on |= news
    return bool(news)


def ended(command) -> int:
    """The command's exit code."""
    try:
        command()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def quickly(words: list[str], encoder: str) -> list[str]:
    """The command changed to be quick: a tiny encoder, few steps, overwriting earlier output."""
    words = [{"minilm-l6": encoder, "full": "frozen"}.get(word, word) for word in words]
    if words[1] == "distill":
        words[words.index("--layers") + 1] = "1"  # of two
    known = {option for param in command_of(words)[0].params for option in param.opts}
    given = [("--encoder", encoder), ("--recipe", "frozen"), ("--epochs", "2"), ("--force", None)]
    more = [
        part
        for name, value in given
        if name in known and name not in words and not (name == "--force" and "--into" in words)
        for part in (name, value)
        if part
    ]
    if words[1:3] in (["qa", "train"], ["tokens", "train"], ["summarise", "train"]):
        more += ["--max-tokens", str(SHORT["max_tokens"])]
    return [*words, *more]


def command_of(words: list[str]):
    """The command that these words call, and its arguments."""
    command, rest = typer.main.get_command(app), words[1:]
    while hasattr(command, "commands"):
        if rest[0] not in command.commands:  # `translate MODEL` is short for `translate text MODEL`
            rest = ["text", *rest]
        command, rest = command.commands[rest[0]], rest[1:]
    return command, rest


def parses(words: list[str]) -> None:
    command, rest = command_of(words)
    command.make_context(" ".join(words), list(rest))


def names_a_benchmark(words: list[str]) -> None:
    """Check that a benchmark's options are in its source or in the module it shares them with."""
    assert words[1] == "-m"
    source = ROOT / f"{words[2].replace('.', '/')}.py"
    said = source.read_text(encoding="utf-8") + (ROOT / "benchmarks" / "inputs.py").read_text(
        encoding="utf-8"
    )
    for word in words[3:]:
        assert not word.startswith("--") or f'"{word}"' in said, (words, word)


def names_a_target(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words[1:]:
        assert "=" in word or re.search(rf"^{re.escape(word)}:", makefile, re.M), words


def names_files(words: list[str]) -> None:
    for word in words[1:]:
        if word.endswith(".py") or ".py::" in word:
            assert (ROOT / word.partition("::")[0]).exists(), words


CHECKS = {
    "bertcnn": parses,
    "make": names_a_target,
    "python": names_a_benchmark,
    ".venv/bin/pytest": names_files,
    ".venv/bin/python": names_files,
    ".venv/bin/ruff": names_files,
    ".venv/bin/pre-commit": names_files,
    "streamlit": names_files,
    "pip": names_files,
    "git": names_files,
}


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PUBLIC = (
    "06_question_answering",
    "07_translation",
    "08_language_model",
    "09_blocks_by_hand",
)  # others look inside the package on purpose


# forgets the names and import paths of the previous notebook; freezes loaded modules, so that the
# garbage collector skips them
FORGET = f"""%reset -f
import gc, sys
sys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]
gc.collect()
gc.freeze()
%reset -f"""


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all notebooks, since importing TensorFlow takes longer than most cells."""
    manager = AsyncKernelManager(kernel_name="python3")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("EPOCHS", "1"), ("STEPS", "20")):  # stored output ran for longer
            patch.setenv(name, value)
        yield manager
    if manager.has_kernel:
        run_sync(manager.shutdown_kernel)(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, kernel):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FORGET))
    client = NotebookClient(
        notebook, kernel, timeout=300, resources={"metadata": {"path": str(ROOT / "notebooks")}}
    )
    client.execute()
    client.kc.stop_channels()
    shown = [cell for cell in notebook.cells if cell.get("outputs")]
    assert shown
    if path.stem == "05_your_own_labels":
        scored = [cell for cell in shown if "score_csv(" in cell.source]
        assert "review:language" in str(scored[-1].outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_uses_public_names_only(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) <= 15
    assert not [line for cell in code for line in cell.splitlines() if re.match(r"\s*def ", line)]
    assert not re.search(r"(?:import|\.)\s*_[a-z]", "\n".join(code))
    modules = re.findall(r"^from (bertcnn[\w.]*) import", "\n".join(code), re.MULTILINE)
    assert path.stem not in PUBLIC or {*modules} <= {"bertcnn", "bertcnn.settings", *DOORS}
    assert all(cell.outputs for cell in notebook.cells if "plt.show()" in cell.source)
    assert str(Path.home()) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["commands.md", "settings.md"])
def test_the_reference_matches_the_program(name):
    assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == pages()[name], (
        "run: make reference"
    )


def test_the_architecture_page_shows_the_contracts_rows():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"][0]
    rows = [set(re.findall(r"bertcnn\.(\w+)", row)) for row in reversed(contract["layers"])]
    shown: dict[str, set[str]] = {}
    for number, names in re.findall(
        r"^\| (\d+) \| ((?:`\w+`(?:, )?)+) \|",
        ARCHITECTURE.read_text(encoding="utf-8").partition("## The rows")[2],
        re.M,
    ):
        shown.setdefault(number, set()).update(re.findall(r"`(\w+)`", names))
    assert list(shown.values()) == rows


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_README


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_prose_has_short_lines(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    long = [
        line
        for line in prose.splitlines()
        if len(line) > LONGEST_LINE and " " in line.strip() and not line.startswith("|")
    ]
    assert not long


@pytest.mark.parametrize("page", [page for page in PAGES if "docs" not in page.parts], ids=named)
def test_links_point_to_files(page):  # links in docs/ are checked by its build
    targets = re.findall(r"\]\(([^)#\s]+)", FENCE.sub("", page.read_text(encoding="utf-8")))
    assert not [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]
