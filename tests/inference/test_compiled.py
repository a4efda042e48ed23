"""A compiled engine loaded ahead: used if it is the requested one, and never required."""

import shutil
import threading

import numpy as np
import pytest

import bertcnn
from bertcnn.bundle import read_bundle, read_engine
from bertcnn.errors import BundleError
from bertcnn.inference import KerasEngine, classifier_of, compiled
from bertcnn.inference.compiled import (
    compiled_model,
    cpu_flags,
    has_fast_int8,
    kept_as,
    read_ahead,
)
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.runtime import ops, ov
from tests.inference.test_openvino_graph import rows
from tests.test_classifier import quick
from tests.tickets import tickets
from tests.tiny import saved

OLDER = (  # AMD before Zen 4, Intel up to Broadwell
    "flags\t\t: fpu sse sse2 sse4_1 avx f16c avx2 fma vaes\n"
)


@pytest.fixture
def engine(encoder_folder, cpu_with_vnni, tmp_path, monkeypatch):
    """A saved engine's folder and the engine, with an empty cache and a CPU with fast int8."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    folder = saved(encoder_folder)
    return folder / "engine", read_engine(folder, read_bundle(folder).bundle_id)


def running(folder, streams=1, flags=None):
    """The saved engine, with the folder of a model's `engine`."""
    bundle = read_bundle(folder.parent, weights=False)
    stored = read_engine(folder.parent, bundle.bundle_id)
    return OpenVINOEngine.from_saved(stored, folder.parent, bundle, streams=streams, flags=flags)


def refuse():
    raise AssertionError("compiled anew")


def loads_of_the_cache(monkeypatch):
    """The names of the threads that read engines from the cache."""
    found, read = [], compiled.read_kept
    monkeypatch.setattr(
        compiled,
        "read_kept",
        lambda path: (found.append(threading.current_thread().name), read(path))[1],
    )
    return found


def test_a_preloaded_engine_is_used(engine, monkeypatch):
    folder, stored = engine
    expected = running(folder).run(rows()).logits
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder, streams=1)
    ahead = OpenVINOEngine(lambda: compiled_model(refuse, stored.engine_id, 1), 0, "openvino-int8")
    assert found == ["bertcnn-read-ahead"]
    np.testing.assert_array_equal(ahead.run(rows()).logits, expected)
    compiled_model(refuse, stored.engine_id, 1)  # it is used once; the next engine is read again
    assert found == ["bertcnn-read-ahead", "MainThread"]


def test_another_engine_or_number_of_streams_is_not_preloaded(engine, monkeypatch):
    folder, stored = engine
    for streams in (1, 2):
        running(folder, streams)
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder, streams=1)
    assert compiled_model(refuse, stored.engine_id, 2).get_property("NUM_STREAMS") == 2
    with pytest.raises(AssertionError, match="compiled anew"):
        compiled_model(refuse, "another engine", 1)
    assert compiled_model(refuse, stored.engine_id, 1).get_property("NUM_STREAMS") == 1
    assert sorted(found) == ["MainThread", "MainThread", "bertcnn-read-ahead"]


def test_where_nothing_can_be_read_ahead_it_is_compiled_as_usual(engine, tmp_path):
    folder, _ = engine
    read_ahead(folder, streams=1)  # nothing is cached yet
    assert running(folder).run(rows()).logits.shape == (60, 3)
    (blob,) = (tmp_path / "engines").iterdir()
    blob.write_bytes(blob.read_bytes()[:-1])
    read_ahead(folder, streams=1)
    assert running(folder).run(rows()).logits.shape == (60, 3)


@pytest.mark.parametrize("manifest", [None, b"\xff", b"[]", b'{"bundle_id": 3}', b"[" * 60_000])
def test_a_folder_without_an_engine_is_ignored(tmp_path, manifest):
    if manifest is not None:
        (tmp_path / "manifest.json").write_bytes(manifest)
    read_ahead(tmp_path, streams=1)


@pytest.mark.parametrize(
    ("feature", "is_fast", "precisions"),
    [
        ("vaes", False, ("float32", "float32")),
        ("avx_vnni", True, ("int8", "int8")),
        ("avx512f avx512bw avx512_vnni", True, ("int8", "int8")),
        # as fast, but two 8-bit products may overflow 16 bits
        ("avx512f avx512bw", True, ("int8", "float32")),
        ("avx512f amx_int8", True, ("int8", "float32")),
    ],
)
def test_int8_is_for_cpus_that_are_fast_at_it_and_8_bits_for_those_that_do_not_saturate(
    feature, is_fast, precisions, tmp_path
):
    flags = OLDER.replace("vaes", feature)
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}", encoding="ascii")
    assert cpu_flags(tmp_path / "cpuinfo") == flags
    assert has_fast_int8(flags) is is_fast
    found = [kept_as("engine", "model", "int8", bits, flags=flags)[1] for bits in (7, 8)]
    assert tuple(found) == precisions
    assert kept_as("engine", "model", "bfloat16", 7, flags=flags) == ("engine", "bfloat16")


def test_a_cpu_is_taken_for_fast_at_int8_if_its_flags_are_unknown(tmp_path):
    assert cpu_flags(tmp_path / "none") == ""
    for flags, is_fast in (("flags : sse2", False), ("Features : fp asimd", True), ("", True)):
        assert has_fast_int8(flags) is is_fast


def test_a_cpu_slow_at_int8_computes_the_models_own_weights_and_keeps_them_compiled(
    encoder_folder, tmp_path, monkeypatch
):
    folder = saved(encoder_folder)
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    first = running(folder / "engine", flags=OLDER)
    assert first.name == "openvino-float32"
    expected = KerasEngine(classifier_of(read_bundle(folder)), 0).run(rows()).logits
    np.testing.assert_allclose(first.run(rows()).logits, expected, atol=1e-4)
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder / "engine", streams=1, flags=OLDER)
    again = running(folder / "engine", flags=OLDER)
    assert found == ["bertcnn-read-ahead"]
    np.testing.assert_array_equal(again.run(rows()).logits, first.run(rows()).logits)


def test_without_an_engine_the_compiled_weights_are_cached_and_still_verified(
    encoder_folder, tmp_path, monkeypatch
):
    folder = tmp_path / "model"
    shutil.copytree(saved(encoder_folder), folder, ignore=shutil.ignore_patterns("engine"))
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    first = bertcnn.load(folder, streams=1)
    found = loads_of_the_cache(monkeypatch)
    read_ahead(folder / "engine", streams=1)
    again = bertcnn.load(folder, streams=1)
    assert found == ["bertcnn-read-ahead"]
    assert again.engine.name == "openvino-float32"
    texts = ["refund the router", "an invoice"]
    np.testing.assert_array_equal(again.predict_proba(texts), first.predict_proba(texts))
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(BundleError, match=r"model\.safetensors was changed after the model"):
        bertcnn.load(folder, streams=1)


def test_weights_that_were_saved_over_meanwhile_are_not_taken_for_the_models(
    encoder_folder, tmp_path, monkeypatch
):
    folder = tmp_path / "model"
    shutil.copytree(saved(encoder_folder), folder)
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    bundle = read_bundle(folder, weights=False)
    stored = read_engine(folder, bundle.bundle_id)
    quick(encoder_folder, seed=1).fit(*tickets()).save(folder, overwrite=True)
    with pytest.raises(BundleError, match=r"another model was saved in .* meanwhile"):
        OpenVINOEngine.from_saved(stored, folder, bundle, flags=OLDER)


def test_a_compiled_copy_far_larger_than_its_model_is_not_kept(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    given = ops.parameter([1])
    model = ov.Model([ops.relu(given)], [given])
    model.set_rt_info("x" * (17 << 20), "notes")
    assert compiled_model(lambda: model, "an-id")([np.ones(1, np.float32)])[0] == 1
    assert not list(tmp_path.rglob("*.blob"))
    assert "the compiled engine is not kept in the cache" in caplog.text
