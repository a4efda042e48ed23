"""WordPiece, the only tokenizer of the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from unicodedata import category

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from bertcnn.errors import EncoderError
from bertcnn.settings import TokenizerSettings
from bertcnn.storage import read_text
from bertcnn.text.cleaning import clean_text, cleaned_positions, split_lines
from bertcnn.text.joining import join_words
from bertcnn.text.texts import check_texts
from bertcnn.text.tokenizer_settings import read_tokenizer_settings
from bertcnn.text.word_cache import TokenizedWords, tokenize_words

PAD, UNKNOWN, CLASSIFY, SEPARATE, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (
    PAD,
    UNKNOWN,
    CLASSIFY,
    SEPARATE,
    MASK,
)  # ids 0 to 4 of every vocabulary learned here
# characters; longer words become [UNK], as in google-research/bert tokenization.py
LONGEST_WORD = 100
_JOINERS = frozenset(
    "'\N{RIGHT SINGLE QUOTATION MARK}-_./:@&%$+#"
)  # join words if there are no spaces around them
CONTINUES = 1  # continues the previous word
JOINS = 2  # joins parts of a word, as in "12.50"
PUNCTUATION = 4
# Unicode's categories, including signs such as | and =
_PUNCTUATION = ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sk")


def segments_of(token_ids: Sequence[np.ndarray]) -> np.ndarray:
    """Segments of all tokens of all texts, 0 for A and 1 for B, int32 [tokens].

    `token_ids` are int [T] per text, which ends with [SEP]. A [SEP] before that ends segment A
    (Devlin et al. 2019, section 3), so a text without one is all A.

    Example:
        >>> segments_of([np.array([2, 7, 3, 8, 9, 3]), np.array([2, 7, 3])]).tolist()
        [0, 0, 0, 1, 1, 1, 0, 0, 0]
    """
    lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
    ids = np.concatenate([np.empty(0, np.int32), *token_ids])
    ends = np.cumsum(lengths)[lengths > 0]
    separators = ids == np.repeat(ids[ends - 1], lengths[lengths > 0])
    before = np.cumsum(separators) - separators  # [SEP] tokens before each token
    first = np.repeat(before[ends - lengths[lengths > 0]], lengths[lengths > 0])
    return (before > first).astype(np.int32)


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as token ids.

    Attributes:
        token_ids: per text, int32 [T], from [CLS] to [SEP], not padded.
        truncated: bool [rows], the texts over the limit, which lost their middle.
        cut: int64 [rows], the index of the first token after that middle; T for the other texts.
        spans: on request, int32 [tokens of all texts, 2], the start and end of each token in its
            original text, in characters; start and end are equal for [CLS] and [SEP].
    """

    token_ids: list[np.ndarray]
    truncated: np.ndarray
    cut: np.ndarray
    spans: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int32))

    @property
    def lengths(self) -> np.ndarray:
        """Tokens in each text, int32 [rows]."""
        return np.fromiter(map(len, self.token_ids), np.int32, len(self.token_ids))


class WordPieceTokenizer:
    """BERT's tokenizer (Devlin et al. 2019, section 3; google-research/bert `tokenization.py`).

    It uses the `tokenizers` library and gives the ids of Hugging Face's BertTokenizer, with one
    exception: words such as "[SEP]" in a text are ordinary characters, so that a customer cannot
    type a control token. Time is linear in the length of the text.

    Hugging Face's older Python tokenizer (`BertTokenizerLegacy`) differs in five cases, listed in
    `tests/golden/wordpiece_legacy.json` and proven complete by the tests:

    - the 829,834 unassigned characters, which it drops
    - at most 504 characters that are newer than the library's tables, or reclassified
    - the ideographs U+2B820 to U+2B91F, which are not separate words here
    - a capital sigma at the end of a word, σ in lowercase here and ς there
    - with casing kept, characters that Unicode's composition (NFC) changes

    Args:
        vocabulary: the pieces in the order of their ids, with [PAD], [UNK], [CLS] and [SEP].
        settings: casing and the longest input.

    Raises:
        EncoderError: a special token is missing, or a piece occurs twice.

    Example:
        >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "router", "##s"])
        >>> tokenizer.encode(["Routers!"]).token_ids[0].tolist()
        [2, 4, 5, 1, 3]
    """

    def __init__(
        self, vocabulary: Sequence[str], settings: TokenizerSettings | None = None
    ) -> None:
        self.vocabulary = tuple(vocabulary)
        self.settings = settings or TokenizerSettings()
        ids = {piece: index for index, piece in enumerate(self.vocabulary)}
        if len(ids) != len(self.vocabulary):
            raise EncoderError(
                f"a vocabulary of {len(self.vocabulary)} pieces of which {len(ids)} are different",
                expected="every piece once",
                fix="use the vocab.txt that belongs to the encoder",
            )
        missing = [token for token in (PAD, UNKNOWN, CLASSIFY, SEPARATE) if token not in ids]
        if missing:
            raise EncoderError(
                f"a vocabulary of {len(ids)} pieces without {', '.join(missing)}",
                expected="BERT's special tokens",
                fix="use the vocab.txt that belongs to the encoder",
            )
        self.pad_id, self.unknown_id = ids[PAD], ids[UNKNOWN]
        self._classify_id, self._separate_id = ids[CLASSIFY], ids[SEPARATE]
        self._kinds = np.full(len(ids), -1, np.int8)
        self._tokenizer = Tokenizer(
            WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
        )
        self._tokenizer.normalizer = BertNormalizer(lowercase=self.settings.lowercase)
        self._tokenizer.pre_tokenizer = BertPreTokenizer()

    @classmethod
    def from_folder(
        cls, folder: str | Path, *, max_tokens: int | None = None, pair: bool = False
    ) -> Self:
        """The tokenizer of an encoder's folder in Hugging Face layout.

        It reads `vocab.txt`, `config.json`, and `tokenizer_config.json` if there is one. For an
        encoder by name, see `bertcnn.fetch_encoder`, or the tokenizer of `bertcnn.load_encoder`.

        Args:
            folder: as `fetch_encoder(...).folder`, or as another program saved it.
            max_tokens: longest input, with [CLS] and [SEP]; at most and by default the encoder's.
            pair: whether a text's first line is segment A, and the rest segment B.

        Raises:
            EncoderError: a file is missing or damaged, or it is not the folder of an encoder.
            SettingsError: `max_tokens` is too small.
        """
        folder = Path(folder)
        settings = read_tokenizer_settings(folder, max_tokens=max_tokens, pair=pair)
        return cls(read_vocabulary(folder / "vocab.txt"), settings)

    def __call__(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """The inputs of `Bert` for a batch of texts, int32 [B, T], padded to the longest text.

        Raises:
            SettingsError: `texts` is not a list of strings.

        Example:
            >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "router"])
            >>> inputs = tokenizer(["router", "a router"])
            >>> inputs["token_ids"].tolist(), inputs["padding_mask"].tolist()
            ([[2, 4, 3, 0], [2, 1, 4, 3]], [[1, 1, 1, 0], [1, 1, 1, 1]])
        """
        rows = self.encode(check_texts(texts)).token_ids
        shape = len(rows), max(map(len, rows), default=0)
        token_ids, mask = np.full(shape, self.pad_id, np.int32), np.zeros(shape, np.int32)
        for row, ids in enumerate(rows):
            token_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        segment_ids = np.zeros(shape, np.int32)
        segment_ids[mask > 0] = segments_of(rows)
        return {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": mask}

    def encode(self, texts: Sequence[str], *, spans: bool = False) -> EncodedTexts:
        """Token ids of each text, with [CLS] and [SEP], and on request the spans of the tokens.

        A text over `max_tokens` keeps its first `head_tokens` tokens and as many from its end as
        fit (Sun et al. 2019, section 4.1: 128 + 382 was the best truncation they tried).

        With the setting `pair`, a [SEP] follows the first line: [CLS] A [SEP] B [SEP] (Devlin et
        al. 2019, section 3). A text of one line has no B.
        """
        cleaned = [clean_text(text) for text in texts]
        pieces = tokenize_words(self._tokenizer, cleaned)
        limit = self.settings.max_tokens - 2 - self.settings.pair
        truncated = pieces.lengths > limit
        if truncated.any():
            pieces = pieces.without_middle(limit, self.settings.head_tokens)
        of_a = _of_first_lines(pieces, cleaned) if self.settings.pair else pieces.lengths
        has_b = (of_a > 0) & (of_a < pieces.lengths)
        ends = np.cumsum(pieces.lengths + 2 + has_b)
        first = ends - pieces.lengths - 2 - has_b
        inside = np.ones(len(pieces.ids) + 2 * len(texts) + has_b.sum(), bool)
        inside[first] = inside[ends - 1] = inside[(first + 1 + of_a)[has_b]] = False
        ids = np.full(len(inside), self._separate_id, np.int32)
        ids[first], ids[inside] = self._classify_id, pieces.ids
        token_ids = [
            ids[start:end] for start, end in zip(first.tolist(), ends.tolist(), strict=True)
        ]
        head = self.settings.head_tokens
        cut = np.where(truncated, 1 + head + (has_b & (of_a <= head)), ends - first)
        if not spans:
            return EncodedTexts(token_ids, truncated, cut)
        token_spans = np.zeros((len(inside), 2), np.int32)
        token_spans[inside] = pieces.places
        separators = (first + 1 + of_a)[has_b]
        token_spans[separators] = token_spans[separators - 1, 1:]  # empty, at the end of A
        for start, end, text, clean in zip(
            first.tolist(), ends.tolist(), texts, cleaned, strict=True
        ):
            positions = cleaned_positions(text, clean)
            if positions is not None:
                token_spans[start + 1 : end - 1] = positions[token_spans[start + 1 : end - 1]]
        return EncodedTexts(token_ids, truncated, cut, token_spans)

    def decode(self, ids: Sequence[int] | np.ndarray, *, special_tokens: bool = True) -> str:
        """Readable text of token ids, cased as in the settings and spaced by `join_words`.

        Without `special_tokens`, `[CLS]`, `[SEP]`, `[PAD]`, `[MASK]` and `[UNK]` are left out.

        Raises:
            EncoderError: an id is not in this vocabulary.

        Example:
            >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "router", "##s", "!"]
            >>> tokenizer = WordPieceTokenizer(pieces)
            >>> token_ids = [2, 4, 5, 6, 3]
            >>> tokenizer.decode(token_ids), tokenizer.decode(token_ids, special_tokens=False)
            ('[CLS] routers! [SEP]', 'routers!')
        """
        words: list[
            list[str]
        ] = []  # pieces of each word; repeated string concatenation would take quadratic time
        goes_on = False  # whether a "##" piece continues the last word
        for index in np.asarray(ids, np.int64).tolist():
            if not 0 <= index < len(self.vocabulary):
                raise EncoderError(
                    f"the token id {index}",
                    expected=f"ids from 0 to {len(self.vocabulary) - 1:,}",
                    fix="decode with the vocabulary that encoded the text",
                )
            piece = self.vocabulary[index]
            is_special = piece in SPECIAL_TOKENS
            if is_special and not special_tokens:
                goes_on = False
            elif goes_on and len(piece) > 2 and piece.startswith("##"):
                words[-1].append(piece[2:])
            else:
                words.append([piece])
                goes_on = not is_special
        return join_words("".join(pieces) for pieces in words)

    def kinds(self, ids: np.ndarray) -> np.ndarray:
        """Sums of `CONTINUES`, `JOINS` and `PUNCTUATION`, int8, for ids, int32 [tokens]."""
        kinds = self._kinds[ids]
        # np.unique would import masked arrays, which takes 0.05 s
        for piece in set(ids[kinds < 0].tolist()):
            self._kinds[piece] = _kind(self.vocabulary[piece])
        return self._kinds[ids]

    def whole_words(self, token_ids: Sequence[np.ndarray]) -> np.ndarray:
        """Unique pairs of row and id of the words of one piece, int64 [N, 2], sorted.

        It omits punctuation and the pieces of longer words, which are less informative.
        """
        lengths = np.fromiter(map(len, token_ids), np.int64, len(token_ids))
        ids = np.concatenate([np.empty(0, np.int64), *token_ids]).astype(np.int64)
        kinds = self.kinds(ids)
        whole = (kinds & (CONTINUES | PUNCTUATION) == 0) & np.append(
            kinds[1:] & CONTINUES == 0, True
        )[: len(ids)]
        whole &= (ids != self._classify_id) & (ids != self._separate_id) & (ids != self.unknown_id)
        pairs = np.sort(
            (np.repeat(np.arange(len(lengths)), lengths) * len(self.vocabulary) + ids)[whole]
        )
        pairs = pairs[
            np.append(True, np.diff(pairs) > 0)[: len(pairs)]
        ]  # np.unique would import masked arrays, which takes 0.05 s
        return np.stack(np.divmod(pairs, len(self.vocabulary)), axis=1)

    def normalize(self, text: str) -> str:
        """Drops control characters and, depending on the settings, casing and accents."""
        return str(self._tokenizer.normalizer.normalize_str(text))

    def words(self, normalized: str) -> list[str]:
        """The words of a normalised text; a punctuation mark is a separate word."""
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(normalized)]


def _kind(piece: str) -> int:
    single = len(piece) == 1
    return (
        CONTINUES * (piece[:2] == "##")
        + JOINS * (piece in _JOINERS)
        + PUNCTUATION * (single and category(piece) in _PUNCTUATION)
    )


def _of_first_lines(pieces: TokenizedWords, texts: Sequence[str]) -> np.ndarray:
    """The pieces of each text's first line, int64 [texts]; of a text of one line, all."""
    line_ends = np.array([text.find("\n") % (len(text) + 1) for text in texts], np.int64)
    before = pieces.places[:, 0] < np.repeat(line_ends, pieces.lengths)
    return np.bincount(
        np.repeat(np.arange(len(texts)), pieces.lengths)[before], minlength=len(texts)
    )


def read_vocabulary(path: Path) -> tuple[str, ...]:
    """The pieces in a `vocab.txt`, one a line, in the order of their ids.

    Raises:
        EncoderError: the file is missing or is not UTF-8 text.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise EncoderError(
            f"{path} could not be read ({error})",
            expected="a vocab.txt with one piece a line",
            fix="fetch the encoder again",
        ) from None
    return tuple(split_lines(text))
