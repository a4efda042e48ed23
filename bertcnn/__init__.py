"""From a CSV of labelled tickets to a text classifier a support team can trust.

The public names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

with suppress(ImportError):  # before TensorFlow, whose own SQLite has no search for words
    import sqlite3  # noqa: F401

if TYPE_CHECKING:
    from bertcnn.bundle import local_folder as local_folder
    from bertcnn.bundle import push_model as push_model
    from bertcnn.classifier import BertCNNClassifier as BertCNNClassifier
    from bertcnn.cli.evaluate import show_evaluation as show_evaluation
    from bertcnn.cli.progress import show_progress as show_progress
    from bertcnn.cli.startup import load_keras as load_keras
    from bertcnn.doctor import check_csv as check_csv
    from bertcnn.encoders import fetch_encoder as fetch_encoder
    from bertcnn.encoders import load_encoder as load_encoder
    from bertcnn.errors import BertCNNError as BertCNNError
    from bertcnn.export import export_model as export_model
    from bertcnn.inference import Predictor as Predictor
    from bertcnn.inference import load as load
    from bertcnn.models import Bert as Bert
    from bertcnn.scoring import BatchScorer as BatchScorer
    from bertcnn.scoring import score_csv as score_csv
    from bertcnn.scoring import score_folder as score_folder
    from bertcnn.scoring import score_frame as score_frame
    from bertcnn.scoring import score_table as score_table
    from bertcnn.tables import LabelledTable as LabelledTable
    from bertcnn.tables import read_labelled as read_labelled
    from bertcnn.tasks.language_model import LanguageModel as LanguageModel
    from bertcnn.tasks.language_model import read_documents as read_documents
    from bertcnn.tasks.question_answering import QuestionAnswerer as QuestionAnswerer
    from bertcnn.tasks.question_answering import extract_csv as extract_csv
    from bertcnn.tasks.question_answering import read_questions as read_questions
    from bertcnn.tasks.summaries import Summariser as Summariser
    from bertcnn.tasks.summaries import read_summaries as read_summaries
    from bertcnn.tasks.summaries import summarise_csv as summarise_csv
    from bertcnn.tasks.token_labels import LabelledText as LabelledText
    from bertcnn.tasks.token_labels import TokenLabeller as TokenLabeller
    from bertcnn.tasks.token_labels import extract_spans as extract_spans
    from bertcnn.tasks.token_labels import load_token_labeller as load_token_labeller
    from bertcnn.tasks.token_labels import read_labelled_texts as read_labelled_texts
    from bertcnn.tasks.token_labels import train_token_labels as train_token_labels
    from bertcnn.tasks.translation import Translator as Translator
    from bertcnn.tasks.translation import translate_csv as translate_csv
    from bertcnn.text import WordPieceTokenizer as WordPieceTokenizer
    from bertcnn.workflows import distill_csv as distill_csv
    from bertcnn.workflows import evaluate_csv as evaluate_csv
    from bertcnn.workflows import recalibrate_csv as recalibrate_csv
    from bertcnn.workflows import train_csv as train_csv

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
