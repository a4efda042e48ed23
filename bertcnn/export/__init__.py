"""Saved models in other programs' formats, compared with the model before they appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.export.export import check_export as check_export
    from bertcnn.export.export import export_model as export_model

__getattr__, __dir__, __all__ = door(__name__)
