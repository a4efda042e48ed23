"""Kills a scoring run at each of its I/O steps in turn.

Run by the tests of resuming.

    python -m tests.resuming FOLDER NAME

repeatedly scores FOLDER/in.csv to FOLDER/NAME in forked processes that die one step later each
time. After each death, one more run continues to the end. Prints a JSON list with an entry per
death: the files left by it, the number of rows taken from the journal, and whether the final files
equal an uninterrupted run's.
"""

import json
import re
import shutil
import sys
from pathlib import Path

from benchmarks.stub_engine import stub_predictor
from bertcnn.scoring import score
from tests.failpoints import deaths, names

CHUNK_ROWS = 8


class Notes:
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Ignore it."""

    def advance(self, done: int, **figures: float) -> None:
        """Ignore it."""

    def note(self, message: str) -> None:
        self.notes.append(message)


def contents(folder: Path) -> dict[str, bytes]:
    """Name and content of every file in a folder."""
    return {
        path.name: path.read_bytes() if path.is_file() else b"a folder" for path in folder.iterdir()
    }


def main() -> None:
    """Kill a run at every step and print the results."""
    home, name = Path(sys.argv[1]), sys.argv[2]
    score._CHUNK_ROWS = CHUNK_ROWS
    place = home / "place"

    def work(notes: Notes | None = None) -> None:
        score.score_csv(
            stub_predictor(),
            home / "in.csv",
            place / name,
            probabilities=True,
            overwrite=True,
            progress=notes,
        )

    def prepare() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / name).write_bytes(b"old")

    prepare()
    work()
    unbroken = contents(place)
    outcomes = []
    for step in deaths(work, prepare):
        found = (place / name).read_bytes()
        left = names(place)
        notes = Notes()
        work(notes)
        answered = [re.match(r"([\d,]+) rows were already answered", note) for note in notes.notes]
        outcomes.append(
            {
                "step": step,
                "found": (
                    "old" if found == b"old" else "new" if found == unbroken[name] else "broken"
                ),
                "left": left,
                "answered": sum(int(match[1]) for match in answered if match),
                "same": contents(place) == unbroken,
                "after": names(place),
            }
        )
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
