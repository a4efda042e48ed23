"""The precision of the engine that a model is saved with."""

from pathlib import Path

import numpy as np
import pytest

from bertcnn.data.packing import packed_batches, plan_packed
from bertcnn.encoders.convert import load_encoder
from bertcnn.inference.compiled import has_bfloat16, has_vnni
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.openvino_graph import classifier_graph
from bertcnn.inference.quantization import QuantizationData, build_engine, quantize
from bertcnn.models import BertCnn, CnnHead, build_classifier, extract
from bertcnn.progress import Silent
from bertcnn.settings import HeadSettings
from bertcnn.tables.tables import read_table
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from tests.inference.test_openvino_graph import rows
from tests.listener import Listener
from tests.tiny import noisy, tiny_settings

ENCODER, HEAD = tiny_settings(), HeadSettings(filters=8)


@pytest.fixture(scope="module")
def model():
    return noisy(build_classifier(ENCODER, HEAD, 3, seed=1))


def quantization_data(model):
    """Rows with clear answers, as from a trained model.

    A row between two labels shows nothing about an engine.
    """
    valid = rows(seed=2, count=400)
    logits = KerasEngine(model, 0).run(valid).logits
    ordered = np.sort(logits, axis=1)
    clear = np.flatnonzero(ordered[:, -1] - ordered[:, -2] > 0.5)
    return QuantizationData(
        rows(seed=1), [valid[row] for row in clear], logits[clear].argmax(axis=1), logits[clear], 0
    )


@pytest.fixture(scope="module")
def asked(model):
    return quantization_data(model)


@pytest.fixture(scope="module")
def int8(model, asked):
    return build(model, asked)


def build(model, asked, **options):
    options = {"progress": Silent(), **options}
    return build_engine(extract(model.weights), ENCODER, HEAD, asked, **options).saved


def running(saved, model):
    """The saved engine, with the model's float32 weights."""
    int8 = saved.int8_tensors(ENCODER, HEAD)
    graph = classifier_graph(extract(model.weights), ENCODER, HEAD, int8=int8)
    return OpenVINOEngine.of_graph(graph, 0, saved.record.precision)


def batches(token_ids):
    """Batches as `build_engine` makes them."""
    lengths = np.array([len(row) for row in token_ids])
    return list(packed_batches(token_ids, plan_packed(lengths), 0))


def test_int8_is_taken_when_it_answers_as_float32_does(model, int8, asked):
    engine = int8
    assert engine.record.precision == "int8"
    assert engine.record.agreement >= 0.99
    # two products of 255 and 64 fit 16 bits: no CPU saturates
    assert engine.record.weight_bits == 7
    assert 0 < largest_weight(engine) <= 64
    answers = running(engine, model).run(asked.valid).logits
    assert (
        0 < np.sqrt(np.mean((answers - asked.valid_logits) ** 2)) < 0.2 * asked.valid_logits.std()
    )
    assert (
        np.mean(answers.argmax(axis=1) == asked.valid_logits.argmax(axis=1))
        == engine.record.agreement
    )


def test_the_published_encoder_has_one_range_behind_gelu_and_is_near_to_float32(minilm_folder):
    encoder, head = load_encoder(minilm_folder), HeadSettings()
    tensors = extract(
        BertCnn(
            encoder,
            CnnHead(encoder.settings.width, 4, head, seed=3, name="head"),
            name="classifier",
        ).weights
    )
    texts = read_table(Path(__file__).parents[2] / "data" / "isp_tickets.csv").column("text")[:120]
    token_ids = (
        WordPieceTokenizer(read_vocabulary(minilm_folder / "vocab.txt")).encode(texts).token_ids
    )
    reference = (
        OpenVINOEngine.of_graph(classifier_graph(tensors, encoder.settings, head), 0)
        .run(token_ids[40:])
        .logits
    )

    def quantized(**options):
        graph = classifier_graph(tensors, encoder.settings, head, int8_tokens=True)
        return quantize(graph, batches(token_ids[:40]), encoder.settings, head, **options)

    def error(int8):
        graph = classifier_graph(tensors, encoder.settings, head, int8=int8)
        answers = OpenVINOEngine.of_graph(graph, 0, "int8").run(token_ids[40:]).logits
        return np.sqrt(np.mean((answers - reference) ** 2))

    ours = quantized()
    ranges = [ours[f"layer_{layer}/contract/input_range"].tolist() for layer in range(6)]
    assert len({(low, high) for low, high, *_ in ranges}) == 1  # so that one kernel computes them
    assert len({tuple(bounds[2:]) for bounds in ranges}) == 6  # each continues on its own
    inputs = {name: bounds for name, bounds in ours.items() if name.endswith("/input_range")}
    assert len(inputs) == 25  # four a layer, and the filters', which have no bias
    assert {name for name, bounds in inputs.items() if bounds[2]} == {"taps/input_range"}
    assert error(ours) < 0.9 * error(quantized(smoothing=0.95))  # NNCF's default


def test_float32_is_kept_with_a_reason_when_int8_disagrees(model, asked):
    other = np.roll(asked.valid_logits, 1, axis=1)  # a reference that differs on every row
    engine = build(
        model, QuantizationData(asked.calibration, asked.valid, asked.valid_labels, other, 0)
    )
    assert engine.record.precision == "float32"
    assert (
        engine.record.reason.count("gives the label of float32 on 0.0%")
        == 1 + has_vnni() + has_bfloat16()
    )
    assert engine.record.reason.endswith("; at least 99% and at most 0.003 lower are wanted")
    assert engine.record.agreement == 0.0
    assert engine.int8_tensors(ENCODER, HEAD) is None
    np.testing.assert_allclose(
        running(engine, model).run(asked.valid).logits, asked.valid_logits, atol=1e-4
    )


@pytest.mark.skipif(not has_vnni(), reason="a CPU without VNNI saturates on weights of 8 bits")
def test_where_weights_of_7_bits_are_not_near_enough_8_bits_are_taken(model, int8):
    valid = rows(seed=2, count=1600)
    logits = KerasEngine(model, 0).run(valid).logits
    weights = extract(model.weights)
    graph = classifier_graph(weights, ENCODER, HEAD, int8_tokens=True)
    of_8_bits = quantize(graph, batches(rows(seed=1)), ENCODER, HEAD, weight_bits=8)
    graph = classifier_graph(weights, ENCODER, HEAD, int8=of_8_bits)
    wide = OpenVINOEngine.of_graph(graph, 0, "int8").run(valid).logits
    narrow = running(int8, model).run(valid).logits
    assert np.sqrt(np.mean((wide - logits) ** 2)) < 0.9 * np.sqrt(np.mean((narrow - logits) ** 2))
    answers = logits.argmax(axis=1)
    hard = np.flatnonzero((narrow.argmax(axis=1) != answers) & (wide.argmax(axis=1) == answers))
    assert len(hard) >= 3
    trial = QuantizationData(
        rows(seed=1), [valid[row] for row in hard], answers[hard], logits[hard], 0
    )
    engine = build(model, trial)
    assert (engine.record.precision, engine.record.weight_bits, engine.record.agreement) == (
        "int8",
        8,
        1.0,
    )
    assert (
        "; int8 with weights of 8 bits gives the label of float32 on 100.0%" in engine.record.reason
    )
    assert 64 < largest_weight(engine) <= 128
    decided = build(model, trial, decided=engine.record)
    assert (decided.record.weight_bits, largest_weight(decided)) == (8, largest_weight(engine))
    assert build(model, trial, weight_bits=(7,)).record.precision != "int8"


def test_where_int8_is_not_good_enough_bfloat16_is_taken_if_the_cpu_has_it(model, int8):
    valid = rows(seed=2, count=800)
    logits = KerasEngine(model, 0).run(valid).logits
    graph = classifier_graph(extract(model.weights), ENCODER, HEAD)
    halved = OpenVINOEngine.of_graph(graph, 0, "bfloat16").run(valid).logits
    answers, by_int8, by_bfloat16 = (
        found.argmax(axis=1) for found in (logits, running(int8, model).run(valid).logits, halved)
    )
    hard = np.flatnonzero((by_int8 != answers) & (by_bfloat16 == answers))
    assert len(hard) >= 3
    given = [valid[row] for row in hard]
    data = QuantizationData(rows(seed=1), given, answers[hard], logits[hard], 0)
    engine = build(model, data, weight_bits=(7,))
    if not has_bfloat16():
        assert engine.record.precision == "float32"
        return
    assert (engine.record.precision, engine.record.agreement) == ("bfloat16", 1.0)
    assert "; bfloat16 gives the label of float32 on 100.0%" in engine.record.reason
    assert engine.int8_tensors(ENCODER, HEAD) is None
    again = running(engine, model)
    assert again.name == "openvino-bfloat16"
    found = again.run(valid).logits
    np.testing.assert_allclose(found, halved, atol=1e-6)
    assert 0 < np.abs(found - logits).max() < 0.1 * logits.std()


def largest_weight(engine):
    tensors = engine.int8_tensors(ENCODER, HEAD)
    weights = [values for name, values in tensors.items() if name.endswith("/weights")]
    return max(np.abs(values.astype(int)).max() for values in weights)


def test_a_precision_that_was_decided_before_is_taken_with_its_figures(model, asked, int8):
    decided = int8.record.model_copy(update={"precision": "float32", "agreement": 0.5})
    built = build_engine(
        extract(model.weights), ENCODER, HEAD, asked, decided=decided, progress=Silent()
    )
    assert (built.running.name, built.saved.record.precision, built.saved.record.agreement) == (
        "openvino-float32",
        "float32",
        0.5,
    )
    assert built.saved.int8_tensors(ENCODER, HEAD) is None


def test_where_nncf_rounds_other_places_int8_is_left_out(model, asked, monkeypatch):
    monkeypatch.setattr("bertcnn.inference.quantization.quantized_by_nncf", lambda graph, *_: graph)
    notes = Listener()
    built = build_engine(extract(model.weights), ENCODER, HEAD, asked, progress=notes)
    assert built.saved.record.precision != "int8"
    assert "int8 is not tried, since NNCF gave 0 products in int8" in notes.notes[0]
