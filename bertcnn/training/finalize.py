"""Calibrates and evaluates a trained model with the engine it is saved with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bertcnn.bundle import Bundle, BundleConfig, Decisions, DetectorInputs, hierarchy_of
from bertcnn.evaluation import (
    DetectorFit,
    FoldInputs,
    GroundTruth,
    HeldBack,
    OutsideTexts,
    ScoredPredictions,
    automation,
    automation_limits,
    decide,
    describe_decisions,
    describe_out_of_scope,
    describe_promise,
    fit_detector,
    most_frequent,
    refit_detector,
)
from bertcnn.inference import (
    Engine,
    EngineOutput,
    KerasEngine,
    Predictor,
    QuantizationData,
    build_engine,
    held_back,
)
from bertcnn.models import BertCnn, extract
from bertcnn.progress import Progress
from bertcnn.reports import Epoch, Measured, Provenance, Rows, about, model_card, training_report
from bertcnn.settings import PrecisionTargets
from bertcnn.training.cross_fitting import FoldAnswers
from bertcnn.training.examples import KnownRows, TokenizedTexts
from bertcnn.training.refit import Examined, quantization_data
from bertcnn.training.state import FitResult
from bertcnn.training.training_data import Answered


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a training.

    `examined` are the compiled model's predictions before a refit of `full`, if there was one.
    `folds` are out-of-fold predictions, empty without cross-fitting.
    """

    model: BertCnn
    result: FitResult
    examined: Examined | None = None
    folds: Sequence[FoldAnswers] = ()


@dataclass(frozen=True)
class ModelIdentity:
    """The parts of a saved model that are known before training ends.

    Labels and vocabulary are in the order of their ids; `targets` are target precisions.
    """

    config: BundleConfig
    labels: tuple[str, ...]
    vocabulary: tuple[str, ...]
    targets: PrecisionTargets


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model that is evaluated and ready to be compiled and saved.

    Attributes:
        bundle: the model without detector, card and report; its decisions come from Keras.
        reference: the Keras model as a predictor.
        quantization_data: the rows that decide about a compiled engine.
        detector_rows: training rows that the out-of-scope detector compares with.
        examined: the compiled model's predictions before a refit on the held-out rows, if any.
        unlearned: float32 [rows, C], logits of the held-out rows before such a refit.
        folds: out-of-fold predictions; none without cross-fitting.
        truth: of the held-out rows, then of the rows of each fold.
        held_out: the rows that chose the epoch.
        strange: out-of-scope texts that it is evaluated on.
        measured: its evaluation on the held-out rows.
    """

    bundle: Bundle
    reference: Predictor
    quantization_data: QuantizationData
    detector_rows: KnownRows
    examined: Examined | None
    unlearned: np.ndarray | None
    train: TokenizedTexts
    folds: Sequence[FoldAnswers]
    truth: GroundTruth
    held_out: Rows
    strange: Sequence[str]
    measured: Measured
    origin: Provenance

    @classmethod
    def of(
        cls,
        outcome: Outcome,
        train: TokenizedTexts,
        valid: TokenizedTexts,
        detector_rows: KnownRows,
        *,
        identity: ModelIdentity,
        origin: Provenance,
        strange: Sequence[str] = (),
        progress: Progress,
    ) -> TrainedModel:
        """Calibrate the model, choose thresholds and evaluate it on the validation rows."""
        progress.stage("calibrating and measuring", 0)
        result, labels, folds = outcome.result, identity.labels, outcome.folds
        truth = GroundTruth(labels, valid.rows.labels, valid.rows.multi_hot)
        learned = np.concatenate([np.arange(0), *(fold.held_out for fold in folds)])
        answered = valid.rows.with_rows(train.rows.of(learned))
        every = GroundTruth(labels, answered.labels, answered.multi_hot)
        logits = np.concatenate([result.valid_logits, *(fold.logits for fold in folds)])
        scored = ScoredPredictions(every, logits, every.calibrate(logits))
        valid_scored = ScoredPredictions(truth, result.valid_logits, scored.calibration)
        no_information = scored.no_information(most_frequent(train.texts.labels))
        figures = replace(valid_scored.figures(), no_information=no_information)
        calibration = valid_scored.calibration_figures()
        hierarchy = hierarchy_of(labels, identity.config)
        decisions = decide(scored.held_out(hierarchy=hierarchy), labels, identity.targets)
        epochs, kept = tuple(Epoch(**asdict(one)) for one in result.epochs), result.kept_epoch
        measured = Measured(
            valid_scored, figures, calibration, epochs, kept, averaged=result.averaged
        )
        progress.note(calibration.describe())
        bundle = Bundle(
            config=identity.config,
            labels=labels,
            vocabulary=identity.vocabulary,
            tensors=extract(outcome.model.weights),
            calibration=scored.calibration,
            metrics=_metrics(measured, decisions, origin),
            model_card="",
            decisions=decisions,
        )
        pad_id = identity.vocabulary.index("[PAD]")
        return cls(
            bundle=bundle,
            reference=Predictor(bundle, KerasEngine(outcome.model, pad_id, bundle.tensors)),
            quantization_data=quantization_data(
                train.rows, valid.rows, result.model_logits, pad_id
            ),
            detector_rows=detector_rows,
            examined=outcome.examined,
            unlearned=None if result.refit_logits is None else result.valid_logits,
            train=train,
            folds=folds,
            truth=every,
            held_out=_rows(valid),
            strange=strange,
            measured=measured,
            origin=origin,
        )

    def compiled(self, progress: Progress) -> Bundle:
        """The model with a compiled engine, evaluated with that engine."""
        built = build_engine(
            self.bundle.tensors,
            self.bundle.config.encoder,
            self.bundle.config.head,
            self.quantization_data,
            decided=None if self.examined is None else self.examined.record,
            progress=progress,
        )
        bundle = replace(self.bundle, engine=built.saved)
        return self._judged(bundle, built.running, built.valid, progress)

    def uncompiled(self, progress: Progress) -> Bundle:
        """The model without a compiled engine, evaluated with Keras."""
        engine = self.reference.engine
        valid = engine.run(self.quantization_data.valid, evidence=True)
        return self._judged(self.bundle, engine, valid, progress)

    def _judged(
        self, bundle: Bundle, engine: Engine, valid: EngineOutput, progress: Progress
    ) -> Bundle:
        """Fit the detector and the thresholds to the predictions of an engine.

        The thresholds of int8 differ slightly from those of float32. If the model was refitted on
        the validation rows, their predictions from before the refit count. For training rows the
        out-of-fold predictions in float32 count.
        """
        progress.stage("choosing thresholds", 0)
        known, examined, seed = self.detector_rows, self.examined, bundle.config.seed
        if examined is None:
            answers = valid.logits if self.unlearned is None else self.unlearned
            examined = Examined(
                (answers, valid.requested_evidence.means),
                known.answers(engine),
                known.outside.answers(engine),
            )
        read, token_ids = self.reference.detector_inputs, self.quantization_data.valid
        texts = read(token_ids, *examined.valid)
        outside = self._outside(examined.outside)
        folds = [self._fold(fold) for fold in self.folds]
        inputs = read(known.token_ids, *examined.detector_outputs)
        fit = fit_detector(inputs, known.labels, texts, outside, seed=seed, folds=folds)
        scope = fit.detector
        judgement = ScoredPredictions(
            self.measured.judgement.truth, examined.valid[0], bundle.calibration
        )
        logits = np.concatenate([examined.valid[0], *(fold.logits for fold in self.folds)])
        scored = ScoredPredictions(self.truth, logits, bundle.calibration)
        held_back = self._held_back(bundle, fit, texts, folds, outside.valid)
        if self.unlearned is not None:
            output = engine.run(known.token_ids, evidence=True)
            inputs = read(known.token_ids, output.logits, output.requested_evidence.means)
            now = self._outside(known.outside.answers(engine))
            scope = refit_detector(scope, inputs, known.labels, now, seed=seed)
        with_strange = scored.with_strange(examined.outside["strange"][0])
        held_out = with_strange.held_out(held_back, bundle.hierarchy)
        decisions = decide(held_out, bundle.labels, bundle.decisions.auto_precision)
        automatic = automation(decisions)
        limits = automation_limits(
            scored,
            held_back.at(np.arange(len(logits))),
            bundle.decisions.auto_precision.overall,
            automatic.share,
        )
        metrics = {"decisions": automatic.to_json(), "automation_limits": limits.to_json()}
        metrics = {**bundle.metrics, **metrics}
        strange = describe_out_of_scope(held_out, scope, several_labels=bundle.multi_label)
        progress.note(f"{describe_decisions(decisions, bundle.labels)}; {strange}")
        progress.note(describe_promise(decisions))
        evaluated = replace(bundle, scope=scope, decisions=decisions, metrics=metrics)
        back = held_back.any[: len(token_ids)]
        measured = replace(self.measured, judgement=judgement, held_back=back, scored=scored)
        return self._written_up(evaluated, engine, measured, progress)

    def _outside(self, answers: Mapping[str, Answered]) -> OutsideTexts:
        rows = self.detector_rows.outside.strange
        strange = self.reference.detector_inputs(rows, *answers["strange"]) if len(rows) else None
        return OutsideTexts(answers["background"][1], answers["learned"][1], strange)

    def _held_back(
        self,
        bundle: Bundle,
        fit: DetectorFit,
        valid: DetectorInputs,
        folds: Sequence[FoldInputs],
        strange: DetectorInputs | None,
    ) -> HeldBack:
        """Which validation, fold and out-of-scope rows are never automatic."""
        languages, texts = bundle.config.languages, self.train.texts.texts
        back = [held_back(fit.detector, valid, self.held_out.texts, languages)]
        for detector, inputs, fold in zip(fit.folds, folds, self.folds, strict=True):
            own = [texts[row] for row in fold.held_out]
            back.append(held_back(detector, inputs.held_out, own, languages))
        result = HeldBack.of(back)
        if strange is None:
            return result
        others = held_back(fit.detector, strange, self.strange, languages)
        return result.with_strange(others.outside, others.doubtful)

    def _fold(self, fold: FoldAnswers) -> FoldInputs:
        read, rows = self.reference.detector_inputs, self.train.rows
        known, held_out = rows.of(fold.detector_rows), rows.of(fold.held_out)
        inputs = read(known.token_ids, fold.detector_logits, fold.detector_means)
        answered = read(held_out.token_ids, fold.logits, fold.means)
        return FoldInputs(inputs, known.labels, answered)

    def _written_up(
        self, bundle: Bundle, engine: Engine, measured: Measured, progress: Progress
    ) -> Bundle:
        progress.stage("writing the report", 1, "page")
        facts = about(bundle.config, self.origin)
        figures, calibration = measured.figures, measured.calibration
        card = model_card(
            bundle.config,
            figures,
            bundle.calibration.temperature,
            calibration,
            bundle.decisions,
            bundle.scope,
            facts,
        )
        learned = _rows(self.train)
        report = training_report(bundle, engine, learned, self.held_out, measured, self.origin)
        progress.advance(1)
        return replace(bundle, model_card=card, report=report)


def _metrics(measured: Measured, decisions: Decisions, origin: Provenance) -> dict[str, Any]:
    return {
        **measured.figures.to_json(),
        "measured_on": "validation rows",
        "kept_epoch": measured.kept_epoch,
        "averaged": measured.averaged,
        "calibration": measured.calibration.to_json(),
        "decisions": automation(decisions).to_json(),
        "epochs": [asdict(one) for one in measured.epochs],
        "origin": {"command": origin.command, "file": origin.file, "sha256": origin.sha256},
    }


def _rows(part: TokenizedTexts) -> Rows:
    labels, several = part.texts.labels, part.texts.multi_label
    names = labels if several else [str(label) for label in labels]
    return Rows(part.texts.texts, names, part.rows.lengths, int(part.cut.sum()))
