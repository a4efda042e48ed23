"""A saved model in use: from texts to labels and probabilities, without training code."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NoReturn, overload

import numpy as np

from bertcnn.backend import keras_has_gpu
from bertcnn.bundle import (
    Bundle,
    Decisions,
    DetectorInputs,
    local_folder,
    read_bundle,
    read_engine,
    with_weights,
)
from bertcnn.data import LabelSet, join_labels
from bertcnn.errors import BundleError, SettingsError, explain_missing_packages, one_line
from bertcnn.evaluation import calibrated_probabilities, chosen, names_of
from bertcnn.inference.answers import Answers, Phrase, Prediction
from bertcnn.inference.decide import decide, foreign_texts, most_probable
from bertcnn.inference.embeddings import Embed, token_vectors
from bertcnn.inference.engines import Engine, EngineName, EngineOutput, check_engine, reason
from bertcnn.inference.evidence import Explainer, Explanation, words_of
from bertcnn.inference.output_layer import OutputLayer, read_output_layer
from bertcnn.inference.reasons import describe_reason
from bertcnn.settings import DECISIONS, Pool, PrecisionTargets, check_pool
from bertcnn.text import EncodedTexts, WordPieceTokenizer, check_texts, is_blank

logger = logging.getLogger(__name__)


class Predictor:
    """A loaded model, returned by `bertcnn.load`.

    By default, output layer and decisions are the saved ones.

    Attributes:
        folder: the model's folder; None for a model in memory.
        hierarchy: parent labels, if labels have levels: "A > B > C".
        multi_label: whether a text may have several labels, or none.
    """

    def __init__(
        self,
        bundle: Bundle,
        engine: Engine,
        output_layer: OutputLayer | None = None,
        *,
        decisions: Decisions | None = None,
        folder: Path | None = None,
    ) -> None:
        self.bundle, self.engine, self.folder = bundle, engine, folder
        self.labels = bundle.labels
        self.hierarchy = bundle.hierarchy
        self.multi_label = bundle.multi_label
        self.decisions = decisions or bundle.decisions
        self._limits = self.decisions.limits(len(self.labels))
        self._label_thresholds = np.array(bundle.calibration.label_thresholds, np.float32)
        self._tokenizer = WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer)
        self.output_layer = output_layer or OutputLayer.of_bundle(bundle)
        self._explainer = Explainer(self.output_layer, bundle.config.head, self._tokenizer)

    def __repr__(self) -> str:
        name = self.bundle.bundle_id[:12] or "not saved"
        return f"<Predictor {name}: {len(self.labels)} labels, engine {self.engine.name}>"

    @property
    def classes_(self) -> np.ndarray:
        """The labels in the order of `predict_proba`'s columns, as scikit-learn names them."""
        return np.array(self.labels, object)

    def __getstate__(self) -> NoReturn:
        raise not_pickled("model", "keep the folder that .save(folder) wrote, and load that")

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities, float32 [rows, C], columns in the order of `labels`.

        Each row sums to 1, unless a text may have several labels.

        Raises:
            SettingsError: `texts` is a single string, or has an item that is not a string.
        """
        checked = check_texts(texts)
        logits = self._run(self._tokenizer.encode(checked).token_ids).logits
        return calibrated_probabilities(logits, self.bundle.calibration)

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """The most probable label of each text, object [rows].

        If a text may have several labels: tuples of labels, the most probable first.
        """
        probabilities = self.predict_proba(texts)
        if not self.multi_label:
            return np.array(self.labels, object)[probabilities.argmax(axis=1)]
        label_sets = np.empty(len(probabilities), object)
        label_sets[:] = self.label_sets(probabilities)
        return label_sets

    @overload
    def embed(self, texts: Sequence[str], *, pool: Literal["mean"] = "mean") -> np.ndarray: ...

    @overload
    def embed(self, texts: Sequence[str], *, pool: Literal["none"]) -> list[np.ndarray]: ...

    def embed(self, texts: Sequence[str], *, pool: Pool = "mean") -> np.ndarray | list[np.ndarray]:
        """Embeddings of texts by the fine-tuned encoder, not normalised.

        Means come from the model's engine. Token embeddings are always computed in float32, so
        their means differ a little from those of an int8 engine.

        Args:
            texts: strings. One over the model's limit loses its middle.
            pool: "mean" for one vector per text, or "none" for one per token.

        Returns:
            The means of the token embeddings, float32 [rows, D]; or with "none" the token
            embeddings of each text, a list of float32 [T, D] without padding. Both include [CLS]
            and [SEP].

        Raises:
            SettingsError: as in `predict_proba`, or `pool` is unknown.
            BundleError: the weights are needed, and were changed after saving.
        """
        check_pool(pool)
        encoded = self.encode(check_texts(texts))
        if pool == "mean":
            return self.run(encoded).requested_evidence.means
        return token_vectors(self._embed_tokens, encoded.token_ids)

    @cached_property
    def _embed_tokens(self) -> Embed:
        from bertcnn.inference.openvino_engine import token_embeddings
        from bertcnn.inference.openvino_graph import encoder_graph

        bundle = self.bundle
        if not bundle.tensors and self.folder is not None:
            bundle = with_weights(bundle, self.folder)
        graph = encoder_graph(bundle.tensors, bundle.config.encoder)
        return partial(token_embeddings, graph, self._tokenizer.pad_id)

    def multi_hot(self, probabilities: np.ndarray) -> np.ndarray:
        """The labels above their thresholds, bool [rows, C], if a text may have several."""
        return chosen(probabilities, self._label_thresholds)

    def label_sets(self, probabilities: np.ndarray) -> list[LabelSet]:
        """The names of the labels above their thresholds, the most probable first."""
        return names_of(self.multi_hot(probabilities), probabilities, self.labels)

    def answer(self, texts: Sequence[str]) -> Answers:
        """`classify` for large files: the same results as arrays."""
        checked = check_texts(texts)
        encoded = self.encode(checked)
        return self.answer_from(checked, encoded, self.run(encoded))

    def decisions_for(self, auto_precision: float | str | PrecisionTargets) -> Decisions:
        """The decisions for another required precision, to pass to `answer_from`.

        Raises:
            SettingsError: the precision is invalid or has an unknown label, or the model was saved
                without the data for other precisions.
        """
        return _decided(self.bundle, PrecisionTargets.of(auto_precision))

    def encode(self, texts: Sequence[str]) -> EncodedTexts:
        """Tokenize texts: the first part of `answer`, for callers that work in parallel."""
        return self._tokenizer.encode(texts, spans=True)

    def run(self, encoded: EncodedTexts) -> EngineOutput:
        """Run the engine, with evidence: the second part of `answer`."""
        return self._run(encoded.token_ids, evidence=True)

    def _run(self, token_ids: Sequence[np.ndarray], *, evidence: bool = False) -> EngineOutput:
        """Run the engine and check its output.

        Raises:
            BundleError: the engine failed or its output is not finite (weights or memory).
        """
        try:
            output = self.engine.run(token_ids, evidence=evidence)
        except RuntimeError as error:
            raise self._unusable(f"cannot be computed ({reason(error)})") from None
        if not output.is_finite:
            raise self._unusable("gives answers that are not finite")
        return output

    def _unusable(self, why: str) -> BundleError:
        return BundleError(
            f"the model {self.bundle.bundle_id[:12]} with the engine {self.engine.name} {why}",
            expected="a model whose weights are as they were trained, and memory for it",
            fix=(
                "get the model again, or train it again; where only the compiled engine is damaged,"
                " remove the folder engine"
            ),
        )

    def answer_from(
        self,
        texts: Sequence[str],
        encoded: EncodedTexts,
        output: EngineOutput,
        decisions: Decisions | None = None,
    ) -> Answers:
        """The last part of `answer`: from engine output to answers.

        `encoded` is from `encode`, `output` from `run`.
        """
        blank = _blank(texts)
        limits = self._limits if decisions is None else decisions.limits(len(self.labels))
        probabilities = np.where(
            blank[:, None],
            np.float32(0),
            calibrated_probabilities(output.logits, self.bundle.calibration),
        )
        evidence = output.requested_evidence
        because = self._explainer.spans(
            texts, encoded, evidence, most_probable(probabilities, blank)
        )
        strangeness = self.bundle.scope.judge(
            self.detector_inputs(encoded.token_ids, output.logits, evidence.means)
        )
        decided = decide(
            probabilities,
            blank,
            strangeness,
            foreign_texts(texts, strangeness, self.bundle.config.languages),
            hierarchy=self.hierarchy,
            limits=limits,
            parent_thresholds=(decisions or self.decisions).parent_thresholds,
            predicted=self.multi_hot(probabilities) if self.multi_label else None,
        )
        return Answers(
            decided.labels,
            decided.confidence,
            decided.decisions,
            because,
            decided.probabilities,
            decided.reasons,
        )

    def detector_inputs(
        self, token_ids: Sequence[np.ndarray], logits: np.ndarray, means: np.ndarray
    ) -> DetectorInputs:
        """The inputs of the out-of-scope detector: words, lengths and the engine's outputs.

        `logits` are float32 [rows, C], `means` [rows, D].
        """
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        return DetectorInputs(logits, means, self._tokenizer.whole_words(token_ids), lengths)

    def classify(self, texts: Sequence[str]) -> list[Prediction]:
        """Label, confidence, decision, phrases and all probabilities of each text.

        A blank text gets no label.
        """
        checked = check_texts(texts)
        return self.predictions(checked, self.answer(checked))

    def predictions(self, texts: Sequence[str], answers: Answers) -> list[Prediction]:
        """The answers as one `Prediction` per text."""
        named = (
            self.label_sets(answers.probabilities)
            if self.multi_label
            else [(self.hierarchy.answers[label],) for label in answers.labels]
        )
        return [
            (
                Prediction(None, None, {}, reason=describe_reason(decision, reasons, self.labels))
                if label < 0
                else Prediction(
                    (
                        join_labels(names, str(self.bundle.config.label_separator))
                        if self.multi_label
                        else names[0]
                    ),
                    float(confidence),
                    dict(zip(self.hierarchy.names, map(float, probabilities), strict=True)),
                    tuple(
                        Phrase(start, end, words_of(text, start, end))
                        for start, end in spans.tolist()
                        if end > start
                    ),
                    DECISIONS[decision],
                    self._runner_up(probabilities),
                    names,
                    describe_reason(decision, reasons, self.labels),
                )
            )
            for names, text, label, confidence, probabilities, spans, decision, reasons in zip(
                named,
                texts,
                answers.labels,
                answers.confidence,
                answers.probabilities,
                answers.because,
                answers.decisions,
                answers.reasons.tolist(),
                strict=True,
            )
        ]

    def _runner_up(self, probabilities: np.ndarray) -> str:
        if self.multi_label:
            return self.labels[int(np.abs(probabilities - self._label_thresholds).argmin())]
        return self.labels[np.argsort(-probabilities[: len(self.labels)], kind="stable")[1]]

    def explain(self, texts: Sequence[str], *, label: str | None = None) -> list[Explanation]:
        """Every additive term of each text's logit: the filters' windows and their shares.

        `label` is by default each text's most probable one; a blank text then has none.

        Raises:
            SettingsError: the model does not know the label, or `texts` is not a list of strings.
        """
        checked = check_texts(texts)
        index = None if label is None else place_of_label(label, self.labels)
        encoded = self.encode(checked)
        output = self.run(encoded)
        labels = (
            most_probable(output.logits, _blank(checked))
            if index is None
            else np.full(len(checked), index)
        )
        answers = self.answer_from(checked, encoded, output)
        explanations = self._explainer.explain(
            checked, encoded, output.requested_evidence, output.logits, labels, self.labels
        )
        return [
            replace(explanation, reason=describe_reason(decision, reasons, self.labels))
            for explanation, decision, reasons in zip(
                explanations, answers.decisions.tolist(), answers.reasons.tolist(), strict=True
            )
        ]


def load(
    folder: str | Path,
    *,
    engine: EngineName = "auto",
    streams: int | None = None,
    auto_precision: float | str | PrecisionTargets | None = None,
) -> Predictor:
    """Load the model saved in `folder`.

    Args:
        folder: as given to `save`, or a URL; see `bertcnn.local_folder`.
        engine: "openvino" is the compiled engine saved with the model. If it is missing, damaged,
            or in int8 on a CPU without fast int8, the model's own weights are compiled in float32.
            "onnx" runs the saved int8 engine by ONNX Runtime. "keras" is the reference
            implementation, in bfloat16 on a GPU. "auto" is "keras" if Keras has a GPU and no
            streams are given; "onnx" if int8 is slow in OpenVINO, ONNX Runtime is installed, and it
            was faster when timed on this machine; otherwise "openvino".
        streams: batches that a compiled engine computes in parallel: by default one per core, best
            for many texts; 1 is best for single texts.
        auto_precision: required precision of automatic answers, such as 0.95 or
            "0.95,billing=0.99"; by default the one set at training.

    Raises:
        BundleError: not a model, changed after saving, or "onnx" without an int8 engine.
        MissingPackageError: the engine is "keras" without Keras, or "onnx" without ONNX Runtime.
        SettingsError: the engine is unknown, the precision is invalid, or the model was saved
            without the data for other precisions.
    """
    check_engine(engine)
    targets = None if auto_precision is None else PrecisionTargets.of(auto_precision)
    folder = local_folder(folder)
    if engine == "keras" or (engine == "auto" and streams is None and keras_has_gpu()):
        with explain_missing_packages():
            from bertcnn.inference.keras_engine import KerasEngine

        bundle = read_bundle(folder)
        return Predictor(
            bundle,
            KerasEngine.from_bundle(bundle, bundle.vocabulary.index("[PAD]")),
            decisions=_decided(bundle, targets),
            folder=folder,
        )
    from bertcnn.inference.engine_choice import running_engine
    from bertcnn.inference.openvino_engine import OpenVINOEngine

    bundle = read_bundle(folder, weights=False)
    decisions = _decided(bundle, targets)
    compiled = None
    try:
        saved = read_engine(folder, bundle.bundle_id)
        if saved is not None:
            compiled = running_engine(saved, folder, bundle, engine=engine, streams=streams)
        elif engine == "onnx":
            raise _without_int8(bundle)
    except BundleError as error:
        if engine == "onnx":
            raise
        logger.warning("%s Until then the model's own weights are used, which is slower.", error)
    if compiled is not None:
        layer = read_output_layer(folder, bundle)
        return Predictor(bundle, compiled, layer, decisions=decisions, folder=folder)
    bundle = read_bundle(folder)
    return Predictor(
        bundle,
        OpenVINOEngine.from_saved(None, folder, bundle, streams=streams),
        decisions=decisions,
        folder=folder,
    )


def _without_int8(bundle: Bundle) -> BundleError:
    return BundleError(
        f"engine 'onnx' for the model {bundle.bundle_id[:12]}, which was saved without an engine",
        expected="a model that was saved with an engine in int8",
        fix="use the engine 'openvino', or save the model again",
    )


def not_pickled(what: str, fix: str) -> SettingsError:
    """The error for pickling or copying a fitted classifier or a loaded model."""
    return SettingsError(
        f"cannot pickle, joblib.dump or deepcopy a {what}, which holds a compiled network",
        expected="a saved folder",
        fix=fix,
    )


def loaded(
    model: str | Path | Predictor,
    *,
    engine: EngineName = "auto",
    auto_precision: PrecisionTargets | None = None,
) -> Predictor:
    """A saved or already loaded model, with these decisions.

    Raises:
        SettingsError: another engine, or decisions that are not available; else as `load`.
    """
    if not isinstance(model, Predictor):
        return load(model, engine=engine, auto_precision=auto_precision)
    if engine != "auto":
        raise SettingsError(
            f"engine {engine!r} for a loaded model",
            expected="the one it was loaded with",
            fix=f'load the model with engine="{engine}"',
        )
    if auto_precision is None:
        return model
    return Predictor(
        model.bundle,
        model.engine,
        model.output_layer,
        decisions=_decided(model.bundle, auto_precision),
        folder=model.folder,
    )


def _blank(texts: Sequence[str]) -> np.ndarray:
    return np.fromiter(map(is_blank, texts), bool, len(texts))


def _decided(bundle: Bundle, targets: PrecisionTargets | None) -> Decisions:
    """The model's decisions, or those for other targets, from its held-out rows."""
    if targets is None or (
        targets == bundle.decisions.auto_precision and bundle.decisions.thresholds
    ):
        return bundle.decisions
    if not bundle.decisions.held_out.right:
        raise SettingsError(
            f"automatic precision {targets} for a model saved without its held-out answers",
            expected="a model that knows how often it was right",
            fix="train it again, or leave the precision out: then every text goes to review",
        )
    from bertcnn.evaluation import decide as decide_thresholds

    return decide_thresholds(bundle.decisions.held_out, bundle.labels, targets)


def place_of_label(label: str, labels: Sequence[str]) -> int:
    """The index of a label among the model's.

    Raises:
        SettingsError: the model does not have the label.
    """
    if label not in labels:
        listed = one_line(", ".join(labels), 200)
        raise SettingsError(
            f"label {one_line(label)}",
            expected=f"one of the model's: {listed}",
            fix="choose one of them",
        )
    return labels.index(label)
