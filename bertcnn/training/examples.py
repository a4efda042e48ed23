"""From the input of `fit` to training rows: check, split and tokenise.

Stages of a row: `LabelledTexts` (as passed), `TokenizedTexts` (with tokens), whose `TokenizedRows`
(arrays only) are part of `TrainingData`. A recipe turns them into `Examples`, which build batches
of tokens or of stored features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertcnn.data import (
    KnownLabels,
    LabelSet,
    assign_folds,
    check_labels,
    check_one_type,
    checked_labels,
    describe_spellings,
    duplicate_key,
    indicators,
    is_set,
    numbered,
    one_spelling,
    rarest,
    split_validation,
    stratified_part,
)
from bertcnn.errors import LabelError, SettingsError, one_line
from bertcnn.inference import Engine
from bertcnn.progress import Progress
from bertcnn.text import WordPieceTokenizer, check_texts, is_blank
from bertcnn.training.features import TokenizedRows
from bertcnn.training.training_data import OutsideRows
from bertcnn.wording import count


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels as the user passed them, before tokenisation.

    Attributes:
        texts: non-blank strings.
        labels: one label per text, all strings or all integers; or a tuple of labels per text.
        indices: of each row among the rows passed.
    """

    texts: list[str]
    labels: list[Any]
    indices: list[int]

    @classmethod
    def usable(
        cls, texts: Sequence[str], labels: Sequence[Any], progress: Progress, *, several: bool
    ) -> LabelledTexts:
        """The rows with text and label; `progress` reports how many rows are left out."""
        rows, unlabelled, blank = cls.divided(texts, labels, several=several)
        if lost := blank + len(unlabelled):
            progress.note(f"{count(lost, 'row')} left out: text or label is blank")
        return rows

    @classmethod
    def divided(
        cls, texts: Sequence[str], labels: Sequence[Any], *, several: bool = False
    ) -> tuple[LabelledTexts, list[str], int]:
        """Usable rows, texts with a blank label, and the number of blank texts.

        With `several`, rows are multi-label even if each has one label.

        Raises:
            LabelError: a label is missing or of another type, or texts and labels differ in number.
            SettingsError: `texts` is not a list of strings.
        """
        checked, names = check_texts(texts), checked_labels(labels, several=several)
        if len(checked) != len(names):
            raise LabelError(
                f"{len(checked)} texts and {len(names)} labels",
                expected="a label for each text",
                fix="pass both from the same rows",
            )
        written = [row for row, text in enumerate(checked) if not is_blank(text)]
        rows = [row for row in written if not has_no_label(names[row])]
        unlabelled = [checked[row] for row in written if has_no_label(names[row])]
        usable = cls([checked[row] for row in rows], [names[row] for row in rows], rows)
        return usable, unlabelled, len(checked) - len(written)

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return bool(self.labels) and is_set(self.labels[0])

    @property
    def each_label(self) -> list[Any]:
        """The labels of all rows in one list."""
        several = self.multi_label
        return [label for own in self.labels for label in own] if several else self.labels

    def spelled(self, spelling: Callable[[str], str]) -> LabelledTexts:
        """The rows with each string label replaced by `spelling(label)`."""
        labels: list[Any]
        if self.multi_label:
            labels = [tuple(sorted({spelling(name) for name in own})) for own in self.labels]
        else:
            labels = [spelling(name) if isinstance(name, str) else name for name in self.labels]
        return replace(self, labels=labels)

    @property
    def main_labels(self) -> list[str]:
        """The label that splits are stratified by: the rarest one of a multi-label row."""
        return rarest(self.labels) if self.multi_label else [str(label) for label in self.labels]

    def without(self, labels: Collection[str]) -> tuple[LabelledTexts, list[str]]:
        """The rows that have none of these labels, and the texts of the other rows."""
        has = [not set(labels).isdisjoint(own if is_set(own) else [own]) for own in self.labels]
        return (
            self.of([row for row, yes in enumerate(has) if not yes]),
            [text for text, yes in zip(self.texts, has, strict=True) if yes],
        )

    def of(self, rows: Sequence[int] | np.ndarray) -> LabelledTexts:
        """Some of the rows."""
        return LabelledTexts(
            [self.texts[row] for row in rows],
            [self.labels[row] for row in rows],
            [self.indices[row] for row in rows],
        )

    def part(self, most: int | None, seed: int) -> np.ndarray:
        """Indices of about `most` rows, stratified by label, int64 [part]; None for all rows."""
        main = numbered(self.main_labels)[1]
        most = len(main) if most is None else most
        return stratified_part(main, most, np.random.default_rng(seed))

    def folds(self, count: int) -> np.ndarray | None:
        """The fold of each row, int64 [rows], duplicates in one fold; None if `count` is 0."""
        keys = [duplicate_key(text) for text in self.texts] if count else []
        return assign_folds(keys, self.main_labels, self.texts, count) if count else None

    def tokenized(
        self, tokenizer: WordPieceTokenizer, classes: Sequence[Any], progress: Progress
    ) -> TokenizedTexts:
        """Tokenise the rows; labels become indices into `classes`."""
        encoded = tokenizer.encode(self.texts)
        truncated = int(encoded.truncated.sum())
        if truncated:
            limit, head = tokenizer.settings.max_tokens, tokenizer.settings.head_tokens
            progress.note(
                f"{truncated} of {len(self.texts)} rows ({truncated / len(self.texts):.1%}) are"
                f" longer than {limit} tokens: their first {head} and last {limit - 2 - head} are"
                " used"
            )
        index_of = {name: index for index, name in enumerate(classes)}
        several, main = self.multi_label, self.labels
        if several:  # the index of a row without a label is arbitrary
            main = [name if name in index_of else classes[0] for name in self.main_labels]
        labels = np.array([index_of[label] for label in main], np.int64)
        multi_hot = indicators(self.labels, classes) if several else None
        return TokenizedTexts(
            self, TokenizedRows(encoded.token_ids, labels, multi_hot), encoded.truncated
        )


@dataclass(frozen=True)
class TokenizedTexts:
    """Usable rows as texts and as tokens; `cut`, bool [rows], marks truncated rows."""

    texts: LabelledTexts
    rows: TokenizedRows
    cut: np.ndarray

    def of(self, part: np.ndarray) -> TokenizedTexts:
        """Some of the rows."""
        return TokenizedTexts(self.texts.of(part), self.rows.of(part), self.cut[part])

    def weighted(self, weights: np.ndarray | None) -> TokenizedTexts:
        """The rows with their weights in the loss, from the weights of the rows passed."""
        if weights is None:
            return self
        return replace(self, rows=replace(self.rows, weights=weights[self.texts.indices]))


def checked_weights(weights: Sequence[float], rows: int) -> np.ndarray:
    """Weights of rows, float32 [rows], 1 on average.

    Raises:
        SettingsError: they are not one finite number of 0 or more per row, some above 0.
    """
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.shape != (rows,) or not np.isfinite(values).all() or values.min(initial=0) < 0:
        raise SettingsError(
            f"sample_weight of shape {values.shape} for {count(rows, 'row')}",
            expected="one number of 0 or more for each row",
            fix="pass a list as long as the texts, without missing values",
        )
    if not values.any():
        raise SettingsError(
            "sample_weight of zeros only",
            expected="some numbers above 0",
            fix="leave it out to weigh all rows alike",
        )
    return (values / values.mean()).astype(np.float32)


def learning_and_validation(
    texts: Sequence[str],
    labels: Sequence[Any],
    valid: tuple[Sequence[str], Sequence[Any]] | None,
    *,
    fraction: float,
    most: int,
    several: bool = False,
    progress: Progress,
) -> tuple[LabelledTexts, LabelledTexts, list[str]]:
    """Training rows, validation rows, and the texts with a blank label.

    Without `valid`, a share `fraction` of the rows, about `most` at most, is split off: stratified,
    with duplicates kept together. With `several`, rows are multi-label even if each has one label.

    Raises:
        LabelError: fewer than two labels, a label with a single row, a missing label, or validation
            rows with unknown labels only.
        SettingsError: a text is not a string, or `valid` is not a pair.
    """
    learning, unlabelled, blank = LabelledTexts.divided(texts, labels, several=several)
    if blank:
        progress.note(f"{count(blank, 'row')} left out: the text is blank")
    names = [label for label in learning.each_label if isinstance(label, str)]
    spelled = one_spelling(names, values=False)
    if spelled:
        progress.note(describe_spellings(names, spelled))
        learning = learning.spelled(lambda name: spelled.get(name, name))
    check_labels(learning.each_label)
    if valid is not None:
        return learning, _given(valid, learning, progress), unlabelled
    kept, held_out = split_validation(
        learning.texts, learning.main_labels, min(fraction, most / len(learning.texts))
    )
    if learning.multi_label:
        kept, held_out = _every_label_learned(learning.labels, kept, held_out)
    if not len(held_out):
        raise LabelError(
            f"{len(learning.labels)} rows of which none can be held out, since a label's texts"
            " differ in case, digits or punctuation only",
            expected="at least one label with 2 different texts",
            fix="add rows with other texts, or give validation rows of their own",
        )
    progress.note(
        f"{len(kept)} rows to learn from, {len(held_out)} held out to choose the epoch and the"
        " thresholds"
    )
    return learning.of(kept), learning.of(held_out), unlabelled


def different_texts(texts: Sequence[str], others: Sequence[str], most: int, seed: int) -> list[str]:
    """At most `most` random texts, without duplicates and without texts in `others`.

    Duplicates differ only in case, digits or punctuation; the first one is kept.
    """
    other_keys = {duplicate_key(text) for text in others}
    different = {duplicate_key(text): text for text in reversed(texts)}
    new_texts = [text for key, text in reversed(different.items()) if key not in other_keys]
    if len(new_texts) <= most:
        return new_texts
    drawn = np.random.default_rng(seed).permutation(len(new_texts))[:most]
    return [new_texts[row] for row in np.sort(drawn)]


@dataclass(frozen=True)
class StrangeTexts:
    """Texts that the user marked as out of scope: by `labels`, or by a list of texts."""

    labels: tuple[str, ...]
    learned: list[str]
    measured: list[str]

    @classmethod
    def of(
        cls,
        labels: tuple[str, ...],
        learned: Sequence[str],
        measured: Sequence[str],
        more: Sequence[str],
    ) -> StrangeTexts:
        """Split the texts evenly into training and evaluation, without duplicates and blanks.

        Texts in `measured`, of validation rows, are never trained on; `more` can go to either part.
        """
        held_out = different_texts(measured, [], len(measured), 0)
        written = [text for text in (*more, *learned) if not is_blank(text)]
        rest = different_texts(written, held_out, len(written), 0)
        lacking = max(0, (len(rest) - len(held_out)) // 2)
        moved = set(np.linspace(0, len(rest) - 1, lacking).round().astype(int).tolist())
        held_out += [text for index, text in enumerate(rest) if index in moved]
        kept = [text for index, text in enumerate(rest) if index not in moved]
        return cls(labels, kept, held_out)


def has_no_label(label: Any) -> bool:  # noqa: ANN401 - whatever `checked_labels` let in
    """Whether a label is blank, or a set of labels is empty."""
    return not label if is_set(label) else isinstance(label, str) and is_blank(label)


def _every_label_learned(
    sets: Sequence[LabelSet], kept: np.ndarray, held_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    learned = {label for row in kept for label in sets[row]}
    back = np.array([not learned.issuperset(sets[row]) for row in held_out], bool)
    return np.sort(np.concatenate([kept, held_out[back]])), held_out[~back]


def _given(
    valid: tuple[Sequence[str], Sequence[Any]], learning: LabelledTexts, progress: Progress
) -> LabelledTexts:
    if not isinstance(valid, Sequence) or len(valid) != 2:
        raise SettingsError(
            f"valid {one_line(valid)}",
            expected="two lists: texts and labels",
            fix="pass valid=(texts, labels)",
        )
    rows = LabelledTexts.usable(*valid, progress, several=learning.multi_label)
    if rows.labels and rows.multi_label != learning.multi_label:
        raise LabelError(
            "validation rows with one label each and training rows with several, or the other way"
            " round",
            expected="lists of labels in both, or in neither",
            fix="give each validation row a list of its labels, if training rows have lists",
        )
    check_one_type([*learning.each_label, *rows.each_label])
    rows = rows.spelled(KnownLabels(map(str, learning.each_label)).spelled)
    training_labels = set(learning.each_label)
    unknown = sorted({str(label) for label in rows.each_label if label not in training_labels})
    sets = rows.labels if rows.multi_label else [[own] for own in rows.labels]
    usable = [row for row, own in enumerate(sets) if training_labels.issuperset(own)]
    if not usable:
        labels = f" with the labels {one_line(', '.join(unknown))}" if unknown else ""
        raise LabelError(
            f"{len(rows.labels)} validation rows{labels}",
            expected="rows with labels that the training rows have",
            fix="correct the validation rows, or leave them out so that a split is made",
        )
    if unknown:
        message = (
            f"{len(rows.labels) - len(usable):,} of {count(len(rows.labels), 'validation row')}"
            " have a label that no training row has"
        )
        progress.note(
            f"{message} ({one_line(', '.join(unknown), 200)}): the model cannot be right there, so"
            " they are left out"
        )
        rows = rows.of(usable)
    learned = {duplicate_key(text) for text in learning.texts}
    again = sum(duplicate_key(text) in learned for text in rows.texts)
    if again:
        progress.note(
            f"{again:,} of {len(rows.texts):,} validation rows are training rows too:"
            " figures will be too good, and thresholds too low; take them out of one of the two"
        )
    return rows


@dataclass(frozen=True)
class KnownRows:
    """Training rows that the out-of-scope detector compares with, kept until the model is saved.

    Attributes:
        answered: logits float32 [rows, C] and mean embeddings float32 [rows, D], if computed.
    """

    token_ids: list[np.ndarray]
    labels: np.ndarray
    outside: OutsideRows
    answered: tuple[np.ndarray, np.ndarray] | None

    def answers(self, engine: Engine) -> tuple[np.ndarray, np.ndarray]:
        """Logits and mean token embeddings, from the training or else from the engine."""
        if self.answered is not None:
            return self.answered
        output = engine.run(self.token_ids, evidence=True)
        return output.logits, output.requested_evidence.means
