"""Exports saved models to other formats, after comparing their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.export.export import check_export as check_export
    from bertcnn.export.export import export_model as export_model

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
