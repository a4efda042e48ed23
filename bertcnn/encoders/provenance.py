"""`origin.json` of a cache entry: the source of its files, and their hashes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from bertcnn.errors import SettingsError
from bertcnn.settings import Settings
from bertcnn.storage import FileRecord, read_text, sha256_of, write_new

ORIGIN = "origin.json"  # in a cache entry, next to the encoder's files


class Provenance(Settings):
    """The source of a cache entry, and the hashes of its files."""

    name: str
    source: str
    repository: str
    revision: str | None
    fetched_at: str
    files: dict[str, FileRecord]


def record_files(folder: Path) -> dict[str, FileRecord]:
    """Hash all files of a folder."""
    return {
        path.name: FileRecord(sha256=sha256_of(path), bytes=path.stat().st_size)
        for path in sorted(folder.iterdir())
    }


def write_origin(
    folder: Path,
    *,
    name: str,
    source: str,
    repository: str,
    revision: str | None,
    files: dict[str, FileRecord],
) -> None:
    """Write the record of a complete cache entry."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = Provenance(
        name=name,
        source=source,
        repository=repository,
        revision=revision,
        fetched_at=now,
        files=files,
    )
    write_new(folder / ORIGIN, record.model_dump_json(indent=2).encode())


def read_origin(folder: Path) -> Provenance | None:
    """The record of a cache entry; None if it is missing or unreadable."""
    try:
        return Provenance.of_json(json.loads(read_text(folder / ORIGIN)))
    except (OSError, ValueError, RecursionError, SettingsError):
        return None


def is_sound(path: Path, record: FileRecord) -> bool:
    """Whether a cached file is unchanged; hashing takes 0.1 s for 90 MB."""
    try:
        return path.stat().st_size == record.bytes and sha256_of(path) == record.sha256
    except OSError:
        return False
