"""Pretrained encoders: catalogue, download, and conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.encoders.checkpoint import EncoderCheckpoint as EncoderCheckpoint
    from bertcnn.encoders.checkpoint import checkpoint_of as checkpoint_of
    from bertcnn.encoders.checkpoint import head_of as head_of
    from bertcnn.encoders.checkpoint import read_checkpoint as read_checkpoint
    from bertcnn.encoders.checkpoint import read_published as read_published
    from bertcnn.encoders.config import read_settings as read_settings
    from bertcnn.encoders.convert import load_encoder as load_encoder
    from bertcnn.encoders.convert import load_published as load_published
    from bertcnn.encoders.download import FetchedEncoder as FetchedEncoder
    from bertcnn.encoders.download import encoder_info as encoder_info
    from bertcnn.encoders.download import fetch_encoder as fetch_encoder
    from bertcnn.encoders.download import list_encoders as list_encoders
    from bertcnn.encoders.export import check_encoder_target as check_encoder_target
    from bertcnn.encoders.export import export_encoder as export_encoder
    from bertcnn.encoders.folder import PRETRAINING_RECORD as PRETRAINING_RECORD
    from bertcnn.encoders.folder import Pieces as Pieces
    from bertcnn.encoders.folder import write_encoder as write_encoder
    from bertcnn.encoders.layout import VOCABULARY as VOCABULARY
    from bertcnn.encoders.layout import WEIGHTS as WEIGHTS

__getattr__, __dir__, __all__ = door(__name__)
