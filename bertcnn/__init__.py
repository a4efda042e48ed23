"""From a CSV of labelled tickets to a text classifier a support team can trust.

The public names load when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertcnn.bundle.remote import local_folder, push_model
    from bertcnn.classifier import BertCNNClassifier
    from bertcnn.cli.evaluation import show_evaluation
    from bertcnn.cli.progress import show_progress
    from bertcnn.cli.startup import load_keras
    from bertcnn.doctor.check import check_csv
    from bertcnn.encoders.convert import load_encoder
    from bertcnn.encoders.download import fetch_encoder
    from bertcnn.errors import BertCNNError
    from bertcnn.export.export import export_model
    from bertcnn.inference.predictor import Predictor, load
    from bertcnn.models.bert import Bert
    from bertcnn.scoring.batches import BatchScorer
    from bertcnn.scoring.databases import score_table
    from bertcnn.scoring.folders import score_folder
    from bertcnn.scoring.score import score_csv
    from bertcnn.tables.labelled import LabelledTable, read_labelled
    from bertcnn.tasks.question_answering.answerer import QuestionAnswerer
    from bertcnn.tasks.question_answering.extract import extract_csv
    from bertcnn.tasks.question_answering.questions import read_questions
    from bertcnn.tasks.translation.translator import Translator
    from bertcnn.workflows.distill import distill_csv
    from bertcnn.workflows.evaluate import evaluate_csv
    from bertcnn.workflows.recalibrate import recalibrate_csv
    from bertcnn.workflows.train import train_csv

__all__ = [
    "BatchScorer",
    "Bert",
    "BertCNNClassifier",
    "BertCNNError",
    "LabelledTable",
    "Predictor",
    "QuestionAnswerer",
    "Translator",
    "check_csv",
    "distill_csv",
    "evaluate_csv",
    "export_model",
    "extract_csv",
    "fetch_encoder",
    "load",
    "load_encoder",
    "load_keras",
    "local_folder",
    "push_model",
    "read_labelled",
    "read_questions",
    "recalibrate_csv",
    "score_csv",
    "score_folder",
    "score_table",
    "show_evaluation",
    "show_progress",
    "train_csv",
]

_HOMES = {
    "BatchScorer": "bertcnn.scoring.batches",
    "Bert": "bertcnn.models.bert",
    "BertCNNClassifier": "bertcnn.classifier",
    "BertCNNError": "bertcnn.errors",
    "LabelledTable": "bertcnn.tables.labelled",
    "Predictor": "bertcnn.inference.predictor",
    "QuestionAnswerer": "bertcnn.tasks.question_answering.answerer",
    "Translator": "bertcnn.tasks.translation.translator",
    "check_csv": "bertcnn.doctor.check",
    "distill_csv": "bertcnn.workflows.distill",
    "evaluate_csv": "bertcnn.workflows.evaluate",
    "extract_csv": "bertcnn.tasks.question_answering.extract",
    "export_model": "bertcnn.export.export",
    "fetch_encoder": "bertcnn.encoders.download",
    "load": "bertcnn.inference.predictor",
    "load_encoder": "bertcnn.encoders.convert",
    "load_keras": "bertcnn.cli.startup",
    "local_folder": "bertcnn.bundle.remote",
    "push_model": "bertcnn.bundle.remote",
    "read_labelled": "bertcnn.tables.labelled",
    "read_questions": "bertcnn.tasks.question_answering.questions",
    "recalibrate_csv": "bertcnn.workflows.recalibrate",
    "score_csv": "bertcnn.scoring.score",
    "score_folder": "bertcnn.scoring.folders",
    "score_table": "bertcnn.scoring.databases",
    "show_evaluation": "bertcnn.cli.evaluation",
    "show_progress": "bertcnn.cli.progress",
    "train_csv": "bertcnn.workflows.train",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in _HOMES:
        raise AttributeError(f"module 'bertcnn' has no attribute {name!r}")
    from bertcnn.errors import explain_missing_packages
    from bertcnn.layers.backend import choose_backend

    choose_backend()
    with explain_missing_packages():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
