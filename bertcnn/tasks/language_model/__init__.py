"""Language models, which continue a text and say how probable it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.tasks.language_model.completion import Completion as Completion
    from bertcnn.tasks.language_model.documents import read_documents as read_documents
    from bertcnn.tasks.language_model.model import LanguageModel as LanguageModel
    from bertcnn.tasks.language_model.model import Perplexity as Perplexity
    from bertcnn.tasks.language_model.saving import FOLDER as FOLDER

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
