"""Token labels: finds names, order numbers, dates and other spans in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tasks.token_labels.labelled_texts import LabelledText as LabelledText
    from bertcnn.tasks.token_labels.labelled_texts import read_labelled_texts as read_labelled_texts
    from bertcnn.tasks.token_labels.labeller import TokenLabeller as TokenLabeller
    from bertcnn.tasks.token_labels.labeller import extract_spans as extract_spans
    from bertcnn.tasks.token_labels.labeller import load_token_labeller as load_token_labeller
    from bertcnn.tasks.token_labels.labeller import train_token_labels as train_token_labels
    from bertcnn.tasks.token_labels.metrics import SpanFigures as SpanFigures
    from bertcnn.tasks.token_labels.saving import FOLDER as FOLDER
    from bertcnn.tasks.token_labels.tags import FoundSpan as FoundSpan

__getattr__, __dir__, __all__ = door(__name__)
