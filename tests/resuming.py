"""Kills a run that adds columns to a file at each of its I/O steps in turn.

Run by the tests of resuming.

    python -m tests.resuming KIND FOLDER NAME

repeatedly adds columns to FOLDER/in.csv, in FOLDER/NAME, by a kind of tests/scoring/file_runs.py in
forked processes that die one step later each time. After each death, one more run continues to the
end. Prints a JSON list with an entry per death: the files left by it, the number of rows taken from
the journal, and whether the final files equal an uninterrupted run's.
"""

import json
import shutil
import sys
from pathlib import Path

from bertcnn.scoring import score
from tests.failpoints import deaths, names
from tests.listener import Listener
from tests.scoring.file_runs import KINDS, resumed_rows

CHUNK_ROWS = 8


def contents(folder: Path) -> dict[str, bytes]:
    """Name and content of every file in a folder."""
    return {
        path.name: path.read_bytes() if path.is_file() else b"a folder" for path in folder.iterdir()
    }


def main() -> None:
    """Kill a run at every step and print the results."""
    kind, home, name = KINDS[sys.argv[1]], Path(sys.argv[2]), sys.argv[3]
    score._CHUNK_ROWS = CHUNK_ROWS
    place = home / "place"

    def work(progress: Listener | None = None) -> None:
        progress = progress or Listener()
        kind().run(home / "in.csv", place / name, overwrite=True, progress=progress)

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
        listener = Listener()
        work(listener)
        outcomes.append(
            {
                "step": step,
                "found": (
                    "old" if found == b"old" else "new" if found == unbroken[name] else "broken"
                ),
                "left": left,
                "answered": resumed_rows(listener),
                "same": contents(place) == unbroken,
                "after": names(place),
            }
        )
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
