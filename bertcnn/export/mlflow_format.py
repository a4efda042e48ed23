"""Exports a folder for MLflow: `MLmodel`, requirements, and the saved model."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np

from bertcnn.bundle import ENGINE, Bundle, SavedEngine, sent_pieces, verified
from bertcnn.export.mlflow_model import input_columns
from bertcnn.inference import load
from bertcnn.storage import MANIFEST, write_new

DATA: Final = "model"  # folder of the saved model
_LOADER: Final = "bertcnn.export.mlflow_model"
_ANSWERS: Final = (
    ("string", "predicted_label"),
    ("double", "confidence"),
    ("string", "decision"),
    ("string", "because"),
)
_MLMODEL: Final = """\
flavors:
  python_function:
    loader_module: {loader}
    data: {data}
    env:
      virtualenv: python_env.yaml
    python_version: {python}
metadata:
  bertcnn_bundle_id: {identity}
model_uuid: {uuid}
signature:
  inputs: {inputs}
  outputs: {outputs}
  params: {params}
utc_time_created: '{created}'
"""
_ENVIRONMENT: Final = """\
python: {python}
build_dependencies:
- pip
dependencies:
- -r requirements.txt
"""


def write(bundle: Bundle, engine: SavedEngine | None, model: Path, folder: Path) -> None:
    """Save the MLflow files in `folder`. Without `engine`, the saved model's engine is omitted."""
    data = folder / DATA
    files = verified(model)
    for file in files.files:
        if engine is None and file.name.startswith(f"{ENGINE}/"):
            continue
        (data / file.name).parent.mkdir(parents=True, exist_ok=True)
        write_new(data / file.name, b"".join(sent_pieces(model, file)))
    write_new(data / MANIFEST, files.data)
    python = platform.python_version()
    described = _MLMODEL.format(
        loader=_LOADER,
        data=DATA,
        python=python,
        identity=bundle.bundle_id,
        uuid=bundle.bundle_id[:32],
        inputs=_yaml(
            [
                {"type": "string", "name": name, "required": True}
                for name in input_columns(bundle.config.text_columns)
            ]
        ),
        outputs=_yaml([{"type": kind, "name": name, "required": True} for kind, name in _ANSWERS]),
        params=_yaml(
            [{"name": "probabilities", "type": "boolean", "default": False, "shape": None}]
        ),
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
    )
    write_new(folder / "MLmodel", described.encode("utf-8"))
    write_new(folder / "python_env.yaml", _ENVIRONMENT.format(python=python).encode())
    write_new(folder / "requirements.txt", f"bertcnn=={version('bertcnn')}\n".encode())


def _yaml(value: object) -> str:
    """JSON as a YAML string in single quotes, as MLflow writes signatures."""
    return "'" + json.dumps(value).replace("'", "''") + "'"


def probabilities(folder: Path, bundle: Bundle, texts: Sequence[str]) -> np.ndarray:  # noqa: ARG001 - as the other formats
    """Probabilities by the model in `folder`, float32 [rows, C]."""
    return load(folder / DATA).predict_proba(texts)
