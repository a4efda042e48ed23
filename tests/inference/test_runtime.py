"""OpenVINO, NNCF and ONNX Runtime send no telemetry, and other imports are left alone."""

import os
import subprocess
import sys

import pytest

from tests.tiny import saved

# nothing else switches telemetry off: NNCF looks for pytest, its telemetry for CI
_SETTINGS = {
    name: value
    for name, value in os.environ.items()
    if name not in ("CI", "TF_BUILD", "JENKINS_URL") and not name.startswith(("NNCF", "PYTEST"))
}
_WATCH = """
import os, sys
def watch(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect"):
        os.write(1, f"network: {event}\\n".encode())
        raise OSError("no network here")
sys.addaudithook(watch)
"""
_QUANTIZE = """
import numpy as np
from bertcnn.inference.quantization import QuantizationData, build_engine
from bertcnn.shapes import classifier_shapes
from bertcnn.progress import Silent
from bertcnn.settings import EncoderSettings, HeadSettings
shape = dict(width=8, layers=1, heads=2, feed_forward_width=16, max_positions=16)
encoder = EncoderSettings(vocabulary_size=50, **shape)
head, generator = HeadSettings(filters=4), np.random.default_rng(0)
tensors = {
    name: generator.normal(size=shape).astype(np.float32)
    for name, shape in classifier_shapes(encoder, head, 2).items()
}
rows = [generator.integers(5, 50, 9).astype(np.int32) for _ in range(8)]
logits = generator.normal(size=(8, 2)).astype(np.float32)
data = QuantizationData(rows, rows, np.arange(8) % 2, logits, 0)
build_engine(tensors, encoder, head, data, progress=Silent())
assert "nncf" in sys.modules
"""
_SCORE = """
import os
from bertcnn import load
assert load({model!r}, engine="onnx").classify(["my router is dead"])[0].label
assert "onnxruntime" in sys.modules and "ORT_DISABLE_TELEMETRY" not in os.environ
"""
_OTHER_IMPORTS = """
assert not [name for name in sys.modules if name.startswith("openvino_telemetry")]
import openvino, openvino_telemetry
assert openvino_telemetry.Telemetry and openvino.convert_model
"""


def run(code, place):
    """The output of a program with an empty home folder, and the names of the files left there."""
    home = place / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _WATCH + code],
        capture_output=True,
        text=True,
        check=True,
        env={**_SETTINGS, "HOME": str(home), "BERTCNN_CACHE": str(place / "cache")},
    )
    return done.stdout, [path.name for path in home.rglob("*")]


def test_an_engine_is_built_without_telemetry_and_other_imports_are_left_alone(tmp_path):
    assert run(_QUANTIZE + _OTHER_IMPORTS, tmp_path) == ("", [])


def test_the_onnx_engine_leaves_nothing_in_the_home_folder(tmp_path, encoder_folder):
    assert run(_SCORE.format(model=str(saved(encoder_folder))), tmp_path) == ("", [])


def test_the_check_detects_the_telemetry_of_both_libraries(tmp_path):
    assert "deviceid" in run("import onnxruntime\n", tmp_path)[1]
    pytest.importorskip("openvino_telemetry")
    (tmp_path / "other").mkdir()
    output, left = run("import time, openvino\ntime.sleep(1)\n", tmp_path / "other")
    assert "network" in output or left


def test_a_telemetry_that_others_have_imported_stays_theirs(tmp_path):
    pytest.importorskip("openvino_telemetry")
    run(
        "import openvino_telemetry as theirs\nimport bertcnn.inference.compiled\nimport"
        " openvino_telemetry\nassert openvino_telemetry is theirs\n",
        tmp_path,
    )
