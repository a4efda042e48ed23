"""What the commands of all tasks have in common: one-line errors, and no half-written files."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from bertcnn.bundle.bundle import write_bundle
from tests.cli.outcomes import left, refused
from tests.failpoints import tiny_bundle
from tests.tasks import kinds, small_questions, small_spans
from tests.tasks.small_answers import longer_encoder
from tests.tasks.small_pairs import small_pairs
from tests.tasks.small_summaries import small_summaries
from tests.tasks.small_texts import small_texts


def write_questions(path):
    rows = [
        {"question": one.question, "context": one.context, "answer": "".join(one.answers[:1])}
        for one in small_questions.LEARNED[:30]
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def write_spans(path):
    rows = [
        {"text": one.text, "spans": [asdict(span) for span in one.spans]}
        for one in small_spans.LEARNED[:30]
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def write_pairs(path):
    path.write_text("\n".join(map("\t".join, zip(*small_pairs(), strict=True))), encoding="utf-8")


def write_summaries(path):
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = zip(*small_summaries(), strict=True)
        csv.writer(stream).writerows([("ticket", "summary"), *rows])


def write_texts(path):
    path.write_text("\n\n".join(small_texts()), encoding="utf-8")


@dataclass(frozen=True, eq=False, kw_only=True)
class Commands:
    """The commands of a task.

    Attributes:
        name: of the group.
        kind: of its models.
        file: the name of a file to learn from.
        write: writes this file.
        trained: what `train` says of the result.
        short: options of a short training.
        ask: the words before texts: its command, MODEL, and options.
        run: the command that adds columns to a file, and its options.
        wrote: what it says of the columns for three texts, one of them blank.
        figures_file: whether `evaluate --json` takes a file's name.
    """

    name: str
    kind: kinds.Kind
    file: str
    write: Callable[[Path], object]
    trained: str
    short: Sequence[str] = ()
    ask: Sequence[str] = ()
    run: Sequence[str] = ()
    wrote: str = ""
    figures_file: bool = True

    @property
    def runs_without_keras(self):
        return not self.kind.needs_keras

    def train(self, folder, out, encoder, *options):
        """The words of a short training on the file in this folder."""
        encoders = ("--encoder", encoder) if self.kind.has_encoder else ()
        short = ("--epochs", "1", *self.short, *encoders)
        return (self.name, "train", folder / self.file, "--out", out, *short, *options)

    def asking(self, model, *texts):
        return (*(str(model) if word == "MODEL" else word for word in self.ask), *texts)

    def running(self, model, source, target, *options):
        command, *own = self.run
        return (self.name, command, model, source, target, *own, *options)

    def evaluating(self, model, folder, *options):
        return (self.name, "evaluate", model, folder / self.file, *options)


TASKS = {
    task.name: task
    for task in (
        Commands(
            name="qa",
            kind=kinds.ANSWERER,
            file="data.jsonl",
            write=write_questions,
            trained="Validation questions:\n",
            short=("--max-tokens", "140"),
            ask=("qa", "ask", "MODEL", "--question", "what?"),
            run=("extract", "--field", "thing=what?"),
            wrote="(with an answer: thing ",
        ),
        Commands(
            name="tokens",
            kind=kinds.LABELLER,
            file="data.jsonl",
            write=write_spans,
            trained="Validation texts:\n",
            ask=("tokens", "mark", "MODEL"),
            run=("extract",),
            wrote="(spans: ",
        ),
        Commands(
            name="translate",
            kind=kinds.TRANSLATOR,
            file="data.tsv",
            write=write_pairs,
            trained="pairs to learn from, 4 held out to choose the epoch; ",
            short=("--pieces", "40"),
            ask=("translate", "MODEL"),
            run=("run",),
            wrote="1 row got no translation.",
            figures_file=False,
        ),
        Commands(
            name="summarise",
            kind=kinds.SUMMARISER,
            file="data.csv",
            write=write_summaries,
            trained="On 4 validation pairs, which chose the epoch: ROUGE-L",
            run=("run",),
            wrote=" got no summary.",
        ),
        Commands(
            name="lm",
            kind=kinds.LANGUAGE_MODEL,
            file="data.txt",
            write=write_texts,
            trained="27 texts to learn from, 3 held out to choose the epoch; 60 pieces",
            short=("--pieces", "60", "--layers", "1", "--width", "16", "--context", "24"),
            ask=("lm", "complete", "MODEL", "--max-tokens", "9"),
            figures_file=False,
        ),
    )
}


def tasks_with(attribute="name"):
    """Parametrise a test over the tasks that have this."""
    found = {name: task for name, task in TASKS.items() if getattr(task, attribute)}
    return pytest.mark.parametrize("task", found.values(), ids=found)


@pytest.fixture(scope="module")
def encoder(shallow_encoder_folder, tmp_path_factory):
    return longer_encoder(shallow_encoder_folder, tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def model(task, shallow_encoder_folder):
    """A saved model of the task; do not write to its folder."""
    return kinds.saved(task.kind, shallow_encoder_folder)


@pytest.fixture
def data(task, tmp_path):
    """A file to learn from, in a folder with nothing else."""
    task.write(tmp_path / task.file)
    return tmp_path / task.file


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n1,my router is dead\n2,\n3,=the app\n")
    return tmp_path / "in.csv"


# === train ===


@tasks_with()
def test_train_saves_a_model_and_shows_the_next_command(run, task, data, encoder, tmp_path):
    out = tmp_path / "model"
    code, told, err = run(*task.train(tmp_path, out, encoder, "--seed", "3"))
    assert (code, told) == (0, ""), err
    assert f"Saved {out} (model " in err
    assert task.trained in err
    assert err.splitlines()[-1].startswith(f"Next: bertcnn {task.name} ")
    assert not any(character in err for character in "\x1b\r")
    assert left(tmp_path) == [data.name, "model"]
    config = json.loads((out / "config.json").read_text())
    assert (config["seed"], config["training"]["epochs"]) == (3, 1)


@tasks_with()
def test_unusable_files_options_and_folders_are_refused_before_the_training(
    run, task, data, model, encoder, tmp_path
):
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    new, classifier = tmp_path / "new", tmp_path / "classifier"
    for out, options, words in (
        (new, ("--epochs", "0"), ("epochs", "'0'")),
        (new, ("--seed", "-1"), ("seed -1",)),
        (model, (), (f"saved {task.kind.name}", "--force")),
        (classifier, (), ("classifier",)),
        (classifier, ("--force",), ("classifier",)),
        (data / "below-a-file", (), ("below-a-file",)),
        *([(new, ("--encoder", "minilm-7"), ("minilm-l6",))] if task.kind.has_encoder else ()),
    ):
        refused(run(*task.train(tmp_path, out, encoder, *options)), *words)
    assert left(tmp_path) == ["classifier", data.name]
    data.unlink()
    refused(run(*task.train(tmp_path, new, encoder)), data.name)
    assert left(tmp_path) == ["classifier"]


# === Models ===


@tasks_with()
def test_a_folder_without_such_a_model_is_refused_by_each_command(
    run, task, data, model, texts, encoder_folder, tmp_path
):
    write_bundle(tiny_bundle(), tmp_path / "classifier")
    for folder, word in (
        (tmp_path / "classifier", f"holds a 'bertcnn bundle'; expected a bertcnn {task.kind.name}"),
        (tmp_path / "nowhere", "nowhere"),
        (encoder_folder, "manifest.json"),
    ):
        refused(run(*task.evaluating(folder, tmp_path)), word)
        if task.ask:
            refused(run(*task.asking(folder, "the router")), word)
        if task.run:
            refused(run(*task.running(folder, texts, tmp_path / "out.csv")), word)
    refused(run("classify", model, "the router"), f"holds a 'bertcnn {task.kind.name}'")
    assert left(tmp_path) == ["classifier", data.name, "in.csv"]


# === evaluate ===


@tasks_with("figures_file")
def test_evaluate_writes_its_figures_to_a_file(run, task, data, model, tmp_path):
    place = tmp_path / "figures.json"
    command = task.evaluating(model, tmp_path, "--json", place)
    code, out, err = run(*command)
    assert code == 0, err
    assert out
    figures = json.loads(place.read_text())
    refused(run(*command), "exists", "--force")
    assert run(*command, "--force")[0] == 0
    assert json.loads(place.read_text()) == figures
    for wrong, word in ((data, "--json"), (model / "figures.json", "has saved")):
        refused(run(*task.evaluating(model, tmp_path, "--json", wrong, "--force")), word)
    assert left(tmp_path) == [data.name, "figures.json"]


# === Single texts ===


@tasks_with("ask")
def test_texts_are_lines_of_standard_input_or_arguments_even_with_a_dash(run, task, model):
    given = ["- my router is dead", "-", "the modem"]
    code, out, err = run(*task.asking(model, *given))
    assert (code, err) == (0, "")
    assert run(*task.asking(model), stdin="\ufeff" + "\r\n".join(given)) == (code, out, err)
    assert run(*task.asking(model), stdin="") == (0, "", "")


@tasks_with("ask")
def test_a_mistyped_option_is_no_text(run, task, model):
    for words in (["router", "--alternativ"], ["--sead=2", "router"], ["-router"]):
        code, out, err = run(*task.asking(model, *words))
        assert (code, out) == (2, "")
        assert "No such option" in err


# === Files ===


@tasks_with("run")
def test_a_file_gets_new_columns_and_is_not_overwritten_by_chance(
    run, task, model, texts, tmp_path
):
    target = tmp_path / "out.csv"
    code, out, err = run(*task.running(model, texts, target))
    assert (code, out) == (0, "")
    assert f"Wrote {target}: 3 rows in " in err
    assert task.wrote in err
    rows = target.read_text().splitlines()
    assert rows[0].startswith("id,text,")
    assert rows[3].startswith("3,'=the app,")
    refused(run(*task.running(model, texts, target)), "exists", "--force")
    code, out, _ = run(*task.running(model, texts, target, "--force", "--json", "--raw"))
    assert (code, json.loads(out)["rows"]) == (0, 3)
    assert target.read_text().splitlines()[3].startswith("3,=the app,")
    assert left(tmp_path) == ["in.csv", "out.csv"]


@tasks_with("run")
def test_unusable_places_and_columns_are_refused_in_one_line(run, task, model, texts, tmp_path):
    target = tmp_path / "out.csv"
    for source, place, options, word in (
        (tmp_path / "missing.csv", target, (), "missing.csv"),
        (texts, tmp_path / "out.doc", (), ".doc"),
        (texts, target, ("--text", "body"), "'body'"),
    ):
        refused(run(*task.running(model, source, place, *options)), word)
    assert left(tmp_path) == ["in.csv"]


@tasks_with("run")
def test_rows_that_are_cut_off_or_unreadable_are_reported(run, task, model, texts, tmp_path):
    texts.write_text("text,a,b\nthe router,1,2\nthe app\nx,y,z,w\n")
    target = tmp_path / "out.jsonl"
    code, _, err = run(*task.running(model, texts, target))
    assert code == 0
    assert "1 row lacked the last cells; they were read as blank." in err
    assert f"1 row could not be read: see the reasons in {target}.rejects.csv." in err
    assert left(tmp_path) == ["in.csv", "out.jsonl", "out.jsonl.rejects.csv"]
    texts.write_text("text,a,b\nthe router,1,2\n" + "x\ty\tz,w,v,u\n" * 9)
    command = task.running(model, texts, tmp_path / "other.csv")
    refused(run(*command), "9 of 10 rows", "--allow-rejects")
    assert run(*command, "--allow-rejects")[0] == 0


@tasks_with("runs_without_keras")
def test_asking_and_extracting_need_no_keras(task, model, texts, tmp_path):
    commands = [
        ["bertcnn", *map(str, words)]
        for words in (
            task.asking(model, "the router"),
            task.running(model, texts, tmp_path / "out.csv"),
        )
    ]
    code = (
        f"import sys\nfrom bertcnn.cli.main import main\nfor sys.argv in {commands!r}:\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert not stop.code\n"
        "print(sorted({'keras', 'tensorflow'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    assert left(tmp_path) == ["in.csv", "out.csv"]
