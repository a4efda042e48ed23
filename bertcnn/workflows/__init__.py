"""Whole jobs on files: train, evaluate, compare encoders, tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.workflows.distill import distill_csv as distill_csv
    from bertcnn.workflows.encoder_comparison import compare_encoders as compare_encoders
    from bertcnn.workflows.evaluate import evaluate_csv as evaluate_csv
    from bertcnn.workflows.options import DistillationOptions as DistillationOptions
    from bertcnn.workflows.options import TrainingOptions as TrainingOptions
    from bertcnn.workflows.recalibrate import recalibrate_csv as recalibrate_csv
    from bertcnn.workflows.search import tune as tune
    from bertcnn.workflows.train import TrainingReport as TrainingReport
    from bertcnn.workflows.train import train_csv as train_csv
    from bertcnn.workflows.tuned import read_tuned as read_tuned

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
