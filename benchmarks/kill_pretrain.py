"""Kills pretraining at random moments; every finished encoder must be bit-identical.

    python -m benchmarks.kill_pretrain [--kills 20] [--steps 120] [--seed 0]

Each run is `bertcnn pretrain` in its own process: a tiny encoder trained from scratch with a
checkpoint after every step. It dies by SIGKILL. A quarter of the kills come in the first seconds
(imports, tokenising, compiling), half during the steps, a quarter while a checkpoint is being
written. Epochs have several steps, so most runs die within an epoch. Prints a line for each kill
and a verdict.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_OPTIONS = (  # noqa: SIM905
    "--size tiny --batch-size 4 --sequence-length 64 --held-out 0.1 --checkpoint-minutes 0 --seed 7"
).split()
_MAIN = "from bertcnn.cli.main import main; main()"
_LONGEST_START = 120.0  # seconds until the first new checkpoint, at most
_SUBJECTS = ("my router", "the modem", "your app", "the invoice", "my account", "the cable")
_EVENTS = (
    "is broken again",
    "does not work",
    "was charged twice",
    "shows a red light",
    "crashed on monday",
    "is far too slow",
)
_WISHES = (
    "please help me",
    "call me back",
    "i want a refund",
    "send a technician",
    "thank you",
    "i will cancel",
)


def write_texts(path: Path, count: int = 60) -> None:
    """Documents of two to four sentences, with blank lines between them."""
    generator = np.random.default_rng(0)

    def sentence() -> str:
        return (
            " ".join(str(generator.choice(words)) for words in (_SUBJECTS, _EVENTS, _WISHES)) + "."
        )

    documents = (
        "\n".join(sentence() for _ in range(generator.integers(2, 5))) for _ in range(count)
    )
    path.write_text("\n\n".join(documents), encoding="utf-8")


def steps_saved(checkpoints: Path) -> int:
    """The step of the newest checkpoint, or 0."""
    names = [path.name for path in checkpoints.iterdir()] if checkpoints.is_dir() else []
    return max(
        (int(name.removeprefix("step-")) for name in names if name.startswith("step-")), default=0
    )


class Killer:
    """Starts runs and kills them.

    Args:
        folder: contains the texts.
        steps: of a run.
        chance: random generator for the moments.
    """

    def __init__(self, folder: Path, steps: int, chance: random.Random) -> None:
        self._folder, self._steps, self._chance = folder, steps, chance

    def run(self, out: Path, kind: str | None) -> bool:
        """Start a run and kill it at a moment of this kind, unless it ends first.

        Returns whether it was killed.
        """
        texts = self._folder / "texts.txt"
        command = [
            sys.executable,
            "-c",
            _MAIN,
            "pretrain",
            str(texts),
            "--out",
            str(out),
            "--steps",
            str(self._steps),
            *_OPTIONS,
        ]
        log = self._folder / "log.txt"
        with log.open("wb") as stream, subprocess.Popen(command, stderr=stream) as running:
            if kind is not None:
                self._wait(running, out.with_name(f"{out.name}.checkpoints"), kind)
                running.kill()
        if running.returncode not in (0, -9):
            raise SystemExit(f"a run ended with {running.returncode}: {log.read_text()[-400:]}")
        return running.returncode == -9

    def _wait(self, running: subprocess.Popen[bytes], checkpoints: Path, kind: str) -> None:
        """Wait for the moment to kill, or for the run to end."""
        if kind == "start":
            time.sleep(self._chance.uniform(0, 15))
            return
        before, end = steps_saved(checkpoints), time.monotonic() + _LONGEST_START
        while (
            steps_saved(checkpoints) <= before and running.poll() is None and time.monotonic() < end
        ):
            time.sleep(0.02)
        time.sleep(self._chance.uniform(0, 3))
        while (
            kind == "write"
            and running.poll() is None
            and not any(checkpoints.glob(".next.*.tmp/new/*"))
        ):
            time.sleep(0.0002)


def main() -> None:
    """Kill and resume runs, compare the encoders, and print the verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    kills, finished, faults = 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_texts(folder / "texts.txt", 120)
        killer = Killer(folder, options.steps, chance)
        killer.run(folder / "whole", None)
        whole = (folder / "whole" / "model.safetensors").read_bytes()
        while kills < options.kills:
            out = folder / f"broken-{finished}"
            while not out.exists():
                kind = (
                    chance.choice(("start", "steps", "steps", "write"))
                    if kills < options.kills
                    else None
                )
                if killer.run(out, kind):
                    kills += 1
                    step = steps_saved(out.with_name(f"{out.name}.checkpoints"))
                    print(
                        f"  kill {kills} ({kind}): newest checkpoint of step {step} of"
                        f" {options.steps}",
                        flush=True,
                    )
            same = (out / "model.safetensors").read_bytes() == whole
            finished, faults = finished + 1, faults + (not same)
            print(
                f"  {out.name} finished: weights {'identical' if same else 'DIFFERENT'}", flush=True
            )
    verdict = f"{faults} DIFFERENT" if faults else "all bit-identical to that of the unbroken run"
    print(f"{kills} kills, {finished} finished encoders: {verdict}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
