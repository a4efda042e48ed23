"""`score_folder`: scores every table of a folder, in one process or in several shards."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, Unpack

from bertcnn.errors import OutputError, SettingsError, TableError, one_line
from bertcnn.inference import Predictor
from bertcnn.scoring.options import ScoringKeywords, ScoringOptions
from bertcnn.scoring.score import ScoringReport, computing, score_csv
from bertcnn.storage import output_error
from bertcnn.tables import is_json, kind_of, tables_in

_INDEX = "JOB_COMPLETION_INDEX"  # of an indexed Kubernetes job, starts at 0


@dataclass(frozen=True)
class Shard:
    """One of several parts of a folder's files, scored independently.

    A file's part depends only on its name, so parts need not see the same files.

    Attributes:
        number: of this part, 1 to `parts`.
        parts: number of parts.
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
    def of(cls, text: str, environment: Mapping[str, str] = os.environ) -> Self:
        """Parse I/N, or N with the index from $JOB_COMPLETION_INDEX, which starts at 0.

        Raises:
            SettingsError: the value is invalid.
        """
        index = environment.get(_INDEX, "")
        match = re.fullmatch(r"(?:(\d{1,9})/)?(\d{1,9})", text)
        if not match or (not match[1] and not re.fullmatch(r"\d{1,9}", index)):
            raise SettingsError(
                f"--shard {one_line(text)}",
                expected=f"I/N, such as 1/4, or N where ${_INDEX} gives the number",
                fix="give the part and the number of parts",
            )
        return cls(int(match[1]) if match[1] else int(index) + 1, int(match[2]))

    def has(self, name: str) -> bool:
        """Whether a file belongs to this part; `name` is its relative path, with `/`."""
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest) % self.parts == self.number - 1


@dataclass(frozen=True)
class FolderReport:
    """The result of `score_folder`.

    Attributes:
        scored: report of each scored file.
        there: files that already had an output.
        failed: reason for each file that could not be scored.
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


def score_folder(
    model: str | Path | Predictor,
    source: str | Path,
    target: str | Path,
    options: ScoringOptions | None = None,
    *,
    shard: Shard | None = None,
    **changes: Unpack[ScoringKeywords],
) -> FolderReport:
    """Classify every row of all tables in a folder and its subfolders.

    Outputs have the same names below `target`, with `.jsonl` instead of `.json`. Files with an
    existing output are skipped, so the same call resumes after a kill, and scores only new files
    later. Unreadable files are skipped and reported at the end.

    Args:
        model: a saved model's folder or URL, or a loaded one.
        source: the folder.
        target: the output folder, which may lie in `source`.
        options: as for `score_csv`. `overwrite` also scores files with an existing output; a
            cluster is joined once for all files.
        shard: score only the files of this part.
        changes: single options by name.

    Raises:
        BundleError: the model folder is not a model.
        OutputError: an output is not writable, or another run is writing it.
        ScoringInterrupted: Ctrl-C within a file.
        TableError: the folder does not exist, or two files would have the same output.

    Example:
        score_folder("models/triage", "inbox", "scored")
    """
    options = replace(options or ScoringOptions(), **changes)
    planned = _planned(Path(source), Path(target))
    if shard is not None:
        planned = {path: out for path, out in planned.items() if shard.has(_name(path, source))}
    pending = {path: out for path, out in planned.items() if options.overwrite or not out.exists()}
    skipped = tuple(path for path in planned if path not in pending)
    if not pending:
        return FolderReport(there=skipped)
    scored, failed = {}, {}
    with computing(model, options) as (predictor, cluster):
        loaded_once = replace(options, cluster=cluster, engine="auto", auto_precision=None)
        for number, (path, out) in enumerate(pending.items(), 1):
            options.progress.note(f"file {number:,} of {len(pending):,}: {_name(path, source)}")
            try:
                out.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise output_error(out, error) from None
            try:
                scored[path] = score_csv(predictor, path, out, loaded_once)
            except TableError as error:
                failed[path] = str(error)
    return FolderReport(scored, skipped, failed)


def _name(path: Path, folder: str | Path) -> str:
    return path.relative_to(folder).as_posix()


def _planned(source: Path, target: Path) -> dict[Path, Path]:
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
