"""The engine of a service: one stream per call, fixed shapes, and unchanged answers."""

import threading

import numpy as np
import pytest

from bertcnn.bundle import read_bundle, read_engine
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.served_engine import ServedEngine
from tests.inference.test_engines import at_once
from tests.inference.test_openvino_graph import rows
from tests.tiny import saved

LONGEST = 64


@pytest.fixture(scope="module")
def engine(encoder_folder, cpu_with_vnni):
    folder = saved(encoder_folder)
    bundle = read_bundle(folder)
    stored = read_engine(folder, bundle.bundle_id)
    return OpenVINOEngine.from_saved(stored, folder, bundle, streams=2)


@pytest.fixture(scope="module")
def served(engine):
    served = ServedEngine(engine, 0, LONGEST)
    served.warm()
    return served


@pytest.mark.parametrize("count", [1, 2, 7, 150])
def test_it_answers_as_the_engine_does(engine, served, count):
    token_ids = rows(count=count)
    expected, output = (one.run(token_ids, evidence=True) for one in (engine, served))
    np.testing.assert_allclose(output.logits, expected.logits, atol=1e-4)
    np.testing.assert_allclose(output.evidence.means, expected.evidence.means, atol=1e-4)
    np.testing.assert_array_equal(output.evidence.windows, expected.evidence.windows)
    assert served.run(token_ids).evidence is None


def test_it_answers_while_it_is_warmed_up_by_turns(engine):
    served = ServedEngine(engine, 0, LONGEST)
    served.try_out()
    warming = threading.Thread(target=served.warm_by_turns)
    warming.start()
    token_ids = rows(count=40)
    expected = engine.run(token_ids).logits
    for logits in at_once(lambda _: served.run(token_ids).logits):
        np.testing.assert_allclose(logits, expected, atol=1e-4)
    warming.join()
    np.testing.assert_allclose(served.run(token_ids).logits, expected, atol=1e-4)
