"""Runs the tests marked `on_jax` again in one process, with JAX as Keras' backend."""

import os
import subprocess
import sys
from pathlib import Path


def test_tests_marked_on_jax_pass_on_jax():
    root = Path(__file__).parent.parent
    places = (
        "encoders/test_convert.py",
        "layers",
        "models",
        "pretraining/test_pretrain.py",
        "inference/test_attribution.py",
        "inference/test_keras_embeddings.py",
        "inference/test_keras_engine.py",
        "training",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "on_jax",
        "-p",
        "no:cacheprovider",
        *(f"tests/{place}" for place in places),
    ]
    finished = subprocess.run(
        command,
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "skipped" not in finished.stdout
