"""Refitting: evaluate a model on held-out rows, then train it on them too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bertcnn.bundle import EngineRecord
from bertcnn.errors import TrainingError
from bertcnn.inference import CALIBRATION_ROWS, QuantizationData, build_engine, spread
from bertcnn.models import Bert, BertCnn, assign, extract
from bertcnn.progress import Progress
from bertcnn.training.deadline import OutOfTime
from bertcnn.training.features import TokenizedRows
from bertcnn.training.state import EpochFigures, FitResult
from bertcnn.training.training_data import Answered, OutsideRows, RunOptions, TrainingData

_PARTS = ("logits", "means")

Train = Callable[[Bert, TrainingData, RunOptions], tuple[BertCnn, FitResult]]


@dataclass(frozen=True, eq=False)
class Examined:
    """A model's predictions before it was trained on the held-out rows.

    They are for the held-out rows, for the training rows that the out-of-scope detector compares
    with, and for each kind of `OutsideRows`. `record` is of its compiled engine, if it had one.
    """

    valid: Answered
    detector_outputs: Answered
    outside: dict[str, Answered]
    record: EngineRecord | None = None


def quantization_data(
    learning: TokenizedRows, held_out: TokenizedRows, logits: np.ndarray, pad_id: int
) -> QuantizationData:
    """The rows that decide about a model's engine.

    Some rows of `learning` set the int8 ranges. On `held_out`, int8 is compared with float32, whose
    output is `logits`, float32 [rows, C].
    """
    return QuantizationData(
        spread(learning.token_ids, CALIBRATION_ROWS),
        held_out.token_ids,
        held_out.labels,
        logits,
        pad_id,
        held_out.multi_hot,
    )


def examine(
    model: BertCnn,
    quantization_data: QuantizationData,
    detector_token_ids: Sequence[np.ndarray],
    outside: OutsideRows,
    *,
    progress: Progress,
) -> Examined:
    """Compile a model as it would be saved, and run it on the evaluation rows.

    `detector_token_ids` are of the training rows that the out-of-scope detector compares with.
    """
    weights, shapes = extract(model.weights), (model.encoder_settings, model.head.settings)
    built = build_engine(weights, *shapes, quantization_data, progress=progress)
    answers = built.running.run(detector_token_ids, evidence=True)
    return Examined(
        (built.valid.logits, built.valid.requested_evidence.means),
        (answers.logits, answers.requested_evidence.means),
        outside.answers(built.running),
        built.saved.record,
    )


def train_and_refit(
    train: Train,
    encoder: Bert,
    data: TrainingData,
    run: RunOptions,
    ask: Callable[[BertCnn, FitResult], Examined],
) -> tuple[BertCnn, FitResult, Examined | None]:
    """Train and examine, then train again on all rows for as many epochs (docs/benchmarks).

    If the second training would miss the deadline, the first model is returned. A resumed second
    training has no deadline. `train` trains an encoder and a new head; `ask` examines the first
    model. The savepoints of `run` store both trainings and the first model's predictions.

    Returns:
        The model trained on all rows; the figures of the first training; the first model's
        predictions, or None if the first model is returned.
    """
    untrained, points = extract(encoder.weights), run.savepoints
    between = None if points is None else points.part("between")
    second = None if points is None else points.part("refit")
    kept = None if between is None else between.kept()
    late = False
    if kept is None:
        begun = time.monotonic()
        model, result = train(encoder, data, run)
        late = run.deadline is not None and run.deadline.is_missed_after(time.monotonic() - begun)
        examined = ask(model, result)
        if between is not None:
            between.keep(*_as_parts(result, examined))
        learned = extract(model.weights)
        assign(encoder.weights, untrained, error=TrainingError)
    else:
        run.progress.note("resuming after the first training, which was complete")
        result, examined = _of_parts(*kept)
        run, learned = replace(run, deadline=None), {}
    again = None
    if not late:
        run.progress.note(
            "training again from the start, now with the"
            f" {len(data.valid.labels):,} held-out rows too"
        )
        everything = replace(data, train=data.train.with_rows(data.valid))
        with suppress(OutOfTime):
            model, again = train(encoder, everything, replace(run, savepoints=second, like=result))
    if again is None:
        run.progress.note(
            "the model is not trained again with the held-out rows, since that would end after"
            f" {run.deadline}"
        )
        assign(model.weights, learned, error=TrainingError)
        return model, result, None
    return model, replace(result, refit_logits=again.valid_logits), examined


def _as_parts(
    result: FitResult, examined: Examined
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    details = {
        "epochs": [asdict(one) for one in result.epochs],
        "kept_epoch": result.kept_epoch,
        "padded_lengths": list(result.padded_lengths),
        "averaged": result.averaged,
        "record": None if examined.record is None else examined.record.model_dump(mode="json"),
    }
    answers = {"valid": examined.valid, "known": examined.detector_outputs, **examined.outside}
    arrays = {
        f"{name}_{part}": array
        for name, answered in answers.items()
        for part, array in zip(_PARTS, answered, strict=True)
    }
    return details, {"float32_logits": result.valid_logits, **arrays}


def _of_parts(
    details: dict[str, Any], tensors: dict[str, np.ndarray]
) -> tuple[FitResult, Examined]:
    epochs = tuple(EpochFigures(**one) for one in details["epochs"])
    kept, lengths = details["kept_epoch"], tuple(details["padded_lengths"])
    logits, averaged = tensors["float32_logits"], details["averaged"]
    result = FitResult(epochs, kept, logits, lengths, averaged=averaged)
    record = None if details["record"] is None else EngineRecord(**details["record"])
    names = (name.removesuffix("_means") for name in tensors if name.endswith("_means"))
    answered = {name: (tensors[f"{name}_logits"], tensors[f"{name}_means"]) for name in names}
    return result, Examined(answered.pop("valid"), answered.pop("known"), answered, record)
