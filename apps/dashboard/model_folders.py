"""The model folders that the dashboard may load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from below import absolute, places_below
from options import option

from bertcnn.errors import BundleError, one_line
from bertcnn.storage import expanded


def models_roots() -> list[Path]:
    """The folders for models: --models, $BERTCNN_MODELS, or `demo` and `models`."""
    folder = option("models")
    return [expanded(folder)] if folder else [Path("demo"), Path("models")]


def saved_models(roots: Sequence[Path]) -> list[Path]:
    """The folders with a saved model: `roots` and up to two levels below."""
    manifests = [
        path
        for root in roots
        for depth in ("", "*/", "*/*/")
        for path in sorted(root.glob(f"{depth}manifest.json"))
    ]
    folders = [
        path.parent for path in manifests if path.with_name("labels.json").exists()
    ]  # a model's engine has a manifest as well
    return [
        folder
        for folder in folders
        if not any(part.startswith(".bertcnn") for part in folder.parts)
    ]


def model_folder(given: str, roots: Sequence[Path]) -> tuple[Path, int]:
    """A model folder that a user has chosen, typed or put into the URL, and its manifest's time.

    The path is absolute, or relative to the working folder or to one of `roots`. It must be one of
    `saved_models`, which may be links set by the operator, or below `roots` after all links are
    resolved. All other paths get the same refusal, whether they exist or not, and nothing outside
    `roots` is read.

    Raises:
        BundleError: it is not such a model.
    """
    try:
        listed = {absolute(folder) for folder in saved_models(roots)}
        for path in places_below(given, roots, listed):
            manifest = path / "manifest.json"
            if manifest.is_file():
                return path, manifest.stat().st_mtime_ns
    except (OSError, ValueError):  # a name that is too long or has a NUL
        pass
    raise BundleError(
        f"{one_line(given, 200)} is not a saved model",
        expected=f"a folder with manifest.json below {' or '.join(map(str, roots))}",
        fix="choose one from the list, or start the dashboard with -- --models FOLDER",
    )
