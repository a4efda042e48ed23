"""Kills pushes and pulls of models at random moments; no reader may ever see half a model.

    python -m benchmarks.remote_kills [--kills 50] [--seed 0]

The store is an S3-compatible server on loopback; each command is a separate process and dies by
SIGKILL. Two models replace each other at one URL. After every kill the model at the URL is pulled
into an empty cache: every byte of it must equal the old or the pushed model. Pulls into one cache
are killed too: a model in the cache must be whole, and the next pull must succeed. Prints a line
for every ten kills and a verdict.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.stores import ACCESS, ObjectServer, object_server
from bertcnn import local_folder
from bertcnn.bundle import read_bundle, write_bundle
from bertcnn.errors import BertCNNError

_MODEL = Path(__file__).parent.parent / "tests" / "golden" / "saved" / "model"
_CARD_BYTES = 24 << 20  # so that a push and a pull take as long as starting a process
_PUSH = "from bertcnn import push_model; import sys; push_model(*sys.argv[1:3], overwrite=True)"
_PULL = "from bertcnn import local_folder; import sys; print(local_folder(sys.argv[1]))"


@dataclass
class Round:
    """The state of the kills.

    Attributes:
        url: of the model.
        models: the folders of both models, by bundle id.
        folder: for caches.
        chance: random generator for the moments.
        kills: processes killed so far.
        faults: descriptions of what was wrong.
    """

    url: str
    models: dict[str, Path]
    folder: Path
    chance: random.Random
    kills: int = 0
    faults: list[str] = field(default_factory=list)
    _seconds: dict[str, float] = field(default_factory=dict)

    def run(self, code: str, *arguments: object, cache: Path, kill: bool) -> bool:
        """Run Python code in a process, and kill it if asked; returns whether it succeeded."""
        command = [sys.executable, "-c", code, *map(str, arguments)]
        started = time.monotonic()
        with subprocess.Popen(
            command,
            env={**os.environ, "BERTCNN_CACHE": str(cache)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            if kill:
                try:
                    running.wait(self.chance.uniform(0, self._seconds.get(code, 1.0)))
                except subprocess.TimeoutExpired:
                    running.kill()
            _, complaint = running.communicate()
        if running.returncode == -9:
            self.kills += 1
            return False
        if running.returncode:
            self.faults.append(complaint.strip().splitlines()[-1][:200])
        self._seconds[code] = time.monotonic() - started
        return running.returncode == 0

    def push(self, folder: Path, *, kill: bool) -> bool:
        """Push a model, replacing the current one."""
        return self.run(_PUSH, folder, self.url, cache=self.folder / "none", kill=kill)

    def pull(self, cache: Path, *, kill: bool) -> bool:
        """Pull the current model into a cache."""
        return self.run(_PULL, self.url, cache=cache, kill=kill)

    def check(self, cache: Path, allowed: set[str]) -> str | None:
        """The model that a new reader gets now; None if that is a fault."""
        try:
            found = read_bundle(local_folder(self.url, cache=cache)).bundle_id
        except BertCNNError as error:
            self.faults.append(str(error)[:200])
            return None
        if found not in allowed or not _same(self.models[found], cache / "models" / found):
            self.faults.append(f"{found[:12]} is not one of those that may be there")
        return found

    def check_cache(self, cache: Path) -> None:
        """Check that a model in the cache is the one that its name says."""
        for name, model in self.models.items():
            place = cache / "models" / name
            if place.exists() and not _same(model, place):
                self.faults.append(f"half of {name[:12]} stands in the cache")


def _same(one: Path, other: Path) -> bool:
    """Whether two folders contain the same files."""
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    others = sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    return names == others and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def make_models(folder: Path) -> dict[str, Path]:
    """Create two models with large members, one with an engine; returns them by id."""
    models = {}
    bundle = read_bundle(_MODEL)
    for number in range(2):
        place = folder / f"model{number}"
        letters = np.random.default_rng(number).integers(97, 123, _CARD_BYTES, np.uint8)
        write_bundle(
            type(bundle)(**{**vars(bundle), "model_card": letters.tobytes().decode()}), place
        )
        models[read_bundle(place).bundle_id] = place
    return models


def kill_pushes(state: Round, kills: int) -> None:
    """Push both models in turn, killing most pushes."""
    there = next(iter(state.models))
    state.push(state.models[there], kill=False)
    while state.kills < kills:
        other = next(name for name in state.models if name != there)
        ended = state.push(state.models[other], kill=state.chance.random() < 0.9)
        reader = state.folder / "reader"
        found = state.check(reader, {other} if ended else {there, other})
        shutil.rmtree(reader, ignore_errors=True)
        there = found or there
        _tell(state, "pushes")


def kill_pulls(state: Round, kills: int) -> None:
    """Pull into one cache, killing most pulls; every third time two pulls run at once."""
    cache, before = state.folder / "cache", state.kills
    while state.kills - before < kills:
        if state.chance.random() < 0.33:
            beside = subprocess.Popen(
                [sys.executable, "-c", _PULL, state.url],
                env={**os.environ, "BERTCNN_CACHE": str(cache)},
                stdout=subprocess.DEVNULL,
            )
            state.pull(cache, kill=True)
            if beside.wait():
                state.faults.append("a pull beside a killed one failed")
        else:
            state.pull(cache, kill=True)
        state.check_cache(cache)
        if any(path.exists() for path in (cache / "models" / name for name in state.models)):
            left = {path.name for path in (cache / "models").iterdir()} - {*state.models, "urls"}
            state.faults += [f"{name} was left behind" for name in left if ".tmp" in name]
            shutil.rmtree(cache)
        _tell(state, "pulls")
    if not state.pull(cache, kill=False):
        state.faults.append("the last pull failed")
    state.check_cache(cache)


def _tell(state: Round, what: str) -> None:
    if state.kills and state.kills % 10 == 0:
        print(f"  {state.kills} kills, {what}: {len(state.faults)} faults", flush=True)


def rounds(server: ObjectServer, kills: int, seed: int) -> Round:
    """Run the kills, half of them during pushes and half during pulls."""
    server.make_bucket("models")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models = make_models(folder)
        state = Round(server.url("models/triage"), models, folder, random.Random(seed))
        kill_pushes(state, kills // 2)
        kill_pulls(state, kills - kills // 2)
        return state


def main() -> None:
    """Run the kills, check the models, and print the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.update(ACCESS)
    with object_server() as server:
        state = rounds(server, options.kills, options.seed)
    verdict = "; ".join(state.faults) or "every reader got a whole model, nothing half was kept"
    print(f"{state.kills} kills: {verdict}")
    sys.exit(bool(state.faults))


if __name__ == "__main__":
    main()
