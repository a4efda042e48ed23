"""A scoring run that is killed at any point resumes; each text is scored once."""

import json
import os
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

from benchmarks.stub_engine import stub_predictor
from bertcnn import score_csv
from bertcnn.inference.answers import Answers
from bertcnn.scoring.answering import Cache
from bertcnn.scoring.run import ScoringInterrupted
from bertcnn.tables.writing import TableWriter
from tests.listener import Listener, interrupt
from tests.scoring.file_runs import CHUNK, names, write_inbox
from tests.tiny import saved

ROOT = Path(__file__).parents[2]
ROWS = 4 * CHUNK + 1000
BYTES_OF_A_CHUNK = 75_000  # lower bound for these inputs, in the journal


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    return write_inbox(tmp_path_factory.mktemp("inbox") / "in.csv", ROWS)


def test_recorded_answers_do_not_count_as_speed(tmp_path):
    # several of the blocks in which files are read
    inbox = write_inbox(tmp_path / "in.csv", ROWS, words="router is down " * 20)
    with pytest.raises(ScoringInterrupted):
        score_csv(stub_predictor(), inbox, tmp_path / "out.csv", progress=Listener(interrupt, 3))
    predictor, listener = stub_predictor(0.00002), Listener()
    score_csv(predictor, inbox, tmp_path / "out.csv", progress=listener)
    (reading, unknown, _), (scoring, left, _) = listener.stages
    assert (reading, unknown, scoring) == ("reading what is answered", 0, "scoring")
    assert 0 < left < inbox.stat().st_size
    speeds = [figures["rows_per_second"] for figures in listener.figures]
    assert len(speeds) == 2
    assert max(speeds) < 1.2 * 5096 / (0.00002 * predictor.engine.asked)


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
    score_csv(predictor, inbox, tmp_path / "out.csv", progress=Listener(written))
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


@pytest.mark.parametrize(
    ("kind", "name"), [("score", "out.csv"), ("score", "out.xlsx"), ("add columns", "out.csv")]
)
def test_a_kill_at_any_step_of_input_and_output_costs_nothing(tmp_path, kind, name):
    lines = [f"{row},router is {row % 9}\n" if row % 10 else f"{row}\n" for row in range(36)]
    (tmp_path / "in.csv").write_text("id,text\n" + "".join(lines))
    done = python("tests.resuming", kind, tmp_path, name)
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


def test_temporary_files_of_killed_runs_are_removed_and_others_stay(inbox, tmp_path):
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


# === The command, with a real model ===


@pytest.fixture(scope="module")
def tickets_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tickets")
    return write_inbox(folder / "in.csv", 30_000, words="my router and the red light")


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


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_ctrl_c_is_one_line_with_the_way_to_continue(model, tickets_file, tmp_path, sent, code):
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


def test_a_model_replaced_during_a_run_changes_nothing(model, inbox, tmp_path):
    mine = Path(shutil.copytree(model, tmp_path / "model"))
    score_csv(mine, inbox, tmp_path / "whole.csv")

    def replace():
        shutil.rmtree(mine)
        mine.mkdir()
        (mine / "manifest.json").write_text("{}")

    score_csv(mine, inbox, tmp_path / "out.csv", progress=Listener(replace))
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
