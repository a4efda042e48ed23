"""A compiled engine that is read ahead: used when it is the one asked for, and never needed."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from bertcnn.engines.compiled import compiled_model, read_ahead
from bertcnn.engines.openvino_engine import OpenVINOEngine
from bertcnn.saved.bundle import read_bundle
from bertcnn.saved.engine import read_engine
from tests.engines.test_openvino_graph import rows
from tests.tiny import saved


@pytest.fixture
def engine(encoder_folder, tmp_path, monkeypatch):
    """A saved engine's folder and itself, with an empty cache."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    folder = saved(encoder_folder)
    return folder / "engine", read_engine(folder, read_bundle(folder).bundle_id)


def refuse():
    raise AssertionError("compiled anew")


def loads_of_the_cache(monkeypatch):
    """The threads on which engines are read from the cache."""
    import bertcnn.engines.compiled as module

    found, read = [], module.read_kept
    monkeypatch.setattr(module, "read_kept", lambda path: (found.append(threading.current_thread().name), read(path))[1])
    return found


def test_what_was_read_ahead_is_what_is_used(engine, monkeypatch):
    folder, stored = engine
    expected = OpenVINOEngine.from_saved(stored, 0, streams=1).run(rows()).logits
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder, streams=1)
    ahead = OpenVINOEngine(compiled_model(refuse, stored.engine_id, 1), 0, "openvino-int8")
    assert found == ["bertcnn-read-ahead"]
    np.testing.assert_array_equal(ahead.run(rows()).logits, expected)
    compiled_model(refuse, stored.engine_id, 1)  # it is taken once; the next one is read anew
    assert found == ["bertcnn-read-ahead", "MainThread"]


def test_another_engine_or_number_of_streams_is_not_taken_for_it(engine, monkeypatch):
    folder, stored = engine
    for streams in (1, 2):
        OpenVINOEngine.from_saved(stored, 0, streams=streams)
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder, streams=1)
    assert compiled_model(refuse, stored.engine_id, 2).get_property("NUM_STREAMS") == 2
    with pytest.raises(AssertionError, match="compiled anew"):
        compiled_model(refuse, "another engine", 1)
    assert compiled_model(refuse, stored.engine_id, 1).get_property("NUM_STREAMS") == 1
    assert sorted(found) == ["MainThread", "MainThread", "bertcnn-read-ahead"]


def test_where_nothing_can_be_read_ahead_it_is_compiled_as_usual(engine, tmp_path):
    folder, stored = engine
    read_ahead(folder, streams=1)  # nothing is kept yet
    assert OpenVINOEngine.from_saved(stored, 0, streams=1).run(rows()).logits.shape == (60, 3)
    (blob,) = (tmp_path / "engines").iterdir()
    blob.write_bytes(blob.read_bytes()[:-1])
    read_ahead(folder, streams=1)
    assert OpenVINOEngine.from_saved(stored, 0, streams=1).run(rows()).logits.shape == (60, 3)


@pytest.mark.parametrize("manifest", [None, b"", b"\xff", b"[]", b"{}", b'{"bundle_id": 3}', b"[" * 60_000, b" " * 70_000 + b"{}"])
def test_a_folder_that_is_no_engine_is_left_alone(tmp_path, manifest):
    if manifest is not None:
        (tmp_path / "manifest.json").write_bytes(manifest)
    read_ahead(tmp_path, streams=1)


def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "manifest.json")
    code = f"import pathlib; from bertcnn.engines.compiled import read_ahead; read_ahead(pathlib.Path({str(tmp_path)!r}), streams=1)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
