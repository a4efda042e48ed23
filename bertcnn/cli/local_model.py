"""The MODEL argument of commands, which may be a URL."""

from __future__ import annotations

from pathlib import Path


def local_model(model: str) -> Path:
    """The model's folder; a model at a URL is downloaded with a progress bar."""
    if "://" not in model:
        return Path(model)
    from bertcnn.bundle import local_folder
    from bertcnn.cli.progress import show_progress

    with show_progress() as progress:
        return local_folder(model, progress=progress)
