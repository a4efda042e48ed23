"""The precision of the engine that a model is saved with."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertcnn.data.packing import packed_batches, plan_packed
from bertcnn.encoders.convert import load_encoder
from bertcnn.errors import OutputError
from bertcnn.inference.compiled import has_bfloat16, has_vnni
from bertcnn.inference.keras_engine import KerasEngine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.openvino_graph import classifier_graph, serialized
from bertcnn.inference.quantize import QuantizationData, build_engine, quantize, spread
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.weights import extract
from bertcnn.progress import Silent
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.tables.tables import read_table
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from tests.inference.test_int8_graph import roundings
from tests.inference.test_openvino_graph import SHAPE, noisy, rows

ENCODER, HEAD = EncoderSettings(**SHAPE), HeadSettings(filters=8)


@pytest.fixture(scope="module")
def model():
    return noisy(ENCODER, HEAD)


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


def build(model, asked):
    return build_engine(extract(model.weights), ENCODER, HEAD, asked, progress=Silent()).saved


def batches(token_ids):
    """Batches as `build_engine` makes them."""
    lengths = np.array([len(row) for row in token_ids])
    return list(packed_batches(token_ids, plan_packed(lengths), 0))


def test_int8_is_taken_when_it_answers_as_float32_does(int8, asked):
    engine = int8
    assert engine.record.precision == "int8"
    assert engine.record.agreement >= 0.99
    assert b"FakeQuantize" in engine.read()[0]
    answers = OpenVINOEngine.from_saved(engine, 0).run(asked.valid).logits
    assert (
        0 < np.sqrt(np.mean((answers - asked.valid_logits) ** 2)) < 0.2 * asked.valid_logits.std()
    )
    assert (
        np.mean(answers.argmax(axis=1) == asked.valid_logits.argmax(axis=1))
        == engine.record.agreement
    )


def test_in_int8_too_a_row_does_not_depend_on_its_neighbours(int8):
    engine, asked = OpenVINOEngine.from_saved(int8, 0), rows(seed=3, count=80)
    together = engine.run(asked).logits
    backwards = engine.run(asked[::-1]).logits[::-1]
    alone = np.concatenate([engine.run([row]).logits for row in asked])
    np.testing.assert_allclose(backwards, together, atol=1e-5)
    # other padding can move a value to the next of 256 steps
    np.testing.assert_allclose(alone, together, atol=0.1 * together.std())


def test_the_published_encoder_has_one_range_behind_gelu_and_is_near_to_float32(
    minilm_folder, monkeypatch
):
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

    def quantized():
        return quantize(
            classifier_graph(tensors, encoder.settings, head, int8_tokens=True),
            batches(token_ids[:40]),
        )

    def error(graph):
        return np.sqrt(
            np.mean(
                (OpenVINOEngine.of_graph(graph, 0, "int8").run(token_ids[40:]).logits - reference)
                ** 2
            )
        )

    ours = quantized()
    behind_gelu = [rounding for rounding in roundings(ours) if "Gelu" in rounding.friendly_name]
    ranges = [
        [bound.get_node().data.item() for bound in rounding.input_values()[1:]]
        for rounding in behind_gelu
    ]
    assert len(ranges) == 6
    assert len({(low, high) for low, high, *_ in ranges}) == 1  # so that one kernel computes them
    assert len({tuple(bounds[2:]) for bounds in ranges}) == 6  # each continues on its own
    into_products = [rounding for rounding in roundings(ours) if products_with_weights(rounding)]
    from_zero = [rounding.input_value(3).get_node().data.item() == 0 for rounding in into_products]
    assert (len(into_products), sum(from_zero)) == (
        25,
        24,
    )  # four a layer, and the filters', which have no bias
    monkeypatch.setattr("bertcnn.inference.quantize._SMOOTHING", 0.95)  # NNCF's default
    assert error(ours) < 0.9 * error(quantized())


def products_with_weights(rounding):
    readers = [target.get_node() for target in rounding.output(0).get_target_inputs()]
    return all(
        reader.get_type_name() == "MatMul"
        and reader.input_value(1).get_node().get_type_name() == "Multiply"
        for reader in readers
    )


def test_float32_is_kept_when_int8_answers_otherwise_and_says_why(model, asked):
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
    assert b"FakeQuantize" not in engine.read()[0]
    np.testing.assert_allclose(
        OpenVINOEngine.from_saved(engine, 0).run(asked.valid).logits, asked.valid_logits, atol=1e-4
    )


@pytest.mark.skipif(not has_vnni(), reason="a CPU without VNNI saturates on weights of 8 bits")
def test_where_weights_of_7_bits_are_not_near_enough_8_bits_are_taken(model, int8, monkeypatch):
    valid = rows(seed=2, count=1600)
    logits = KerasEngine(model, 0).run(valid).logits
    graph = classifier_graph(extract(model.weights), ENCODER, HEAD, int8_tokens=True)
    wide = (
        OpenVINOEngine.of_graph(quantize(graph, batches(rows(seed=1)), weight_bits=8), 0, "int8")
        .run(valid)
        .logits
    )
    narrow = OpenVINOEngine.from_saved(int8, 0).run(valid).logits
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
    decided = build_engine(
        extract(model.weights), ENCODER, HEAD, trial, decided=engine.record, progress=Silent()
    ).saved
    assert (decided.record.weight_bits, largest_weight(decided)) == (8, largest_weight(engine))
    monkeypatch.setattr("bertcnn.inference.quantize.has_vnni", lambda: False)
    assert build(model, trial).record.precision != "int8"


def test_where_int8_is_not_good_enough_bfloat16_is_taken_if_the_cpu_has_it(
    model, int8, monkeypatch
):
    monkeypatch.setattr("bertcnn.inference.quantize.has_vnni", lambda: False)
    valid = rows(seed=2, count=800)
    logits = KerasEngine(model, 0).run(valid).logits
    halved = OpenVINOEngine.of_graph(
        classifier_graph(extract(model.weights), ENCODER, HEAD), 0, "bfloat16"
    )
    answers, by_int8, by_bfloat16 = (
        found.argmax(axis=1)
        for found in (
            logits,
            OpenVINOEngine.from_saved(int8, 0).run(valid).logits,
            halved.run(valid).logits,
        )
    )
    hard = np.flatnonzero((by_int8 != answers) & (by_bfloat16 == answers))
    assert len(hard) >= 3
    engine = build(
        model,
        QuantizationData(
            rows(seed=1), [valid[row] for row in hard], answers[hard], logits[hard], 0
        ),
    )
    if not has_bfloat16():
        assert engine.record.precision == "float32"
        return
    assert (engine.record.precision, engine.record.agreement) == ("bfloat16", 1.0)
    assert "; bfloat16 gives the label of float32 on 100.0%" in engine.record.reason
    assert b"FakeQuantize" not in engine.read()[0]
    running = OpenVINOEngine.from_saved(engine, 0)
    assert running.name == "openvino-bfloat16"
    found = running.run(valid).logits
    np.testing.assert_allclose(found, halved.run(valid).logits, atol=1e-6)
    assert 0 < np.abs(found - logits).max() < 0.1 * logits.std()


def test_no_weight_uses_the_eighth_bit(int8):
    """Two products of 255 and 64 fit 16 bits: int8 does not saturate on CPUs without VNNI."""
    assert int8.record.weight_bits == 7
    assert 0 < largest_weight(int8) <= 64


def largest_weight(engine):
    """The largest int8 weight, except in the token embeddings, which are looked up."""
    import openvino as ov

    constants = [
        node
        for node in ov.Core().read_model(*engine.read()).get_ops()
        if node.get_type_name() == "Constant"
    ]
    weights = [node.data for node in constants if node.get_element_type() == ov.Type.i8]
    return max(
        np.abs(values.astype(int)).max()
        for values in weights
        if len(values) != SHAPE["vocabulary_size"]
    )


def test_rows_are_spread_evenly():
    assert spread(list(range(10)), 4) == [0, 3, 6, 9]
    assert spread([1, 2], 4) == [1, 2]


def test_no_telemetry_is_sent_and_nothing_is_printed(tmp_path):
    code = (
        "import numpy as np\nfrom tests.inference.test_quantize import *\nmodel = noisy(ENCODER,"
        " HEAD)\nbuild(model, quantization_data(model))\n"
    )
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path.cwd()),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == ""
    assert not (tmp_path / "intel").exists()


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
    assert b"FakeQuantize" not in built.saved.read()[0]


def test_a_full_disk_for_an_engine_is_a_one_line_error(model, largest_file):
    graph = classifier_graph(extract(model.weights), ENCODER, HEAD)
    with (
        largest_file(1000),
        pytest.raises(OutputError, match="the compiled engine cannot be written to"),
    ):
        serialized(graph)
