"""Scoring on Ray: two nodes on loopback that end, fail, differ, or join later."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import ray
import typer
from ray.cluster_utils import Cluster as Raylets
from ray.exceptions import AuthenticationError

from benchmarks.ray_scoring import actors
from benchmarks.stub_engine import stub_predictor
from bertcnn import BatchScorer, load, score_csv, score_folder
from bertcnn.cli.main import app
from bertcnn.errors import BundleError, ClusterError, SettingsError
from bertcnn.scoring import cluster as clusters
from bertcnn.scoring import ray_workers
from bertcnn.scoring.cluster import Cluster
from bertcnn.scoring.node import SentModel
from bertcnn.scoring.ray_connection import explained
from bertcnn.scoring.run import ScoringInterrupted
from tests import broken_engines
from tests.listener import Listener, interrupt

ROOT = Path(__file__).parents[2]
ROWS = 6 * 4096
MODEL = ROOT / "tests" / "golden" / "saved" / "model"
TEXT = ("--text", "text")
COMMAND = (sys.executable, "-m", "bertcnn", "score")


class Told(Listener):
    """Counts chunks only, and may act again."""

    def advance(self, done, **figures):
        if "rows_per_second" in figures:  # not while it waits
            super().advance(done, **figures)

    def act_after_the_next_chunk(self, act):
        self._act, self._after = act, self._advances + 1


@pytest.fixture(scope="module")
def raylets():
    """A cluster of two nodes with one core each."""
    cluster = Raylets(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def joined(raylets):
    """The same with this process connected, so that no test waits for the connection."""
    ray.init(address=raylets.address, log_to_driver=False)
    yield raylets
    ray.shutdown()


@pytest.fixture(scope="module")
def inbox(tmp_path_factory):
    """Texts with repetitions; some are blank, and some rows cannot be read."""
    path = tmp_path_factory.mktemp("inbox") / "in.csv"
    lines = [f"{row},router is {row % 3 and row % 9001}\n" for row in range(ROWS)]
    lines[7::11] = [f"{row},\n" for row in range(7, ROWS, 11)]
    lines[500::1000] = [f"{row}\n" for row in range(500, ROWS, 1000)]
    path.write_text("id,text\n" + "".join(lines))
    return path


@pytest.fixture(scope="module")
def whole(inbox):
    """The output of a run in one process."""
    score_csv(stub_predictor(), inbox, inbox.with_name("whole.csv"), probabilities=True)
    return inbox.with_name("whole.csv").read_bytes()


def are_gone():
    """Whether all actors have ended; Ray ends them without waiting."""
    until = time.monotonic() + 10
    while actors() and time.monotonic() < until:
        time.sleep(0.05)
    return not actors()


def on_nodes(joined, inbox, target, load=broken_engines.slow, told=None):
    """Score with a model that the nodes load with `load`."""
    told = told or Told()
    assert are_gone()
    with Cluster(joined.address, load, stub_predictor(), told) as cluster:
        score_csv(
            stub_predictor(), inbox, target, probabilities=True, cluster=cluster, progress=told
        )
    return told


# === As in one process ===


def test_a_private_ray_writes_the_bytes_of_a_local_run(inbox, tmp_path):
    score_csv(MODEL, inbox, tmp_path / "local.csv", text="text", reasons=True)
    before = {path.name for path in Path("/tmp").glob("bertcnn-ray-*")}
    words = [MODEL, inbox, tmp_path / "ray.csv", "--text", "text", "--reasons", "--ray"]
    done = subprocess.run([*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()
    assert re.search(r"starting Ray \.\.\.\n.*\n?.*1 node with \d+ cores?", done.stderr)
    assert "could not be read" in done.stderr
    assert {path.name for path in Path("/tmp").glob("bertcnn-ray-*")} == before


def test_two_nodes_write_the_same_bytes_and_the_connection_ends(raylets, inbox, tmp_path, capfd):
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / f"{name}.csv").symlink_to(inbox)
    told = Told()
    report = score_folder(
        MODEL,
        tmp_path / "in",
        tmp_path / "out",
        text="text",
        cluster=raylets.address,
        progress=told,
    )
    assert len(report.scored) == 2
    assert told.has(r"^2 nodes with 2 cores: openvino-\w+, bertcnn ")
    score_csv(MODEL, inbox, tmp_path / "local.csv", text="text")
    for name in "ab":
        found = (tmp_path / "out" / f"{name}.csv").read_bytes()
        assert found == (tmp_path / "local.csv").read_bytes()
    assert not ray.is_initialized()
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_keeps_the_answers_for_either_kind_of_run(joined, inbox, whole, tmp_path):
    target = tmp_path / "out.csv"
    with pytest.raises(ScoringInterrupted, match="8,192 rows"):
        on_nodes(joined, inbox, target, told=Told(interrupt, 2))
    assert are_gone()
    assert [path.name for path in tmp_path.iterdir()] == [".out.csv.journal"]
    told = Told(interrupt, 2)
    with pytest.raises(ScoringInterrupted, match="16,384 rows"):
        score_csv(stub_predictor(), inbox, target, probabilities=True, progress=told)
    assert told.has("^8,192 rows were already answered")
    told = on_nodes(joined, inbox, target)
    assert told.has("^16,384 rows were already answered")
    assert target.read_bytes() == whole


def test_ray_data_takes_a_batch_scorer(joined):
    frame = pd.DataFrame(
        {"id": range(60), "text": [f"the router {row} is off" for row in range(60)]}
    )
    scorer = BatchScorer(MODEL, "text", probabilities=True)
    answered = ray.data.from_pandas(frame).map_batches(scorer, batch_size=20).to_pandas()
    expected = pd.concat([scorer(frame.iloc[first : first + 20]) for first in (0, 20, 40)])
    answered = answered.sort_values("id", ignore_index=True)
    for name in expected:
        assert answered[name].tolist() == expected[name].tolist()


# === What goes wrong ===


def test_the_texts_of_a_process_that_ends_go_to_others(joined, inbox, whole, tmp_path):
    class Killing(Told):
        """Ends all processes as soon as the run waits for their answers."""

        killed = False

        def advance(self, done, **figures):
            scoring = self.name.startswith("scoring")
            if scoring and not self.killed and not done and not figures:
                self.killed = True
                for actor in actors():
                    os.kill(actor, signal.SIGKILL)

    load = partial(stub_predictor, 0.0005)
    told = on_nodes(joined, inbox, tmp_path / "out.csv", load, Killing())
    assert told.has(r"^a process on \S+ \(\w{6}\) has ended; its texts are sent again$")
    assert (tmp_path / "out.csv").read_bytes() == whole


def test_the_texts_of_a_broken_engine_go_to_others(joined, inbox, whole, tmp_path):
    load = partial(broken_engines.fragile, tmp_path / "mark")
    told = on_nodes(joined, inbox, tmp_path / "out.csv", load)
    assert told.has("has ended; its texts are sent again")
    assert (tmp_path / "out.csv").read_bytes() == whole


def test_a_model_that_breaks_everywhere_ends_the_run_and_names_the_nodes(joined, inbox, tmp_path):
    with pytest.raises(
        BundleError,
        match=r"cannot be computed \('no instruction like this one'\) \(on \S+ \(\w{6}\), \S+",
    ):
        on_nodes(joined, inbox, tmp_path / "out.csv", broken_engines.broken)
    assert not list(tmp_path.iterdir())


def test_a_model_that_ends_every_process_ends_the_run(joined, inbox, tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "_MOST_LOSSES", 1)
    with pytest.raises(ClusterError, match="2 processes have ended while") as stop:
        on_nodes(joined, inbox, tmp_path / "out.csv", broken_engines.deadly)
    assert stop.value.passes


def test_a_run_waits_for_free_cores_and_can_be_stopped(joined, monkeypatch):
    class Impatient(Told):
        def note(self, message):
            super().note(message)
            raise KeyboardInterrupt

    told = Impatient()
    with Cluster(joined.address, broken_engines.slow, stub_predictor(), Told()):
        monkeypatch.setattr(ray_workers, "_STARTED_WITHIN", 0.3)
        with (
            pytest.raises(KeyboardInterrupt),
            Cluster(joined.address, broken_engines.slow, stub_predictor(), told),
        ):
            pass
    assert told.notes == ["waiting for a node whose cores are free"]


def test_nodes_that_would_answer_differently_are_refused(joined, inbox, tmp_path):
    load = partial(broken_engines.different, tmp_path / "mark")
    with pytest.raises(ClusterError) as refused:
        on_nodes(joined, inbox, tmp_path / "out.csv", load)
    groups = re.findall(r"\(\w{6}\): (stub\S*), bertcnn", str(refused.value))
    assert sorted(groups) == ["stub", "stub-int8"]


def test_nodes_with_another_version_are_refused_too(joined, inbox, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_workers, "version", lambda _: "9.9.9")
    with pytest.raises(
        ClusterError, match=r"bertcnn \d\.\d\.\d, .*; this process: bertcnn 9\.9\.9\)"
    ):
        on_nodes(joined, inbox, tmp_path / "out.csv")


def test_ray_is_imported_where_it_belongs_only():
    importers = {
        path.name
        for path in (ROOT / "bertcnn").rglob("*.py")
        if re.search(r"^\s*(import ray\b|from ray\b)", path.read_text(encoding="utf-8"), re.M)
    }
    assert importers == {"cluster.py", "ray_connection.py", "ray_workers.py"}


def test_a_node_that_joins_later_is_used_if_it_answers_alike(joined, inbox, whole, tmp_path):
    mark, added = tmp_path / "mark", []
    told, load = Told(), partial(broken_engines.stranger, mark)
    outcomes = {
        "alike": r"^the node \S+ \(\w{6}\) has joined$",
        "other": r"\) is left out: it would answer differently \(stub-int8, ",
    }
    with Cluster(joined.address, load, stub_predictor(), told) as cluster:
        options = {"probabilities": True, "cluster": cluster, "progress": told}
        for name, note in outcomes.items():
            if name == "other":
                mark.touch()
            told.act_after_the_next_chunk(lambda: added.append(joined.add_node(num_cpus=1)))
            until = time.monotonic() + 30
            while not told.has(note) and time.monotonic() < until:
                target = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}.csv"
                score_csv(stub_predictor(), inbox, target, **options)
                assert target.read_bytes() == whole
            assert told.has(note)
    for node in added:
        joined.remove_node(node)


# === Errors ===


def test_a_missing_cluster_may_be_there_later(tmp_path):
    (tmp_path / "in.csv").write_text("id,text\n1,hello\n")
    words = (MODEL, tmp_path / "in.csv", tmp_path / "out.csv", "--ray", "127.0.0.1:1", *TEXT)
    done = subprocess.run([*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (75, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("bertcnn: the Ray cluster '127.0.0.1:1' cannot be reached (")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_errors_of_a_connection_are_explained():
    none = explained(ConnectionError("Could not find any running Ray instance. Please"), "auto")
    assert str(none).startswith("no Ray cluster runs on this machine; expected ")
    assert none.passes
    refused = explained(AuthenticationError("Authentication token is missing"), "10.0.0.7:6379")
    assert "does not accept this user's token" in str(refused)
    elsewhere = ConnectionError("Failed to connect to Ray cluster at 10.0.0.7:6379")
    elsewhere.__cause__ = RuntimeError("No node info found matching attributes: '10.0.0.9'")
    stranger = explained(elsewhere, "10.0.0.7:6379")
    assert "this machine is not a node of the Ray cluster '10.0.0.7:6379'" in str(stranger)
    assert not refused.passes
    assert not stranger.passes


def test_other_versions_are_named():
    theirs = {"ray_version": "2.40.0", "python_version": "3.12.1"}
    with pytest.raises(RuntimeError, match="Version mismatch") as stop:
        ray._private.utils.check_version_info(theirs, "node 10.0.0.7")
    error = explained(stop.value, "10.0.0.7:6379")
    ours = f"Ray {ray.__version__} on Python {sys.version.split()[0]}"
    assert error.given == (
        f"the Ray cluster '10.0.0.7:6379' runs Ray 2.40.0 on Python 3.12.1, this process {ours}"
    )
    assert not error.passes


@pytest.mark.parametrize("address", ["cluster", "ray://10.0.0.7:10001", "10.0.0.7", ":6379", ""])
def test_an_address_is_auto_or_a_host_with_a_port(inbox, tmp_path, address):
    with pytest.raises(SettingsError, match="as the address of a Ray cluster"):
        score_csv(MODEL, inbox, tmp_path / "out.csv", text="text", cluster=address)


def test_a_loaded_model_does_not_travel(inbox, tmp_path):
    with pytest.raises(SettingsError, match="a loaded model for a cluster"):
        score_csv(load(MODEL), inbox, tmp_path / "out.csv", text="text", cluster="local")


# === The model on its way ===


def test_a_node_keeps_the_model_in_its_cache_and_checks_each_hash(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    sent = SentModel.of_folder(MODEL, "auto", None)
    away = replace(sent, folder=tmp_path / "of another machine")
    texts = ["router is down", "refund"]
    assert (away().predict_proba(texts) == load(MODEL).predict_proba(texts)).all()
    (kept,) = tmp_path.glob("sent/*/models/*/manifest.json")
    assert kept.parent.name == load(MODEL).bundle.bundle_id
    (kept.parent / "labels.json").write_text("[]")
    assert away().labels == load(MODEL).labels  # the damaged file is replaced
    changed = {**sent.contents, "labels.json": sent.contents["labels.json"][::-1].copy()}
    other = replace(away, contents=changed, folder=tmp_path / "elsewhere")
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "empty"))
    with pytest.raises(BundleError, match=r"labels\.json is not what was saved"):
        other()


# === The command ===


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["M", "I", "O"], None),
        (["M", "I", "O", "--ray"], "local"),
        (["--ray", "M", "I", "O"], "local"),
        (["M", "I", "O", "--ray", "--force"], "local"),
        (["M", "--ray", "auto", "I", "O"], "auto"),
        (["M", "I", "O", "--ray", "10.0.0.7:6379"], "10.0.0.7:6379"),
        (["M", "I", "O", "--ray=head:6379"], "head:6379"),
        (["--ray", "--", "M", "I", "O"], "local"),
    ],
)
def test_the_address_may_be_left_out(words, address):
    command = typer.main.get_command(app).commands["score"]
    found = command.make_context("score", list(words)).params
    assert found["cluster"] == address
    assert (found["model"], str(found["source"]), str(found["target"])) == ("M", "I", "O")
