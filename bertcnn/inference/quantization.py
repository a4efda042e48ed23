"""Builds the compiled engine: int8 if it agrees with float32, else bfloat16 or float32."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

import numpy as np

from bertcnn.bundle import EngineRecord, Precision, SavedEngine, WeightBits, int8_bytes
from bertcnn.data import packed_batches, plan_packed
from bertcnn.evaluation import macro_f1_score
from bertcnn.inference.compiled import has_bfloat16, has_vnni
from bertcnn.inference.engines import EngineOutput
from bertcnn.inference.int8_tensors import (
    Int8Tensors,
    int8_tensors,
    round_from_zero,
    share_activation_range,
)
from bertcnn.inference.openvino_engine import OpenVINOEngine
from bertcnn.inference.openvino_graph import (
    LAST_PRODUCT,
    POSITIONS,
    SUMS,
    TOKEN_SCALES,
    classifier_graph,
)
from bertcnn.inference.runtime import ov, without_telemetry
from bertcnn.progress import Progress
from bertcnn.settings import EncoderSettings, HeadSettings

CALIBRATION_ROWS = 128
Item = TypeVar("Item")
_AGREEMENT = 0.99
_MACRO_F1_LOSS = 0.003
# share of the activations' spread moved to the weights (Xiao et al. 2023, section 4)
_SMOOTHING = 0.75


@dataclass(frozen=True)
class QuantizationData:
    """The rows that calibrate and validate an engine.

    Attributes:
        calibration: token ids of training rows, which set the int8 activation ranges.
        valid: token ids of the validation rows.
        valid_labels: int [rows], their labels.
        valid_logits: float32 [rows, C], the float32 model's logits.
        valid_sets: bool [rows, C], their labels, if rows may have several.
    """

    calibration: Sequence[np.ndarray]
    valid: Sequence[np.ndarray]
    valid_labels: np.ndarray
    valid_logits: np.ndarray
    pad_id: int
    valid_sets: np.ndarray | None = None

    def answers(self, logits: np.ndarray) -> np.ndarray:
        """The predicted label of each row, int [rows], or all labels, bool [rows, C]."""
        return logits.argmax(axis=1) if self.valid_sets is None else logits > 0

    def macro_f1(self, answers: np.ndarray) -> float:
        """Macro-F1 of answers to the validation rows."""
        actual = self.valid_labels if self.valid_sets is None else self.valid_sets
        return macro_f1_score(actual, answers)


@dataclass(frozen=True, eq=False)
class BuiltEngine:
    """An engine, saved and running.

    Attributes:
        valid: its output on the validation rows, with evidence.
    """

    saved: SavedEngine
    running: OpenVINOEngine
    valid: EngineOutput


def spread(rows: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the rows, evenly spaced."""
    return [
        rows[index] for index in np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(int)
    ]


def build_engine(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    head: HeadSettings,
    quantization_data: QuantizationData,
    *,
    decided: EngineRecord | None = None,
    weight_bits: Sequence[WeightBits] | None = None,
    progress: Progress,
) -> BuiltEngine:
    """Compile the model to the fastest precision that keeps the quality of float32.

    Tries int8, then bfloat16 if this CPU has it, then float32.

    int8 is static, by NNCF: `quantization_data.calibration` sets the activation ranges, and weights
    have 7 of 8 bits with one scale per output channel, so that the sum of two products fits 16 bits
    (2 x 255 x 64 < 2^15) and CPUs without VNNI do not saturate. If that is not accurate enough and
    this CPU has VNNI, 8-bit weights are tried, whose logits are a quarter nearer to float32. A
    precision is accepted if it gives the float32 label on 99% of the validation rows and loses at
    most 0.3 points of macro-F1. If rows may have several labels, each label of each row counts,
    assigned at a probability of at least 1/2; lost labels lower the macro-F1.

    `decided` is the record of the engine built before the model learned from these rows; its
    precision and figures are kept. Otherwise `weight_bits` are tried in this order; by default 7,
    and 8 if this CPU has VNNI. `progress` receives a note on the result.
    """
    progress.stage("compiling for fast scoring", 2, "steps")
    rows = quantization_data.calibration
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    batches = list(packed_batches(rows, plan_packed(lengths), quantization_data.pad_id))
    refused: list[_Comparison] = []
    to_try = _to_try(decided, weight_bits)
    for precision, bits, int8 in _candidates(tensors, encoder, head, batches, to_try, progress):
        if precision == "int8" and not refused:
            progress.advance(1)
        graph = classifier_graph(tensors, encoder, head, int8=int8)
        running = OpenVINOEngine.of_graph(graph, quantization_data.pad_id, precision)
        valid = running.run(quantization_data.valid, evidence=True)
        comparison = _compared(
            quantization_data,
            "int8 with weights of 8 bits" if bits == 8 else precision,
            valid.logits,
        )
        if decided is not None or comparison.fit or precision == "float32":
            break
        refused.append(comparison)
    progress.advance(1)
    if decided is not None:
        progress.note(
            f"engine: {precision}, as decided on rows that the model had not learned from"
        )
        return _built(
            int8,
            running,
            valid,
            decided.model_copy(
                update={
                    "precision": precision,
                    "calibrated_on_rows": len(quantization_data.calibration),
                }
            ),
        )
    record = _engine_record(precision, bits, comparison, refused, quantization_data)
    progress.note(f"engine: {record.precision}, since {record.reason}")
    return _built(int8, running, valid, record)


def _to_try(
    decided: EngineRecord | None, weight_bits: Sequence[WeightBits] | None
) -> list[tuple[Precision, WeightBits]]:
    """The precisions and bits of int8 weights to try, in this order; see `build_engine`."""
    in_float32: tuple[Precision, WeightBits] = "float32", 7
    if decided is not None:
        return [(decided.precision, decided.weight_bits), in_float32]
    usual: tuple[WeightBits, ...] = (7, 8) if has_vnni() else (7,)
    int8 = usual if weight_bits is None else weight_bits
    tried: list[tuple[Precision, WeightBits]] = [("int8", bits) for bits in int8]
    if has_bfloat16():
        tried.append(("bfloat16", 7))
    return [*tried, in_float32]


def _candidates(
    tensors: Mapping[str, np.ndarray],
    encoder: EncoderSettings,
    head: HeadSettings,
    batches: Sequence[Mapping[str, np.ndarray]],
    to_try: Sequence[tuple[Precision, WeightBits]],
    progress: Progress,
) -> Iterator[tuple[Precision, WeightBits, Int8Tensors | None]]:
    """The precisions to try that are possible, with the int8 tensors."""
    for precision, bits in to_try:
        if precision != "int8":
            yield precision, bits, None
            continue
        graph = classifier_graph(tensors, encoder, head, int8_tokens=True)
        try:
            yield "int8", bits, quantize(graph, batches, encoder, head, weight_bits=bits)
        except ValueError as error:
            progress.note(f"engine: int8 is not tried, since NNCF gave {error}")


def _engine_record(
    precision: Precision,
    weight_bits: WeightBits,
    last: _Comparison,
    refused: Sequence[_Comparison],
    quantization_data: QuantizationData,
) -> EngineRecord:
    """The record of the chosen precision, the `last` one compared, after the refused ones."""
    reasons = [*refused, *([] if precision == "float32" else [last])]
    limits = (
        f"; at least {_AGREEMENT:.0%} and at most {_MACRO_F1_LOSS} lower are wanted"
        if refused
        else ""
    )
    recorded = refused[0] if refused and precision == "float32" else last
    return EngineRecord(
        precision=precision,
        weight_bits=weight_bits,
        reason="; ".join(comparison.words for comparison in reasons or [last]) + limits,
        calibrated_on_rows=len(quantization_data.calibration),
        compared_on_rows=len(quantization_data.valid),
        agreement=recorded.agreement,
        macro_f1_loss=recorded.macro_f1_loss,
        versions={name: version(name) for name in ("openvino", "nncf")},
    )


def _built(
    int8: Int8Tensors | None, running: OpenVINOEngine, valid: EngineOutput, record: EngineRecord
) -> BuiltEngine:
    tensors = int8_bytes(int8)
    return BuiltEngine(SavedEngine(record, lambda: tensors), running, valid)


@dataclass(frozen=True)
class _Comparison:
    """How closely a precision agrees with float32, and whether that is enough."""

    agreement: float
    macro_f1_loss: float
    words: str

    @property
    def fit(self) -> bool:
        return self.agreement >= _AGREEMENT and self.macro_f1_loss <= _MACRO_F1_LOSS


def _compared(quantization_data: QuantizationData, name: str, logits: np.ndarray) -> _Comparison:
    """Compare an engine's logits on the validation rows with float32; `name` is for messages."""
    reference = quantization_data.answers(quantization_data.valid_logits)
    answers = quantization_data.answers(logits)
    agreement = float(np.mean(reference == answers))
    loss = quantization_data.macro_f1(reference) - quantization_data.macro_f1(answers)
    compared = (
        f"macro-F1 {abs(loss):.4f} {'lower' if loss > 0 else 'higher'}"
        if loss
        else "the same macro-F1"
    )
    of_all = "" if answers.ndim == 1 else f"the {answers.shape[1]} labels of "
    words = (
        f"{name} gives the label of float32 on {agreement:.1%} of {of_all}{len(answers):,}"
        f" validation rows, with {compared}"
    )
    return _Comparison(agreement, loss, words)


def quantize(
    graph: ov.Model,
    batches: Sequence[Mapping[str, np.ndarray]],
    encoder: EncoderSettings,
    head: HeadSettings | None = None,
    *,
    weight_bits: WeightBits = 7,
    smoothing: float = _SMOOTHING,
) -> Int8Tensors:
    """The tensors of a graph's matrix products in int8, as in `int8_shapes`.

    Args:
        graph: a `classifier_graph` or, without `head`, a `spans_graph`, with int8 tokens; it is
            modified, and unusable afterwards.
        batches: inputs by name, to set the ranges.
        encoder: the graph's settings.
        head: the graph's settings.
        weight_bits: 7 leaves the eighth bit of the weights unused.
        smoothing: share of the activations' spread that is moved to the weights.

    Raises:
        ValueError: NNCF rounded other places than it does for these networks.
    """
    tensors = int8_tensors(quantized_by_nncf(graph, batches, weight_bits, smoothing), encoder, head)
    share_activation_range(tensors, encoder)
    round_from_zero(tensors)
    return tensors


def quantized_by_nncf(
    graph: ov.Model,
    batches: Sequence[Mapping[str, np.ndarray]],
    weight_bits: WeightBits,
    smoothing: float = _SMOOTHING,
) -> ov.Model:
    """NNCF's own graph with its matrix products in int8; `graph` is unusable afterwards."""
    with without_telemetry():
        import nncf
        from nncf.quantization.advanced_parameters import (
            AdvancedQuantizationParameters,
            AdvancedSmoothQuantParameters,
            OverflowFix,
        )

    named = {node.get_friendly_name() for node in graph.get_ops()}
    plain = [name for name in (LAST_PRODUCT, POSITIONS, SUMS, TOKEN_SCALES) if name in named]
    with redirect_stdout(io.StringIO()):  # NNCF draws progress bars
        # nncf.set_log_level would change all handlers of the process
        logging.getLogger("nncf").setLevel(logging.ERROR)
        return nncf.quantize(
            graph,
            nncf.Dataset(list(batches)),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(batches),
            ignored_scope=nncf.IgnoredScope(names=plain),
            advanced_parameters=AdvancedQuantizationParameters(
                overflow_fix=OverflowFix.ENABLE if weight_bits == 7 else OverflowFix.DISABLE,
                smooth_quant_alphas=AdvancedSmoothQuantParameters(matmul=smoothing),
                disable_bias_correction=True,  # took 4 of 11 s and changed no label of 1,001 rows
            ),
        )
