"""Recalibrates a model on new labelled rows, without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertcnn.bundle import (
    Bundle,
    DetectorInputs,
    check_bundle_target,
    engine_in_memory,
    local_folder,
    read_bundle,
    write_bundle,
)
from bertcnn.data import LabelSet, indicators
from bertcnn.errors import LabelError, one_line
from bertcnn.evaluation import (
    FEWEST_ROWS,
    GroundTruth,
    HeldBack,
    ScoredPredictions,
    automation,
    decide,
    describe_decisions,
    describe_out_of_scope,
    describe_promise,
    with_limits,
)
from bertcnn.inference import Predictor, held_back, load
from bertcnn.progress import Progress, Silent
from bertcnn.settings import PrecisionTargets
from bertcnn.storage import sha256_of
from bertcnn.tables import rejects_of
from bertcnn.text import is_blank
from bertcnn.wording import count
from bertcnn.workflows.labelled import read_as_in_training, rows_in_scope
from bertcnn.workflows.train import is_file, texts_of

_AT_ONCE = 1024  # rows


@dataclass(frozen=True)
class Recalibration:
    """The result of `recalibrate_csv`.

    Attributes:
        temperature: before and after.
        decisions: automation on these rows, in a sentence.
        scope: out-of-scope detection on these rows, in a sentence.
    """

    bundle_id: str
    rows: int
    strange: int
    temperature: tuple[float, float]
    decisions: str
    scope: str


@dataclass(frozen=True, eq=False)
class _Answered:
    """Texts with the model's output for them."""

    texts: Sequence[str]
    detector_inputs: DetectorInputs


def recalibrate_csv(  # noqa: PLR0913 - options that callers name
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    out_of_scope: str | Path | None = None,
    auto_precision: float | str | PrecisionTargets | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Recalibration:
    """Refit temperature, thresholds and out-of-scope limit on new rows, and save a new model.

    Weights, labels and compiled engine stay the same, so predictions change only in confidence and
    decision. Temperature: Guo et al. 2017, section 4.2.

    Args:
        model: a saved model's folder or URL; it is not changed.
        data: a labelled file not used for training, such as a month of corrected predictions.
        out: the folder to save the new model in.
        text: the text column or columns; by default as in training.
        label: the label column; by default as in training.
        out_of_scope: the out-of-scope label, or a file of out-of-scope texts; by default the label
            of the training, or one found by name.
        auto_precision: target precision of automatic predictions; by default as in training.
        overwrite: overwrite an existing model in `out`.
        progress: progress callback.

    Raises:
        LabelError: fewer than 24 rows have a label that the model knows.
        TableError: the file cannot be read, or lacks the columns.
        BundleError: the model folder is not a model.
        OutputError: `out` exists or cannot be written.

    Example:
        recalibrate_csv("models/triage", "corrected.csv", "models/triage-june")
    """
    progress = progress or Silent()
    check_bundle_target(out := Path(out), overwrite)
    targets = None if auto_precision is None else PrecisionTargets.of(auto_precision)
    model = local_folder(model, progress=progress)
    predictor = load(model)
    texts, sets, outside = _read(predictor, data, text, label, out_of_scope, out, progress)
    progress.stage("answering", len(texts) + len(outside))
    valid, strange = (_answered(predictor, part, progress) for part in (texts, outside))
    multi_hot = indicators(sets, predictor.labels)
    truth = GroundTruth(
        predictor.labels, multi_hot.argmax(axis=1), multi_hot if predictor.multi_label else None
    )
    logits = valid.detector_inputs.logits
    scored = ScoredPredictions(truth, logits, truth.calibrate(logits))
    old = read_bundle(model)
    scope = old.scope
    if scope:
        scope = with_limits(scope, valid.detector_inputs, strange.detector_inputs)
    back = _held_back(replace(old, scope=scope), valid, strange)
    decisions = decide(
        scored.with_strange(strange.detector_inputs.logits).held_out(back, old.hierarchy),
        old.labels,
        targets or old.decisions.auto_precision,
    )
    result = Recalibration(
        "",
        len(texts),
        len(outside),
        (old.calibration.temperature, scored.calibration.temperature),
        describe_decisions(decisions, old.labels),
        describe_out_of_scope(decisions.held_out, scope, several_labels=old.multi_label),
    )
    new = replace(
        old,
        calibration=scored.calibration,
        decisions=decisions,
        scope=scope,
        engine=engine_in_memory(model, old.bundle_id),
    )
    new = _with_figures(new, result, scored, Path(data))
    return replace(result, bundle_id=write_bundle(new, out, overwrite=overwrite))


_TITLE = "\n## Recalibrated\n"


def _with_figures(
    bundle: Bundle, result: Recalibration, scored: ScoredPredictions, data: Path
) -> Bundle:
    """The bundle with the figures of the new rows in its metrics and its card."""
    metrics = {
        **bundle.metrics,
        "decisions": automation(bundle.decisions).to_json(),
        "recalibrated": {
            "rows": result.rows,
            "out_of_scope_rows": result.strange,
            "file": data.name,
            "sha256": sha256_of(data),
            "accuracy": float(scored.right.mean()),
            "calibration": scored.calibration_figures().to_json(),
        },
    }
    card = _card(result, scored, describe_promise(bundle.decisions), data)
    before = bundle.model_card.split(_TITLE)[0].rstrip()
    return replace(bundle, metrics=metrics, model_card=before + card)


def _card(result: Recalibration, scored: ScoredPredictions, promise: str, data: Path) -> str:
    from bertcnn.reports import literal

    calibration = scored.calibration_figures().describe()
    return (
        f"\n\n{_TITLE.lstrip()}\nTemperature, decisions and limit above are those of the training;"
        f" they were fitted again on {result.rows:,} rows of {literal(data.name)}: temperature"
        f" {result.temperature[1]:.3f}, accuracy there {scored.right.mean():.4f}. {calibration}. On"
        f" these rows {literal(result.decisions)}; {result.scope}. {promise}.\n"
    )


def _read(
    predictor: Predictor,
    data: str | Path,
    text: str | Sequence[str] | None,
    label: str | None,
    out_of_scope: str | Path | None,
    out: Path,
    progress: Progress,
) -> tuple[list[str], list[LabelSet], list[str]]:
    config = predictor.bundle.config
    read = read_as_in_training(data, config, text, label, progress)
    named = None if out_of_scope is None or is_file(out_of_scope) else str(out_of_scope)
    rows, sets, outside = rows_in_scope(read, predictor, progress, named)
    strange = [read.texts[row] for row in outside]
    if out_of_scope is not None and named is None:
        rejects = rejects_of(Path(f"{out}.outside"))
        strange += texts_of(out_of_scope, config.text_columns, rejects, progress)
    known_labels = set(predictor.labels)
    usable = [number for number, names in enumerate(sets) if known_labels.issuperset(names)]
    if len(usable) < len(rows):
        unknown = sorted({name for names in sets for name in names} - known_labels)
        progress.note(
            f"{count(len(rows) - len(usable), 'row')} left out, whose label the model does not"
            f" know: {one_line(', '.join(unknown), 200)}"
        )
    if len(usable) < FEWEST_ROWS:
        raise LabelError(
            f"{count(len(usable), 'row')} of {str(data)!r} with a label that the model knows",
            expected=f"at least {FEWEST_ROWS}, better some hundreds",
            fix="add labelled rows",
        )
    return (
        [read.texts[rows[number]] for number in usable],
        [sets[number] for number in usable],
        [content for content in strange if not is_blank(content)],
    )


def _answered(predictor: Predictor, texts: Sequence[str], progress: Progress) -> _Answered:
    width = predictor.bundle.config.encoder.width
    logits = [np.empty((0, len(predictor.labels)), np.float32)]
    means = [np.empty((0, width), np.float32)]
    token_ids: list[np.ndarray] = []
    for first in range(0, len(texts), _AT_ONCE):
        encoded = predictor.encode(texts[first : first + _AT_ONCE])
        output = predictor.run(encoded)
        logits.append(output.logits)
        means.append(output.requested_evidence.means)
        token_ids += encoded.token_ids
        progress.advance(len(encoded.token_ids))
    return _Answered(
        texts, predictor.detector_inputs(token_ids, np.concatenate(logits), np.concatenate(means))
    )


def _held_back(bundle: Bundle, valid: _Answered, strange: _Answered) -> HeldBack:
    result, others = (
        held_back(bundle.scope, rows.detector_inputs, rows.texts, bundle.config.languages)
        for rows in (valid, strange)
    )
    return result.with_strange(others.outside, others.doubtful)
