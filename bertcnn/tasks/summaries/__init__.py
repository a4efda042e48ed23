"""Summaries of one line, learned from pairs of texts and summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tasks.pairs import read_summaries as read_summaries
    from bertcnn.tasks.summaries.rouge import Mean as Mean
    from bertcnn.tasks.summaries.rouge import SummaryFigures as SummaryFigures
    from bertcnn.tasks.summaries.rouge import first_sentence as first_sentence
    from bertcnn.tasks.summaries.rouge import rouge_l as rouge_l
    from bertcnn.tasks.summaries.saving import FOLDER as FOLDER
    from bertcnn.tasks.summaries.summariser import Summariser as Summariser
    from bertcnn.tasks.summaries.summariser import Summary as Summary
    from bertcnn.tasks.summaries.summariser import summarise_csv as summarise_csv

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
