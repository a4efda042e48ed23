"""The scoring benchmark, with a tiny model and our own engines only.

The competitors need an environment of their own.
"""

import subprocess
import sys

import numpy as np
import pytest

from benchmarks import environment, scoring, scoring_growth
from benchmarks.competitors import COMPETITORS, Competitor
from benchmarks.environment import CompetitorError
from benchmarks.inputs import Rows, accuracy, check_complete, write_rows
from benchmarks.measuring import peak_memory, read_rows, write_scored
from bertcnn.bundle.bundle import read_bundle
from tests.tickets import as_csv, tickets
from tests.tiny import saved


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "labelled.csv"
    path.write_text(as_csv(*tickets()))
    return path


@pytest.fixture
def rows():
    texts, labels = tickets()
    return Rows(tuple(texts), tuple(labels), "")


def cells(output, title):
    """The cells of the table row with this title."""
    line = next(line for line in output.splitlines() if line.startswith(f"| {title} "))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_our_engines_take_turns_and_the_table_tells_speed_memory_and_accuracy(
    encoder_folder, labelled, capsys
):
    options = ["--rows", "70", "--rounds", "1", "--only", "int8,float32"]
    scoring.main([str(saved(encoder_folder)), str(labelled), *options])
    output = capsys.readouterr().out
    assert "70 rows" in output
    assert "\x1b" not in output
    for name in ("int8", "float32"):  # Keras takes ten seconds to start and runs the same way
        _, speed, median, ratio, peak, share, lost, computed_by = cells(
            output, COMPETITORS[name].title
        )
        assert speed == median
        assert float(speed.replace(",", "")) > 0
        assert float(ratio) > 0
        assert 30 < int(peak.removesuffix(" MB").replace(",", "")) < 5000
        assert float(share.rstrip("%")) > 80
        assert abs(float(lost or 0)) < 10
        # int8 is excluded where it loses accuracy
        assert computed_by in (f"openvino-{name}", "openvino-float32")


def test_a_competitor_that_cannot_run_says_why_and_the_others_go_on(
    encoder_folder, labelled, capsys, monkeypatch
):
    def run(models, files, limit):
        return environment.answer_of(
            [sys.executable, "-c", "raise SystemExit('no such library')"], limit
        )

    monkeypatch.setitem(COMPETITORS, "keras", Competitor("a broken one", run))
    options = ["--rows", "5", "--rounds", "1", "--only", "keras,float32"]
    scoring.main([str(saved(encoder_folder)), str(labelled), *options])
    output = capsys.readouterr().out
    assert cells(output, "a broken one")[-1] == "failed: no such library"
    assert cells(output, COMPETITORS["float32"].title)[-1] == "openvino-float32"


def test_an_unknown_competitor_is_refused():
    with pytest.raises(SystemExit, match="unknown competitor int9; there are int8, float32"):
        scoring.chosen("int8,int9")


def test_growth_prints_a_table_by_rows_and_one_by_length(
    encoder_folder, labelled, capsys, monkeypatch
):
    monkeypatch.setattr(scoring_growth, "LENGTHS", (16, 64, 128))
    options = ["--most", "50", "--tokens", "64", "--only", "float32"]
    scoring_growth.main([str(saved(encoder_folder)), str(labelled), *options])
    output = capsys.readouterr().out
    assert "|   50 |" in output
    for tokens in (16, 64):
        assert f"texts of {tokens} tokens" in output
    assert "texts of 128 tokens" not in output  # longer than the tiny model reads
    assert "failed" not in output


def test_fewer_rows_are_spread_over_the_file_and_more_are_all_different(rows):
    few = rows.repeated(6)
    assert set(few.labels) == set(rows.labels)
    many = rows.repeated(2 * len(rows.texts) + 1)
    assert many.texts[: len(rows.texts)] == rows.texts
    assert many.texts[len(rows.texts)] == f"{rows.texts[0]} 2"
    assert many.texts[-1] == f"{rows.texts[0]} 3"
    assert len(set(many.texts)) == len(many.texts)
    assert many.labels[len(rows.texts)] == rows.labels[0]


def test_a_scored_file_that_is_not_complete_is_no_result(tmp_path, rows):
    source, target = write_rows(tmp_path / "in.csv", rows), tmp_path / "out.csv"
    given = read_rows(source)
    write_scored(target, given, rows.labels, [1.0] * len(given))
    assert accuracy(rows, check_complete(target, rows)) == 1.0
    write_scored(target, given[1:], rows.labels[1:], [1.0] * (len(given) - 1))
    with pytest.raises(ValueError, match="wrote 59 of 60 rows"):
        check_complete(target, rows)
    write_scored(target, [*given[1:], given[0]], rows.labels, [1.0] * len(given))
    with pytest.raises(ValueError, match="wrote another text in row 1"):
        check_complete(target, rows)


def test_the_peers_get_our_tensors_by_their_names(encoder_folder, tmp_path):
    from benchmarks.peer_model import write_peer_model
    from bertcnn.encoders.convert import load_encoder

    bundle = read_bundle(saved(encoder_folder))
    folder = write_peer_model(bundle, tmp_path / "peers")
    weights = {weight.path: np.asarray(weight) for weight in load_encoder(folder).weights}
    for name in (
        "embeddings/tokens",
        "layer_1/attention/query/kernel",
        "layer_0/output_norm/gamma",
    ):
        np.testing.assert_array_equal(weights[name], bundle.tensors[name])


def test_a_command_that_times_out_dies_or_prints_nothing_is_reported():
    with pytest.raises(CompetitorError, match=r"not done after 0\.2 s"):
        environment.answer_of([sys.executable, "-c", "import time; time.sleep(9)"], 0.2)
    with pytest.raises(CompetitorError, match="was ended by SIGKILL"):
        environment.answer_of([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    with pytest.raises(CompetitorError, match="printed no answer"):
        environment.answer_of([sys.executable, "-c", "print('hello')"])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count it otherwise")
def test_peak_memory_is_the_process_own_and_not_that_of_its_parent():
    ballast = np.ones(400_000_000, np.uint8)
    script = "from benchmarks.measuring import peak_memory; print(peak_memory())"
    child = int(
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            cwd=environment.HERE.parent,
        ).stdout
    )
    assert child < 100e6 < len(ballast) < peak_memory()
