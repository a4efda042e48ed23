"""Subword tokenization that can be reversed.

BERT's tokenizer drops spaces next to punctuation. Here only white space separates words, so that
"2019-03-07" and "l'auto" are restored exactly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import takewhile

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit

from bertcnn.errors import BundleError
from bertcnn.text import (
    CLASSIFY,
    CONTINUATION,
    LONGEST_WORD,
    PAD,
    SEPARATE,
    SPECIAL_TOKENS,
    UNKNOWN,
    clean_text,
    learn_vocabulary,
)


def words(text: str) -> list[str]:
    """The words of a text, in Unicode NFC."""
    return unicodedata.normalize("NFC", clean_text(text)).split()


class Subwords:
    """Converts texts to ids and back.

    Args:
        vocabulary: tokens in the order of their ids, starting with `SPECIAL_TOKENS`.

    Attributes:
        start_id: [CLS], which starts a text.
        end_id: [SEP], which ends a text.
        never: ids that are never generated: the special tokens except the end.

    Raises:
            BundleError: the vocabulary lacks the special tokens, or has duplicates.

    Example:
        >>> subwords = Subwords([*SPECIAL_TOKENS, "ti", "am", "##o"])
        >>> ids = subwords.encode(["ti  amo"], longest=9)[0]
        >>> ids.tolist(), subwords.decode(ids)
        ([5, 6, 7, 3], 'ti amo')
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = tuple(vocabulary)
        ids = {piece: index for index, piece in enumerate(self.vocabulary)}
        if tuple(ids)[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS or len(ids) < len(self.vocabulary):
            raise BundleError(
                f"a vocabulary of {len(self.vocabulary):,} pieces",
                expected=f"different ones that begin with {', '.join(SPECIAL_TOKENS)}",
                fix="save the model again, or copy the whole folder again",
            )
        self.pad_id, self.start_id, self.end_id = ids[PAD], ids[CLASSIFY], ids[SEPARATE]
        self._unknown, self._special = ids[UNKNOWN], {ids[name] for name in SPECIAL_TOKENS}
        self.never = tuple(ids[name] for name in SPECIAL_TOKENS if name != SEPARATE)
        self._tokenizer = Tokenizer(
            WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
        )
        self._tokenizer.pre_tokenizer = WhitespaceSplit()

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> Subwords:
        """Learn a vocabulary of at most `size` tokens, or more if there are more characters."""
        pieces = learn_vocabulary(texts, words=words, lowercase=False)
        characters = sum(len(piece.removeprefix(CONTINUATION)) == 1 for piece in pieces)
        return cls(pieces[: max(size, len(SPECIAL_TOKENS) + characters)])

    def encode(self, texts: Sequence[str], longest: int) -> list[np.ndarray]:
        """Ids of each text and the end token, int32 [T] with T at most `longest`."""
        encodings = self._tokenizer.encode_batch([" ".join(words(text)) for text in texts])
        return [
            np.array([*map(self._plain, one.ids[: longest - 1]), self.end_id], np.int32)
            for one in encodings
        ]

    def _plain(self, token_id: int) -> int:
        """Replace special tokens, such as a literal "[SEP]" in a text, by the unknown token."""
        return self._unknown if token_id in self._special else token_id

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids up to the first end token or padding."""
        ends = (self.end_id, self.pad_id)
        pieces = (self.vocabulary[one] for one in takewhile(lambda one: one not in ends, ids))
        return "".join(f" {piece}" for piece in pieces).replace(f" {CONTINUATION}", "").lstrip()
