"""The compiled engine: any rows in any order, and its cache."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from bertcnn import load
from bertcnn.bundle import read_bundle, read_engine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from tests.inference.test_openvino_graph import rows
from tests.tiny import saved

INT8_ROUNDING = 0.05  # in logits and features of the tiny model


@pytest.fixture(scope="module")
def folder(encoder_folder, cpu_with_vnni):
    return saved(encoder_folder)


def running(folder):
    """The saved engine, in int8."""
    bundle = read_bundle(folder, weights=False)
    return OpenVINOEngine.from_saved(read_engine(folder, bundle.bundle_id), folder, bundle)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    return tmp_path / "engines"


def test_it_is_compiled_once_and_a_damaged_copy_is_recompiled(folder, cache):
    expected = running(folder).run(rows()).logits
    (blob,) = cache.iterdir()
    whole, made = blob.read_bytes(), blob.stat().st_mtime_ns
    np.testing.assert_array_equal(running(folder).run(rows()).logits, expected)
    assert blob.stat().st_mtime_ns == made
    for damaged in (whole[:100], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        blob.write_bytes(damaged)
        np.testing.assert_array_equal(running(folder).run(rows()).logits, expected)
        assert len(blob.read_bytes()) > 100
    assert [path.name for path in cache.iterdir()] == [blob.name]


def test_an_engine_runs_without_a_writable_cache(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", "~nobody-of-this-name/cache"):
        monkeypatch.setenv("BERTCNN_CACHE", str(place))
        assert running(folder).run(rows()).logits.shape == (60, 3)


@pytest.mark.parametrize("how", ["debris", "folder linked", "files linked", "read only"])
def test_the_fast_engine_is_used_whatever_lies_beside_it_and_wherever_it_is(
    encoder_folder, tmp_path, caplog, how
):
    folder = Path(shutil.copytree(saved(encoder_folder), tmp_path / "model"))
    engine = folder / "engine"
    match how:
        case "debris":
            for name in (".DS_Store", "._engine.json", "README.md"):
                (engine / name).write_bytes(b"x")
                (folder / name).write_bytes(b"x")
        case "folder linked":
            engine.symlink_to(engine.rename(tmp_path / "elsewhere"))
        case "files linked":
            for path in list(engine.iterdir()):
                path.symlink_to(path.rename(tmp_path / path.name))
        case "read only":
            for path in (engine, folder):
                path.chmod(0o555)
    assert load(folder).engine.name == load(saved(encoder_folder)).engine.name
    assert not [r for r in caplog.records if r.name.startswith("bertcnn")]
    folder.chmod(0o755)


def test_a_dangling_link_of_the_engine_is_an_error(encoder_folder, tmp_path, caplog):
    folder = Path(shutil.copytree(saved(encoder_folder), tmp_path / "model"))
    shutil.rmtree(folder / "engine")
    (folder / "engine").symlink_to(tmp_path / "nowhere")
    assert load(folder).engine.name == "openvino-float32"
    assert "engine does not exist" in caplog.text
