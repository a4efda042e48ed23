"""The choice of the Keras backend, in processes that have not imported Keras."""

import os
import subprocess
import sys

import keras
import pytest

from bertcnn.backend import on_gpu

CODE = """
import os, sys
from pathlib import Path
from bertcnn import backend
backend._DEVICES = (Path(sys.argv[1]),)
if "keras" in sys.argv:
    sys.modules["keras"] = object()
backend.choose_backend()
print(os.environ.get("KERAS_BACKEND"), os.environ.get("JAX_COMPILATION_CACHE_DIR"))
"""


@pytest.fixture
def chosen(tmp_path):
    """Backend and cache of a process on a machine with or without a GPU and JAX' plugin."""
    (tmp_path / "plugins" / "jax_cuda13_plugin").mkdir(parents=True)
    (tmp_path / "nvidiactl").touch()
    unset = ("KERAS_BACKEND", "CUDA_VISIBLE_DEVICES", "JAX_COMPILATION_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in unset}

    def run(*more, gpu=True, plugin=True, **environment):
        path = [*sys.path, *([str(tmp_path / "plugins")] if plugin else [])]
        here = {"PYTHONPATH": os.pathsep.join(path), "BERTCNN_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", CODE, tmp_path / ("nvidiactl" if gpu else "nothing"), *more],
            capture_output=True,
            text=True,
            check=True,
            env={**kept, **here, **environment},
        )
        return done.stdout.split()

    return run


def test_jax_is_chosen_if_it_has_a_gpu_and_caches_compiled_code(chosen, tmp_path):
    assert chosen() == ["jax", str(tmp_path / "cache" / "compiled")]
    assert chosen(JAX_COMPILATION_CACHE_DIR="/own") == ["jax", "/own"]


@pytest.mark.parametrize(
    "machine",
    [{"gpu": False}, {"plugin": False}, {"CUDA_VISIBLE_DEVICES": ""}],
)
def test_no_backend_is_chosen_without_a_gpu_or_the_extra(chosen, machine):
    assert chosen(**machine) == ["None", "None"]


def test_an_earlier_choice_of_backend_is_kept(chosen):
    assert chosen(KERAS_BACKEND="tensorflow") == ["tensorflow", "None"]
    assert chosen("keras") == ["None", "None"]


@pytest.mark.parametrize(
    ("devices", "found"),
    [(["cpu:0"], False), (["gpu:0", "cpu:0"], True), (["cuda:0"], True), (["tpu:0"], False)],
)
def test_a_gpu_is_known_by_its_name(monkeypatch, devices, found):
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: devices)
    assert on_gpu() == found
