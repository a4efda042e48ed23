"""Typed settings: each declared once, checked on entry, saved with the model it made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from bertcnn.errors import SettingsError, one_line

Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]
Window = Annotated[int, Field(ge=1, le=64)]

DECISIONS = (
    "auto",
    "review:ambiguous",
    "review:out_of_scope",
    "review:empty",
)  # what becomes of a text; arrays hold the place in this
PHRASES = 3  # that an answer gives as its reason, at most: what a person takes in at a glance


class Settings(pydantic.BaseModel):
    """Base of all settings: frozen, unknown keys and wrong types refused with a one-line `SettingsError`."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **values: Any) -> None:  # noqa: ANN401 - checked by pydantic, field by field
        try:
            super().__init__(**values)
        except pydantic.ValidationError as error:
            raise _first_complaint(type(self).__name__, error) from None


def _first_complaint(owner: str, error: pydantic.ValidationError) -> SettingsError:
    """The first of pydantic's findings, as one line."""
    finding = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in finding["loc"])
    # from a validator of ours: its text says what was expected
    if finding["type"] == "value_error":
        return SettingsError(
            f"{owner} got values that do not fit together",
            expected=str(finding["ctx"]["error"]),
            fix="change one of them",
        )
    if finding["type"] == "extra_forbidden":
        return SettingsError(
            f"{owner} was given the unknown key {where!r}",
            expected="only keys this version knows",
            fix=f"remove {where!r} or correct its spelling",
        )
    return SettingsError(
        f"{owner}.{where} was {one_line(finding.get('input'))}",
        expected=finding["msg"][0].lower() + finding["msg"][1:],
        fix=f"give {where!r} such a value",
    )


class EncoderSettings(Settings):
    """The shape of a BERT encoder (Devlin et al. 2019, section 3; `config.json` of its published checkpoints).

    The limits are far above any published encoder. They keep a made-up `config.json` from taking
    all memory.
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
            "as BERT's, or fixed sinusoids: sine and cosine by turns, or all sines and then all"
            " cosines"
        ),
    )
    segment_types: Count = Field(2, le=1 << 10, description="sentence A and sentence B")
    activation: Literal["gelu", "gelu_tanh", "relu"] = Field(
        "gelu", description="gelu is the exact, erf form"
    )
    layer_norm_epsilon: Positive = Field(1e-12, le=1.0, description="added to the variance")
    dropout: Fraction = Field(0.1, description="share of hidden values dropped in training")
    attention_dropout: Fraction = Field(
        0.1, description="share of attention probabilities dropped in training"
    )

    @pydantic.model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width divisible by heads, not {self.width} by {self.heads}")
        if self.positions != "learned" and self.width % 2:
            raise ValueError(
                f"an even width where positions are sines and cosines, not {self.width}"
            )
        return self

    @classmethod
    def of_size(cls, size: str, vocabulary_size: int = 30_522, **changes: Any) -> EncoderSettings:  # noqa: ANN401 - checked by pydantic
        """One of the sizes Google released.

        Heads of 64 values, and a feed-forward layer four times as wide as the model.

        Args:
            size: "tiny", "mini", "small", "medium", "base" or "large".
            vocabulary_size: V.
            changes: other settings by name.

        Raises:
            SettingsError: there is no such size, or a setting cannot work.

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
                fix="correct it",
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
        """Numbers in the encoder's weights, pooler and positions of either kind included."""
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


class HeadSettings(Settings):
    """The CNN head over the encoder's token embeddings (after Kim 2014, section 2)."""

    window_sizes: tuple[Window, ...] = Field(
        (2, 3, 4),
        min_length=1,
        max_length=32,
        description="W, tokens under one filter, a branch each",
    )
    filters: Count = Field(128, le=1 << 16, description="N, filters in each branch")
    dropout: Fraction = Field(0.1, description="share of pooled features dropped in training")


class TokenizerSettings(Settings):
    """How a text becomes token ids; training, scoring and the dashboard share it."""

    lowercase: bool = Field(
        True, description="also strips accents, as the uncased checkpoints expect"
    )
    max_tokens: Annotated[int, Field(ge=4)] = Field(
        512, description="longest input with [CLS] and [SEP]"
    )
    head_tokens: Annotated[int, Field(ge=1)] = Field(
        128,
        description=(
            "of a longer text, tokens kept from its start; the rest comes from its end (Sun et al."
            " 2019, 4.1)"
        ),
    )

    @pydantic.model_validator(mode="after")
    def _head_fits(self) -> Self:
        if self.head_tokens > self.max_tokens - 2:
            raise ValueError(
                f"head_tokens of at most max_tokens - 2, not {self.head_tokens} of"
                f" {self.max_tokens}"
            )
        return self


class PretrainingDataSettings(Settings):
    """How documents become the batches an encoder is pretrained on (Devlin et al. 2019, section 3.1 and appendix A.2)."""

    sequence_length: Annotated[int, Field(ge=8)] = Field(128, description="T, tokens of a row")
    batch_size: Count = Field(32, description="B, rows of a batch")
    pack: bool = Field(
        True,
        description=(
            "several documents in one row, each with attention, positions and next sentence of"
            " its own"
        ),
    )
    next_sentence: bool = Field(
        True, description="pairs of segments, half of them from two documents; else whole segments"
    )
    mask_fraction: Annotated[float, Field(gt=0.0, le=0.5)] = Field(
        0.15, description="share of tokens, special ones apart, to be predicted"
    )
    whole_words: bool = Field(
        False,
        description="the pieces of a word are masked together (google-research/bert, May 2019)",
    )
    short_fraction: Fraction = Field(
        0.1,
        description="share of segments cut shorter than the row, so that short inputs are seen too",
    )
    halve_from: Annotated[int, Field(ge=0)] = Field(
        32,
        description=(
            "a single sentence of so many tokens is a pair of its two parts, a shorter one is none;"
            " 0: it never is"
        ),
    )
    held_out: Fraction = Field(
        0.05, description="share of documents kept for evaluation, chosen by a hash of their text"
    )
    masked_limit: Count | None = Field(
        None,
        description="P, places for masked tokens in a row; by default what mask_fraction can need",
    )
    documents_limit: Count | None = Field(
        None, description="K, documents of a packed row at most; by default one for each 8 tokens"
    )

    @property
    def masked_places(self) -> int:
        """P, places for masked tokens in a row.

        Example:
            >>> PretrainingDataSettings(sequence_length=128).masked_places
            20
        """
        # the last word chosen may be longer than what is still missing
        spare = 8 if self.whole_words else 1
        return min(
            self.masked_limit or int(self.mask_fraction * self.sequence_length) + spare,
            self.sequence_length,
        )

    @property
    def document_places(self) -> int:
        """K, documents of a row."""
        return (self.documents_limit or self.sequence_length // 8) if self.pack else 1


Precision = Annotated[float, Field(gt=0.0, lt=1.0)]


class PrecisionTargets(Settings):
    """How often automatic answers have to be right."""

    overall: Precision = Field(0.95, description="share of right ones among all automatic answers")
    labels: dict[str, Precision] = Field(
        {}, max_length=1 << 17, description="labels that need another share, by name"
    )

    @classmethod
    def of(cls, given: float | str | PrecisionTargets) -> PrecisionTargets:
        """Targets as a user writes them.

        Args:
            given: a share, or text such as "0.95,billing=0.99".

        Raises:
            SettingsError: it is neither, or a share is not between 0 and 1.

        Example:
            >>> PrecisionTargets.of("0.9,billing=0.99,hardware=0.97").labels
            {'billing': 0.99, 'hardware': 0.97}
        """
        if isinstance(given, PrecisionTargets):
            return given
        try:
            if not isinstance(given, str):
                return cls(overall=given)
            named: dict[str, float] = {}
            overall: dict[str, float] = {}
            for label, share in _shares(given):
                shares = overall if label is None else named
                if (label or "") in shares:
                    raise ValueError(f"{label} twice")
                shares[label or ""] = share
            return cls(labels=named, **({"overall": overall[""]} if overall else {}))
        except (ValueError, SettingsError):
            raise SettingsError(
                f"automatic precision {one_line(given)}",
                expected=("a share between 0 and 1, optionally followed by LABEL=SHARE pairs"),
                fix="give for example 0.95, or '0.95,billing=0.99'",
            ) from None

    def __str__(self) -> str:
        return ",".join(
            [
                f"{self.overall:g}",
                *(f"{label}={share:g}" for label, share in sorted(self.labels.items())),
            ]
        )


def _shares(given: str) -> Iterator[tuple[str | None, float]]:
    """Each share with its label, None for all labels; a label may have commas.

    Raises:
        ValueError: what stands at the end is no share.

    Example:
        >>> list(_shares("0.9, loans, cards or other=0.99"))
        [(None, 0.9), ('loans, cards or other', 0.99)]
    """
    waiting = ""
    for part in given.split(","):
        label, equals, share = f"{waiting}{part}".rpartition("=")
        try:
            found = float(share)
        except ValueError:
            waiting += f"{part},"
            continue
        yield label.strip() if equals else None, found
        waiting = ""
    if waiting:
        raise ValueError(waiting)


Recipe = Literal["auto", "few-shot", "frozen", "full"]
ClassWeight = Literal["none", "balanced", "sqrt"]


class TrainingSettings(Settings):
    """How a classifier is trained; `FULL` and `FROZEN` hold each recipe's defaults."""

    epochs: Count = Field(5, description="passes over the training rows at most")
    fewest_steps: Annotated[int, Field(ge=0)] = Field(
        0,
        description=(
            "a small file gets more epochs until it has so many steps (Mosbach et al. 2021, section"
            " 5), unless epochs are given"
        ),
    )
    patience: Count | None = Field(
        None,
        description=(
            "epochs without a better macro-F1 before training stops; by default it does not, as the"
            " learning rate falls to the end"
        ),
    )
    trainings: Count = Field(
        1,
        description=(
            "from the same start in other orders, whose weights are averaged (Wortsman et al."
            " 2022); full takes two by default"
        ),
    )
    batch_size: Count = Field(32, description="rows of a batch")
    learning_rate: Positive = Field(2e-4, description="peak, of the encoder's top layer")
    head_multiplier: Positive = Field(5.0, description="the head learns this many times faster")
    layer_decay: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.9,
        description=(
            "each layer further down learns this many times as fast (Howard and Ruder 2018, section"
            " 3.2)"
        ),
    )
    warmup_fraction: Fraction = Field(
        0.1, description="share of the steps in which the learning rate rises"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="not on biases, normalisation and embeddings"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    label_smoothing: Fraction = Field(
        0.1,
        description=(
            "probability spread over all labels (Szegedy et al. 2016, section 7); none where rows"
            " may have several labels"
        ),
    )
    attention_dropout: Fraction = Field(
        0.0,
        description=(
            "of the encoder while it is trained; 0 because it costs an eighth of a step and more on"
            " long texts"
        ),
    )
    class_weight: ClassWeight | None = Field(
        None,
        description=(
            "balanced: rare labels count more; sqrt: half as strongly; by default sqrt, but none"
            " where rows may have several"
        ),
    )
    most_rows: Count | None = Field(
        None,
        description="rows learned from at most, an equal share of each label's; by default all",
    )
    validation_fraction: Annotated[float, Field(gt=0.0, lt=0.9)] = Field(
        0.1, description="share of rows held out when no file is given"
    )
    validation_rows: Count = Field(10_000, description="of these at most so many")
    compiled_shapes: Annotated[int, Field(ge=1, le=6)] = Field(
        4, description="padded lengths XLA compiles for, at most, where rows are not packed"
    )
    packed: bool = Field(
        True, description="several texts share a row of a batch, so that little of it is padding"
    )
    max_tokens: Annotated[int, Field(ge=4)] = Field(
        512, description="longest input with [CLS] and [SEP]"
    )
    refit: bool = Field(
        False,
        description=(
            "when held-out rows have told epoch, temperature and thresholds, train once more, on"
            " them too; not if a file is given"
        ),
    )
    contrast_steps: Annotated[int, Field(ge=0)] = Field(
        0,
        description=(
            "few-shot only: steps in which the encoder learns to put the texts of one label"
            " together, before the head is trained"
        ),
    )
    contrast_learning_rate: Positive = Field(
        1e-4, description="peak in these steps, of the encoder's top layer"
    )
    unlabelled_rows: Annotated[int, Field(ge=0)] = Field(
        10_000,
        description=(
            "few-shot only: at most this many rows without a label are pseudo-labelled from similar"
            " rows; 0: none"
        ),
    )
    time_budget: Positive | None = Field(
        None,
        description=(
            "minutes; auto measures this machine and takes full only if it should be done by then,"
            " so the recipe may vary"
        ),
    )

    def epochs_of(self, steps: int) -> int:
        """Epochs of so many steps each: `epochs`, or as many as `fewest_steps` needs."""
        return max(self.epochs, math.ceil(self.fewest_steps / steps))


FULL = TrainingSettings(trainings=2)
FROZEN = TrainingSettings(
    epochs=4,
    fewest_steps=300,
    batch_size=64,
    learning_rate=3e-3,
    head_multiplier=1.0,
    layer_decay=1.0,
)
# a binary answer for each label takes longer to learn
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
# where nothing but the head learns, twice the filters learned no better
FROZEN_HEAD = HeadSettings(filters=64, dropout=0.5)


class PretrainingSettings(Settings):
    """How an encoder is pretrained (Devlin et al. 2019, appendix A.2).

    `FROM_NOTHING` and `CONTINUED` hold the defaults.
    """

    steps: Count | None = Field(
        None,
        description=(
            "updates of the weights; by default as many as `epochs` passes over the texts make"
        ),
    )
    epochs: Count = Field(10, description="passes over the texts, where the steps are not given")
    accumulate: Count = Field(1, description="batches whose gradients are added up for one step")
    learning_rate: Positive = Field(1e-4, description="peak")
    warmup_fraction: Fraction = Field(
        0.05, description="share of the steps in which the learning rate rises"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="not on biases and normalisation"
    )
    gradient_clip: Positive = Field(1.0, description="largest global norm of the gradient")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the products; weights, softmax and losses stay float32"
    )


FROM_NOTHING = PretrainingSettings(learning_rate=5e-4)
CONTINUED = PretrainingSettings(epochs=3, learning_rate=5e-5)
