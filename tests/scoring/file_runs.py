"""The kinds of runs that copy a file of texts and add columns, with models that answer at once."""

import zlib
from dataclasses import dataclass
from typing import ClassVar

from benchmarks.stub_engine import stub_predictor
from bertcnn import score_csv
from bertcnn.scoring import score
from bertcnn.tasks.text_columns import TextColumns, add_columns

CHUNK = score._CHUNK_ROWS


@dataclass
class Scoring:
    """`score_csv`; the model's bias, its engine and an option can be changed."""

    columns: ClassVar = ("predicted_label", "confidence", "decision", "because")
    bias: float = 0.0
    engine: str = "stub"
    probabilities: bool = False

    def __post_init__(self):
        self.predictor = stub_predictor()
        self.predictor.bundle.tensors["logits/bias"][0] = self.bias
        self.predictor.engine.name = self.engine

    @property
    def asked(self):
        """Number of texts that the model has answered."""
        return self.predictor.engine.asked

    def run(self, source, target, **options):
        return score_csv(
            self.predictor, source, target, probabilities=self.probabilities, **options
        )


@dataclass
class Adding:
    """`add_columns`, by which all tasks extract, translate or summarise.

    Answers depend on the other texts of the call, so that it shows if a run splits them otherwise.
    """

    columns: ClassVar = ("checksum", "together")
    model: str = "1" * 64
    engine: str = "stub"
    settings: str = "beam 4"

    def __post_init__(self):
        self.asked = 0

    def run(self, source, target, **options):
        return add_columns(source, target, None, options, self._columns)

    def _columns(self):
        return TextColumns(
            names=self.columns,
            model=self.model,
            engine=self.engine,
            settings=self.settings,
            answer=self._answer,
            cells=lambda _, answer: answer.decode().split(),
            tally=lambda answer: {"checksum": int(answer != b"")},
            chunk_rows=score._CHUNK_ROWS,
        )

    def _answer(self, texts):
        self.asked += len(texts)
        return [f"{zlib.crc32(text.encode()):08x} {len(texts)}".encode() for text in texts]


KINDS = {"score": Scoring, "add columns": Adding}


def write_inbox(path, rows, *, words="router is"):
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


def names(folder):
    """The names of a folder's files, hidden ones included."""
    return sorted(path.name for path in folder.iterdir())


def resumed_rows(listener):
    """The rows that an interrupted run had answered, if the run resumed it."""
    end = " rows were already answered by an interrupted run: continuing from there"
    found = [note for note in listener.notes if note.endswith(end)]
    assert len(found) < 2
    return int(found[0].removesuffix(end).replace(",", "")) if found else 0
