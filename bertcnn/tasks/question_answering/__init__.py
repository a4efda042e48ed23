"""Extractive question answering: finds the answer in a text, or that there is no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tasks.question_answering.answerer import QuestionAnswerer as QuestionAnswerer
    from bertcnn.tasks.question_answering.answerer import extract_csv as extract_csv
    from bertcnn.tasks.question_answering.metrics import AnswerFigures as AnswerFigures
    from bertcnn.tasks.question_answering.questions import Question as Question
    from bertcnn.tasks.question_answering.questions import read_questions as read_questions
    from bertcnn.tasks.question_answering.saving import FOLDER as FOLDER
    from bertcnn.tasks.text_columns import ExtractionReport as ExtractionReport

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
