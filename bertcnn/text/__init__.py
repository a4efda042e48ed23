"""Tokenization: text to token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.doors import door

if TYPE_CHECKING:
    from bertcnn.text.cleaning import clean_text as clean_text
    from bertcnn.text.cleaning import is_blank as is_blank
    from bertcnn.text.cleaning import split_lines as split_lines
    from bertcnn.text.languages import is_foreign as is_foreign
    from bertcnn.text.languages import language_of as language_of
    from bertcnn.text.languages import main_languages as main_languages
    from bertcnn.text.texts import check_texts as check_texts
    from bertcnn.text.tokenizer_settings import read_encoder_json as read_encoder_json
    from bertcnn.text.tokenizer_settings import read_tokenizer_settings as read_tokenizer_settings
    from bertcnn.text.vocabulary import CONTINUATION as CONTINUATION
    from bertcnn.text.vocabulary import learn_vocabulary as learn_vocabulary
    from bertcnn.text.wordpiece import CLASSIFY as CLASSIFY
    from bertcnn.text.wordpiece import CONTINUES as CONTINUES
    from bertcnn.text.wordpiece import JOINS as JOINS
    from bertcnn.text.wordpiece import LONGEST_WORD as LONGEST_WORD
    from bertcnn.text.wordpiece import MASK as MASK
    from bertcnn.text.wordpiece import PAD as PAD
    from bertcnn.text.wordpiece import PUNCTUATION as PUNCTUATION
    from bertcnn.text.wordpiece import SEPARATE as SEPARATE
    from bertcnn.text.wordpiece import SPECIAL_TOKENS as SPECIAL_TOKENS
    from bertcnn.text.wordpiece import UNKNOWN as UNKNOWN
    from bertcnn.text.wordpiece import EncodedTexts as EncodedTexts
    from bertcnn.text.wordpiece import WordPieceTokenizer as WordPieceTokenizer
    from bertcnn.text.wordpiece import read_vocabulary as read_vocabulary
    from bertcnn.text.wordpiece import segments_of as segments_of

__getattr__, __dir__, __all__ = door(__name__)
