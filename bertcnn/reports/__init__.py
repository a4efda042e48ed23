"""The report and the model card of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.reports.card import literal as literal
    from bertcnn.reports.card import model_card as model_card
    from bertcnn.reports.report import Epoch as Epoch
    from bertcnn.reports.reporting import Measured as Measured
    from bertcnn.reports.reporting import Provenance as Provenance
    from bertcnn.reports.reporting import Rows as Rows
    from bertcnn.reports.reporting import about as about
    from bertcnn.reports.reporting import evaluation_report as evaluation_report
    from bertcnn.reports.reporting import report_path as report_path
    from bertcnn.reports.reporting import training_report as training_report
    from bertcnn.reports.reporting import write_report as write_report

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
