"""Refitting: a model is evaluated on held-out rows, then trained on them too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bertcnn.bundle.engine import EngineRecord
from bertcnn.errors import TrainingError
from bertcnn.inference.quantize import CALIBRATION_ROWS, QuantizationData, build_engine, spread
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn
from bertcnn.models.weights import assign, extract
from bertcnn.progress import Progress
from bertcnn.training.deadline import OutOfTime
from bertcnn.training.features import TokenizedRows
from bertcnn.training.state import EpochFigures, FitResult
from bertcnn.training.training_data import Answered, OutsideRows, RunOptions, TrainingData

_PARTS = ("logits", "means")

Train = Callable[[Bert, TrainingData, RunOptions], tuple[BertCnn, FitResult]]


@dataclass(frozen=True, eq=False)
class Examined:
    """What a model answered before it was trained on the held-out rows too.

    Attributes:
        valid: of the held-out rows.
        known: of the training rows by which it knows what is in scope.
        outside: of each kind of `OutsideRows`.
        record: of its compiled engine, if it had one.
    """

    valid: Answered
    known: Answered
    outside: dict[str, Answered]
    record: EngineRecord | None = None


def quantization_data(
    learning: TokenizedRows, held_out: TokenizedRows, logits: np.ndarray, pad_id: int
) -> QuantizationData:
    """The rows that decide about a model's engine.

    Args:
        learning: some of these set the ranges of int8.
        held_out: on these it is compared with float32.
        logits: float32 [rows, C], what the model answers to them in float32.
        pad_id: the id of [PAD].
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
    known: Sequence[np.ndarray],
    outside: OutsideRows,
    *,
    progress: Progress,
) -> Examined:
    """Compile a model, as it would be saved, and run it on the rows that say what it is worth.

    Args:
        model: trained.
        quantization_data: the held-out rows.
        known: token ids of the training rows by which it knows what is in scope, per row int32 [T].
        outside: texts that belong to no label.
        progress: progress callback.
    """
    weights, shapes = extract(model.weights), (model.encoder_settings, model.head.settings)
    built = build_engine(weights, *shapes, quantization_data, progress=progress)
    answers = built.running.run(known, evidence=True)
    return Examined(
        (built.valid.logits, built.valid.found.means),
        (answers.logits, answers.found.means),
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
    """Train, examine, and train once more with as many epochs on all rows (docs/benchmarks).

    Where the second training would end after the deadline, the first one's model stays; a resumed
    second one has no deadline.

    Args:
        train: trains an encoder and a new head.
        encoder: changed in place.
        data: the validation rows choose the epoch, and are learned from in the second training.
        run: its savepoints keep both trainings, and the first one's answers between them.
        ask: examines the first model.

    Returns:
        The classifier that learned from all rows; the figures of the first training; the answers of
        the first model, None where that is the one that is given.
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
            f"training once more from the start, with the {len(data.valid.labels):,} held-out rows"
            " too"
        )
        everything = replace(data, train=data.train.with_rows(data.valid))
        with suppress(OutOfTime):
            model, again = train(encoder, everything, replace(run, savepoints=second, like=result))
    if again is None:
        run.progress.note(
            "the held-out rows are not learned from, since training once more would end after"
            f" {run.deadline}"
        )
        assign(model.weights, learned, error=TrainingError)
        return model, result, None
    return model, replace(result, refit_logits=again.valid_logits), examined


def _as_parts(
    result: FitResult, examined: Examined
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is between the trainings, as a savepoint keeps it."""
    details = {
        "epochs": [asdict(one) for one in result.epochs],
        "kept_epoch": result.kept_epoch,
        "padded_lengths": list(result.padded_lengths),
        "averaged": result.averaged,
        "record": None if examined.record is None else examined.record.model_dump(mode="json"),
    }
    answers = {"valid": examined.valid, "known": examined.known, **examined.outside}
    arrays = {
        f"{name}_{part}": array
        for name, answered in answers.items()
        for part, array in zip(_PARTS, answered, strict=True)
    }
    return details, {"float32_logits": result.valid_logits, **arrays}


def _of_parts(
    details: dict[str, Any], tensors: dict[str, np.ndarray]
) -> tuple[FitResult, Examined]:
    """What `_as_parts` gave."""
    epochs = tuple(EpochFigures(**one) for one in details["epochs"])
    kept, lengths = details["kept_epoch"], tuple(details["padded_lengths"])
    logits, averaged = tensors["float32_logits"], details["averaged"]
    result = FitResult(epochs, kept, logits, lengths, averaged=averaged)
    record = None if details["record"] is None else EngineRecord(**details["record"])
    names = (name.removesuffix("_means") for name in tensors if name.endswith("_means"))
    answered = {name: (tensors[f"{name}_logits"], tensors[f"{name}_means"]) for name in names}
    return result, Examined(answered.pop("valid"), answered.pop("known"), answered, record)
