"""Keras models, built from the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.models.bert import Bert as Bert
    from bertcnn.models.classifier import BertCnn as BertCnn
    from bertcnn.models.classifier import CnnHead as CnnHead
    from bertcnn.models.classifier import build_classifier as build_classifier
    from bertcnn.models.decoding import SearchSettings as SearchSettings
    from bertcnn.models.decoding import Written as Written
    from bertcnn.models.decoding import banned as banned
    from bertcnn.models.decoding import search as search
    from bertcnn.models.forward import Collate as Collate
    from bertcnn.models.forward import Forward as Forward
    from bertcnn.models.forward import Inputs as Inputs
    from bertcnn.models.forward import Plans as Plans
    from bertcnn.models.forward import padded_up_to as padded_up_to
    from bertcnn.models.language_model import CausalTransformer as CausalTransformer
    from bertcnn.models.language_model import Sampling as Sampling
    from bertcnn.models.language_model import continue_text as continue_text
    from bertcnn.models.pretraining import BertPretraining as BertPretraining
    from bertcnn.models.pretraining import pretraining_figures as pretraining_figures
    from bertcnn.models.recurrent import RecurrentTranslator as RecurrentTranslator
    from bertcnn.models.summariser import BertSummariser as BertSummariser
    from bertcnn.models.token_scores import BertQuestionAnswering as BertQuestionAnswering
    from bertcnn.models.token_scores import BertTokenLabels as BertTokenLabels
    from bertcnn.models.transformer import Transformer as Transformer
    from bertcnn.models.weights import assign as assign
    from bertcnn.models.weights import extract as extract

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
