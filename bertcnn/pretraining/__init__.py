"""Pretraining on unlabelled text: masked language model, next sentence prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.pretraining.documents import DocumentFiles as DocumentFiles
    from bertcnn.pretraining.initialization import NewEncoder as NewEncoder
    from bertcnn.pretraining.loop import PretrainingInterrupted as PretrainingInterrupted
    from bertcnn.pretraining.masked_words import fill_mask as fill_mask
    from bertcnn.pretraining.run import RunOptions as RunOptions
    from bertcnn.pretraining.run import pretrain as pretrain

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
