"""Makes saved/: files in each format that later versions of bertcnn must read.

Run it from the repository's root, and only when a format gets a new number. Keep the files that the
old number needs in a folder of their own:

    python -m tests.golden.make_saved_golden

saved/model: a model with two levels of labels, one layer of width 16, and its int8 engine.
saved/expected.json: the probabilities of TEXTS from the stored engine and from one rebuilt from the
weights. saved/scored.csv.journal: the journal of scoring `write_rows` with the model, interrupted
after the first chunk; saved/scored.csv: the rows of that chunk, one for each distinct text.
"""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).parent / "saved"
TEXTS = [
    "the router cable is dead",
    "my invoice: charged twice, refund please",
    "app login password error",
    "red light on the power box",
    "something else entirely",
    "",
]
ROWS = 5000  # more than a chunk
MODIFIED_NS = 1_700_000_000_000_000_000


def write_rows(path: Path) -> None:
    """Write the input file: TEXTS repeated, with a fixed modification time."""
    lines = [f'{row},"{TEXTS[row % len(TEXTS)]}"' for row in range(ROWS)]
    path.write_bytes(("\n".join(["id,text", *lines]) + "\n").encode())
    os.utime(path, ns=(MODIFIED_NS, MODIFIED_NS))


class Interrupting:
    """Progress of a run that is interrupted after its first chunk."""

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        """Ignore it."""

    def advance(self, done: int, **figures: float) -> None:  # noqa: ARG002
        """Raise KeyboardInterrupt."""
        raise KeyboardInterrupt

    def note(self, message: str) -> None:
        """Ignore it."""


def main() -> None:
    from bertcnn import BertCNNClassifier, load, score_csv
    from bertcnn.bundle.bundle import read_bundle, write_bundle
    from bertcnn.bundle.engine import engine_in_memory
    from bertcnn.scoring.run import ScoringInterrupted
    from bertcnn.settings import HeadSettings
    from tests.conftest import write_encoder
    from tests.test_classifier import QUICK
    from tests.tickets import tickets

    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        texts, labels = tickets()
        names = {"billing": "billing", "hardware": "net > hardware", "software": "net > software"}
        held_out = tickets(18)
        classifier = BertCNNClassifier(
            write_encoder(place / "tiny", layers=1),
            recipe="frozen",
            training=QUICK,
            head=HeadSettings(filters=8),
        ).fit(
            texts,
            [names[label] for label in labels],
            valid=(held_out[0], [names[label] for label in held_out[1]]),
        )
        classifier.save(place / "whole")
        bundle = read_bundle(place / "whole")
        engine = engine_in_memory(place / "whole", bundle.bundle_id)
        # without its report, which is the largest file and is never read
        write_bundle(replace(bundle, report="", engine=engine), HERE / "model")
        stored = load(HERE / "model")
        shutil.copytree(HERE / "model", place / "model")
        shutil.rmtree(place / "model" / "engine")
        rebuilt = load(place / "model")
        expected = {
            "engine": stored.engine.name,
            "texts": TEXTS,
            "stored": stored.predict_proba(TEXTS).tolist(),
            "rebuilt": rebuilt.predict_proba(TEXTS).tolist(),
        }
        (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")
        write_rows(place / "in.csv")
        try:
            score_csv(
                rebuilt,
                place / "in.csv",
                place / "scored.csv",
                probabilities=True,
                progress=Interrupting(),
            )
        except ScoringInterrupted:
            shutil.copyfile(place / ".scored.csv.journal", HERE / "scored.csv.journal")
        score_csv(rebuilt, place / "in.csv", place / "scored.csv", probabilities=True)
        lines = (place / "scored.csv").read_text("utf-8").splitlines(keepends=True)
        (HERE / "scored.csv").write_text("".join(lines[: 1 + len(TEXTS)]), "utf-8")
    sizes = {path.name: path.stat().st_size for path in HERE.rglob("*") if path.is_file()}
    sys.stdout.write(f"{sum(sizes.values()):,} bytes: {sizes}, engine {expected['engine']}\n")


if __name__ == "__main__":
    main()
