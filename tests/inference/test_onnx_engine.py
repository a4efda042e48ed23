"""The ONNX Runtime engine: int8 answers, a cached copy, and its choice where it is faster."""

import dataclasses
import shutil
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from bertcnn import load
from bertcnn.bundle import read_bundle, read_engine
from bertcnn.errors import BundleError, MissingPackageError
from bertcnn.inference import engine_choice
from bertcnn.inference.engine_choice import (
    Machine,
    check_distance,
    onnx_engine,
    running_engine,
    trial_seconds,
)
from bertcnn.inference.onnx_engine import OnnxEngine
from bertcnn.inference.onnx_graph import attention_weights, classifier_onnx_int8
from bertcnn.inference.onnx_nodes import OnnxNodes
from bertcnn.inference.openvino_engine import OpenVINOEngine, engine_graph
from bertcnn.inference.openvino_graph import classifier_graph
from tests.inference.test_openvino_engine import INT8_ROUNDING
from tests.inference.test_openvino_graph import rows
from tests.tiny import saved, trained

WITHOUT_INT8 = "flags : sse2 avx2 fma"


@pytest.fixture(scope="module")
def folder(encoder_folder):
    return saved(encoder_folder)


@pytest.fixture(scope="module")
def bundle(folder):
    return read_bundle(folder)


@pytest.fixture(scope="module")
def stored(folder, bundle):
    stored = read_engine(folder, bundle.bundle_id)
    assert stored.record.precision == "int8"
    return stored


@pytest.fixture(scope="module")
def tensors(stored, bundle):
    """Float32 and int8 tensors."""
    int8 = stored.int8_tensors(bundle.config.encoder, bundle.config.head)
    return {**bundle.tensors, **int8}


def engine_of(tensors, bundle, weight_bits=7, **options):
    model = classifier_onnx_int8(tensors, bundle.config.encoder, bundle.config.head, weight_bits)
    return OnnxEngine(model, 0, bundle.config.encoder.max_positions, **options)


@pytest.fixture(scope="module")
def engine(tensors, bundle):
    return engine_of(tensors, bundle, streams=2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path))
    return tmp_path / "engines"


def trial(**seconds):
    """A trial in which each engine takes these seconds."""
    return lambda *_: seconds


def chosen(folder, trial, *, flags=WITHOUT_INT8, least_multiplications=0):
    """The name of the engine that is chosen, by default on a CPU without VNNI and AVX-512."""
    bundle = read_bundle(folder, weights=False)
    stored = read_engine(folder, bundle.bundle_id)
    machine = Machine(flags, least_multiplications, trial)
    return running_engine(stored, folder, bundle, machine=machine).name


def refuse(*_, **__):
    raise AssertionError("was called")


def test_it_answers_as_the_engine_in_int8_does(engine, stored, bundle):
    token_ids = rows(count=150)
    by_openvino = OpenVINOEngine.of_graph(engine_graph(stored, bundle), 0, "int8")
    reference = by_openvino.run(token_ids, evidence=True)
    output = engine.run(token_ids, evidence=True)
    np.testing.assert_allclose(output.logits, reference.logits, atol=INT8_ROUNDING)
    for part in ("activations", "means"):
        np.testing.assert_allclose(
            getattr(output.requested_evidence, part),
            getattr(reference.requested_evidence, part),
            atol=INT8_ROUNDING,
        )
    clear = reference.requested_evidence.activations > INT8_ROUNDING
    same = output.requested_evidence.windows == reference.requested_evidence.windows
    assert same[clear].mean() > 0.9


def sums_of_weights(scores):
    """Attention weights for scores [1, 1, n, T], and their sums, computed as products with ones."""
    nodes = OnnxNodes()
    weights = attention_weights(nodes, "scores")
    total = nodes.add("ReduceSum", weights, nodes.integers(-1), keepdims=1)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes.nodes,
        "weights",
        [value("scores", TensorProto.FLOAT, scores.shape)],
        [value(name, TensorProto.FLOAT, None) for name in (weights, total)],
        nodes.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"scores": scores})


def test_attention_weights_have_the_same_sum_wherever_they_stand():
    scores = np.random.default_rng(0).normal(0, 3, (1, 1, 2000, 64)).astype(np.float32)
    scores[..., 40:] = -1e9
    weights, total = sums_of_weights(scores)
    assert not weights[..., 40:].any()
    assert not (weights * 2**14 % 1).any()
    expected = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    moved, again = sums_of_weights(np.roll(scores, 5, axis=-1))
    np.testing.assert_array_equal(np.roll(moved, -5, axis=-1), weights)
    np.testing.assert_array_equal(again, total)


def test_weights_of_8_bits_are_computed_without_a_sign_and_answer_alike(tensors, bundle, engine):
    of_8_bits = engine_of(tensors, bundle, weight_bits=8)
    token_ids = rows(count=60)
    np.testing.assert_allclose(
        of_8_bits.run(token_ids).logits, engine.run(token_ids).logits, atol=1e-5
    )


@pytest.mark.parametrize("activation", ["gelu_tanh", "relu"])
def test_every_activation_of_the_encoder_is_known(tensors, bundle, activation):
    encoder = bundle.config.encoder.model_copy(update={"activation": activation})
    model = classifier_onnx_int8(tensors, encoder, bundle.config.head, 7)
    graph = classifier_graph(bundle.tensors, encoder, bundle.config.head)
    token_ids = rows(count=30)
    found, reference = OnnxEngine(model, 0, 64), OpenVINOEngine.of_graph(graph, 0)
    logits = reference.run(token_ids).logits
    # the ranges fit another activation
    np.testing.assert_allclose(found.run(token_ids).logits, logits, atol=3 * INT8_ROUNDING)


@pytest.mark.parametrize("texts", [1, 200])
def test_an_unknown_token_id_is_refused(engine, texts):
    with pytest.raises(RuntimeError, match="idx=999 must be within"):
        engine.run([*rows(count=texts - 1), np.full(3, 999, np.int32)])


def test_an_engine_far_from_float32_is_refused(tensors, bundle):
    wrong = {**tensors, "taps/scales": 4 * tensors["taps/scales"]}
    reference = OpenVINOEngine.of_graph(engine_graph(None, bundle), 0)
    size = bundle.config.encoder.vocabulary_size
    check_distance(engine_of(tensors, bundle), reference, size)
    with pytest.raises(BundleError, match="of their spread away from float32's; expected at most"):
        check_distance(engine_of(wrong, bundle), reference, size)


# === Loading ===


def test_it_is_made_once_and_a_damaged_copy_is_made_again(folder, cache, tmp_path):
    texts = ["the router is broken", "a bill"]
    expected = load(folder, engine="onnx").predict_proba(texts)
    (path,) = cache.glob("*.onnx")
    whole = path.read_bytes()
    without = shutil.copytree(folder, tmp_path / "without weights")
    weights = without / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    again = load(without, engine="onnx")
    assert again.engine.name == "onnx-int8"
    np.testing.assert_array_equal(again.predict_proba(texts), expected)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    np.testing.assert_array_equal(load(folder, engine="onnx").predict_proba(texts), expected)
    assert path.read_bytes() == whole


def test_a_model_without_int8_is_refused(encoder_folder, tmp_path, stored, bundle, folder, cache):
    trained(encoder_folder).save(tmp_path / "model", engine="keras")
    with pytest.raises(BundleError, match="which was saved without an engine; expected a model"):
        load(tmp_path / "model", engine="onnx")
    record = stored.record.model_copy(update={"precision": "bfloat16"})
    with pytest.raises(BundleError, match="for a model whose engine is bfloat16; expected a model"):
        onnx_engine(dataclasses.replace(stored, record=record), folder, bundle)


def test_an_engine_that_was_changed_is_refused(folder, tmp_path, cache):
    changed = shutil.copytree(folder, tmp_path / "model")
    path = changed / "engine" / "engine.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match=r"engine\.safetensors was changed"):
        load(changed, engine="onnx")
    assert not list(cache.glob("*.onnx"))


def test_without_its_package_the_error_has_the_command_that_installs_it(folder, cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match="pip install 'onnxruntime>="):
        load(folder, engine="onnx")


# === The choice ===


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        ({"onnx": 0.1, "openvino": 0.2}, "onnx-int8"),
        ({"onnx": 0.19, "openvino": 0.2}, "openvino-float32"),
    ],
)
def test_the_faster_one_is_remembered(folder, cache, seconds, name):
    assert chosen(folder, trial(**seconds)) == name
    assert chosen(folder, refuse) == name
    (path,) = cache.glob("*.json")
    path.write_bytes(path.read_bytes()[:20])
    assert chosen(folder, trial(onnx=1, openvino=2)) == "onnx-int8"  # a damaged choice is repeated


def test_a_real_trial_decides_for_one_of_them(folder, cache):
    assert chosen(folder, trial_seconds) in ("onnx-int8", "openvino-float32")


def test_no_trial_is_needed_on_fast_cpus_for_small_networks_or_on_request(folder, cache):
    fast = f"{WITHOUT_INT8} avx512f avx512_vnni"
    assert chosen(folder, refuse, flags=fast) == "openvino-int8"
    usual = Machine.least_multiplications
    assert chosen(folder, refuse, least_multiplications=usual) == "openvino-float32"
    assert load(folder, engine="openvino").engine.name.startswith("openvino-")


def test_without_onnx_runtime_openvino_is_used_and_the_install_command_logged(
    folder, cache, monkeypatch, caplog
):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(engine_choice, "version", missing)
    with caplog.at_level("INFO"):
        assert chosen(folder, refuse) == "openvino-float32"
    (line,) = [record.getMessage() for record in caplog.records if "onnx" in record.getMessage()]
    assert "pip install 'onnxruntime>=" in line
