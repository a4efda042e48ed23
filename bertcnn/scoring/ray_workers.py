"""Ray workers: one actor per node, which loads the model and answers chunks of texts.

Ray's own restarts and retries are off: it would send a chunk that crashes its process to the same
node for ever.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bertcnn.errors import BertCNNError, ClusterError, one_line
from bertcnn.inference import CORES
from bertcnn.progress import Progress
from bertcnn.scoring.node import NodeReport, NodeScorer
from bertcnn.wording import count

LOOKS_EVERY = 0.2  # seconds between checks for Ctrl-C

_AT_ONCE = 3  # chunks per node: one tokenized, one in the engine, one turned into answers
_OF_A_NODE = _AT_ONCE + 1  # and one waiting
_NODES_EVERY = 2.0  # seconds between checks for new nodes
_STARTED_WITHIN = 60.0  # seconds for nodes to load the model; slower ones join later
_MOST_STARTS = 5  # failed starts in a row on a node
_MOST_FAILURES = 2  # of a node's engine in a row


@dataclass(frozen=True)
class Node:
    """A node of the cluster.

    Attributes:
        cores: available to Ray.
    """

    node_id: str
    name: str
    cores: int

    @classmethod
    def alive(cls) -> list[Node]:
        """The nodes that can compute."""
        nodes = [
            node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]
        machines = Counter(node["NodeManagerHostname"] for node in nodes)
        return [
            cls(
                node["NodeID"],
                machine if machines[machine] == 1 else f"{machine} ({node['NodeID'][:6]})",
                int(node["Resources"]["CPU"]),
            )
            for node in nodes
            for machine in [str(node["NodeManagerHostname"])]
        ]


class Worker:
    """An actor on a node, with all its cores.

    Attributes:
        loading: a reference to its report.
        busy: number of chunks it has.
    """

    def __init__(self, node: Node, model: ray.ObjectRef) -> None:
        self.node, self.busy = node, 0
        threads = str(node.cores)  # Ray would set one thread
        self._actor = (
            ray.remote(NodeScorer)
            .options(
                num_cpus=node.cores,
                max_concurrency=_AT_ONCE,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
                runtime_env={"env_vars": {CORES: threads, "OMP_NUM_THREADS": threads}},
            )
            .remote()
        )
        self.loading: ray.ObjectRef = self._actor.load.remote(model)

    def answer(self, texts: list[str], probabilities: bool) -> ray.ObjectRef:
        """A reference to the answers."""
        self.busy += 1
        return self._actor.answer.remote(texts, probabilities)

    def end(self) -> None:
        """Kill its process."""
        with suppress(RayError):
            ray.kill(self._actor)


class Workers:
    """The workers of a run. `model` refers to the function that loads the model.

    Attributes:
        loading: workers that are loading the model, by the references to their reports.
    """

    def __init__(self, model: ray.ObjectRef, progress: Progress) -> None:
        self._model, self._progress = model, progress
        self._ready: dict[str, Worker] = {}  # by node
        self.loading: dict[ray.ObjectRef, Worker] = {}
        self._starts: Counter[str] = Counter()  # failed starts in a row, by node
        self._known: set[str] = set()  # nodes with a report, or one under way
        self._failures: Counter[str] = Counter()  # engine failures since the last answer, by node
        self._left_out: dict[str, str] = {}  # names by node
        self._looked, self._had_some = 0.0, time.monotonic()
        self._report: NodeReport | None = None

    def start(self) -> NodeReport:
        """Load the model on all nodes and return their common report.

        Raises:
            BertCNNError: no node, one cannot load the model, or the nodes' answers would differ.
        """
        reports: dict[Node, NodeReport] = {}
        until, waits = time.monotonic() + _STARTED_WITHIN, False
        while time.monotonic() < until or not reports:
            self._progress.advance(0)
            self.look()
            if self.loading and not waits and time.monotonic() > until:
                self._progress.note("waiting for a node whose cores are free")
                waits = True
            if not self.loading and reports:
                break
            for reference in ready_of([*self.loading], LOOKS_EVERY):
                worker = self.loading.pop(reference)
                report = self._report_of(worker)
                if isinstance(report, NodeReport):
                    reports[worker.node] = report
                    self._ready[worker.node.node_id] = worker
                else:
                    self._not_loaded(worker, report)
        _check_alike(reports)
        self._report = next(iter(reports.values()))
        self._known = {*self._ready}
        cores = sum(worker.node.cores for worker in self._ready.values())
        self._progress.note(
            f"{count(len(self._ready), 'node')} with {count(cores, 'core')}: {self._report}"
        )
        return self._report

    def look(self) -> None:
        """Start a worker on each new node, at intervals.

        Raises:
            ClusterError: there has been no node for a long time.
        """
        now = time.monotonic()
        if self._ready or self.loading:
            self._had_some = now
        elif now - self._had_some > _STARTED_WITHIN:
            raise ClusterError(
                "the Ray cluster has no node that computes",
                expected="nodes with at least one core (num_cpus)",
                fix="start a node, then run this again",
                passes=True,
            )
        if now - self._looked < _NODES_EVERY:
            return
        self._looked = now
        have = {*self._ready, *(worker.node.node_id for worker in self.loading.values())}
        for node in Node.alive():
            if node.node_id not in have | {*self._left_out}:
                worker = Worker(node, self._model)
                self.loading[worker.loading] = worker

    def join(self, reference: ray.ObjectRef) -> None:
        """Use a worker that has just loaded the model, if its report equals the others."""
        worker = self.loading.pop(reference)
        report = self._report_of(worker)
        if report == self._report:
            self._ready[worker.node.node_id] = worker
            if worker.node.node_id not in self._known:
                self._progress.note(f"the node {worker.node.name} has joined")
            self._known.add(worker.node.node_id)
        elif isinstance(report, NodeReport):
            self._leave_out(worker, f"it would answer differently ({report})")
        else:
            try:
                self._not_loaded(worker, report)
            except BertCNNError as error:
                self._leave_out(worker, error.given)

    def free(self) -> Worker | None:
        """The least busy worker that can take a chunk; workers with failures come last."""
        workers = [worker for worker in self._ready.values() if worker.busy < _OF_A_NODE]
        return min(
            workers,
            key=lambda worker: (self._failures[worker.node.node_id], worker.busy),
            default=None,
        )

    def done(self, worker: Worker) -> None:
        """Record that a worker has answered a chunk."""
        worker.busy -= 1
        self._failures.pop(worker.node.node_id, None)

    def lose(self, worker: Worker) -> None:
        """Abandon a worker that has ended or failed; another one replaces it."""
        worker.end()
        self._ready.pop(worker.node.node_id, None)
        self._looked = 0.0
        self._progress.note(f"a process on {worker.node.name} has ended; its texts are sent again")

    def fail(self, worker: Worker, error: BertCNNError) -> None:
        """Abandon a worker with a failed engine; after a second failure, its node too.

        Raises:
            BertCNNError: `error`, if no node is left.
        """
        node = worker.node
        self._failures[node.node_id] += 1
        if self._failures[node.node_id] < _MOST_FAILURES:
            self.lose(worker)
            return
        self._ready.pop(node.node_id, None)
        self._leave_out(worker, error.given)
        if not self._known - {*self._left_out}:
            raise on_nodes(", ".join(self._left_out.values()), error)

    def end(self) -> None:
        """Stop all workers."""
        for worker in (*self._ready.values(), *self.loading.values()):
            worker.end()
        self._ready.clear()
        self.loading.clear()

    def __len__(self) -> int:
        return len(self._ready)

    def _report_of(self, worker: Worker) -> NodeReport | Exception:
        try:
            report = ray.get(worker.loading)
        except RayError as error:
            worker.end()
            return error
        self._starts.pop(worker.node.node_id, None)
        return report

    def _not_loaded(self, worker: Worker, error: Exception) -> None:
        """Start a crashed worker again, unless it crashes repeatedly.

        Raises:
            BertCNNError: the node cannot load the model.
        """
        node = worker.node
        self._starts[node.node_id] += 1
        has_ended = not isinstance(error, RayTaskError) and "import" not in str(error)
        if not has_ended or self._starts[node.node_id] >= _MOST_STARTS:
            raise _not_loaded(node, error)
        self._looked = 0.0

    def _leave_out(self, worker: Worker, why: str) -> None:
        worker.end()
        self._left_out[worker.node.node_id] = worker.node.name
        self._progress.note(f"the node {worker.node.name} is left out: {why}")


def ready_of(references: list[ray.ObjectRef], timeout: float) -> list[ray.ObjectRef]:
    """The finished references; waits up to `timeout` seconds for the first."""
    if not references:
        time.sleep(timeout)
        return []
    ready, _ = ray.wait(references, num_returns=1, timeout=timeout)
    if ready:
        ready, _ = ray.wait(references, num_returns=len(references), timeout=0)
    return list(ready)


def on_nodes(nodes: str, error: BertCNNError) -> BertCNNError:
    """An error with the names of its nodes."""
    return type(error)(
        f"{error.given} (on {nodes})", expected=error.expected, fix=error.fix, passes=error.passes
    )


def _not_loaded(node: Node, error: Exception) -> BertCNNError:
    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, BertCNNError):
        return on_nodes(node.name, cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    modules = [line for line in lines if "No module named" in line or "ImportError" in line]
    return ClusterError(
        f"the node {node.name} cannot load the model ({one_line([*modules, *lines][0], 160)})",
        expected=f"bertcnn {version('bertcnn')} on each node",
        fix="install it there, from the same checkout or wheel as here",
    )


def _check_alike(reports: dict[Node, NodeReport]) -> None:
    """Refuse nodes with different reports, or with another bertcnn version than this process.

    Raises:
        ClusterError: the nodes differ.
    """
    groups: dict[NodeReport, list[str]] = {}
    for node, report in reports.items():
        groups.setdefault(report, []).append(node.name)
    ours = f"bertcnn {version('bertcnn')}"
    if len(groups) == 1 and ours in next(iter(groups)).versions:
        return
    descriptions = "; ".join(f"{', '.join(names)}: {report}" for report, names in groups.items())
    raise ClusterError(
        f"nodes that would answer differently ({descriptions}; this process: {ours})",
        expected="the same engine and versions on all nodes",
        fix="install the same versions, use CPUs of one kind, or give --engine",
    )
