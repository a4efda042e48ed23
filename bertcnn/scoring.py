"""A file of texts in, the same file with predictions out: streamed, in order, complete or not there at all, and never asked for twice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np

from bertcnn.bundle import Bundle
from bertcnn.data.columns import ColumnChoice, guess_text_columns, join_texts
from bertcnn.data.formats import check_input
from bertcnn.data.tables import TableReader, column_position, open_table
from bertcnn.data.writing import TableWriter, check_output, clean_leftovers, explained
from bertcnn.engines import EngineName, check_engine
from bertcnn.errors import OutputError, TableError
from bertcnn.journal import DIGEST_BYTES, Frame, InputState, Journal, JournalHeader
from bertcnn.predictor import Predictor, load
from bertcnn.progress import Progress, Silent
from bertcnn.scored_columns import OutputColumns
from bertcnn.settings import DECISIONS, PHRASES, PrecisionTargets

_CHUNK_ROWS = 4096
_CACHE_SETS, _CACHE_WAYS = 8192, 16  # 131,072 texts
_CACHED_PROBABILITIES = 16 * 1024**2  # numbers, 64 MiB


class ScoringInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of scoring; the answers so far are kept, and the same call goes on from there.

    Attributes:
        rows: rows answered.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(f"{rows:,} rows are answered")
        self.rows = rows


@dataclass(frozen=True)
class ScoringReport:
    """What `score_csv` did.

    Attributes:
        rows: rows written, one for each row read.
        blank: of these, rows without a visible text; they get no label.
        rejected: rows that could not be read.
        rejects: the file they are in, if there are any.
        labels: how many rows each label was given to.
        decisions: how many rows each decision was made for.
        renamed: our columns that had to be renamed because the input uses the name: contract name -> name written.
        text_columns: where the texts came from, and why.
        label_separator: what stands between labels where a text may have several; None where each has one.
        seconds: from opening the input to the finished output, without loading the model.
    """

    rows: int
    blank: int
    rejected: int
    rejects: Path | None
    labels: dict[str, int] = field(default_factory=dict)
    decisions: dict[str, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    text_columns: ColumnChoice = field(default_factory=lambda: ColumnChoice(()))
    label_separator: str | None = None
    seconds: float = 0.0


def score_csv(  # noqa: PLR0913 - options that callers name
    model: str | Path | Predictor,
    source: str | Path,
    target: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    auto_precision: float | str | PrecisionTargets | None = None,
    probabilities: bool = False,
    raw: bool = False,
    overwrite: bool = False,
    restart: bool = False,
    engine: EngineName = "auto",
    progress: Progress | None = None,
) -> ScoringReport:
    """Classify every row of a file, in constant memory; a run that was broken off goes on where it was.

    The output has the input's columns and rows in their order, then `predicted_label`, `confidence`, `decision` (`auto`, or
    `review:...` for a person), `because`, the phrases that moved the answer most, and a `p_<label>` for each label on request. A name that
    the input uses already gets the prefix `bertcnn_`. Rows that cannot be read go to `<target>.rejects.csv`.

    Answers are kept in the hidden file `.<target>.journal` until the output is in place. After a crash, a kill, a full disk or Ctrl-C the
    same call reads the input again, takes those answers, asks the model for the others, and writes the file that an unbroken run writes.

    Args:
        model: a saved model's folder, or a loaded one.
        source: .csv, .tsv, .jsonl (each also .gz), .parquet or .xlsx.
        target: the file to write, its format by its extension.
        text: the text column or columns; by default those of the training file, else a guess.
        auto_precision: how often automatic answers of a saved model have to be right; see `bertcnn.load`.
        probabilities: also write the probability of every label.
        raw: do not quote cells that a spreadsheet would run as a formula.
        overwrite: replace an existing `target`.
        restart: forget the answers of an interrupted run.
        engine: computes the answers of a saved model; see `bertcnn.load`.
        progress: told how far it is.

    Raises:
        TableError: the input cannot be read, no column looks like text, or it was changed while it was being scored.
        OutputError: the output exists or cannot be written, another run is writing it, or an interrupted run had another input, model or
            options.
        BundleError: the model folder is not a model.
        ScoringInterrupted: Ctrl-C, once there are answers to keep.

    Example:
        score_csv("models/triage", "inbox.csv", "scored.csv", probabilities=True)
    """
    check_engine(engine)
    targets = None if auto_precision is None else PrecisionTargets.of(auto_precision)
    job = _Job(Path(source), Path(target), text, targets, probabilities, raw, overwrite, engine, progress or Silent())
    job.check()
    with Journal(job.target, restart=restart) as journal:
        for path in (job.target, job.rejects):
            clean_leftovers(path)
        try:
            return _run(model, job, journal)
        except KeyboardInterrupt:
            if journal.rows:
                raise ScoringInterrupted(journal.rows) from None
            raise


@dataclass(frozen=True)
class _Job:
    """What `score_csv` was asked for."""

    source: Path
    target: Path
    text: str | Sequence[str] | None
    auto_precision: PrecisionTargets | None
    probabilities: bool
    raw: bool
    overwrite: bool
    engine: EngineName
    progress: Progress

    @property
    def rejects(self) -> Path:
        return self.target.with_name(self.target.name + ".rejects.csv")

    def check(self) -> None:
        """Refuse places that will not do."""
        check_output(self.target, self.overwrite)
        if self.target.exists() and self.source.exists() and self.target.samefile(self.source):
            raise OutputError(
                f"{self.target} as input and output", expected="two different files", fix="choose another name for the output"
            )
        if self.rejects.exists() and self.source.exists() and self.rejects.samefile(self.source):
            raise OutputError(
                f"{self.rejects} as input, where rows that cannot be read would go",
                expected="another output",
                fix="choose another name for the output",
            )
        check_input(self.source)


def _run(model: str | Path | Predictor, job: _Job, journal: Journal) -> ScoringReport:
    """Score the file, with the journal locked."""
    progress, state = job.progress, InputState.of(job.source)
    with open_table(job.source, rejects=job.rejects) as reader:
        choice = guess_text_columns(reader.peek(), text=job.text, trained_on=_trained_on(model))
        progress.note(f"text: {choice.reasons['text']}")
        predictor = model if isinstance(model, Predictor) else load(model, engine=job.engine, auto_precision=job.auto_precision)
        columns = OutputColumns(reader.columns, predictor, job.probabilities)
        for wanted, written in columns.renamed.items():
            progress.note(f"the input has a column {wanted!r} already: ours is called {written!r}")
        journal.begin(_header(job, state, predictor, choice.text))
        if journal.rows:
            progress.note(f"{journal.rows:,} rows were answered by an interrupted run: going on from there")
        started = time.perf_counter()
        counts = np.zeros(len(predictor.hierarchy.names) + 1, np.int64)  # of no label, then of each
        keeps_probabilities = job.probabilities or predictor.several  # by which labels are given, where there may be several
        decisions = np.zeros(len(DECISIONS), np.int64)
        with TableWriter(job.target, columns.all, raw=job.raw, overwrite=job.overwrite) as writer:
            for rows, texts, frame, places in _scored(reader, _Answering(predictor, journal, keeps_probabilities), choice.text, progress):
                counts += columns.counts(frame, places)
                decisions += np.bincount(frame.decisions[places], minlength=len(decisions))
                ours = columns.cells(texts, frame)
                writer.write([row + ours[place] for row, place in zip(rows, places, strict=True)])
            journal.check_all_taken()
            writer.finish()
            _check_unchanged(job.source, state, journal)
            _complete_rejects(reader, job.rejects)
        journal.remove()
    by_count = sorted(zip(counts[1:].tolist(), predictor.hierarchy.names, strict=True), key=lambda counted: -counted[0])
    return ScoringReport(
        rows=reader.accepted,
        blank=int(counts[0]),
        rejected=reader.rejected,
        rejects=job.rejects if reader.rejected else None,
        labels={label: count for count, label in by_count if count},
        decisions={name: count for name, count in zip(DECISIONS, decisions.tolist(), strict=True) if count},
        renamed=columns.renamed,
        text_columns=choice,
        label_separator=predictor.bundle.config.label_separator,
        seconds=time.perf_counter() - started,
    )


def _trained_on(model: str | Path | Predictor) -> tuple[str, ...]:
    """The text columns the model was trained on."""
    from bertcnn.bundle import read_config

    return (model.bundle.config if isinstance(model, Predictor) else read_config(Path(model))).text_columns


def _header(job: _Job, state: InputState, predictor: Predictor, text_columns: tuple[str, ...]) -> JournalHeader:
    """What this run's answers depend on; of the model, what was loaded, whatever stands in its folder by now."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        software = version("bertcnn")
    except PackageNotFoundError:  # a source tree that was not installed
        software = "unknown"
    return JournalHeader(
        input_bytes=state.input_bytes,
        input_modified_ns=state.input_modified_ns,
        input_digest=state.input_digest,
        model=predictor.bundle.bundle_id or _digest_of(predictor.bundle),
        engine=predictor.engine.name,
        software=software,
        text_columns=text_columns,
        auto_precision=str(predictor.decisions.auto_precision),
        probabilities=job.probabilities or predictor.several,
        raw=job.raw,
        labels=len(predictor.hierarchy.names),
        chunk_rows=_CHUNK_ROWS,
        target=job.target.resolve().name,
    )


def _digest_of(bundle: Bundle) -> str:
    """An id for a model that was never saved."""
    digest = blake2b(repr((bundle.config, bundle.labels, bundle.vocabulary, bundle.calibration, bundle.decisions)).encode(), digest_size=32)
    for name, tensor in sorted({**bundle.tensors, **bundle.scope.tensors()}.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor).tobytes())
    return digest.hexdigest()


def _check_unchanged(source: Path, state: InputState, journal: Journal) -> None:
    """Refuse to put an output in place whose input is another one by now."""
    if not state.is_that_of(source):
        journal.remove()  # no file will ever have had this input
        raise TableError(
            f"{str(source)!r} was changed while it was being scored; nothing was put in place",
            expected="a file that stays as it is until the end",
            fix="run it again when nobody writes to the file",
        )


def _complete_rejects(reader: TableReader, rejects: Path) -> None:
    """Put the rows that could not be read in place: before the output, so that they are never missing beside it."""
    reader.close()
    if not reader.rejected:
        with explained(rejects):
            rejects.unlink(missing_ok=True)  # of an earlier run


def _scored(
    reader: TableReader, answering: _Answering, text_columns: tuple[str, ...], progress: Progress
) -> Iterable[tuple[list[tuple[str, ...]], list[str], Frame, list[int]]]:
    """Each chunk's rows, its different texts, the answers to these, and which of them is each row's.

    Rows whose answers are on record make a stage of their own, so that they distort neither the rows/s nor the time left.
    """
    places = [column_position(name, reader.columns) for name in text_columns]
    on_record = answering.rows_on_record
    if on_record:
        progress.stage("reading what is answered", 0)
    else:
        progress.stage("scoring", reader.total_bytes, "bytes")
    read, rows, started = 0, 0, time.perf_counter()
    for chunk in reader.chunks(_CHUNK_ROWS):
        yield chunk.rows, *answering.answer([join_texts(row[place] for place in places) for row in chunk.rows])
        rows += len(chunk)
        if rows > on_record:
            progress.advance(reader.position - read, rows_per_second=(rows - on_record) / (time.perf_counter() - started))
            read = reader.position
        elif rows == on_record:
            read, started = reader.position, time.perf_counter()
            progress.stage("scoring", reader.total_bytes - read, "bytes")


class _Answering:
    """Answers texts, a chunk at a time: from the journal, from a cache of texts seen before, and from the model.

    What the model is asked for depends on all chunks before, so answers from the journal go through the cache too: then the rest is asked
    for in the same batches as in an unbroken run, and comes out the same to the last bit.
    """

    def __init__(self, predictor: Predictor, journal: Journal, probabilities: bool) -> None:
        self._predictor, self._journal = predictor, journal
        self._cache = _Cache(len(predictor.hierarchy.names) if probabilities else 0)
        self.rows_on_record = journal.rows

    def answer(self, texts: list[str]) -> tuple[list[str], Frame, list[int]]:
        """The different texts of a chunk, the answers to them, and for each row which of them is its own."""
        places: dict[str, int] = {}
        rows = [places.setdefault(text, len(places)) for text in texts]
        digests = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest() for text in places]
        keys = np.frombuffer(b"".join(digests), np.uint64).reshape(len(digests), 2)
        digest = blake2b(keys[rows].tobytes(), digest_size=DIGEST_BYTES).digest()
        slots = self._cache.find(keys)
        unknown = np.flatnonzero(slots < 0)
        frame = self._journal.take(len(rows), digest)
        if frame is None:
            frame = self._asked(Frame(len(rows), digest, *self._cache.answers(slots)), list(places), unknown)
            self._journal.append(frame)
        self._cache.add(keys[unknown], frame, unknown)
        return list(places), frame, rows

    def _asked(self, frame: Frame, texts: list[str], unknown: np.ndarray) -> Frame:
        """The frame, with the model's answers where the cache has none."""
        if len(unknown):
            answers = self._predictor.answer([texts[place] for place in unknown])
            frame.labels[unknown] = answers.labels
            frame.confidence[unknown] = answers.confidence
            frame.decisions[unknown] = answers.decisions
            frame.because[unknown] = answers.because
            if frame.probabilities is not None:
                frame.probabilities[unknown] = answers.probabilities
        return frame


class _Cache:
    """The answers to texts seen lately, in arrays whose size never changes, unlike a dict's.

    The digest of a text says which set of 16 slots it may use; a new text takes the slot of its set that was filled longest ago. So a text
    is forgotten after 16 newer ones of its set, hardly ever after fewer than 50,000 newer ones in all (sooner with over 128 probabilities).

    Args:
        width: probabilities of a text; 0 if they are not asked for.
    """

    def __init__(self, width: int) -> None:
        self._sets = max(1, min(_CACHE_SETS, _CACHED_PROBABILITIES // (_CACHE_WAYS * max(1, width))))
        size = self._sets * _CACHE_WAYS
        self._keys = np.zeros((self._sets, _CACHE_WAYS, 2), np.uint64)
        self._next = [0] * self._sets  # way to fill
        self._labels = np.zeros(size, np.int32)
        self._confidence = np.zeros(size, np.float32)
        self._decisions = np.zeros(size, np.int32)
        self._because = np.zeros((size, PHRASES, 2), np.int32)
        self._probabilities = np.zeros((size, width), np.float32) if width else None

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Where the answer to each text is, int64; -1 for those that are not there. `keys` are their digests, uint64 [texts, 2]."""
        sets = self._set_of(keys)
        same = (self._keys[sets] == keys[:, None]).all(axis=2)  # [texts, ways]
        return np.where(same.any(axis=1), sets * _CACHE_WAYS + same.argmax(axis=1), -1)

    def answers(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Copies of labels, confidence, decisions, phrases and probabilities; whatever for slot -1."""
        probabilities = None if self._probabilities is None else self._probabilities[slots]
        return self._labels[slots], self._confidence[slots], self._decisions[slots], self._because[slots], probabilities

    def add(self, keys: np.ndarray, frame: Frame, places: np.ndarray) -> None:
        """Keep the answers that the frame has at `places`."""
        chosen: dict[int, int] = {}  # slot -> which of the texts; of too many in one set, the last ones stay
        for index, own_set in enumerate(self._set_of(keys).tolist()):
            way = self._next[own_set]
            self._next[own_set] = (way + 1) % _CACHE_WAYS
            chosen[own_set * _CACHE_WAYS + way] = index
        slots, texts = np.array(list(chosen), np.int64), np.array(list(chosen.values()), np.int64)
        self._keys.reshape(-1, 2)[slots] = keys[texts]
        self._labels[slots] = frame.labels[places[texts]]
        self._confidence[slots] = frame.confidence[places[texts]]
        self._decisions[slots] = frame.decisions[places[texts]]
        self._because[slots] = frame.because[places[texts]]
        if self._probabilities is not None and frame.probabilities is not None:
            self._probabilities[slots] = frame.probabilities[places[texts]]

    def _set_of(self, keys: np.ndarray) -> np.ndarray:
        return (keys[:, 0] % self._sets).astype(np.int64)
