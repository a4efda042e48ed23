"""The precision in which a model that scores tokens is compiled, and how it is loaded again."""

from functools import partial

import numpy as np
import pytest

from bertcnn.inference import spans_graph
from bertcnn.inference.compiled import has_bfloat16, has_fast_int8, has_vnni
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import int8_shapes, question_answering_shapes
from bertcnn.tasks.engine import compile_spans, load_spans
from bertcnn.tasks.windows import Window
from tests.listener import Listener

SETTINGS = EncoderSettings(
    vocabulary_size=50, width=16, layers=1, heads=4, feed_forward_width=24, max_positions=64
)
PAD = 0
BETWEEN = ["bfloat16"] if has_bfloat16() else []  # this machine's precisions between the two
SAME, OTHER, WORSE = (1.0, -0.01), (0.98, 0.0), (1.0, 0.004)


@pytest.fixture(scope="module")
def tensors():
    generator = np.random.default_rng(1)
    return {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in question_answering_shapes(SETTINGS).items()
    }


@pytest.fixture(scope="module")
def windows():
    generator = np.random.default_rng(2)
    return [
        Window(row, generator.integers(1, 50, 12).astype(np.int32), 5, np.zeros((7, 2), np.int32))
        for row in range(20)
    ]


def compiled(tensors, windows, *verdicts):
    """Compile with these comparison results for the candidates; returns the compared ones too."""
    asked, given, notes = [], iter(verdicts), Listener()

    def compare(running):
        asked.append(running.name)
        return next(given)

    graph = partial(spans_graph, tensors, SETTINGS)
    saved = compile_spans(graph, SETTINGS, windows, PAD, compare, "question", notes)
    return saved, asked, notes.notes


def test_int8_is_taken_where_it_answers_as_float32_does(tensors, windows):
    saved, asked, (note,) = compiled(tensors, windows, SAME)
    assert (saved.precision, asked) == ("int8", ["openvino-int8"])
    assert note == f"engine: int8, since {saved.reason}"
    assert saved.reason == (
        "int8 gives the result of float32 for 100.0% of the validation questions, with F1 0.0100"
        " higher"
    )
    assert saved.int8.keys() == int8_shapes(SETTINGS).keys()


@pytest.mark.parametrize("refused", [OTHER, WORSE])
@pytest.mark.skipif(not BETWEEN, reason="this CPU does not compute in bfloat16")
def test_bfloat16_is_taken_where_only_int8_answers_otherwise(tensors, windows, refused):
    saved, asked, _ = compiled(tensors, windows, refused, SAME)
    assert (saved.precision, asked) == ("bfloat16", ["openvino-int8", "openvino-bfloat16"])
    assert saved.reason.startswith(f"int8 gives the result of float32 for {refused[0]:.1%}")
    assert "; bfloat16 gives the result of float32 for 100.0%" in saved.reason
    assert saved.reason.endswith("; at least 99% and at most 0.003 lower are wanted")
    assert saved.int8 is None


def test_float32_is_taken_where_all_others_answer_otherwise(tensors, windows):
    saved, asked, _ = compiled(tensors, windows, OTHER, WORSE)
    assert saved.precision == "float32"
    assert asked == ["openvino-int8", *(f"openvino-{one}" for one in BETWEEN)]
    assert saved.reason.count("gives the result of float32") == len(asked)


@pytest.mark.parametrize("verdicts", [[SAME], [OTHER, SAME], [OTHER, OTHER]])
def test_a_saved_one_runs_again_in_its_precision(tensors, windows, verdicts):
    saved, asked, _ = compiled(tensors, windows, *verdicts)
    running = load_spans(saved, partial(spans_graph, tensors, SETTINGS), PAD, identity=None)
    slow = saved.precision == "int8" and not (has_fast_int8() and has_vnni())
    assert running.name == f"openvino-{'float32' if slow else saved.precision}"
    token_ids = [one.token_ids for one in windows]
    plain, _, _ = compiled(tensors, windows, OTHER, OTHER)
    reference = load_spans(plain, partial(spans_graph, tensors, SETTINGS), PAD, identity=None)
    found, expected = (np.concatenate(one.run(token_ids)) for one in (running, reference))
    distance = np.sqrt(np.mean((found - expected) ** 2)) / expected.std()
    assert (distance == 0) == (running.name == reference.name)
    assert distance < 0.2
    assert asked[-1] == f"openvino-{saved.precision}" or saved.precision == "float32"
