"""Compiles a question answering model, in int8 or bfloat16 if answers stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bertcnn.bundle import INT8_TENSORS, Precision, WeightBits, parse_int8
from bertcnn.inference import (
    CALIBRATION_ROWS,
    SpansEngine,
    SpansModel,
    compiled_model,
    has_bfloat16,
    has_fast_int8,
    has_vnni,
    ov,
    packed_windows,
    quantize,
    spans_graph,
    spread,
)
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings
from bertcnn.tasks.question_answering.saving import SavedAnswerer
from bertcnn.tasks.windows import Window

_AGREEMENT, _F1_LOSS = 0.99, 0.003


class CompiledSpans(NamedTuple):
    """A compiled model as it is saved: precision, the reason for it, and its int8 tensors."""

    precision: Precision
    reason: str
    int8: Mapping[str, np.ndarray] | None

    @classmethod
    def of(cls, saved: SavedAnswerer) -> CompiledSpans:
        """The compiled model of a saved folder; raises BundleError if it does not fit."""
        config, data = saved.config, saved.more[INT8_TENSORS]
        is_int8 = config.precision == "int8"
        int8 = parse_int8(INT8_TENSORS, data, config.encoder) if is_int8 else None
        return cls(config.precision, config.precision_reason, int8)


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
    token_ids = [window.token_ids for window in chosen]
    batches = [batch for _, batch in packed_windows(token_ids, pad_id)]
    weight_bits: WeightBits = 8 if has_vnni() else 7

    def candidates() -> Iterator[tuple[Precision, Mapping[str, np.ndarray] | None]]:
        graph = spans_graph(tensors, encoder, int8_tokens=True)
        try:
            yield "int8", quantize(graph, batches, encoder, weight_bits=weight_bits)
        except ValueError as error:
            progress.note(f"engine: int8 is not tried, since NNCF gives {error}")
        if has_bfloat16():
            yield "bfloat16", None

    def compared(
        precision: Precision, int8: Mapping[str, np.ndarray] | None
    ) -> tuple[float, float]:
        return compare(
            _running(lambda: spans_graph(tensors, encoder, int8=int8), precision, pad_id)
        )

    reasons = []
    for precision, int8 in candidates():
        agreement, loss = compared(precision, int8)
        reasons.append(
            f"{precision} gives the answer of float32 to {agreement:.1%} of the validation"
            f" questions, with F1 {abs(loss):.4f} {'lower' if loss > 0 else 'higher'}"
        )
        if agreement >= _AGREEMENT and loss <= _F1_LOSS:
            break
        if precision == "int8":
            progress.advance(1)
    else:
        precision, int8 = "float32", None
    progress.advance(1)
    limits = f"; at least {_AGREEMENT:.0%} and at most {_F1_LOSS} lower are wanted"
    why = "; ".join(reasons) + (limits if precision != "int8" else "")
    progress.note(f"engine: {precision}, since {why}")
    return CompiledSpans(precision, why, int8)


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
        BundleError: the tensors do not match the settings, or OpenVINO cannot run them.
    """
    precision = saved.precision if _is_fast(saved.precision) else "float32"

    def read() -> ov.Model:
        return spans_graph(tensors, encoder, int8=saved.int8 if precision == "int8" else None)

    return _running(read, precision, pad_id, identity and f"{identity}-{precision}")
