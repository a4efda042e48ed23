"""Compiles a model that scores tokens, in int8 or bfloat16 if its results stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

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
    spread,
)
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings
from bertcnn.tasks.saving import CompiledConfig
from bertcnn.tasks.windows import Window

_AGREEMENT, _F1_LOSS = 0.99, 0.003


class SpansGraph(Protocol):
    """`spans_graph` of a model's weights."""

    def __call__(
        self, *, int8: Mapping[str, np.ndarray] | None = None, int8_tokens: bool = False
    ) -> ov.Model:
        """The graph, with int8 weights if given."""


class CompiledSpans(NamedTuple):
    """A compiled model as it is saved: precision, the reason for it, and its int8 tensors."""

    precision: Precision
    reason: str
    int8: Mapping[str, np.ndarray] | None

    @classmethod
    def of(cls, config: CompiledConfig, int8: bytes) -> CompiledSpans:
        """The compiled model of a saved folder; raises BundleError if it does not fit."""
        is_int8 = config.precision == "int8"
        tensors = parse_int8(INT8_TENSORS, int8, config.encoder) if is_int8 else None
        return cls(config.precision, config.precision_reason, tensors)


def compile_spans(
    graph: SpansGraph,
    encoder: EncoderSettings,
    windows: Sequence[Window],
    pad_id: int,
    compare: Callable[[SpansModel], tuple[float, float]],
    unit: str,
    progress: Progress,
) -> CompiledSpans:
    """Compile the model in int8, else bfloat16 if this CPU supports it, else float32.

    The first precision that agrees with float32 is chosen: `compare` returns the share of
    validation examples with the same result, and the loss of F1. `windows` come from training
    examples and set the int8 ranges; `unit` is the examples' name in messages, such as "question".
    """
    progress.stage("compiling", 2, "steps")
    chosen = spread(windows, CALIBRATION_ROWS)
    token_ids = [window.token_ids for window in chosen]
    batches = [batch for _, batch in packed_windows(token_ids, pad_id)]
    weight_bits: WeightBits = 8 if has_vnni() else 7

    def candidates() -> Iterator[tuple[Precision, Mapping[str, np.ndarray] | None]]:
        try:
            yield (
                "int8",
                quantize(graph(int8_tokens=True), batches, encoder, weight_bits=weight_bits),
            )
        except ValueError as error:
            progress.note(f"engine: int8 is not tried, since NNCF gave {error}")
        if has_bfloat16():
            yield "bfloat16", None

    def compared(
        precision: Precision, int8: Mapping[str, np.ndarray] | None
    ) -> tuple[float, float]:
        return compare(_running(lambda: graph(int8=int8), precision, pad_id))

    reasons = []
    for precision, int8 in candidates():
        agreement, loss = compared(precision, int8)
        reasons.append(
            f"{precision} gives the result of float32 for {agreement:.1%} of the validation"
            f" {unit}s, with F1 {abs(loss):.4f} {'lower' if loss > 0 else 'higher'}"
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
    read: Callable[[], ov.Model], precision: Precision, pad_id: int, identity: str | None = None
) -> SpansEngine:
    return SpansEngine(
        lambda: compiled_model(read, identity, precision=precision), pad_id, f"openvino-{precision}"
    )


def _is_fast(precision: Precision) -> bool:
    if precision == "int8":
        return has_fast_int8() and has_vnni()
    return precision == "float32" or has_bfloat16()


def load_spans(
    saved: CompiledSpans, graph: SpansGraph, pad_id: int, *, identity: str | None
) -> SpansEngine:
    """Load a compiled model, in float32 if this CPU is not faster in its precision.

    OpenVINO's compiled form is cached by `identity`, if given.

    Raises:
        BundleError: the tensors do not match the settings, or OpenVINO cannot run them.
    """
    precision = saved.precision if _is_fast(saved.precision) else "float32"

    def read() -> ov.Model:
        return graph(int8=saved.int8 if precision == "int8" else None)

    return _running(read, precision, pad_id, identity and f"{identity}-{precision}")
