"""The files that models were trained on: the next training finds them by place and hash."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertcnn.bundle import read_config, read_metrics
from bertcnn.errors import BundleError
from bertcnn.review.models import find_model, model_history
from bertcnn.review.store import ReviewStore
from bertcnn.storage import sha256_of


@dataclass(frozen=True)
class TrainingFile:
    """A labelled file that a model was trained on.

    Attributes:
        name: of the file.
        sha256: of its content when the model was trained.
        path: where it was, absolute; empty if only its name and hash are known.
        text: its text columns; empty if they were guessed.
        label: its label column; None if it was guessed.
    """

    name: str
    sha256: str
    path: str = ""
    text: tuple[str, ...] = ()
    label: str | None = None

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        *,
        text: str | Sequence[str] | None = None,
        label: str | None = None,
    ) -> TrainingFile:
        """Read a file's hash; OSError if it cannot be read."""
        place = Path(path).resolve()
        names = (text,) if isinstance(text, str) else tuple(text or ())
        return cls(place.name, sha256_of(place), str(place), names, label)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)


def training_file(store: ReviewStore, identity: str) -> TrainingFile | None:
    """The file that a model of the store was trained on, or None if that is unknown.

    `retrain` keeps it with its place. For another model, the name and the hash are in its folder.

    Raises:
        StoreError: there is no such model.
    """
    one = find_model(store, identity)
    events = [event for event in model_history(store, one.id) if event.kind == "added"]
    figures = events[0].figures if events else {}
    if "data" in figures:
        kept = figures["data"]
        return kept and TrainingFile(**{**kept, "text": tuple(kept["text"])})
    try:
        origin, config = read_metrics(one.folder).get("origin", {}), read_config(one.folder)
    except BundleError:
        return None
    if not origin.get("file") or not origin.get("sha256"):
        return None
    return TrainingFile(
        origin["file"], origin["sha256"], "", config.text_columns, config.label_column
    )
