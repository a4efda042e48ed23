"""Typed settings: each is declared once, validated, and saved with the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self, get_args

import pydantic
import pydantic_core
from pydantic import Field

from bertcnn.errors import SettingsError, one_line

MOST: Final = 1 << 53  # limit of all counts; a float holds it exactly

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Window = Annotated[int, Field(ge=1, le=64)]

# possible decisions; arrays hold an index into this tuple
DECISIONS = ("auto", "review:ambiguous", "review:out_of_scope", "review:empty", "review:language")
REASONS = (
    "",
    "empty",
    "certain",
    "uncertain",
    "no_label",
    "language",
    "directions",
    "places",
    "probability",
    "words",
    "background",
)  # reasons of decisions; arrays hold an index into this tuple
PHRASES = 3  # most phrases in an answer's reason
Pool = Literal["mean", "none"]  # of the token embeddings of a text


def check_pool(pool: str) -> None:
    """Raise a SettingsError if `pool` is not "mean" or "none"."""
    if pool not in get_args(Pool):
        raise SettingsError(
            f"pool {one_line(pool)}",
            expected="'mean' for one vector per text, or 'none' for one per token",
            fix="choose one of them",
        )


class Settings(pydantic.BaseModel):
    """Base class of all settings: immutable, and strict about keys and types.

    Raises:
        SettingsError: a key is unknown, or a value is invalid.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **values: Any) -> None:  # noqa: ANN401 - checked by pydantic, field by field
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            raise _first_complaint(type(self).__name__, error) from None

    # pydantic's mark of an `__init__` that validates as usual; without it, `strict` would not reach
    # nested settings
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def of_json(cls, value: Any) -> Self:  # noqa: ANN401 - any JSON value
        """Validate settings from JSON without converting types; SettingsError for invalid ones."""
        try:
            return cls.model_validate_json(
                pydantic_core.to_json(value, inf_nan_mode="constants"), strict=True
            )
        except pydantic.ValidationError as error:
            raise _first_complaint(cls.__name__, error) from None


def _first_complaint(owner: str, error: pydantic.ValidationError) -> SettingsError:
    finding = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in finding["loc"])
    # raised by one of our validators, whose text says what was expected
    if finding["type"] == "value_error":
        return SettingsError(
            f"{owner} got values that do not fit together",
            expected=str(finding["ctx"]["error"]),
            fix="change one of them",
        )
    if finding["type"] == "extra_forbidden":
        return SettingsError(
            f"{owner} was given the unknown key {where!r}",
            expected="only keys that this version knows",
            fix=f"remove {where!r} or correct its spelling",
        )
    return SettingsError(
        f"{owner}.{where} was {one_line(finding.get('input'))}",
        expected=finding["msg"][0].lower() + finding["msg"][1:],
        fix=f"change {where!r}",
    )


class EncoderSettings(Settings):
    """The shape of a BERT encoder (Devlin et al. 2019, section 3).

    The names follow `config.json` of the published checkpoints. The upper limits are far above any
    published encoder; they keep a forged `config.json` from using up all memory.
    """

    vocabulary_size: Count = Field(le=1 << 21, description="V, number of WordPieces")
    width: Count = Field(le=1 << 14, description="D, model width")
    layers: Count = Field(le=256, description="number of Transformer blocks")
    heads: Count = Field(le=1 << 14, description="H, attention heads; must divide the width")
    feed_forward_width: Count = Field(
        le=1 << 16, description="F, inner width of the feed-forward layer"
    )
    max_positions: Count = Field(512, le=1 << 16, description="longest input, in tokens")
    positions: Literal["learned", "interleaved", "concatenated"] = Field(
        "learned",
        description=(
            "learned as in BERT, or fixed sinusoids: sine and cosine alternate (interleaved), or"
            " all sines come first (concatenated)"
        ),
    )
    segment_types: Count = Field(2, le=1 << 10, description="number of segments: sentence A and B")
    activation: Literal["gelu", "gelu_tanh", "relu"] = Field(
        "gelu", description="of the feed-forward layer; gelu is the exact form, with erf"
    )
    layer_norm_epsilon: float = Field(
        1e-12, ge=1e-20, le=1.0, description="added to the variance in layer normalisation"
    )
    dropout: Fraction = Field(0.1, description="share of hidden values dropped in training")
    attention_dropout: Fraction = Field(
        0.1, description="share of attention probabilities dropped in training"
    )

    @pydantic.model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width divisible by heads, not {self.width} by {self.heads}")
        if self.positions != "learned" and self.width % 2:
            raise ValueError(f"an even width for sinusoidal positions, not {self.width}")
        return self

    @classmethod
    def of_size(cls, size: str, vocabulary_size: int = 30_522, **changes: Any) -> EncoderSettings:  # noqa: ANN401 - checked by pydantic
        """The settings of one of the sizes that Google released.

        Each head has 64 values, and the feed-forward layer is four times as wide as the model.

        Args:
            size: "tiny", "mini", "small", "medium", "base" or "large".
            vocabulary_size: V.
            changes: other settings by name.

        Raises:
            SettingsError: the size is unknown, or a setting is invalid.

        Source: Devlin et al. 2019, section 3 (base, large); Turc et al. 2019, section 3 (the
        others).

        Example:
            >>> EncoderSettings.of_size("base").parameters
            109482240
        """
        if size not in SIZES:
            raise SettingsError(
                f"the size {one_line(size)}",
                expected=f"one of {', '.join(SIZES)}",
                fix="choose one of these",
            )
        layers, width = SIZES[size]
        shape = {
            "vocabulary_size": vocabulary_size,
            "width": width,
            "layers": layers,
            "heads": width // 64,
            "feed_forward_width": 4 * width,
        }
        return cls(**{**shape, **changes})

    @property
    def parameters(self) -> int:
        """Number of the encoder's weights, with pooler, position and segment embeddings."""
        width, inner = self.width, self.feed_forward_width
        norm = 2 * width
        embeddings = (self.vocabulary_size + self.max_positions + self.segment_types) * width + norm
        attention = 4 * (width * width + width) + norm
        feed_forward = 2 * width * inner + inner + width + norm
        return embeddings + self.layers * (attention + feed_forward) + width * width + width


SIZES = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}  # layers, width


class WriterSettings(Settings):
    """The shape of a model that writes texts, with one table of embeddings."""

    vocabulary_size: Count = Field(le=1 << 21, description="V, number of WordPieces")
    width: Count = Field(128, le=1 << 14, description="D, model width")
    heads: Count = Field(4, le=1 << 14, description="H, attention heads; must divide the width")
    feed_forward_width: Count = Field(
        512, le=1 << 16, description="F, inner width of the feed-forward layers"
    )
    positions: Literal["interleaved", "concatenated"] = Field(
        "interleaved", description="the layout of the sinusoids, as in EncoderSettings"
    )

    @pydantic.model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads or self.width % 2:
            raise ValueError("an even width that is a multiple of heads")
        return self


class TranslatorSettings(WriterSettings):
    """The shape of a model that writes a text for a text.

    Encoder and decoder have the same width, also of each LSTM's state, and as many layers.
    """

    architecture: Literal["transformer", "recurrent"] = Field(
        "transformer",
        description=(
            "transformer (Vaswani et al. 2017), or recurrent: LSTMs with additive attention"
            " (Bahdanau et al. 2014)"
        ),
    )
    layers: Count = Field(
        2, le=256, description="blocks of the encoder, and of the decoder; of a transformer only"
    )
    source_tokens: Annotated[int, Field(ge=2, le=1 << 12)] = Field(
        64, description="S, longest source, in tokens; longer ones are cut"
    )
    target_tokens: Annotated[int, Field(ge=2, le=1 << 12)] = Field(
        64, description="T, longest translation, in tokens"
    )
    dropout: Fraction = Field(0.1, description="share of hidden values dropped in training")


class LanguageModelSettings(WriterSettings):
    """The shape of a decoder-only Transformer, which predicts the next token of a text."""

    layers: Count = Field(2, le=256, description="blocks")
    context_tokens: Annotated[int, Field(ge=8, le=1 << 12)] = Field(
        128, description="L, tokens that a prediction sees; longer texts are read in windows"
    )
    dropout: Fraction = Field(0.2, description="share of hidden values dropped in training")


class SummariserSettings(Settings):
    """The shape of a decoder that writes a summary from an encoder's output.

    Its width and heads are the encoder's.
    """

    layers: Count = Field(1, le=256, description="blocks of the decoder")
    feed_forward_width: Count = Field(
        768, le=1 << 16, description="F, inner width of the feed-forward layers"
    )
    source_tokens: Annotated[int, Field(ge=4, le=1 << 12)] = Field(
        160, description="S, longest text, in tokens; a longer one loses tokens in its middle"
    )
    target_tokens: Annotated[int, Field(ge=2, le=1 << 12)] = Field(
        24, description="T, longest summary, in tokens"
    )
    copies: bool = Field(True, description="also copy words of the text, by a pointer")


class HeadSettings(Settings):
    """The CNN head on the encoder's token embeddings (after Kim 2014, section 2)."""

    window_sizes: tuple[Window, ...] = Field(
        (2, 3, 4),
        min_length=1,
        max_length=32,
        description="W, tokens that a filter covers; one branch for each size",
    )
    filters: Count = Field(128, le=1 << 16, description="N, filters in each branch")
    dropout: Fraction = Field(0.1, description="share of pooled features dropped in training")


class TokenizerSettings(Settings):
    """How a text becomes token ids, in training, scoring and the dashboard alike."""

    lowercase: bool = Field(
        True, description="lowercase and strip accents, as the uncased checkpoints expect"
    )
    max_tokens: Annotated[int, Field(ge=4)] = Field(
        512, description="longest input, including [CLS] and [SEP]"
    )
    head_tokens: Annotated[int, Field(ge=1)] = Field(
        128,
        description=(
            "tokens kept from the start of a longer text; the others come from its end (Sun et al."
            " 2019, section 4.1)"
        ),
    )

    pair: bool = Field(
        False,
        description="whether a text's first line is BERT's segment A, and the rest segment B",
    )

    @pydantic.model_validator(mode="after")
    def _head_fits(self) -> Self:
        if self.head_tokens > self.max_tokens - 2 - self.pair:
            raise ValueError(
                f"head_tokens of at most max_tokens - {2 + self.pair}, not {self.head_tokens} with"
                f" max_tokens {self.max_tokens}"
            )
        return self


class PretrainingDataSettings(Settings):
    """How documents become pretraining batches (Devlin et al. 2019, section 3.1, appendix A.2)."""

    sequence_length: Annotated[int, Field(ge=8)] = Field(128, description="T, tokens per row")
    batch_size: Count = Field(32, description="B, rows per batch")
    pack: bool = Field(
        True,
        description=(
            "put several documents into one row, each with its own attention, positions and next"
            " sentence"
        ),
    )
    next_sentence: bool = Field(
        True,
        description=(
            "learn from pairs of segments, half of them from two documents; else from single"
            " segments"
        ),
    )
    mask_fraction: Annotated[float, Field(gt=0.0, le=0.5)] = Field(
        0.15, description="share of tokens to predict, not counting special tokens"
    )
    whole_words: bool = Field(
        False,
        description="mask all pieces of a word together (google-research/bert, May 2019)",
    )
    short_fraction: Fraction = Field(
        0.1,
        description="share of pairs made shorter than a row, so that short inputs are seen too",
    )
    halve_from: Annotated[int, Field(ge=0)] = Field(
        32,
        description=(
            "split a document of one sentence into a pair if it has at least this many tokens;"
            " 0: never"
        ),
    )
    held_out: Fraction = Field(
        0.05, description="share of documents kept for evaluation, selected by a hash of their text"
    )
    masked_limit: Count | None = Field(
        None,
        description="P, masked tokens per row at most; by default as many as mask_fraction needs",
    )
    documents_limit: Count | None = Field(
        None, description="K, documents per packed row at most; by default one for every 8 tokens"
    )

    @property
    def masked_places(self) -> int:
        """P, the maximum number of masked tokens per row.

        Example:
            >>> PretrainingDataSettings(sequence_length=128).masked_places
            20
        """
        # the last word may have more pieces than needed
        spare = 8 if self.whole_words else 1
        return min(
            self.masked_limit or int(self.mask_fraction * self.sequence_length) + spare,
            self.sequence_length,
        )

    @property
    def document_places(self) -> int:
        """K, the maximum number of documents per row."""
        return (self.documents_limit or self.sequence_length // 8) if self.pack else 1


Precision = Annotated[float, Field(gt=0.0, lt=1.0)]


class PrecisionTargets(Settings):
    """The share of automatic answers that have to be right."""

    overall: Precision = Field(0.95, description="share of all automatic answers that are right")
    labels: dict[str, Precision] = Field(
        {}, max_length=1 << 17, description="shares for single labels, by name"
    )

    @classmethod
    def of(cls, targets: float | str | PrecisionTargets) -> PrecisionTargets:
        """Parse targets that a user wrote: a share, or text such as "0.95,billing=0.99".

        Raises:
            SettingsError: the text is invalid, or a share is not between 0 and 1.

        Example:
            >>> PrecisionTargets.of("0.9,billing=0.99,hardware=0.97").labels
            {'billing': 0.99, 'hardware': 0.97}
        """
        if isinstance(targets, PrecisionTargets):
            return targets
        try:
            if not isinstance(targets, str):
                return cls(overall=targets)
            named: dict[str, float] = {}
            overall: dict[str, float] = {}
            for label, share in _shares(targets):
                shares = overall if label is None else named
                if (label or "") in shares:
                    raise ValueError(f"{label} twice")
                shares[label or ""] = share
            return cls(labels=named, **({"overall": overall[""]} if overall else {}))
        except (ValueError, SettingsError):
            raise SettingsError(
                f"automatic precision {one_line(targets)}",
                expected=("a share between 0 and 1, optionally followed by LABEL=SHARE pairs"),
                fix="write 0.95, or '0.95,billing=0.99'",
            ) from None

    def __str__(self) -> str:
        return ",".join(
            [
                f"{self.overall:g}",
                *(f"{label}={share:g}" for label, share in sorted(self.labels.items())),
            ]
        )


def _shares(text: str) -> Iterator[tuple[str | None, float]]:
    """Each label, which may contain commas, with its share; None stands for all labels.

    Raises:
        ValueError: the text does not end with a share.

    Example:
        >>> list(_shares("0.9, loans, cards or other=0.99"))
        [(None, 0.9), ('loans, cards or other', 0.99)]
    """
    waiting = ""
    for part in text.split(","):
        label, equals, share = f"{waiting}{part}".rpartition("=")
        try:
            value = float(share)
        except ValueError:
            waiting += f"{part},"
            continue
        yield label.strip() if equals else None, value
        waiting = ""
    if waiting:
        raise ValueError(waiting)


Recipe = Literal["auto", "few-shot", "frozen", "full"]
ComputePrecision = Annotated[
    Literal["auto", "float32", "bfloat16"],
    Field(
        description=(
            "of what layers compute in training; weights, optimizer, softmax, normalisation and"
            " losses stay float32; auto: bfloat16 on a GPU, float32 on a CPU"
        )
    ),
]
ClassWeight = Literal["none", "balanced", "sqrt"]


class TrainingSettings(Settings):
    """How a classifier is trained; `FULL`, `FROZEN` and `FEW_SHOT` are the recipes' defaults."""

    epochs: Count = Field(5, description="most passes over the training rows")
    fewest_steps: Annotated[int, Field(ge=0)] = Field(
        0,
        description=(
            "more epochs are run on a small file to reach this many steps, unless epochs are given"
            " (Mosbach et al. 2021, section 5)"
        ),
    )
    patience: Count | None = Field(
        None,
        description=(
            "epochs without a better macro-F1 before training stops; by default it does not stop"
            " early, since the learning rate falls until the end"
        ),
    )
    averaged_share: Fraction = Field(
        0.0,
        description=(
            "the weights are the mean of those in this last share of the steps (Izmailov et al."
            " 2018); 0: those of the last step"
        ),
    )
    frozen_share: Fraction = Field(
        0.0,
        description=(
            "full only: share of the encoder's layers, the lowest, that stay as they are, and its"
            " embeddings with them (Lee et al. 2019); by default none where the encoder is not"
            " known to be a sentence encoder"
        ),
    )
    batch_size: Count = Field(32, description="rows per batch")
    learning_rate: Positive = Field(2e-4, description="peak, for the encoder's top layer")
    head_multiplier: Positive = Field(
        5.0, description="the head's learning rate is this many times higher"
    )
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.9,
        description=(
            "each lower layer's learning rate is multiplied by this (Howard and Ruder 2018, section"
            " 3.2)"
        ),
    )
    warmup_fraction: Fraction = Field(
        0.1, description="share of the steps in which the learning rate rises"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="not applied to biases, normalisation and embeddings"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    label_smoothing: Fraction = Field(
        0.1,
        description=(
            "probability spread evenly over all labels (Szegedy et al. 2016, section 7); not used"
            " for several labels per row"
        ),
    )
    attention_dropout: Fraction = Field(
        0.0,
        description=(
            "in the encoder during training; 0, since it makes a step an eighth slower, and more"
            " with long texts"
        ),
    )
    class_weight: ClassWeight | None = Field(
        None,
        description=(
            "balanced: weights are inverse to a label's rows; sqrt: the square roots of these; by"
            " default sqrt, and none for several labels per row"
        ),
    )
    most_rows: Count | None = Field(
        None,
        description="most training rows, an equal share of each label's rows; by default all",
    )
    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.1, description="share of rows held out for validation if no file is given"
    )
    validation_rows: Count = Field(10_000, description="most rows held out for validation")
    precision: ComputePrecision = "auto"
    compiled_shapes: Annotated[int, Field(ge=1, le=6)] = Field(
        4, description="most padded lengths that XLA compiles for if rows are not packed"
    )
    packed: bool = Field(
        True, description="put several texts into one row of a batch, which leaves little padding"
    )
    max_tokens: Annotated[int, Field(ge=4)] = Field(
        512, description="longest input, including [CLS] and [SEP]"
    )
    pair: bool = Field(
        False,
        description="whether a text's first line is BERT's segment A, and the rest segment B",
    )
    refit: bool = Field(
        False,
        description=(
            "after validation has set epoch, temperature and thresholds, train again on all rows;"
            " not if a validation file is given"
        ),
    )
    folds: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None,
        description=(
            "trainings, each without a part of the rows, whose answers to that part set"
            " temperature, thresholds and limits beside the validation rows; 0: none; by default"
            " 5, 3 or 2 where fewer than 1,000 rows are held out, as many as take about 5 minutes;"
            " not if a validation file is given"
        ),
    )
    contrast_steps: Annotated[int, Field(ge=0)] = Field(
        0,
        description=(
            "few-shot only: steps with a supervised contrastive loss, which train the encoder"
            " before the head"
        ),
    )
    contrast_learning_rate: Positive = Field(
        1e-4, description="peak in these steps, for the encoder's top layer"
    )
    unlabelled_rows: Annotated[int, Field(ge=0)] = Field(
        10_000,
        description=(
            "few-shot only: most unlabelled rows that are pseudo-labelled from similar rows, or by"
            " a teacher; 0: none"
        ),
    )
    time_budget: Positive | None = Field(
        None,
        description=(
            "minutes; auto measures this machine and selects full only if it should finish in time,"
            " and full ends sooner if it would not, so runs may differ"
        ),
    )

    def frozen_layers(self, layers: int) -> int:
        """The number of frozen encoder layers, rounded down."""
        return int(self.frozen_share * layers)

    def epochs_of(self, steps: int) -> int:
        """The number of epochs of `steps` steps: `epochs`, or more to reach `fewest_steps`."""
        return max(self.epochs, math.ceil(self.fewest_steps / steps))


FULL = TrainingSettings(epochs=6, averaged_share=0.6, frozen_share=0.17)
FROZEN = TrainingSettings(
    epochs=4,
    fewest_steps=300,
    batch_size=64,
    learning_rate=3e-3,
    head_multiplier=1.0,
    layer_decay=1.0,
)
# one binary output per label takes longer to learn
FROZEN_MULTI_LABEL = FROZEN.model_copy(update={"fewest_steps": 600})
FEW_SHOT = FROZEN.model_copy(
    update={
        "epochs": 20,
        "fewest_steps": 0,
        "learning_rate": 1e-3,
        "layer_decay": 0.9,
        "label_smoothing": 0.0,
        "refit": True,
        "contrast_steps": 12,
    }
)
FEW_SHOT_HEAD = HeadSettings(dropout=0.5)
# with a frozen encoder, 128 filters were no better than 64
FROZEN_HEAD = HeadSettings(filters=64, dropout=0.5)


class PretrainingSettings(Settings):
    """How an encoder is pretrained (Devlin et al. 2019, appendix A.2).

    `FROM_NOTHING` and `CONTINUED` are the defaults.
    """

    steps: Count | None = Field(
        None,
        description=(
            "updates of the weights; by default as many as `epochs` passes over the texts need"
        ),
    )
    epochs: Count = Field(10, description="passes over the texts if steps are not given")
    accumulate: Count = Field(1, description="batches whose gradients are added for one update")
    learning_rate: Positive = Field(1e-4, description="peak")
    warmup_fraction: Fraction = Field(
        0.05, description="share of the steps in which the learning rate rises"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="not applied to biases and normalisation"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    precision: ComputePrecision = "auto"


FROM_NOTHING = PretrainingSettings(learning_rate=5e-4)
CONTINUED = PretrainingSettings(epochs=3, learning_rate=5e-5)


class WriterTrainingSettings(Settings):
    """How a model that writes texts is trained.

    Batches of similar lengths, AdamW with the warm-up of Vaswani et al. 2017, section 5.3; the
    epoch with the lowest loss on the validation texts is kept.
    """

    epochs: Count = Field(60, description="most passes over the training texts")
    patience: Count | None = Field(
        10, description="epochs without a lower loss before training stops; null for never"
    )
    batch_size: Count = Field(64, description="texts per batch")
    learning_rate: Positive = Field(
        2e-3, description="peak; in the paper (width * warmup_steps) ** -0.5"
    )
    warmup_steps: Count = Field(400, description="steps in which the learning rate rises")
    label_smoothing: Fraction = Field(
        0.1, description="share of the target probability spread over the vocabulary"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.0, description="of AdamW, for all weights but biases and normalisation"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    precision: ComputePrecision = "auto"
    vocabulary_size: Count = Field(2000, description="most WordPieces; fewer if the texts are few")
    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.1, description="share of the texts held out for validation"
    )
    compiled_shapes: Annotated[int, Field(ge=1, le=6)] = Field(
        2, description="padded lengths; XLA compiles a program for each"
    )


class TranslationTrainingSettings(WriterTrainingSettings):
    """How a translator is trained; a text is a pair, and both languages share the WordPieces."""

    validation_pairs: Count = Field(2000, description="most pairs held out for validation")


class LanguageTrainingSettings(WriterTrainingSettings):
    """How a language model is trained."""

    label_smoothing: Fraction = Field(
        0.0, description="share of the target probability spread over the vocabulary"
    )
    batch_size: Count = Field(16, description="texts per batch")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.1, description="of AdamW, for all weights but biases and normalisation"
    )
    vocabulary_size: Count = Field(4000, description="most WordPieces; fewer if the texts are few")
    validation_fraction: Annotated[float, Field(ge=0.0, lt=0.9)] = Field(
        0.1,
        description="share of the texts held out for validation; 0 to learn the texts by heart",
    )
    time_budget: Positive | None = Field(
        None, description="minutes; training ends with the last epoch that fits; null for no limit"
    )


class SamplingSettings(Settings):
    """How a language model continues a text."""

    max_tokens: Count = Field(40, description="most tokens to generate")
    temperature: Annotated[float, Field(ge=0.0)] | None = Field(
        None, description="divides the logits; 0 is greedy; null for 1 with top_k or top_p, else 0"
    )
    top_k: Count | None = Field(None, description="draw from as many most probable tokens only")
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        None, description="draw from the fewest tokens whose probabilities sum to this"
    )


class QuestionSettings(Settings):
    """How a question and its context become rows of the network.

    A context that does not fit is read in windows that overlap (Devlin et al. 2019, appendix A.5;
    google-research/bert `run_squad.py`).
    """

    max_tokens: Annotated[int, Field(ge=16, le=1 << 12)] = Field(
        256, description="T, tokens of a question and a window of its context"
    )
    stride: Annotated[int, Field(ge=1, le=1 << 12)] = Field(
        64, description="tokens between the starts of two windows"
    )
    question_tokens: Annotated[int, Field(ge=4, le=1 << 11)] = Field(
        64, description="longest question; longer ones are refused"
    )
    answer_tokens: Annotated[int, Field(ge=1, le=1 << 10)] = Field(30, description="longest answer")
    windows: Count = Field(
        64, le=1 << 12, description="most windows of a context; longer ones are refused"
    )

    @pydantic.model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        if self.stride >= self.max_tokens - self.question_tokens - 3:
            raise ValueError("max_tokens of at least question_tokens + stride + 4")
        return self


class QuestionTrainingSettings(Settings):
    """How an encoder is fine-tuned to answer questions (Devlin et al. 2019, section 4.2)."""

    epochs: Count = Field(10, description="passes over the questions; the best one is kept")
    batch_size: Count = Field(8, description="windows per batch")
    learning_rate: Positive = Field(2e-4, description="peak")
    warmup_fraction: Fraction = Field(
        0.1, description="share of the steps in which the learning rate rises"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="decoupled, per step and unit of learning rate"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    dropout: Fraction = Field(
        0.1, description="share of hidden values and attention probabilities dropped in training"
    )
    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.15, description="share of the contexts held out for validation"
    )
    precision: ComputePrecision = "auto"
    compiled_shapes: Annotated[int, Field(ge=1, le=6)] = Field(
        3, description="padded lengths; XLA compiles a program for each"
    )


class TokenLabelSettings(Settings):
    """How texts become rows of a token labeller; long texts are read in overlapping windows."""

    max_tokens: Annotated[int, Field(ge=8, le=1 << 12)] = Field(256, description="T, of a window")
    stride: Annotated[int, Field(ge=1, le=1 << 12)] = Field(
        128, description="tokens between the starts of two windows"
    )
    windows: Count = Field(64, le=1 << 12, description="most windows of a text")

    @pydantic.model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        if self.stride >= self.max_tokens - 2:
            raise ValueError("max_tokens of at least stride + 3")
        return self


class TokenLabelTrainingSettings(QuestionTrainingSettings):
    """How an encoder is fine-tuned to label tokens (Devlin et al. 2019, section 5.3)."""

    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.15, description="share of the texts held out for validation if no file is given"
    )


class SummaryTrainingSettings(QuestionTrainingSettings):
    """How a summariser's decoder is trained; its encoder is frozen and runs once for each text."""

    epochs: Count = Field(25, description="passes over the pairs; the best one is kept")
    batch_size: Count = Field(32, description="pairs per batch")
    learning_rate: Positive = Field(1e-3, description="peak")
    dropout: Fraction = Field(0.3, description="share of hidden values dropped in training")
    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.1, description="share of the pairs held out for validation"
    )
