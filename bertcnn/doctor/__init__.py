"""The data doctor: finds problems in a labelled file before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.doctor.check import check_csv as check_csv
    from bertcnn.doctor.out_of_fold import unit_embeddings as unit_embeddings
    from bertcnn.doctor.report import CheckReport as CheckReport
    from bertcnn.doctor.report import Finding as Finding

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
