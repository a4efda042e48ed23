"""The scikit-learn estimator for lists of strings."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self, get_args

import keras
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from bertcnn.backend import check_process
from bertcnn.bundle import (
    BundleConfig,
    check_bundle_target,
    check_room_for_labels,
    engine_in_memory,
    local_folder,
    read_bundle,
    write_bundle,
)
from bertcnn.data import (
    AUTO,
    NO,
    check_levels,
    describe_levels,
    find_labels,
    label_text,
    separator_for,
)
from bertcnn.errors import LabelError, SettingsError, one_line
from bertcnn.evaluation import background_texts, check_targets, fewest_rows, rows_to_know
from bertcnn.inference import (
    AttentionMaps,
    Attribution,
    EngineName,
    Explanation,
    Predictor,
    attention_weights,
    attribute,
    check_engine,
    classifier_of,
    fastest_embed,
    load,
    not_pickled,
    place_of_label,
)
from bertcnn.models import Bert, BertCnn, extract
from bertcnn.progress import Progress, Silent
from bertcnn.reports import Provenance
from bertcnn.settings import (
    FEW_SHOT_HEAD,
    FROZEN_HEAD,
    HeadSettings,
    PrecisionTargets,
    Recipe,
    TrainingSettings,
)
from bertcnn.tables import Columns
from bertcnn.text import WordPieceTokenizer, check_texts, is_blank, main_languages
from bertcnn.training import (
    Deadline,
    Examined,
    FitResult,
    KnownRows,
    LabelledTexts,
    ModelIdentity,
    Outcome,
    OutsideRows,
    RunOptions,
    Savepoints,
    Start,
    StrangeTexts,
    Student,
    TokenizedRows,
    TokenizedTexts,
    TrainedModel,
    TrainingData,
    accuracy,
    agreed,
    check_seed,
    checked_weights,
    choose_recipe,
    computed_once,
    cross_fit,
    different_texts,
    digest,
    examine,
    fold_count,
    learning_and_validation,
    load_start,
    quantization_data,
    recipe_settings,
    train,
    train_and_refit,
)
from bertcnn.wording import count

_HEADS = {"full": HeadSettings(), "few-shot": FEW_SHOT_HEAD}  # other recipes have FROZEN_HEAD

_NESTED = "training__"


class BertCNNClassifier(ClassifierMixin, BaseEstimator):
    """BERT with a CNN head, as a scikit-learn classifier on lists of strings.

    Args:
        encoder: name of a published encoder, or its folder.
        recipe: "full" trains everything, "frozen" only the head on features computed once,
            "few-shot" is for few rows per label (contrastive training of the encoder; the final
            head is also trained on the held-out rows), "auto" chooses.
        seed: makes a run repeat exactly on the same machine.
        training: changes to the recipe's `TrainingSettings`, such as `{"epochs": 3, "class_weight":
            "balanced"}`.
        auto_precision: target precision of automatic predictions: a share such as 0.95, or
            "0.95,billing=0.99" for single labels.
        levels: separator between the levels of a label, as in "network > wifi"; if no label is
            certain enough for a text, a parent may be predicted. "no" takes labels as they are;
            "auto" finds " > " if the labels form a tree.
        out_of_scope: the label of rows that belong to no other label. They train the out-of-scope
            detector, and the label is never predicted. "auto" finds it by name, such as "out of
            scope", "oos", "spam" or "none of these"; "no" takes labels as they are.
        head: settings of the CNN head; by default windows of 2, 3 and 4 tokens with 128 filters
            each, or with 64 and more dropout if only the head is trained.
        teacher: folder or URL of a saved model to distil into a smaller one by the recipe "full".
            The student has `layers` of its layers, its head and its labels; `encoder` and `head`
            are ignored.
        callbacks: Keras callbacks for the training, and for a second training on all rows;
            `on_epoch_end` receives loss, val_macro_f1 and val_accuracy.

    Attributes:
        classes_: the sorted labels in their original type.
        metrics_: figures on the validation rows, a JSON object; `save` adds the engine's decisions.
        history_: figures of each epoch; not saved, so missing in a loaded classifier.
        recipe_: the recipe used, and the reason for it.

    Example:
        >>> classifier = BertCNNClassifier(recipe="frozen", training={"epochs": 3})
        >>> classifier.get_params()["recipe"]
        'frozen'
    """

    def __init__(  # noqa: PLR0913 - scikit-learn wants each by name
        self,
        encoder: str | Path = "minilm-l6",
        *,
        recipe: Recipe = "auto",
        seed: int = 0,
        training: Mapping[str, Any] | None = None,
        auto_precision: float | str | PrecisionTargets = 0.95,
        levels: str = "auto",
        out_of_scope: str = "auto",
        head: HeadSettings | None = None,
        teacher: str | Path | None = None,
        layers: int = 3,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: Progress | None = None,
    ) -> None:
        self.encoder = encoder
        self.recipe = recipe
        self.seed = seed
        self.training = training
        self.auto_precision = auto_precision
        self.levels = levels
        self.out_of_scope = out_of_scope
        self.head = head
        self.teacher = teacher
        self.layers = layers
        self.callbacks = callbacks
        self.progress = progress

    def fit(  # noqa: PLR0913 - options that callers name
        self,
        texts: Sequence[str],
        labels: Sequence[Any],
        *,
        valid: tuple[Sequence[str], Sequence[Any]] | None = None,
        unlabelled: Sequence[str] = (),
        outside: Sequence[str] = (),
        columns: Columns | None = None,
        origin: Provenance | None = None,
        savepoints: str | Path | None = None,
        sample_weight: Sequence[float] | None = None,
    ) -> Self:
        """Train on labelled texts.

        Args:
            texts: strings; blank ones are left out.
            labels: one for each text, strings, integers or booleans; or a list of strings for each
                text, its labels. A text with a blank label counts as unlabelled. Strings that
                differ only invisibly, or in the spelling of one number, boolean or date, are one
                label. Lists of one are single labels.
            valid: texts and labels that choose epoch and thresholds; by default a tenth of the
                rows, 10,000 at most, stratified, with duplicates kept together. `few-shot` finally
                trains on the default split too, as do other recipes with `training={"refit":
                True}`.
            unlabelled: texts without a label. `few-shot` pseudo-labels them from similar rows if
                texts have one label each; other recipes ignore them. Remove near-identical
                messages, such as automatic replies: their pseudo-labels are too confident.
            outside: out-of-scope texts, treated as rows with the label `out_of_scope`.
            columns: source columns of the texts, saved with the model.
            origin: command and file, for the report and the card.
            savepoints: a folder that the training is saved to every minute. After an interruption a
                call with the same rows and settings resumes, and ends with the same weights. Remove
                the folder when the model is saved.
            sample_weight: the weight of each row in the loss, 0 or more; only their ratios count.
                Validation figures weigh all rows alike, and so does the contrastive training of
                `few-shot`.

        Raises:
            LabelError: fewer than two labels, a label with a single row, a missing label, texts and
                labels of different length, or no row with the label `out_of_scope`.
            EncoderError: the encoder is unknown or cannot be fetched.
            SettingsError: a setting or a text is invalid.
            OutputError: a savepoint cannot be written.
        """
        check_process()
        progress, columns = self.progress or Silent(), columns or Columns()
        changes, seed = self._check_settings(), int(self.seed)
        weights = None
        if sample_weight is not None:
            texts = check_texts(texts)  # may be a generator
            weights = checked_weights(sample_weight, len(texts))
        requested = recipe_settings("full", changes)
        deadline = None if requested.time_budget is None else Deadline(requested.time_budget)
        learning, held_out, without_label, strange = self._rows(
            texts, labels, valid, unlabelled, outside, columns, requested
        )
        classes, split = sorted(set(learning.each_label)), valid is None
        columns = self._check_classes(classes, columns, several=learning.multi_label)
        usable = len(learning.texts)
        learning = learning.of(learning.part(requested.most_rows, seed))

        student, start = self._start(classes, requested, multi_label=learning.multi_label)
        train_part = learning.tokenized(start.tokenizer, classes, progress).weighted(weights)
        valid_part = held_out.tokenized(start.tokenizer, classes, progress)
        valid_part = valid_part.weighted(weights) if split else valid_part
        recipe, reason, settings = self._settings(
            start, train_part.rows, len(classes), changes, split=split
        )
        train_part = train_part.of(learning.part(settings.most_rows, seed))
        more = self._to_spread(without_label, learning, held_out, recipe, settings)
        data = self._data(train_part, valid_part, classes, more, strange, start, student)
        head = (student or self).head or _HEADS.get(recipe, FROZEN_HEAD)
        run = RunOptions(
            seed,
            progress,
            self._savepoints(savepoints, (recipe, settings, head), start.encoder, data),
            embed_with=lambda encoder: fastest_embed(encoder, start.tokenizer.pad_id),
            refit=settings.refit and split,
            fold_of=self._folds(train_part, held_out, start, recipe, settings) if split else None,
            deadline=deadline,
            head_weights=None if student is None else student.head_weights,
            callbacks=tuple(self.callbacks),
        )
        outcome = _train(start, data, head, recipe, settings, run)
        identity = self._identity(
            outcome.model, start, recipe, columns, classes, strange.labels, learning.texts
        )
        origin = replace(
            (origin or Provenance()).of_rows(held_out.indices),
            validation_learned=outcome.result.refit_logits is not None,
            left_out=usable - len(train_part.texts.texts),
            unlabelled=outcome.result.pseudo_labelled if student is None else len(more),
        )
        self._keep(outcome, data, (train_part, valid_part), identity, origin, strange)
        self.classes_, self.recipe_ = np.array(classes), (recipe, reason)
        return self

    def _rows(
        self,
        texts: Sequence[str],
        labels: Sequence[Any],
        valid: tuple[Sequence[str], Sequence[Any]] | None,
        unlabelled: Sequence[str],
        outside: Sequence[str],
        columns: Columns,
        requested: TrainingSettings,
    ) -> tuple[LabelledTexts, LabelledTexts, list[str], StrangeTexts]:
        """Training rows, validation rows, texts without a label, and out-of-scope texts."""
        learning, held_out, without_label = learning_and_validation(
            texts,
            labels,
            valid,
            fraction=requested.validation_fraction,
            most=requested.validation_rows,
            several=columns.separator is not None,
            progress=self.progress or Silent(),
        )
        without_label += [text for text in check_texts(unlabelled) if not is_blank(text)]
        label = columns.out_of_scope or self.out_of_scope
        learning, held_out, strange = self._divided(learning, held_out, check_texts(outside), label)
        return learning, held_out, without_label, strange

    def _divided(
        self,
        learning: LabelledTexts,
        held_out: LabelledTexts,
        outside: Sequence[str],
        label: str,
    ) -> tuple[LabelledTexts, LabelledTexts, StrangeTexts]:
        """The training and validation rows with a label, and the out-of-scope texts."""
        names = {name for name in learning.each_label if isinstance(name, str)}
        labels = find_labels(names, label)
        learning, learned = learning.without(labels)
        held_out, measured = held_out.without(labels)
        if not held_out.labels:
            raise LabelError(
                f"validation rows that are all out of scope ({one_line(', '.join(labels))})",
                expected="some with another label",
                fix="add such rows, or leave the validation rows out so that a split is made",
            )
        texts = StrangeTexts.of(labels, learned, measured, outside)
        if labels or outside:
            named = f" labelled {one_line(', '.join(labels))}" if labels else ""
            refuse = "; out_of_scope 'no' takes that as a label" if labels and label == AUTO else ""
            (self.progress or Silent()).note(
                f"{count(len(texts.learned) + len(texts.measured), 'different text')}{named} out of"
                f" scope: {len(texts.learned):,} to learn which texts belong to no label,"
                f" {len(texts.measured):,} to measure that{refuse}"
            )
        return learning, held_out, texts

    def _check_classes(self, classes: list[Any], columns: Columns, *, several: bool) -> Columns:
        """Refuse labels that no model can have; set the label separator in `columns`."""
        names = [str(name) for name in classes]
        check_room_for_labels(names)
        check_targets(PrecisionTargets.of(self.auto_precision), names)
        if several:
            return replace(columns, separator=columns.separator or separator_for(names))
        for remark in describe_levels(names, columns.levels or self.levels):
            (self.progress or Silent()).note(remark)
        return replace(columns, separator=None)

    def _settings(
        self,
        start: Start,
        rows: TokenizedRows,
        classes: int,
        changes: dict[str, Any],
        *,
        split: bool,
    ) -> tuple[Recipe, str, TrainingSettings]:
        """The recipe, the reason for it, and its settings."""
        progress = self.progress or Silent()
        recipe, reason, changes = self._choose(start, rows, classes, {**start.changes, **changes})
        progress.note(f"recipe {recipe}: {reason}")
        settings = recipe_settings(recipe, changes, multi_label=rows.multi_hot is not None)
        if changes.get("refit") and not (settings.refit and split):
            progress.note(
                "given validation rows are never learned from, so nothing is trained once more"
            )
        return recipe, reason, settings

    def _choose(
        self, start: Start, rows: TokenizedRows, classes: int, changes: dict[str, Any]
    ) -> tuple[Recipe, str, dict[str, Any]]:
        if self.teacher is not None:
            return "full", f"{self.layers} layers learn what the teacher answers", changes
        if self.recipe != "auto":
            return self.recipe, "as asked", changes
        settings, tokens = recipe_settings("full", changes), int(rows.lengths.sum())
        fewest_epochs = settings.epochs if "epochs" in changes else None
        choice = choose_recipe(
            start.encoder,
            tokens,
            len(rows.labels),
            classes,
            settings,
            fewest_epochs=fewest_epochs,
            multi_label=rows.multi_hot is not None,
            sentence_encoder=start.sentence_encoder,
        )
        recipe, reason, recipe_changes = agreed([choice.recipe, choice.reason, choice.changes])
        # the epochs were meant for `full`, which there is no time for
        if recipe == "frozen" and "fewest_steps" not in changes:
            changes = {name: value for name, value in changes.items() if name != "epochs"}
        return recipe, reason, {**changes, **recipe_changes}

    def _start(
        self, classes: Sequence[Any], requested: TrainingSettings, *, multi_label: bool
    ) -> tuple[Student | None, Start]:
        """The student if there is a teacher, and the starting point of the training."""
        progress, seed = self.progress or Silent(), int(self.seed)
        if self.teacher is None:
            most, precision = requested.max_tokens, requested.precision
            return None, load_start(
                self.encoder,
                most,
                seed=seed,
                progress=progress,
                precision=precision,
                pair=requested.pair,
            )
        student = Student.of(local_folder(self.teacher, progress=progress), self.layers, seed=seed)
        student.check_labels([str(name) for name in classes], multi_label=multi_label)
        return student, student.start

    def _to_spread(
        self,
        texts: list[str],
        learning: LabelledTexts,
        held_out: LabelledTexts,
        recipe: Recipe,
        settings: TrainingSettings,
    ) -> list[str]:
        """The unlabelled texts that get a pseudo-label."""
        kept: list[str] = []
        takes = self.teacher is not None or (recipe == "few-shot" and not learning.multi_label)
        if takes:
            kept = different_texts(
                texts, [*learning.texts, *held_out.texts], settings.unlabelled_rows, int(self.seed)
            )
        if texts and not kept:
            why = "only few-shot uses them, and only where each row has one label"
            if takes:
                why = "all are known" if settings.unlabelled_rows else "as asked"
            (self.progress or Silent()).note(
                f"left out: {count(len(texts), 'row')} without a label; {why}"
            )
        elif len(texts) > len(kept):
            message = (
                f"at most {len(kept):,} of {count(len(texts), 'row')} without a label are used"
            )
            (self.progress or Silent()).note(
                f"{message}; the others are known, repeated, or beyond the limit of"
                f" {settings.unlabelled_rows:,}"
            )
        return kept

    def _data(
        self,
        train_part: TokenizedTexts,
        valid_part: TokenizedTexts,
        classes: Sequence[Any],
        unlabelled: Sequence[str],
        strange: StrangeTexts,
        start: Start,
        student: Student | None,
    ) -> TrainingData:
        rows, encode = train_part.rows, start.tokenizer.encode
        outside = (background_texts(), strange.learned, strange.measured)
        names = [label_text(str(name)) for name in classes] if rows.multi_hot is None else None
        data = TrainingData(
            rows,
            valid_part.rows,
            detector_rows=rows_to_know(rows.token_ids, rows.labels),
            label_names=None if names is None else encode(names).token_ids,
            unlabelled=encode(unlabelled).token_ids if unlabelled and student is None else [],
            outside=OutsideRows(*(encode(texts).token_ids for texts in outside)),
        )
        if student is None:
            return data
        texts = train_part.texts.texts
        (self.progress or Silent()).note(
            f"the teacher answers {len(texts) + len(unlabelled):,} texts"
        )
        return replace(data, train=student.lesson(rows, texts, unlabelled))

    def _folds(
        self,
        train_part: TokenizedTexts,
        held_out: LabelledTexts,
        start: Start,
        recipe: Recipe,
        settings: TrainingSettings,
    ) -> np.ndarray | None:
        """The fold of each training row, int64 [rows]; None without cross-fitting."""
        rows, others = len(train_part.texts.texts), len(held_out.texts)
        fewest = fewest_rows(PrecisionTargets.of(self.auto_precision).overall)
        if self.teacher is not None or rows + others < fewest:
            return None
        tokens = int(train_part.rows.lengths.sum())
        folds = agreed(fold_count(recipe, start.encoder, tokens, rows, others, settings))
        return train_part.texts.folds(folds)

    def _savepoints(
        self,
        folder: str | Path | None,
        how: tuple[Recipe, TrainingSettings, HeadSettings],
        encoder: Bert,
        data: TrainingData,
    ) -> Savepoints | None:
        """The savepoints of this training, identified by everything that it depends on."""
        if folder is None:
            return None
        recipe, settings, head = how
        story = {
            "recipe": recipe,
            "seed": int(self.seed),
            "training": settings.model_dump(mode="json"),
            "head": head.model_dump(mode="json"),
            "encoder": digest(extract(encoder.weights)),
            "rows": digest(data.arrays()),
            "versions": _versions(),
            "keeps": "last epoch within one standard error",
        }
        return Savepoints(Path(folder), story, self.progress or Silent())

    def _check_settings(self) -> dict[str, Any]:
        """Refuse invalid constructor arguments; returns the changes to the recipe."""
        if self.recipe not in get_args(Recipe):
            raise SettingsError(
                f"recipe {self.recipe!r}",
                expected="'auto', 'full', 'frozen' or 'few-shot'",
                fix="choose one of them",
            )
        if not isinstance(self.encoder, str | os.PathLike):
            raise SettingsError(
                f"encoder {self.encoder!r}",
                expected="a name or a folder",
                fix="see `bertcnn encoder list`",
            )
        check_seed(self.seed)
        if not isinstance(self.layers, int) or isinstance(self.layers, bool):
            raise SettingsError(
                f"layers {one_line(str(self.layers))}",
                expected="a whole number",
                fix="give for example 3",
            )
        if not isinstance(self.head, HeadSettings | None):
            raise SettingsError(
                f"head {one_line(self.head)}",
                expected="HeadSettings",
                fix="pass for example HeadSettings(filters=64)",
            )
        if not isinstance(self.training, Mapping | None):
            raise SettingsError(
                f"training {one_line(self.training)}",
                expected="a dictionary",
                fix='pass for example {"epochs": 3}',
            )
        if not isinstance(self.out_of_scope, str):
            raise SettingsError(
                f"out_of_scope {one_line(self.out_of_scope)}",
                expected="a label, 'auto' or 'no'",
                fix="pass texts as fit(..., outside=texts)",
            )
        PrecisionTargets.of(self.auto_precision)
        check_levels(self.levels)
        changes = dict(self.training or {})
        again = recipe_settings("full", changes).refit
        if self.teacher is not None and (self.recipe not in ("auto", "full") or again):
            raise SettingsError(
                "a refit on all rows" if again else f"recipe {self.recipe!r}",
                expected="the recipe 'full' without it where there is a teacher",
                fix="leave it out",
            )
        return changes

    def _identity(
        self,
        model: BertCnn,
        start: Start,
        recipe: Recipe,
        columns: Columns,
        classes: Sequence[Any],
        outside_labels: tuple[str, ...],
        texts: Sequence[str],
    ) -> ModelIdentity:
        kind = np.array(classes).dtype.kind
        config = BundleConfig(
            encoder=model.encoder_settings,
            encoder_name=start.name,
            head=model.head.settings,
            tokenizer=start.tokenizer.settings,
            text_columns=columns.text,
            label_column=columns.label,
            label_separator=columns.separator,
            integer_labels=kind in "iu",
            boolean_labels=kind == "b",
            label_levels=columns.levels or self.levels,
            merged_labels=dict(columns.merged),
            recipe=recipe,
            seed=int(self.seed),
            versions=_versions(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return ModelIdentity(
            config.with_scope(outside_labels, main_languages(texts)),
            tuple(map(str, classes)),
            start.tokenizer.vocabulary,
            PrecisionTargets.of(self.auto_precision),
        )

    def _keep(
        self,
        outcome: Outcome,
        data: TrainingData,
        parts: tuple[TokenizedTexts, TokenizedTexts],
        identity: ModelIdentity,
        origin: Provenance,
        strange: StrangeTexts,
    ) -> None:
        """Evaluate a trained model and keep it, with its figures."""
        trained = TrainedModel.of(
            outcome,
            *parts,
            KnownRows(*data.detector_examples(), data.outside, outcome.result.detector_outputs),
            identity=identity,
            origin=origin,
            strange=strange.measured,
            progress=self.progress or Silent(),
        )
        self._trained: TrainedModel | None = trained
        self._bundle, self._predictor = trained.bundle, trained.reference
        self.metrics_, self.history_ = dict(trained.bundle.metrics), outcome.result.epochs

    def set_params(self, **params: Any) -> Self:  # noqa: ANN401 - any parameter
        """Set parameters by name; `training__epochs` is one of `training`, as in a grid search."""
        nested = {
            name.removeprefix(_NESTED): value
            for name, value in params.items()
            if name.startswith(_NESTED)
        }
        super().set_params(
            **{name: value for name, value in params.items() if not name.startswith(_NESTED)}
        )
        if nested:
            self.training = {**(self.training or {}), **nested}
        return self

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities, float32 [rows, C], in the order of `classes_`; independent if multi-label.

        Raises:
            NotFittedError: before `fit`.
            SettingsError: `texts` is not a list of strings.
        """
        return self._fitted().predict_proba(texts)

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """The most probable label of each text, or a tuple of its labels for a multi-label model.

        Raises:
            NotFittedError: before `fit`.
            SettingsError: `texts` is not a list of strings.
        """
        if self._fitted().multi_label:
            return self._fitted().predict(texts)
        probabilities = self.predict_proba(texts)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(
        self,
        X: Sequence[str],  # noqa: N803
        y: Sequence[Any],
        sample_weight: Sequence[float] | None = None,
    ) -> float:
        """Accuracy, as in scikit-learn; for a multi-label model the share of exact matches.

        Rows without a label do not count; rows with an unknown label count as wrong.

        Raises:
            LabelError: no row has a label, or texts and labels differ in number.
        """
        return accuracy(
            self._fitted(),
            X,
            y,
            sample_weight,
            kind=self.classes_.dtype.kind,
            progress=self.progress or Silent(),
        )

    def explain(
        self,
        texts: Sequence[str],
        *,
        label: str | int | None = None,
        method: Literal["windows", "integrated_gradients"] = "windows",
        steps: int = 64,
    ) -> list[Explanation] | list[Attribution]:
        """Explain the label of each text.

        Args:
            texts: strings.
            label: the label to explain; by default each text's most probable one.
            method: "windows" is the exact decomposition of the CNN head, as in `Predictor.explain`;
                "integrated_gradients" attributes to single tokens through the encoder. More
                steps reduce its error; each costs a pass.
            steps: of integrated gradients.

        Returns:
            The contributions of windows, or with integrated gradients of tokens, for each text.

        Raises:
            NotFittedError: before `fit`.
            SettingsError: unknown label or method, no step, or `texts` is not a list of strings.
        """
        predictor, name = self._fitted(), None if label is None else str(label)
        if method == "windows":
            return predictor.explain(texts, label=name)
        if method != "integrated_gradients":
            raise SettingsError(
                f"method {one_line(method)}",
                expected="'windows' or 'integrated_gradients'",
                fix="choose one of them",
            )
        checked = check_texts(texts)
        indices = (
            predictor.predict_proba(checked).argmax(axis=1)
            if name is None
            else [place_of_label(name, predictor.labels)] * len(checked)
        )
        return [
            attribute(
                self._network(),
                self._tokenizer(),
                text,
                int(index),
                name=predictor.labels[index],
                steps=steps,
            )
            for text, index in zip(checked, indices, strict=True)
        ]

    def attention(self, texts: Sequence[str]) -> list[AttentionMaps]:
        """The attention maps of each text, for every layer and head.

        Raises:
            SettingsError: `texts` is not a list of strings.
        """
        self._fitted()
        network, tokenizer = self._network(), self._tokenizer()
        rows = tokenizer.encode(check_texts(texts)).token_ids
        return [
            AttentionMaps(
                tuple(tokenizer.vocabulary[token] for token in row), attention_weights(network, row)
            )
            for row in rows
        ]

    def _network(self) -> BertCnn:
        check_process()
        if getattr(self, "_built", (None, None))[0] is not self._bundle.tensors:
            self._built = (self._bundle.tensors, classifier_of(self._bundle))
        return self._built[1]

    def _tokenizer(self) -> WordPieceTokenizer:
        return WordPieceTokenizer(self._bundle.vocabulary, self._bundle.config.tokenizer)

    def save(
        self, folder: str | Path, *, overwrite: bool = False, engine: EngineName = "auto"
    ) -> str:
        """Save the model to `folder` atomically, and return the bundle's id.

        Args:
            folder: a new folder.
            overwrite: overwrite an existing model.
            engine: "auto" and "openvino" compile the model for fast inference at the first save
                after `fit`, which takes some seconds; "keras" does not. The first save also fits
                out-of-scope detector and thresholds to the saved engine's validation predictions.

        Raises:
            OutputError: the folder exists without `overwrite`, is no model, or is not writable.
            SettingsError: an unknown engine.
        """
        self._fitted()
        check_engine(engine)
        check_bundle_target(Path(folder), overwrite)
        if self._bundle.engine is None and self._trained is not None:
            progress = self.progress or Silent()
            self._bundle = (
                self._trained.uncompiled(progress)
                if engine == "keras"
                else self._trained.compiled(progress)
            )
            self.metrics_ = dict(self._bundle.metrics)
        bundle = replace(self._bundle, engine=None) if engine == "keras" else self._bundle
        return write_bundle(bundle, Path(folder), overwrite=overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load a fitted classifier from a saved model's folder or URL."""
        folder = local_folder(folder)
        predictor, bundle = load(folder), read_bundle(folder)
        config = bundle.config
        classifier = cls(
            config.encoder_name,
            recipe=config.recipe,
            seed=config.seed,
            auto_precision=bundle.decisions.auto_precision,
            head=config.head,
        )
        classifier.levels = config.label_levels
        classifier.out_of_scope = (config.out_of_scope_labels or (NO,))[0]
        names = np.array(predictor.labels)
        classifier.classes_ = (
            names == "True"
            if config.boolean_labels
            else names.astype(int if config.integer_labels else str)
        )
        classifier.metrics_, classifier.recipe_ = dict(bundle.metrics), (config.recipe, "as saved")
        classifier._bundle = replace(bundle, engine=engine_in_memory(folder, bundle.bundle_id))
        classifier._predictor, classifier._trained = predictor, None
        return classifier

    def _fitted(self) -> Predictor:
        if not hasattr(self, "_predictor"):
            raise NotFittedError(
                "This BertCNNClassifier is not fitted; expected a call of fit first. What to do:"
                " call fit(texts, labels)."
            )
        return self._predictor

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle; only an unfitted classifier can be pickled."""
        if hasattr(self, "_predictor"):
            raise not_pickled(
                "classifier",
                "save it with .save(folder), and load it with BertCNNClassifier.load(folder)",
            )
        return dict(super().__getstate__())

    def __copy__(self) -> Self:
        """A shallow copy; `copy.copy` would need the pickle state, which a fitted one lacks."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it was fitted or loaded."""
        return hasattr(self, "_predictor")

    def __sklearn_tags__(self) -> Tags:
        """Input is a one-dimensional list of strings."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


def _train(
    start: Start,
    data: TrainingData,
    head: HeadSettings,
    recipe: Recipe,
    settings: TrainingSettings,
    run: RunOptions,
) -> Outcome:
    """Train by a recipe, with a refit on all rows if asked, and cross-fitting."""

    def once(encoder: Bert, data: TrainingData, run: RunOptions) -> tuple[BertCnn, FitResult]:
        return train(encoder, data, head, recipe, settings, run)

    def ask(model: BertCnn, result: FitResult) -> Examined:
        return examine(
            model,
            quantization_data(data.train, data.valid, result.valid_logits, start.tokenizer.pad_id),
            data.detector_examples()[0],
            data.outside,
            progress=run.progress,
        )

    with ExitStack() as stack:
        if run.fold_of is not None and recipe == "frozen":
            run = stack.enter_context(computed_once(start.encoder, data, run))
        untrained, begun = extract(start.encoder.weights), time.monotonic()
        if recipe == "full" and run.refit:
            outcome = Outcome(*train_and_refit(once, start.encoder, data, run, ask))
        else:
            outcome = Outcome(*once(start.encoder, data, run))
        if run.fold_of is None:
            return outcome
        like = settings.model_copy(update={"epochs": len(outcome.result.epochs), "fewest_steps": 0})
        folds = cross_fit(
            lambda encoder, data, run: train(encoder, data, head, recipe, like, run),
            start.encoder,
            untrained,
            data,
            replace(run, like=outcome.result),
            seconds=time.monotonic() - begun,
        )
        return replace(outcome, folds=folds)


def _versions() -> dict[str, str]:
    backend = keras.backend.backend()
    packages = {name: version(name) for name in ("bertcnn", "keras", backend)}
    return {**packages, "python": platform.python_version()}
