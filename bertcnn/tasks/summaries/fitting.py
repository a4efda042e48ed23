"""Trains a summariser: the encoder runs once, then the decoder learns from its output."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from bertcnn.data import BatchPlan, pad
from bertcnn.inference import fastest_embed
from bertcnn.models import BertSummariser, extract
from bertcnn.settings import SummariserSettings, SummaryTrainingSettings
from bertcnn.shapes import summariser_shapes
from bertcnn.tasks.pairs import Pairs
from bertcnn.tasks.summaries.rouge import first_sentence, rouge_l
from bertcnn.tasks.summaries.saving import SavedSummariser, SummariserConfig
from bertcnn.tasks.summaries.tokens import SpecialIds, joined, target_ids
from bertcnn.tasks.training import encoder_origin, fine_tune, load_encoder, origin, with_savepoints
from bertcnn.tasks.writing import TextWriter
from bertcnn.training import (
    Arrays,
    Features,
    RunOptions,
    Start,
    compute_policy,
    digest,
    on_used_pieces,
    renumbered,
)

_MOST_VALIDATION = 500  # pairs
_BIAS = "output/bias"
_LEAST = 1e-6  # probability of a token that can neither be generated nor copied
_NEVER = -1e9  # bias of tokens that are in no summary: they are copied, never generated


@dataclass(frozen=True)
class _Encoded:
    """Token ids of texts and summaries, int32 [S] and [T] each; the first `learned` are trained on.

    Attributes:
        references: the summaries as given.
    """

    sources: list[np.ndarray]
    targets: list[np.ndarray]
    references: list[str]
    learned: int

    @property
    def held_out(self) -> range:
        """The validation rows."""
        return range(self.learned, len(self.sources))


def fitted(
    encoder_name: str,
    pairs: Pairs,
    settings: SummariserSettings,
    training: SummaryTrainingSettings,
    options: RunOptions,
    savepoints: Path | None,
) -> SavedSummariser:
    """Train a summariser; see `Summariser.fit`."""
    start = load_encoder(encoder_name, settings.source_tokens, training.precision, options)
    learned, held_out = pairs.split(training.validation_fraction, _MOST_VALIDATION, options.seed)
    references = [*learned.targets, *held_out.targets]
    encoded = _Encoded(
        start.tokenizer.encode([*learned.sources, *held_out.sources]).token_ids,
        target_ids(start.tokenizer, references, settings.target_tokens),
        references,
        len(learned),
    )
    options = with_savepoints(
        options,
        savepoints,
        training,
        encoder=start.name,
        model=settings.model_dump(),
        pairs=digest([*encoded.sources, *encoded.targets]),
    )
    options.progress.note(
        f"{len(learned):,} pairs to learn from, {len(held_out):,} held out to choose the epoch"
    )
    tensors, kept, score = _trained(start, encoded, settings, training, options)
    config = SummariserConfig(
        encoder=start.encoder.settings,
        model=settings,
        pairs=len(learned),
        **encoder_origin(start),
        **origin(training, options),
    )
    first = [
        rouge_l(first_sentence(text), summary)
        for text, summary in zip(held_out.sources, held_out.targets, strict=True)
    ]
    metrics = {
        "pairs": len(learned),
        "validation_pairs": len(held_out),
        "kept_epoch": kept,
        "validation_rouge_l": score,
        "validation_first_sentence": float(np.mean(first)),
    }
    return SavedSummariser(config, start.tokenizer.vocabulary, tensors, metrics)


def _trained(
    start: Start,
    encoded: _Encoded,
    settings: SummariserSettings,
    training: SummaryTrainingSettings,
    options: RunOptions,
) -> tuple[dict[str, np.ndarray], int, float]:
    """The weights of encoder and decoder, and the epoch with the best ROUGE-L, and that."""
    special = np.array([*(ids := SpecialIds.of(start.tokenizer.vocabulary)).never, ids.end])
    policy = compute_policy(training.precision)
    rows = [special, *encoded.sources, *encoded.targets]
    small, used = on_used_pieces(start.encoder, rows, 0.0, dropout=0.0, policy=policy)
    pieces = [start.tokenizer.vocabulary[one] for one in used]
    ids = SpecialIds.of(pieces)
    model = BertSummariser(
        small, settings, dropout=training.dropout, pad_id=ids.pad, seed=options.seed, dtype=policy
    )
    sources, targets = renumbered(encoded.sources, used), renumbered(encoded.targets, used)
    bias = np.full(len(used), _NEVER, np.float32)
    bias[np.concatenate(targets[: encoded.learned])] = 0.0
    model.vocabulary_head.bias.assign(bias)
    writer = TextWriter(model, ids.pad)

    def evaluate() -> dict[str, float]:
        """Mean ROUGE-L of greedy summaries of the held-out texts."""
        written = writer.write(ids.search(settings.target_tokens, 1), sources, encoded.held_out)
        scores = [
            rouge_l(joined(pieces[one] for one in ids.written(text)), encoded.references[text.row])
            for text in written
        ]
        return {"val_f1": float(np.mean(scores))}

    with tempfile.TemporaryDirectory(prefix="bertcnn-features-") as folder:
        options.progress.stage("computing encoder features", len(sources))
        embed, path = (
            fastest_embed(start.encoder, start.tokenizer.pad_id),
            Path(folder) / "features",
        )
        width = start.encoder.settings.width
        features = Features(embed, width, encoded.sources, path, options.progress)
        examples = SummaryPairs(
            features,
            sources[: encoded.learned],
            targets,
            ids.start,
            ids.pad,
            settings.target_tokens,
        )
        kept = fine_tune(model, examples, summary_figures, training, options, evaluate)
    tensors = {**extract(model.weights), **extract(start.encoder.weights)}
    bias = np.full(start.encoder.settings.vocabulary_size, _NEVER, np.float32)
    bias[used] = tensors[_BIAS]
    tensors[_BIAS] = bias
    shapes = summariser_shapes(start.encoder.settings, settings)
    return {name: tensors[name] for name in shapes}, kept, evaluate()["val_f1"]


@dataclass(frozen=True, eq=False)
class SummaryPairs:
    """Texts and summaries as token ids with end tokens, int32 [S] and [T] each.

    Attributes:
        features: the encoder's output for each text.
        target_tokens: T, that summaries are padded to.
    """

    features: Features
    sources: Sequence[np.ndarray]
    targets: Sequence[np.ndarray]
    start_id: int
    pad_id: int
    target_tokens: int

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each text, int [pairs]."""
        return np.array([len(ids) for ids in self.sources])

    def batch(self, plan: BatchPlan) -> tuple[Arrays, Arrays]:
        """Inputs and targets of a batch; padding and filler rows have weight 0."""
        source_ids = pad(self.sources, plan, self.pad_id).token_ids
        target_ids = np.full((plan.size, self.target_tokens), self.pad_id, np.int32)
        for slot, row in enumerate(plan.rows):
            target_ids[slot, : len(self.targets[row])] = self.targets[row]
        written_ids = np.roll(target_ids, 1, axis=1)
        written_ids[:, 0] = self.start_id
        return (
            {
                "sequence_output": self.features.collate(plan)["sequence_output"],
                "source_ids": source_ids,
                "target_ids": written_ids,
            },
            {
                "target_ids": target_ids,
                "source_ids": source_ids,
                "weights": (target_ids != self.pad_id).astype(np.float32),
            },
        )


def summary_figures(outputs: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Any]:
    """The cross-entropy of the mixture of generated and copied tokens; see `BertSummariser`."""
    ops, true = keras.ops, targets["target_ids"]
    logs = ops.take_along_axis(outputs["vocabulary"], true[..., None], axis=-1)[..., 0]  # [B, T]
    same = ops.equal(targets["source_ids"][:, None, :], true[:, :, None])  # [B, T, S]
    copied = ops.sum(outputs["pointer"] * ops.cast(same, "float32"), axis=-1)
    generated = outputs["generated"]
    likely = generated * ops.exp(logs) + (1.0 - generated) * copied
    return {"loss": -ops.sum(ops.log(likely + _LEAST) * targets["weights"])}
