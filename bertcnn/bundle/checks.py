"""Checks of a saved model's parts, shared by writing and reading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from bertcnn.bundle.schemas import MOST_LABELS, BundleConfig, Calibration, Decisions
from bertcnn.bundle.scope import FILE as SCOPE
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.bundle.tensors import check_tensors
from bertcnn.data import Hierarchy
from bertcnn.shapes import Shapes, classifier_shapes
from bertcnn.storage import refuse

LONGEST_LABEL: Final = 1 << 16  # in characters

_MOST_MEMBERSHIPS = 1 << 26  # entries in the table of labels and parents
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_CONTROL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def hierarchy_of(labels: tuple[str, ...], config: BundleConfig) -> Hierarchy:
    """The labels' hierarchy; without parents if a text may have several labels."""
    if config.label_separator is not None:
        return Hierarchy(labels, ())
    tree = Hierarchy.of(labels, config.label_levels)
    if len(tree.labels) * len(tree.parents) > _MOST_MEMBERSHIPS:
        refuse(
            f"labels.json holds {len(tree.labels):,} labels with {len(tree.parents):,} parents",
            "fewer labels with levels",
        )
    return tree


def checked_labels(value: Any, config: BundleConfig) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    """Validate the labels of `labels.json`."""
    if not isinstance(value, list | tuple) or not all(
        isinstance(label, str) and label.strip() for label in value
    ):
        refuse(
            "labels.json holds something other than labels", "a list of texts that are not blank"
        )
    if len(value) < 2 or len(set(value)) != len(value):
        refuse(
            f"labels.json holds {len(value)} labels, {len(set(value))} of them different",
            "at least 2 labels, all different",
        )
    if config.integer_labels and not all(_INTEGER.fullmatch(label) for label in value):
        refuse("labels.json holds labels that are no integers", "integers, by config.json")
    if config.boolean_labels and (config.integer_labels or set(value) != {"False", "True"}):
        refuse(
            "labels.json holds labels that are no booleans", "'False' and 'True', by config.json"
        )
    if len(value) > MOST_LABELS or max(map(len, value)) > LONGEST_LABEL:
        refuse(
            f"labels.json holds {len(value):,} labels of up to {max(map(len, value)):,} characters",
            f"at most {MOST_LABELS:,} labels of {LONGEST_LABEL:,} characters",
        )
    return tuple(value)


def checked_calibration(
    calibration: Calibration, config: BundleConfig, labels: tuple[str, ...]
) -> Calibration:
    """Validate that the calibration has figures for each label that needs them."""
    expected = 0 if config.label_separator is None else len(labels)
    if len(calibration.label_thresholds) != expected:
        refuse(
            f"calibration.json holds {len(calibration.label_thresholds)} label_thresholds",
            f"{expected}, by config.json",
        )
    shift = calibration.label_shift
    if shift is not None and not len(shift.bias) == len(shift.shares) == len(labels):
        refuse(
            f"calibration.json holds a label_shift of {len(shift.bias)} and {len(shift.shares)}"
            " labels",
            f"one bias and one share for each of the {len(labels)} labels",
        )
    return calibration


def checked_decisions(
    decisions: Decisions, config: BundleConfig, labels: tuple[str, ...]
) -> Decisions:
    """Validate that the thresholds of the decisions fit the labels and levels."""
    if len(decisions.thresholds) not in (0, len(labels)):
        refuse(
            f"decisions.json holds {len(decisions.thresholds)} thresholds",
            f"one for each of the {len(labels)} labels",
        )
    levels = len(hierarchy_of(labels, config).levels)
    for name, values in (
        ("parent_thresholds", decisions.parent_thresholds),
        ("held_out.parents", decisions.held_out.parents),
    ):
        if len(values) not in (0, levels):
            refuse(
                f"decisions.json holds {len(values)} {name}",
                f"one for each of the {levels} levels of parents that the labels have",
            )
    if max(decisions.held_out.predicted, default=0) >= len(labels):
        refuse(
            "decisions.json names a label that the model does not have",
            f"places in its {len(labels)} labels",
        )
    return decisions


def checked_vocabulary(pieces: tuple[str, ...], size: int) -> tuple[str, ...]:
    """Validate number and form of the WordPieces."""
    if len(pieces) != size:
        refuse(
            f"vocab.txt holds {len(pieces):,} WordPieces",
            f"the encoder's vocabulary size of {size:,}",
        )
    if len(set(pieces)) != len(pieces):
        refuse("vocab.txt holds a WordPiece twice", "all WordPieces different")
    if any(not piece or "\n" in piece for piece in pieces):
        refuse(
            "vocab.txt holds an empty WordPiece or one with a line break", "one WordPiece a line"
        )
    missing = [token for token in _CONTROL_TOKENS if token not in pieces]
    if missing:
        refuse(f"vocab.txt lacks {', '.join(missing)}", f"{', '.join(_CONTROL_TOKENS)}")
    return pieces


def shapes_of(config: BundleConfig, labels: tuple[str, ...]) -> Shapes:
    """The shapes of the model's weights, by name."""
    return classifier_shapes(config.encoder, config.head, len(labels))


def checked_scope(
    tensors: Mapping[str, np.ndarray], config: BundleConfig, labels: tuple[str, ...]
) -> OutOfScopeDetector:
    """The out-of-scope detector, if its tensors fit the model."""
    return OutOfScopeDetector.of_tensors(
        check_tensors(SCOPE, tensors), len(labels), config.encoder.width
    )
