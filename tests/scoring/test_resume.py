"""An interrupted scoring run resumes, and writes the file of an uninterrupted one."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import bertcnn
from benchmarks.stub_engine import stub_predictor
from bertcnn import score_csv
from bertcnn.errors import OutputError, TableError
from bertcnn.inference.answers import Answers
from bertcnn.scoring.answering import Cache
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tables.writing import TableWriter
from tests.tiny import saved

ROOT = Path(__file__).parents[2]
ROWS = 4 * 4096 + 1000
BYTES_OF_A_CHUNK = 75_000  # lower bound for these inputs, in the journal


class Told:
    """Keeps all reports, and acts after the `chunk`-th chunk of inference."""

    def __init__(self, act=None, chunk=1):
        self.act, self.left = act, chunk
        self.stages, self.notes, self.speeds = [], [], []

    def stage(self, name, total, unit="rows"):  # noqa: ARG002
        self.stages.append((name, total))

    def note(self, message):
        self.notes.append(message)

    def advance(self, done, **figures):  # noqa: ARG002
        self.speeds.append(figures["rows_per_second"])
        self.left -= 1
        if self.act is not None and self.left == 0:
            self.act()

    @property
    def going_on(self):
        end = "rows were already answered by an interrupted run: continuing from there"
        return [note for note in self.notes if note.endswith(end)]


OLD_REJECTS = "line,reason,content_start\n7,of the old output,x\n"


def interrupt():
    raise KeyboardInterrupt


def write_input(path, rows=ROWS, *, words="router is"):
    """Texts with repetitions, some adjacent and some far apart; some blank.

    Every thousandth row cannot be read.
    """
    lines = [
        f"{row},{words} {row % 3 and row % 7001}\n" if row % 11 else f"{row},\n"
        for row in range(rows)
    ]
    lines[500::1000] = [f"{row}\n" for row in range(500, rows, 1000)]
    path.write_text("id,text\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    return write_input(tmp_path_factory.mktemp("inbox") / "in.csv")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def break_off(predictor, source, target, chunk=2, **options):
    """A run that Ctrl-C ends after `chunks` chunks."""
    with pytest.raises(ScoringInterrupted, match="rows are answered"):
        score_csv(predictor, source, target, progress=Told(interrupt, chunk), **options)


FORMATS = ["out.csv", "out.tsv", "out.csv.gz", "out.jsonl", "out.parquet", "out.xlsx"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_that_goes_on_writes_the_bytes_of_an_unbroken_one(inbox, tmp_path, name):
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole, broken = tmp_path / "whole" / name, tmp_path / "broken" / name
    score_csv(stub_predictor(), inbox, whole, probabilities=True)
    if name.endswith((".gz", ".xlsx")):
        time.sleep(1.1)  # so that a timestamp in the file would show
    for chunk in (1, 2):  # the second time, after the recorded chunk
        break_off(stub_predictor(), inbox, broken, chunk, probabilities=True)
        assert names(broken.parent) == [f".{name}.journal"]
    told = Told()
    report = score_csv(stub_predictor(), inbox, broken, probabilities=True, progress=told)
    assert [note.split()[0] for note in told.going_on] == ["12,288"]
    assert names(broken.parent) == names(whole.parent) == sorted([name, f"{name}.rejects.csv"])
    for file in (name, f"{name}.rejects.csv"):
        assert broken.with_name(file).read_bytes() == whole.with_name(file).read_bytes()
    assert (report.rows, report.rejected) == (ROWS - 17, 17)
    assert report.rows == report.blank + sum(report.labels.values())


def test_what_was_answered_is_not_asked_again_and_does_not_count_as_speed(tmp_path):
    # several of the blocks in which files are read
    inbox = write_input(tmp_path / "in.csv", words="router is down " * 20)
    first, second, whole = stub_predictor(0.00002), stub_predictor(0.00002), stub_predictor()
    score_csv(whole, inbox, tmp_path / "whole.csv")
    break_off(first, inbox, tmp_path / "out.csv", 3)
    told = Told()
    score_csv(second, inbox, tmp_path / "out.csv", progress=told)
    # at most a chunk was with the engine at Ctrl-C
    under_way = first.engine.asked + second.engine.asked - whole.engine.asked
    assert 0 <= under_way < second.engine.asked < whole.engine.asked / 4
    (reading, unknown), (scoring, left) = told.stages
    assert (reading, unknown, scoring) == ("reading what is answered", 0, "scoring")
    assert 0 < left < inbox.stat().st_size
    assert len(told.speeds) == 2
    assert max(told.speeds) < 1.2 * 5096 / (0.00002 * second.engine.asked)


def test_a_run_in_which_all_is_answered_asks_nothing(inbox, tmp_path):
    break_off(stub_predictor(), inbox, tmp_path / "out.csv", 5)
    predictor = stub_predictor()
    report = score_csv(predictor, inbox, tmp_path / "out.csv", progress=Told())
    assert (predictor.engine.asked, report.rows) == (0, ROWS - 17)
    assert names(tmp_path) == ["out.csv", "out.csv.rejects.csv"]


def test_restart_forgets_the_answers(inbox, tmp_path):
    break_off(stub_predictor(), inbox, tmp_path / "out.csv")
    predictor, whole, told = stub_predictor(), stub_predictor(), Told()
    score_csv(predictor, inbox, tmp_path / "out.csv", restart=True, progress=told)
    score_csv(whole, inbox, tmp_path / "whole.csv", restart=True)
    assert predictor.engine.asked == whole.engine.asked
    assert not told.going_on


@pytest.mark.parametrize("overwrite", [False, True])
def test_another_model_engine_or_option_starts_over_and_says_so(inbox, tmp_path, overwrite):
    target = tmp_path / "out.csv"

    def starts_over(words, predictor, **options):
        target.unlink(missing_ok=True)
        if overwrite:
            target.write_text("of yesterday")
        break_off(stub_predictor(), inbox, target, overwrite=overwrite)
        told = Told()
        score_csv(predictor, inbox, target, overwrite=overwrite, progress=told, **options)
        note = next(note for note in told.notes if "starting over" in note)
        assert re.search(rf"answered 8,192 rows, but since then .*{words}.*: starting over$", note)
        assert not told.going_on
        score_csv(predictor, inbox, tmp_path / "whole.csv", overwrite=True, **options)
        assert target.read_bytes() == (tmp_path / "whole.csv").read_bytes()
        assert not [name for name in names(tmp_path) if name.endswith("journal")]

    starts_over("--probabilities changed", stub_predictor(), probabilities=True)
    slower, other = stub_predictor(), stub_predictor()
    slower.engine.name = "slow"
    starts_over(r"the engine changed \('stub', now 'slow'\)", slower)
    other.bundle.tensors["logits/bias"][0] = 1
    starts_over("the model changed", other)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_inbox_under_the_same_names_is_scored_after_a_night_that_failed(
    inbox, tmp_path, overwrite
):
    source, target = Path(shutil.copy2(inbox, tmp_path / "in.csv")), tmp_path / "out.csv"
    break_off(stub_predictor(), source, target)
    write_input(source, 9_000, words="today the router is")
    told = Told()
    report = score_csv(stub_predictor(), source, target, overwrite=overwrite, progress=told)
    assert report.rows == 9_000 - 9
    assert re.search("the input's size in bytes changed .*starting over", " ".join(told.notes))
    assert names(tmp_path) == ["in.csv", "out.csv", "out.csv.rejects.csv"]


def test_what_excel_cannot_hold_is_refused_before_any_work_and_blocks_no_later_run(inbox, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.xlsx"
    source.write_text(inbox.read_text() + f"1,{'router ' * 5_000}\n")
    predictor = stub_predictor()
    with pytest.raises(OutputError, match=rf"line {ROWS + 2} .* of 35,000 characters.*Excel's"):
        score_csv(predictor, source, target)
    assert predictor.engine.asked == 0
    assert names(tmp_path) == ["in.csv"]
    shutil.copy2(inbox, source)
    assert score_csv(stub_predictor(), source, target).rows == ROWS - 17


def test_an_input_that_only_looks_the_same_is_answered_anew(inbox, tmp_path):
    source = Path(shutil.copy2(inbox, tmp_path / "in.csv"))
    # its middle is in neither of the two MiB that are hashed
    source.write_text(source.read_text() + "1,router is here\n" * 200_000)
    break_off(stub_predictor(), source, tmp_path / "out.csv", 25)
    status = source.stat()
    content = source.read_bytes()
    place = content.index(b"here", len(content) // 3)
    source.write_bytes(content[:place] + b"lost" + content[place + 4 :])
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    told = Told()
    score_csv(stub_predictor(), source, tmp_path / "out.csv", progress=told)
    assert any("input has changed since the interrupted" in note for note in told.notes)
    score_csv(stub_predictor(), source, tmp_path / "whole.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_an_output_that_exists_is_refused_before_the_journal_is_looked_at(inbox, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    break_off(stub_predictor(), inbox, tmp_path / "out.csv", overwrite=True)
    assert (tmp_path / "out.csv").read_text() == "old"
    with pytest.raises(OutputError, match=r"exists; .*--force"):
        score_csv(stub_predictor(), inbox, tmp_path / "out.csv")
    told = Told()
    score_csv(stub_predictor(), inbox, tmp_path / "out.csv", overwrite=True, progress=told)
    assert told.going_on
    assert (tmp_path / "out.csv").read_text() != "old"


def append(path):
    with path.open("a") as stream:
        stream.write("1,router is\n")


@pytest.mark.parametrize("change", [append, os.utime, Path.unlink])
def test_an_input_changed_meanwhile_puts_nothing_in_place_and_starts_over(inbox, tmp_path, change):
    source = Path(shutil.copy2(inbox, tmp_path / "in.csv"))
    target, rejects = tmp_path / "out.csv", tmp_path / "out.csv.rejects.csv"
    rejects.write_text(OLD_REJECTS)
    with pytest.raises(TableError, match=r"in\.csv' was changed while .*nothing was put in place"):
        score_csv(stub_predictor(), source, target, progress=Told(lambda: change(source)))
    assert rejects.read_text() == OLD_REJECTS
    if change is Path.unlink:
        assert names(tmp_path) == ["out.csv.rejects.csv"]
        return
    assert names(tmp_path) == ["in.csv", "out.csv.rejects.csv"]
    told = Told()
    score_csv(stub_predictor(), source, target, progress=told)
    assert not told.going_on


def test_two_runs_to_one_output_cannot_be_at_once(inbox, tmp_path):
    def second():
        with pytest.raises(OutputError, match=r"another run is writing '.*out\.csv'") as refused:
            score_csv(stub_predictor(), inbox, tmp_path / "out.csv", restart=True)
        assert refused.value.passes
        score_csv(stub_predictor(), inbox, tmp_path / "other.csv")

    score_csv(stub_predictor(), inbox, tmp_path / "out.csv", progress=Told(second))
    files = ("other.csv", "other.csv.rejects.csv", "out.csv", "out.csv.rejects.csv")
    assert names(tmp_path) == [*files]
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


# === Each text once ===


def test_each_text_is_scored_once_also_across_chunks(tmp_path):
    source = tmp_path / "in.csv"
    texts = [*["router is down", "refund", ""] * 3, *(f"app {row % 5000}" for row in range(20_000))]
    source.write_text("\n".join(["text", *texts]) + "\n")
    predictor = stub_predictor()
    report = score_csv(predictor, source, tmp_path / "out.csv", probabilities=True)
    assert report.rows == 20_006
    assert predictor.engine.asked == 5_002


def test_reading_answering_and_writing_go_on_at_the_same_time(inbox, tmp_path):
    predictor, tokenised, asked = stub_predictor(), threading.Semaphore(0), threading.Semaphore(0)
    encode, run = predictor.encode, predictor.run
    in_time = []

    def encoding(texts):
        tokenised.release()
        return encode(texts)

    def running(encoded):
        asked.release()
        if not in_time:
            # its own chunk, and the next one
            in_time.append(all(tokenised.acquire(timeout=60) for _ in range(2)))
        return run(encoded)

    def written():
        in_time.append(all(asked.acquire(timeout=60) for _ in range(2)))

    predictor.encode, predictor.run = encoding, running
    score_csv(predictor, inbox, tmp_path / "out.csv", progress=Told(written))
    score_csv(stub_predictor(), inbox, tmp_path / "whole.csv")
    assert in_time == [True, True]
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_many_rows_of_one_text_cost_microseconds(tmp_path):
    rows = 200_000
    source = tmp_path / "in.csv"
    source.write_text("id,text\n" + "".join(f"{row},router is down\n" for row in range(rows)))
    predictor = stub_predictor()
    report = score_csv(predictor, source, tmp_path / "out.csv")
    assert (predictor.engine.asked, report.rows, list(report.labels.values())) == (1, rows, [rows])
    assert report.seconds / rows < 60e-6  # four times the time on two busy cores


def answers_of(numbers, width=0):
    values = np.array(numbers)
    shares = np.repeat(values[:, None], width, 1).astype(np.float32)
    spans = np.repeat(values.astype(np.int32), 6).reshape(-1, 3, 2)
    whole = values.astype(np.int32)
    reasons = np.stack([whole % 9, whole], axis=1)
    return Answers(whole, values.astype(np.float32), whole % 4, spans, shares, reasons)


@pytest.mark.parametrize("width", [0, 2, 1000])
def test_the_cache_knows_the_latest_texts_and_stays_as_large(width):
    cache = Cache(width)
    size = cache.size
    assert size == {0: 131_072, 2: 131_072, 1000: 16_768}[width]
    numbers = np.arange(3 * size)
    keys = np.random.default_rng(0).integers(1, 2**63, (len(numbers), 2)).astype(np.uint64)
    for start in range(0, len(numbers), 4096):
        chunk = numbers[start : start + 4096]
        assert (cache.find(keys[chunk]) == -1).all()
        cache.keep(answers_of(chunk, width), *cache.make_room(keys[chunk]))
    slots = cache.find(keys)
    assert (slots[-size // 4 :] >= 0).all()
    assert (slots >= 0).sum() == size
    labels, confidence, decisions, spans, shares, reasons = cache.answers(slots[slots >= 0]).columns
    np.testing.assert_array_equal(reasons, np.stack([labels % 9, labels], axis=1))
    np.testing.assert_array_equal(labels, numbers[slots >= 0])
    np.testing.assert_array_equal(confidence, labels)
    np.testing.assert_array_equal(decisions, labels % 4)
    assert (spans == labels[:, None, None]).all()
    assert shares.shape == (size, width)
    assert (shares == labels[:, None]).all()


# === Kills ===


@pytest.mark.parametrize("name", ["out.csv", "out.xlsx"])
def test_a_kill_at_any_step_of_input_and_output_costs_nothing(tmp_path, name):
    lines = [f"{row},router is {row % 9}\n" if row % 10 else f"{row}\n" for row in range(36)]
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(lines))
    done = python("tests.resuming", tmp_path, name)
    outcomes = json.loads(done.stdout)
    assert len(outcomes) > 40
    assert [one for one in outcomes if not one["same"] or one["found"] == "broken"] == []
    assert {outcome["answered"] for outcome in outcomes} == {0, 8, 16, 24, 32}
    assert any(".tmp" in left for outcome in outcomes for left in outcome["left"])
    assert {outcome["found"] for outcome in outcomes} == {"old", "new"}


def python(module, *arguments, **options):
    """Run a module in a process of its own."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True, **options
    )


def stub_command(source, target, seconds_a_row=0.0):
    words = (source, target, "--seconds-a-row", seconds_a_row)
    return [sys.executable, "-m", "benchmarks.stub_engine", *map(str, words)]


def test_temporary_files_of_killed_runs_go_and_those_of_living_ones_stay(inbox, tmp_path):
    target = tmp_path / "out.xlsx"
    with TableWriter(target, ["text"], overwrite=True) as living:
        mine = names(tmp_path)
        assert len(mine) == 2  # the file, and the folder of its rows
        killed = subprocess.Popen(stub_command(inbox, target, 0.0003), cwd=ROOT)
        wait_for(lambda: journal_size(target) > 5000)
        killed.kill()
        killed.wait()
        assert len(names(tmp_path)) == 6  # also the journal, output and rejects
        score_csv(stub_predictor(), inbox, target, probabilities=True)
        assert names(tmp_path) == sorted([*mine, "out.xlsx", "out.xlsx.rejects.csv"])
        living.write([("still here",)])
    assert names(tmp_path) == ["out.xlsx", "out.xlsx.rejects.csv"]


def journal_size(target):
    try:
        return target.with_name(f".{target.name}.journal").stat().st_size
    except FileNotFoundError:
        return 0


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_full_disk_keeps_the_answers(inbox, tmp_path):
    resource = pytest.importorskip("resource")

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Python would keep truncated bytecode for ever
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    whole, target = tmp_path / "whole.csv", tmp_path / "out.csv"
    score_csv(stub_predictor(), inbox, whole, probabilities=True)
    done = subprocess.run(
        stub_command(inbox, target), cwd=ROOT, preexec_fn=small_disk, capture_output=True, text=True
    )
    assert "OutputError: the disk is full" in done.stderr
    assert names(tmp_path) == [".out.csv.journal", "whole.csv", "whole.csv.rejects.csv"]
    told = Told()
    score_csv(stub_predictor(), inbox, target, probabilities=True, progress=told)
    assert told.going_on
    assert target.read_bytes() == whole.read_bytes()


# === The command, with a real model ===


@pytest.fixture(scope="module")
def tickets_file(tmp_path_factory):
    return write_input(
        tmp_path_factory.mktemp("tickets") / "in.csv", 30_000, words="my router and the red light"
    )


@pytest.fixture(scope="module")
def model(encoder_folder):
    return saved(encoder_folder)


def started(*arguments, **options):
    """A running `bertcnn score`."""
    command = [sys.executable, "-m", "bertcnn.cli.main", "score", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, **options)


def wait_for_answers(running, target, chunks):
    """Wait until a run has recorded at least `chunks` chunks."""
    wait_for(
        lambda: journal_size(target) > 600 + chunks * BYTES_OF_A_CHUNK or running.poll() is not None
    )


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_killed_command_goes_on_when_run_again(model, tickets_file, tmp_path, name):
    (tmp_path / "whole").mkdir()
    whole, target = tmp_path / "whole" / name, tmp_path / name
    score_csv(bertcnn.load(model), tickets_file, whole)
    chance = random.Random(name)
    for frames in (1, 3):
        with started(model, tickets_file, target) as running:
            wait_for_answers(running, target, frames)
            time.sleep(chance.random() / 10)
            running.kill()
        assert running.returncode == -signal.SIGKILL
    done = python("bertcnn.cli.main", "score", model, tickets_file, target)
    assert "rows were already answered by an interrupted run: continuing from there" in done.stderr
    assert names(tmp_path) == sorted([name, f"{name}.rejects.csv", "whole"])
    for file in (name, f"{name}.rejects.csv"):
        assert target.with_name(file).read_bytes() == whole.with_name(file).read_bytes()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_ctrl_c_says_in_one_line_how_to_go_on(model, tickets_file, tmp_path, sent, code):
    target = tmp_path / "out.csv"
    with started(model, tickets_file, target) as running:
        wait_for_answers(running, target, 1)
        running.send_signal(sent)
        told = running.stderr.read()
    assert running.returncode == code
    *_, last = told.splitlines()
    assert last.startswith("bertcnn: interrupted; ")
    assert last.endswith("rows are kept. The same command continues from there.")
    assert "Traceback" not in told
    assert names(tmp_path) == [".out.csv.journal"]
    other = python("bertcnn.cli.main", "score", model, tickets_file, target, "--raw")
    (told,) = (line for line in other.stderr.splitlines() if "interrupted run" in line)
    assert "--raw changed (off, now on)" in told


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_is_resumable_where_a_shell_script_ignores_ctrl_c(model, tmp_path, sent):
    source, target = tmp_path / "in.parquet", tmp_path / "out.csv"
    texts = [f"my router and the red light {row}" for row in range(30_000)]
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), source)

    def as_a_script_does():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(sent, signal.SIG_DFL)  # the tests may run under nohup

    with started(
        model, source, target, start_new_session=True, preexec_fn=as_a_script_does
    ) as running:
        wait_for_answers(running, target, 1)
        os.killpg(running.pid, sent)  # like `timeout`: the reading process gets it too
        told = running.stderr.read()
    assert running.returncode == 75
    assert told.splitlines()[-1].endswith("The same command continues from there.")
    assert names(tmp_path) == [".out.csv.journal", "in.parquet"]


def test_a_model_replaced_meanwhile_changes_nothing(model, inbox, tmp_path):
    mine = Path(shutil.copytree(model, tmp_path / "model"))
    score_csv(mine, inbox, tmp_path / "whole.csv")

    def replace():
        shutil.rmtree(mine)
        mine.mkdir()
        (mine / "manifest.json").write_text("{}")

    score_csv(mine, inbox, tmp_path / "out.csv", progress=Told(replace))
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_grow_with_the_rows():
    done = python("benchmarks.constant_memory", "--rows", 400_000, "--new", 0.5)
    early, late = re.search(r"([\d.]+) MB early, ([\d.]+) MB at the end", done.stdout).groups()
    assert float(late) - float(early) < 6, done.stdout  # of the 28 MB of the input


def test_the_benchmark_of_kills_gives_its_verdict():
    done = python("benchmarks.kill_resume", "--kills", 2, "--rows", 5000)
    assert "2 kills, " in done.stdout
    assert done.stdout.endswith("all identical to those of unbroken runs, nothing left behind\n")
