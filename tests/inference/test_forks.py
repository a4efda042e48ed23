"""A forked child gives its parent's answers and exits.

Operations that do not work in a child are refused at once.
"""

import os
import shutil
import signal
import subprocess
import sys
import traceback

import numpy as np
import pytest

from bertcnn import BertCNNClassifier, load
from bertcnn.errors import SettingsError
from tests.inference.test_engines import at_once
from tests.tickets import tickets
from tests.tiny import saved, trained

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

TEXTS = [*tickets()[0][:90], "", "word " * 90]
HANGS = 120  # seconds; a child that takes longer counts as hanging
CLOSE = 1e-4


def forked(work):
    """Fork this process, do the work in the child, and assert that it exits normally."""
    child = os.fork()
    if not child:
        signal.alarm(HANGS)  # ends the child even if no Python code runs
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child of the tests must not go on with them
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture(
    params=["openvino", "one stream", "no engine", "onnx", "keras", "fitted", "loaded classifier"]
)
def model(request, encoder_folder, tmp_path):
    folder = saved(encoder_folder)
    if request.param == "fitted":
        return trained(encoder_folder)
    if request.param == "loaded classifier":
        return BertCNNClassifier.load(folder)
    if request.param == "no engine":
        trained(encoder_folder).save(tmp_path / "model", engine="keras")
        return load(tmp_path / "model")
    return load(
        folder,
        engine=request.param if request.param in ("onnx", "keras") else "auto",
        streams=1 if request.param == "one stream" else None,
    )


@pytest.mark.parametrize("used", [True, False])
def test_one_text_and_many_are_answered(model, used, encoder_folder):
    expected = load(saved(encoder_folder)).predict_proba(TEXTS)
    if used:
        model.predict_proba(TEXTS)
        model.predict_proba(TEXTS[:1])
    tolerance = 0.1  # between int8 and float32

    def answers():
        np.testing.assert_allclose(model.predict_proba(TEXTS[:1]), expected[:1], atol=tolerance)
        np.testing.assert_allclose(model.predict_proba(TEXTS), expected, atol=tolerance)
        assert len(model.explain(TEXTS[:3])) == 3
        assert len(model.predict(TEXTS * 3)) == 3 * len(TEXTS)

    forked(answers)
    forked(answers)
    assert len(model.predict(TEXTS)) == len(TEXTS)


def test_several_threads_and_grandchildren_are_answered(encoder_folder):
    model = load(saved(encoder_folder))
    expected = model.predict_proba(TEXTS)

    def answers():
        for answer in at_once(lambda _: model.predict_proba(TEXTS)):
            np.testing.assert_allclose(answer, expected, atol=CLOSE)

    def twice():
        answers()
        forked(answers)

    forked(twice)
    forked(lambda: forked(answers))


def test_the_folder_may_be_gone_by_then(encoder_folder, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(saved(encoder_folder), folder)
    models = [load(folder), load(folder, engine="keras")]
    shutil.rmtree(folder)
    for model in models:
        forked(lambda model=model: model.predict(TEXTS))


ENDS = """
import gc, os, sys
from bertcnn import load
model = load(sys.argv[1]); model.predict(["a", "b"] * 99)
if "dropped" in sys.argv: del model; gc.collect()
child = os.fork()
if not child and "loads" in sys.argv:
    model = load(sys.argv[1])
if not child and "asks" in sys.argv:
    model.predict(["a", "b"] * 99)
if not child and "drops" in sys.argv:
    del model; gc.collect()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(7)
"""


@pytest.mark.parametrize(
    "how", ["", "drops", "asks drops", "dropped", "loads asks", "dropped loads asks drops"]
)
def test_a_child_ends_as_it_means_to(how, encoder_folder):
    run = subprocess.run(
        [sys.executable, "-c", ENDS, str(saved(encoder_folder)), *how.split()],
        timeout=HANGS,
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stderr) == (7, "")


@pytest.mark.parametrize("what", ["fit", "attention", "integrated gradients", "load"])
def test_operations_that_need_keras_are_refused_at_once(what, encoder_folder):
    classifier = trained(encoder_folder)
    work = {
        "fit": lambda: BertCNNClassifier(encoder_folder).fit(*tickets()),
        "attention": lambda: classifier.attention(TEXTS[:1]),
        "integrated gradients": lambda: classifier.explain(
            TEXTS[:1], method="integrated_gradients"
        ),
        "load": lambda: load(saved(encoder_folder), engine="keras"),
    }[what]

    def is_refused():
        with pytest.raises(
            SettingsError, match=r"forked after Keras had computed; expected .*spawn"
        ):
            work()

    forked(is_refused)
