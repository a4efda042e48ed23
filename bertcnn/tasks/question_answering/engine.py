"""Compiles a question answering model, in int8 or bfloat16 if answers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bertcnn.bundle.engine import Precision, WeightBits
from bertcnn.errors import BundleError
from bertcnn.inference.compiled import compiled_model, has_bfloat16, has_fast_int8, has_vnni
from bertcnn.inference.engines import reason
from bertcnn.inference.graph_check import checked_graph
from bertcnn.inference.openvino_graph import serialized, spans_graph
from bertcnn.inference.quantize import CALIBRATION_ROWS, quantize, spread
from bertcnn.inference.runtime import ov
from bertcnn.inference.spans_engine import SpansEngine, SpansModel, packed_windows
from bertcnn.models.shapes import question_answering_shapes
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings
from bertcnn.tasks.question_answering.saving import CONSTANTS, GRAPH
from bertcnn.tasks.question_answering.windows import Window

_AGREEMENT, _F1_LOSS = 0.99, 0.003


class CompiledSpans(NamedTuple):
    """A compiled model as it is saved: precision, the reason for it, and files by name."""

    precision: Precision
    reason: str
    files: Mapping[str, bytes]


def compile_spans(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    windows: Sequence[Window],
    pad_id: int,
    compare: Callable[[SpansModel], tuple[float, float]],
    progress: Progress,
) -> CompiledSpans:
    """Compile the model in int8, else bfloat16 if this CPU supports it, else float32.

    The first precision that agrees with float32 is chosen: `compare` returns the share of
    validation questions with the same answer, and the loss of F1. `windows` come from training
    questions and set the int8 ranges.
    """
    progress.stage("compiling", 2, "steps")
    chosen = spread(windows, CALIBRATION_ROWS)
    given = [window.token_ids for window in chosen], [window.segment_ids for window in chosen]
    batches = [batch for _, batch in packed_windows(*given, pad_id)]
    weight_bits: WeightBits = 8 if has_vnni() else 7

    def candidates() -> Iterator[tuple[Precision, ov.Model]]:
        graph = spans_graph(tensors, encoder, int8_tokens=True)
        yield "int8", quantize(graph, batches, weight_bits=weight_bits)
        if has_bfloat16():
            yield "bfloat16", spans_graph(tensors, encoder)

    def compared(precision: Precision, graph: ov.Model) -> tuple[float, float]:
        return compare(_running(lambda: graph, precision, pad_id))

    reasons = []
    for precision, graph in candidates():
        agreement, loss = compared(precision, graph)
        reasons.append(
            f"{precision} gives the answer of float32 to {agreement:.1%} of the validation"
            f" questions, with F1 {abs(loss):.4f} {'lower' if loss > 0 else 'higher'}"
        )
        if agreement >= _AGREEMENT and loss <= _F1_LOSS:
            break
        if precision == "int8":
            progress.advance(1)
    else:
        precision, graph = "float32", spans_graph(tensors, encoder)
    progress.advance(1)
    limits = f"; at least {_AGREEMENT:.0%} and at most {_F1_LOSS} lower are wanted"
    why = "; ".join(reasons) + (limits if precision != "int8" else "")
    progress.note(f"engine: {precision}, since {why}")
    # names that do not depend on other graphs in the process: the same model gets the same id
    for place, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() not in ("Parameter", "Result"):
            node.set_friendly_name(f"{node.get_type_name()}_{place}")
    files = dict(zip((GRAPH, CONSTANTS), serialized(graph), strict=True))
    return CompiledSpans(precision, why, files)


def _running(
    read: Callable[[], ov.Model],
    precision: Precision,
    pad_id: int,
    identity: str | None = None,
) -> SpansEngine:
    return SpansEngine(
        lambda: compiled_model(read, identity, precision=precision),
        pad_id,
        f"openvino-{precision}",
    )


def _is_fast(precision: Precision) -> bool:
    if precision == "int8":
        return has_fast_int8() and has_vnni()
    return precision == "float32" or has_bfloat16()


def load_spans(
    saved: CompiledSpans,
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    pad_id: int,
    *,
    identity: str | None,
) -> SpansEngine:
    """Load a compiled model, in float32 if this CPU is not faster in its precision.

    OpenVINO's compiled form is cached by `identity`, if given.

    Raises:
        BundleError: the graph does not match the settings, or OpenVINO cannot run it.
    """
    precision = saved.precision if _is_fast(saved.precision) else "float32"

    def read() -> ov.Model:
        if precision != saved.precision:
            return spans_graph(tensors, encoder)
        zeros = {
            name: np.zeros(shape, np.float32)
            for name, shape in question_answering_shapes(encoder).items()
        }
        constants = saved.files[CONSTANTS]
        blank = spans_graph(zeros, encoder, int8_tokens=precision == "int8")
        graph = checked_graph(saved.files[GRAPH], constants, serialized(blank))
        try:
            return ov.Core().read_model(graph, constants)
        except RuntimeError as error:
            raise BundleError(
                f"engine.xml cannot be read by OpenVINO {ov.__version__} ({reason(error)})",
                expected="a model that this version reads",
                fix="train and save the model again with this version",
            ) from None

    return _running(read, precision, pad_id, identity and f"{identity}-{precision}")
