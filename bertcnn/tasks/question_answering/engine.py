"""Compiles a model that answers questions: int8 if it answers as float32 does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bertcnn.errors import BundleError
from bertcnn.inference.compiled import compiled_model, has_fast_int8, has_vnni
from bertcnn.inference.engines import reason
from bertcnn.inference.graph_check import check_graph
from bertcnn.inference.openvino_graph import serialized, spans_graph
from bertcnn.inference.quantize import CALIBRATION_ROWS, quantize, spread
from bertcnn.inference.runtime import ov
from bertcnn.inference.spans_engine import SpansEngine, SpansModel, packed_windows
from bertcnn.models.shapes import question_answering_shapes
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings
from bertcnn.tasks.question_answering.windows import Window

Precision = Literal["int8", "float32"]
_AGREEMENT, _F1_LOSS = 0.99, 0.003


@dataclass(frozen=True, eq=False)
class CompiledSpans:
    """A compiled model, as it is saved.

    Attributes:
        precision: of its products.
        reason: why this one.
        graph: XML of OpenVINO.
        constants: its weights.
    """

    precision: Precision
    reason: str
    graph: bytes
    constants: bytes


def compile_spans(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    windows: Sequence[Window],
    pad_id: int,
    compare: Callable[[SpansModel], tuple[float, float]],
    progress: Progress,
) -> CompiledSpans:
    """The model compiled to int8, or to float32 where int8 answers differently.

    Args:
        tensors: weights by name, float32.
        encoder: its shape.
        windows: of training questions, whose activations set the ranges of int8.
        pad_id: the id of [PAD].
        compare: of a model, the share of validation questions that get the answer of float32, and
            how much F1 is lower there.
        progress: receives a note on the outcome.
    """
    progress.stage("compiling", 2, "steps")
    chosen = spread(windows, CALIBRATION_ROWS)
    token_ids = [window.token_ids for window in chosen]
    segment_ids = [window.segment_ids for window in chosen]
    batches = [batch for _, batch in packed_windows(token_ids, segment_ids, pad_id)]
    weight_bits: Literal[7, 8] = 8 if has_vnni() else 7
    graph = quantize(
        spans_graph(tensors, encoder, int8_tokens=True), batches, weight_bits=weight_bits
    )
    progress.advance(1)
    engine = SpansEngine(lambda: compiled_model(lambda: graph), pad_id, "openvino-int8")
    agreement, loss = compare(engine)
    why = (
        f"int8 gives the answer of float32 to {agreement:.1%} of the validation questions, with F1"
        f" {abs(loss):.4f} {'lower' if loss > 0 else 'higher'}"
    )
    fit = agreement >= _AGREEMENT and loss <= _F1_LOSS
    if not fit:
        why += f"; at least {_AGREEMENT:.0%} and at most {_F1_LOSS} lower are wanted"
        graph = spans_graph(tensors, encoder)
    progress.advance(1)
    precision: Precision = "int8" if fit else "float32"
    progress.note(f"engine: {precision}, since {why}")
    _name_by_place(graph)
    return CompiledSpans(precision, why, *serialized(graph))


def _name_by_place(graph: ov.Model) -> None:
    """Names that do not depend on what else the process has built: the same model, the same id."""
    for place, node in enumerate(graph.get_ordered_ops()):
        if node.get_type_name() not in ("Parameter", "Result"):
            node.set_friendly_name(f"{node.get_type_name()}_{place}")


def load_spans(
    saved: CompiledSpans,
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    pad_id: int,
    *,
    identity: str | None,
) -> SpansEngine:
    """A compiled model, running; on CPUs that are not faster at int8, its weights in float32.

    Args:
        saved: the model.
        tensors: its weights.
        encoder: its shape.
        pad_id: the id of [PAD].
        identity: names this exact model, by which the machine's own form of it is kept in the
            cache; None if it is not to be kept.

    Raises:
        BundleError: the graph is not the one of this model's settings, or OpenVINO cannot run it.
    """
    precision = saved.precision
    if precision == "int8" and not (has_fast_int8() and has_vnni()):
        precision = "float32"

    def read() -> ov.Model:
        if precision != saved.precision:
            return spans_graph(tensors, encoder)
        zeros = {
            name: np.zeros(shape, np.float32)
            for name, shape in question_answering_shapes(encoder).items()
        }
        blank = spans_graph(zeros, encoder, int8_tokens=precision == "int8")
        check_graph(saved.graph, saved.constants, serialized(blank))
        try:
            return ov.Core().read_model(saved.graph, saved.constants)
        except RuntimeError as error:
            raise BundleError(
                f"engine.xml cannot be read by OpenVINO {ov.__version__} ({reason(error)})",
                expected="a model that this version reads",
                fix="train and save the model again with this version",
            ) from None

    return SpansEngine(
        lambda: compiled_model(read, identity and f"{identity}-{precision}"),
        pad_id,
        f"openvino-{precision}",
    )
