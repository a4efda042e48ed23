"""Runs the tests marked `on_jax` again in one process, with JAX as Keras' backend."""

import os
import subprocess
import sys
from pathlib import Path

PLACES = (
    *("encoders/test_convert.py", "layers", "models", "pretraining/test_pretrain.py", "training"),
    *(f"inference/test_{name}.py" for name in ("attribution", "keras_embeddings", "keras_engine")),
)


def test_tests_marked_on_jax_pass_on_jax():
    pytest = [sys.executable, "-m", "pytest", "-m", "on_jax", "-p", "no:cacheprovider"]
    finished = subprocess.run(
        [*pytest, *(f"tests/{place}" for place in PLACES)],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "skipped" not in finished.stdout
