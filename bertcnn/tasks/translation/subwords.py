"""Pieces of words from which a text can be put together again.

BERT's tokenizer drops spaces beside punctuation; here only white space divides words, so that
"2019-03-07" and "l'auto" come back as they were.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit

from bertcnn.errors import BundleError
from bertcnn.text.cleaning import clean_text
from bertcnn.text.vocabulary import CONTINUES, learn_vocabulary
from bertcnn.text.wordpiece import CLASSIFY, LONGEST_WORD, PAD, SEPARATE, SPECIAL_TOKENS, UNKNOWN


def words(text: str) -> list[str]:
    """The words of a text, in Unicode's composed form."""
    return unicodedata.normalize("NFC", clean_text(text)).split()


class Subwords:
    """Texts to ids and back.

    Args:
        vocabulary: the pieces, in the order of their ids; begins with `SPECIAL_TOKENS`.

    Attributes:
        start_id: [CLS], which a text is written behind.
        end_id: [SEP], which ends it.
        pad_id: [PAD].
        never: ids that are not written: the special tokens but for the end.

    Raises:
        BundleError: the vocabulary lacks the special tokens, or has a piece twice.

    Example:
        >>> subwords = Subwords([*SPECIAL_TOKENS, "ti", "am", "##o"])
        >>> ids = subwords.encode(["ti  amo"], longest=9)[0]
        >>> ids.tolist(), subwords.decode(ids)
        ([5, 6, 7, 3], 'ti amo')
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = tuple(vocabulary)
        if self.vocabulary[: len(SPECIAL_TOKENS)] != SPECIAL_TOKENS or len(
            set(self.vocabulary)
        ) != len(self.vocabulary):
            raise BundleError(
                f"a vocabulary of {len(self.vocabulary):,} pieces",
                expected=f"different ones that begin with {', '.join(SPECIAL_TOKENS)}",
                fix="save the model again, or copy the whole folder again",
            )
        ids = {piece: place for place, piece in enumerate(self.vocabulary)}
        self.pad_id, self.start_id, self.end_id = ids[PAD], ids[CLASSIFY], ids[SEPARATE]
        self._unknown, self._special = ids[UNKNOWN], {ids[name] for name in SPECIAL_TOKENS}
        self.never = tuple(ids[name] for name in SPECIAL_TOKENS if name != SEPARATE)
        self._tokenizer = Tokenizer(
            WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
        )
        self._tokenizer.pre_tokenizer = WhitespaceSplit()

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> Subwords:
        """Pieces that write these texts, at most `size` if their characters allow.

        Raises:
            TableError: there are too few texts; see `learn_vocabulary`.
        """
        pieces = learn_vocabulary(texts, words=words, lowercase=False)
        characters = sum(len(piece.removeprefix(CONTINUES)) == 1 for piece in pieces)
        return cls(pieces[: max(size, len(SPECIAL_TOKENS) + characters)])

    def encode(self, texts: Sequence[str], longest: int) -> list[np.ndarray]:
        """Ids of each text and the end token, int32 [T] with T at most `longest`."""
        found = self._tokenizer.encode_batch([" ".join(words(text)) for text in texts])
        rows = (self._plain(one.ids[: longest - 1]) for one in found)
        return [np.array([*row, self.end_id], np.int32) for row in rows]

    def _plain(self, ids: Sequence[int]) -> list[int]:
        """Ids in which a word such as "[SEP]" of a text is an unknown one."""
        return [self._unknown if one in self._special else one for one in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The text that ids up to the first end token write."""
        text = ""
        for piece in self.pieces(ids):
            text += piece.removeprefix(CONTINUES) if piece.startswith(CONTINUES) else f" {piece}"
        return text.lstrip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of ids up to the first end token or padding, without either."""
        found = []
        for one in ids:
            if one in (self.end_id, self.pad_id):
                break
            found.append(self.vocabulary[one])
        return found
