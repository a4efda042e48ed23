"""WordPiece in a TensorFlow graph, with the same ids as `WordPieceTokenizer`."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf
import tensorflow_text

from bertcnn.export.characters import character_table
from bertcnn.text import CLASSIFY, LONGEST_WORD, SEPARATE, UNKNOWN, WordPieceTokenizer

_MOST_BYTES: Final = 4  # per character in UTF-8
# characters that the normaliser drops, so no text can contain them
_PRIVATE_USE: Final = range(0xE000, 0xF900)


class GraphTokenizer(tf.Module):
    """Gives the ids of `WordPieceTokenizer`, by tensorflow-text's FastBertTokenizer.

    FastBertTokenizer alone gives other ids for 145,718 of 1,112,064 characters inside a word:
    137,468 for private use, and 4,300 with a meaning (ellipsis, control and format characters,
    newer letters, accents and punctuation). It also measures long words in bytes instead of
    characters. So characters are first replaced by our normaliser's table, and words are split and
    measured here. Then all ids agree.
    """

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        super().__init__(name="tokenizer")
        table = character_table(tokenizer)
        self._kinds = tf.constant(table.kinds)
        self._replacements = tf.ragged.constant(
            [list(replacement) for replacement in table.replacements], tf.int32
        )
        self._pieces = tensorflow_text.FastBertTokenizer(
            list(tokenizer.vocabulary),
            token_out_type=tf.int32,
            unknown_token=UNKNOWN,
            max_bytes_per_word=LONGEST_WORD * _MOST_BYTES,
            no_pretokenization=True,
            lower_case_nfd_strip_accents=False,
        )
        used = set("".join(tokenizer.vocabulary))
        self._unknown_word = next(chr(point) for point in _PRIVATE_USE if chr(point) not in used)
        self._limit, self._head = tokenizer.settings.max_tokens - 2, tokenizer.settings.head_tokens
        self._classify_id, self._separate_id = (
            tokenizer.vocabulary.index(token) for token in (CLASSIFY, SEPARATE)
        )

    def encode(self, texts: Any) -> Any:  # noqa: ANN401 - TensorFlow's tensors have no useful types
        """Ids from [CLS] to [SEP], ragged int32 [N, T], of UTF-8 texts, string [N].

        Drops bytes that are not UTF-8.
        """
        ids = self._pieces.tokenize(self._words(texts)).merge_dims(1, 2)  # [N, T]
        ids = self._shortened(ids)
        border = tf.ones_like(texts, tf.int32)[:, None]  # [N, 1]
        return tf.concat([border * self._classify_id, ids, border * self._separate_id], axis=1)

    def _words(self, texts: Any) -> Any:  # noqa: ANN401
        """Normalised words, ragged string [N, words]; too long words become unknown words."""
        points = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")  # [N, characters]
        replaced = tf.gather(
            self._replacements, tf.cast(tf.gather(self._kinds, points.flat_values), tf.int32)
        )
        itself = tf.repeat(points.flat_values, replaced.row_lengths())
        replaced = replaced.with_flat_values(
            tf.where(replaced.flat_values < 0, itself, replaced.flat_values)
        )
        normalized = tf.RaggedTensor.from_row_splits(replaced, points.row_splits).merge_dims(1, 2)
        words = tf.strings.split(tf.strings.unicode_encode(normalized, "UTF-8"))
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > LONGEST_WORD
        return words.with_flat_values(tf.where(too_long, self._unknown_word, words.flat_values))

    def _shortened(self, ids: Any) -> Any:  # noqa: ANN401
        lengths = ids.row_lengths()
        positions = tf.ragged.range(lengths)
        from_its_end = tf.repeat(lengths - (self._limit - self._head), lengths)
        kept = (positions.flat_values < self._head) | (positions.flat_values >= from_its_end)
        return tf.ragged.boolean_mask(ids, positions.with_flat_values(kept))
