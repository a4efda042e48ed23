"""Layers, written in `keras.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.backend import choose_backend
from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.layers.additive_attention import AdditiveAttention as AdditiveAttention
    from bertcnn.layers.attention import DocumentMask as DocumentMask
    from bertcnn.layers.attention import MultiHeadAttention as MultiHeadAttention
    from bertcnn.layers.attention import bert_initializer as bert_initializer
    from bertcnn.layers.convolution import DocumentMax as DocumentMax
    from bertcnn.layers.convolution import DocumentMean as DocumentMean
    from bertcnn.layers.convolution import MaskedMax as MaskedMax
    from bertcnn.layers.convolution import MaskedMean as MaskedMean
    from bertcnn.layers.convolution import WindowConvolution as WindowConvolution
    from bertcnn.layers.decoder import DecoderBlock as DecoderBlock
    from bertcnn.layers.dropout import HashDropout as HashDropout
    from bertcnn.layers.embeddings import BertEmbeddings as BertEmbeddings
    from bertcnn.layers.encoder import TransformerBlock as TransformerBlock
    from bertcnn.layers.heads import GatherTokens as GatherTokens
    from bertcnn.layers.heads import MaskedLanguageHead as MaskedLanguageHead

__getattr__, __dir__, __all__ = door(__name__, choose_backend)
