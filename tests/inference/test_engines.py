"""What all engines have in common."""

import threading

import numpy as np
import pytest

from bertcnn.bundle import read_bundle, read_engine
from bertcnn.inference import KerasEngine, ServedEngine, classifier_of
from bertcnn.inference.onnx_engine import OnnxEngine
from bertcnn.inference.onnx_graph import classifier_onnx_int8
from bertcnn.inference.openvino_engine import OpenVINOEngine, engine_graph
from tests.inference.test_openvino_graph import rows
from tests.tiny import saved


@pytest.fixture(scope="module")
def bundle(encoder_folder):
    return read_bundle(saved(encoder_folder))


NAMES = ("keras", "openvino-float32", "openvino-int8", "onnx-int8", "served", "served-onnx")


@pytest.fixture(scope="module", params=NAMES)
def engine(request, bundle, encoder_folder):
    stored = read_engine(saved(encoder_folder), bundle.bundle_id)
    encoder, head = bundle.config.encoder, bundle.config.head
    if request.param == "keras":
        return KerasEngine(classifier_of(bundle), 0)
    if "onnx" in request.param:
        tensors = {**bundle.tensors, **stored.int8_tensors(encoder, head)}
        model = classifier_onnx_int8(tensors, encoder, head, 7)
        engine = OnnxEngine(model, 0, encoder.max_positions, streams=2)
    else:
        graph = engine_graph(None if request.param == "openvino-float32" else stored, bundle)
        engine = OpenVINOEngine.of_graph(graph, 0, streams=2)
    if not request.param.startswith("served"):
        return engine
    served = ServedEngine(engine, 0, encoder.max_positions)
    served.warm()
    return served


def at_once(work, threads=4):
    """The results of `work(number)` from concurrent threads."""
    found = {}
    running = [
        threading.Thread(target=lambda number=number: found.update({number: work(number)}))
        for number in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return [found[number] for number in range(threads)]


def test_rows_come_back_in_order_whatever_their_neighbours(engine):
    token_ids = rows(count=200)
    together = engine.run(token_ids, evidence=True)
    backwards = engine.run(token_ids[::-1], evidence=True)
    np.testing.assert_allclose(together.logits[::-1], backwards.logits, atol=1e-4)
    for part in ("activations", "means"):
        one, other = (getattr(found.requested_evidence, part) for found in (together, backwards))
        np.testing.assert_allclose(one[::-1], other, atol=1e-4)
    alone = np.concatenate([engine.run([row]).logits for row in token_ids[::20]])
    np.testing.assert_allclose(together.logits[::20], alone, atol=1e-4)


def test_a_logit_is_the_sum_of_its_evidence(engine, bundle):
    output = engine.run(rows(count=40), evidence=True)
    evidence = output.requested_evidence
    features = np.concatenate([evidence.activations, evidence.means], axis=1)
    logits = features @ bundle.tensors["logits/kernel"] + bundle.tensors["logits/bias"]
    np.testing.assert_allclose(output.logits, logits, atol=1e-4)


def test_no_rows_give_no_answers(engine):
    output = engine.run([], evidence=True)
    assert output.logits.shape == (0, 3)
    assert output.evidence.windows.shape == output.evidence.activations.shape == (0, 48)
    assert output.evidence.means.shape == (0, 16)


def test_more_threads_than_streams_may_share_it(engine):
    token_ids = rows(count=50)
    expected = engine.run(token_ids).logits
    for answers in at_once(lambda _: [engine.run(token_ids).logits for _ in range(3)]):
        for logits in answers:
            np.testing.assert_allclose(logits, expected, atol=1e-4)
