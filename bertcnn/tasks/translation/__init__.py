"""Translation, learned from pairs of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tasks.pairs import read_pairs as read_pairs
    from bertcnn.tasks.translation.saving import FOLDER as FOLDER
    from bertcnn.tasks.translation.translator import Translator as Translator
    from bertcnn.tasks.translation.translator import alignment_page as alignment_page
    from bertcnn.tasks.translation.translator import translate_csv as translate_csv

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
