"""`score_folder`: every table of a folder scored, by one process or by several that share them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from bertcnn.errors import OutputError, SettingsError, TableError, one_line
from bertcnn.inference.engines import EngineName
from bertcnn.inference.predictor import Predictor
from bertcnn.progress import Progress, Silent
from bertcnn.scoring.score import ScoringReport, computing, score_csv
from bertcnn.settings import PrecisionTargets
from bertcnn.storage.files import output_error
from bertcnn.tables.folders import tables_in
from bertcnn.tables.formats import is_json, kind_of

_INDEX = "JOB_COMPLETION_INDEX"  # of an indexed Kubernetes job, from 0


@dataclass(frozen=True)
class Shard:
    """One of several parts of a folder's files, which are scored on their own.

    Which part a file belongs to depends on its name only, so parts need not see the same files.

    Attributes:
        number: of this part, 1 to `parts`.
        parts: how many there are.
    """

    number: int
    parts: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.parts:
            raise SettingsError(
                f"part {self.number} of {self.parts}",
                expected="a part from 1 to their number",
                fix="give I/N, such as 1/4 to 4/4",
            )

    @classmethod
    def of(cls, given: str, environment: Mapping[str, str] = os.environ) -> Self:
        """A part as it is typed: I/N, or N where $JOB_COMPLETION_INDEX says which, from 0.

        Raises:
            SettingsError: it is something else.
        """
        index = environment.get(_INDEX, "")
        found = re.fullmatch(r"(?:(\d{1,9})/)?(\d{1,9})", given)
        if not found or (not found[1] and not re.fullmatch(r"\d{1,9}", index)):
            raise SettingsError(
                f"--shard {one_line(given)}",
                expected=f"I/N, such as 1/4, or N where ${_INDEX} gives the number",
                fix="give the part and the number of parts",
            )
        return cls(int(found[1]) if found[1] else int(index) + 1, int(found[2]))

    def has(self, name: str) -> bool:
        """Whether a file belongs to this part.

        Args:
            name: its path below the folder, with `/` between folders.
        """
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest) % self.parts == self.number - 1


@dataclass(frozen=True)
class FolderReport:
    """What `score_folder` did.

    Attributes:
        scored: what was done with each file.
        there: files whose output was there already.
        failed: why a file could not be scored.
    """

    scored: dict[Path, ScoringReport] = field(default_factory=dict)
    there: tuple[Path, ...] = ()
    failed: dict[Path, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(report.rows for report in self.scored.values())

    def to_json(self) -> dict[str, Any]:
        """All figures as a JSON object, with paths as text."""
        return {
            "rows": self.rows,
            "scored": {str(path): asdict(report) for path, report in self.scored.items()},
            "there": [str(path) for path in self.there],
            "failed": {str(path): reason for path, reason in self.failed.items()},
        }


def score_folder(  # noqa: PLR0913 - options that callers name
    model: str | Path | Predictor,
    source: str | Path,
    target: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    auto_precision: float | str | PrecisionTargets | None = None,
    probabilities: bool = False,
    reasons: bool = False,
    raw: bool = False,
    overwrite: bool = False,
    restart: bool = False,
    allow_rejects: bool = False,
    engine: EngineName = "auto",
    cluster: str | None = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
) -> FolderReport:
    """Classify every row of every table in a folder and the folders below it.

    Outputs have the same names below `target`, but `.jsonl` for `.json`. A file whose output is
    there is left alone, so the same call goes on after a kill, and tomorrow does what is new. Files
    that cannot be read are left out and named at the end.

    Args:
        model: a saved model's folder or URL, or a loaded one.
        source: the folder.
        target: the folder to write, which may lie in `source`.
        text: as for `score_csv`, as are all that are not explained here.
        auto_precision: see there.
        probabilities: see there.
        reasons: see there.
        raw: see there.
        overwrite: also score files whose output is there, and replace it.
        restart: see there.
        allow_rejects: see there.
        engine: see there.
        cluster: see there; it is joined once for all files.
        shard: score the files of this part only.
        progress: progress callback.

    Raises:
        BundleError: the model folder is not a model.
        OutputError: an output cannot be written, or another run is writing it.
        ScoringInterrupted: Ctrl-C in the middle of a file.
        TableError: there is no such folder, or two files would have the same output.

    Example:
        score_folder("models/triage", "inbox", "scored")
    """
    progress = progress or Silent()
    planned = _planned(Path(source), Path(target))
    if shard is not None:
        planned = {path: out for path, out in planned.items() if shard.has(_name(path, source))}
    wanted = {path: out for path, out in planned.items() if overwrite or not out.exists()}
    targets = None if auto_precision is None else PrecisionTargets.of(auto_precision)
    there = tuple(path for path in planned if path not in wanted)
    if not wanted:
        return FolderReport(there=there)
    scored, failed = {}, {}
    with computing(model, cluster, engine=engine, auto_precision=targets, progress=progress) as (
        predictor,
        running,
    ):
        for number, (path, out) in enumerate(wanted.items(), 1):
            progress.note(f"file {number:,} of {len(wanted):,}: {_name(path, source)}")
            try:
                out.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise output_error(out, error) from None
            try:
                scored[path] = score_csv(
                    predictor,
                    path,
                    out,
                    text=text,
                    probabilities=probabilities,
                    reasons=reasons,
                    raw=raw,
                    overwrite=overwrite,
                    restart=restart,
                    allow_rejects=allow_rejects,
                    cluster=running,
                    progress=progress,
                )
            except TableError as error:
                failed[path] = str(error)
    return FolderReport(scored, there, failed)


def _name(path: Path, folder: str | Path) -> str:
    return path.relative_to(folder).as_posix()


def _planned(source: Path, target: Path) -> dict[Path, Path]:
    """The output of each table."""
    if not source.is_dir():
        raise TableError(
            f"there is no folder {str(source)!r}", expected="a folder", fix="check the path"
        )
    if kind_of(target) or (target.exists() and (not target.is_dir() or target.samefile(source))):
        raise OutputError(
            f"the files of {str(source)!r} scored into {str(target)!r}",
            expected="another folder, or a free name without a table's extension",
            fix="name another place",
        )
    planned, inputs = {}, dict[Path, Path]()
    for path in tables_in(source, without=target.resolve()):
        out = target / path.relative_to(source)
        if is_json(out):
            out = out.with_name(re.sub(r"(?i)\.json(\.gz)?\Z", r".jsonl\1", out.name))
        other = inputs.setdefault(out, path)
        if other != path:
            raise TableError(
                f"{str(other)!r} and {str(path)!r} would have the same output",
                expected="files with different names",
                fix="rename one of them",
            )
        planned[path] = out
    return planned
