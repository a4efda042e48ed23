"""Optional figures of a run in TensorBoard's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from bertcnn.storage.files import output_error


class Board:
    """Writes figures by step for `tensorboard --logdir FOLDER`; without a folder it does nothing.

    A resumed run writes a new file; repeated steps have the same figures in both. A missing folder
    is created.

    Raises:
        OutputError: the folder cannot be created.
    """

    def __init__(self, folder: Path | None) -> None:
        self._writer: Any = None
        if folder is not None:
            import tensorflow as tf

            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise output_error(folder, error) from None
            self._writer = tf.summary.create_file_writer(str(folder))

    def write(self, step: int, kind: str, figures: Mapping[str, float]) -> None:
        """Write the figures of a step and flush them; `kind` is "training" or "held_out"."""
        if self._writer is None:
            return
        import tensorflow as tf

        with self._writer.as_default(step=step):
            for name, value in figures.items():
                tf.summary.scalar(f"{kind}/{name}", value)
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
