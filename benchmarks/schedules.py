"""Which schedule of `full` is most accurate for its time: epochs, averaging, frozen layers.

    python -m benchmarks.schedules train.csv [--rows 7003] [--held-out 3000]
    [--seeds 10] [--only WORD] [--out FILE]

All seeds train in parallel in one JAX program, so that a GPU is fully used: on one H100 an epoch of
ten seeds takes 2.4 seconds. Each seed has its own split of the file, row order, head and dropout. A
schedule's cost is in epochs of training all layers; a frozen layer costs a third of a trained one.
Besides the last weights, each run keeps averages of its weights: over the last 60, 45 and 30 % of
its steps, and moving averages that forget within 15 to 50 % of them. Prints each schedule's
accuracy on the held-out rows, and its difference from two averaged trainings of five epochs with
Student's paired standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.finetuning import tokenized
from bertcnn import load_keras
from bertcnn.data import PackedPlan, Packing, lay_out
from bertcnn.settings import FULL, HeadSettings

MEANS = {"moving 15 %": 0.15, "moving 25 %": 0.25, "moving 35 %": 0.35, "moving 50 %": 0.5}
TAILS = {"last 60 %": 0.4, "last 45 %": 0.55, "last 30 %": 0.7}
LAST, BASELINE = "last step", "two trainings of 5 epochs"
CHUNK, EVALUATED = 47, 20  # batches in a program; rows in an evaluation batch


@dataclass(frozen=True)
class Schedule:
    """How an encoder and a head are trained: peak and lowest learning rate, frozen layers."""

    epochs: int
    peak: float = FULL.learning_rate
    floor: float = 0.0
    frozen: int = 0
    order: int = 0

    def cost(self, layers: int) -> float:
        """The cost in epochs of training all layers."""
        return self.epochs * (1 - 2 / 3 * self.frozen / layers)

    def rate(self, done: float) -> float:
        """The learning rate after this share of the steps."""
        warm = FULL.warmup_fraction
        return self.peak * min(done / warm, max((1 - done) / (1 - warm), self.floor), 1.0)


SINGLE = {
    "3 epochs": Schedule(3),
    "5 epochs": Schedule(5),
    "6 epochs": Schedule(6),
    "5 epochs, rate to 30 %": Schedule(5, floor=0.3),
    "6 epochs, rate to 30 %": Schedule(6, floor=0.3),
    "5 epochs, rate 3e-4": Schedule(5, peak=3e-4),
    "6 epochs, rate 3e-4": Schedule(6, peak=3e-4),
    "6 epochs, 1 layer stays": Schedule(6, frozen=1),
    "6 epochs, 2 layers stay": Schedule(6, frozen=2),
    "6 epochs, 3 layers stay": Schedule(6, frozen=3),
}
TWICE = {BASELINE: Schedule(5), "two trainings of 3 epochs": Schedule(3)}


class Lab:
    """Models of all seeds, and one program that trains them in parallel.

    Args:
        data: a labelled file.
        rows: training rows of each seed.
        held_out: number of test rows.
        seeds: number of seeds.
    """

    def __init__(self, data: str, rows: int, held_out: int, seeds: int) -> None:
        import jax.numpy as jnp

        from bertcnn.encoders import fetch_encoder, load_encoder
        from bertcnn.models import BertCnn, CnnHead
        from bertcnn.training import on_used_pieces, renumbered
        from bertcnn.training.batches import class_weights

        folder = fetch_encoder("minilm-l6").folder
        token_ids, self.labels = tokenized(data, folder)
        encoder, used = on_used_pieces(load_encoder(folder), token_ids, 0.0, packed=True)
        self.token_ids = renumbered(token_ids, used)
        self.lengths, self.classes = np.array(list(map(len, token_ids))), int(self.labels.max()) + 1
        self.seeds, self.layers = range(seeds), encoder.settings.layers
        self.learned, self.held_out = zip(
            *(self._divided(rows, held_out, seed) for seed in self.seeds), strict=True
        )
        longest = int(self.lengths.max())
        self.packings = [
            Packing(self.lengths[rows], FULL.batch_size, longest) for rows in self.learned
        ]
        self.weights = [
            class_weights(self.labels[rows], self.classes, None) for rows in self.learned
        ]
        # same number of rows and same sizes for all seeds, so that their batches have one shape
        self.documents = max(packing.documents for packing in self.packings)
        self.size = max(packing.shapes[0][0] for packing in self.packings)
        self.length = longest
        heads = [
            CnnHead(encoder.settings.width, self.classes, HeadSettings(), seed=seed, name="head")
            for seed in self.seeds
        ]
        models = [BertCnn(encoder, head.rebuilt(self.documents)) for head in heads]
        self.model = models[0]
        self.names = [weight.path for weight in self.model.trainable_variables]
        self.start = [
            jnp.stack([jnp.asarray(weight.value) for weight in each])
            for each in zip(*(model.trainable_variables for model in models), strict=True)
        ]
        self.fixed = [
            jnp.stack([jnp.asarray(weight.value) for weight in each])
            for each in zip(*(model.non_trainable_variables for model in models), strict=True)
        ]

    def _divided(self, rows: int, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        labels = self.labels
        rest, asked = train_test_split(
            np.arange(len(labels)), test_size=held_out, stratify=labels, random_state=seed
        )
        if rows < len(rest):
            rest, _ = train_test_split(
                rest, train_size=rows, stratify=labels[rest], random_state=seed
            )
        return rest, asked

    # === Programs ===

    @cached_property
    def train_chunk(self) -> Callable[..., Any]:
        """Train all seeds for some steps."""
        import jax
        import jax.numpy as jnp

        from bertcnn.training.optimizer import AND_EMBEDDINGS

        decayed = [
            0.0 if name.rpartition("/")[2] in AND_EMBEDDINGS else FULL.weight_decay
            for name in self.names
        ]

        def loss(weights: Any, fixed: Any, batch: Any) -> Any:
            inputs = {name: batch[name] for name in self.model.input}
            logits, fixed = self.model.stateless_call(weights, fixed, inputs, training=True)
            hot = jax.nn.one_hot(batch["labels"], self.classes)
            targets = hot * (1 - FULL.label_smoothing) + FULL.label_smoothing / self.classes
            rows = -jnp.sum(targets * jax.nn.log_softmax(logits), -1) * batch["weights"]
            return jnp.sum(rows) / jnp.maximum(jnp.sum(batch["weights"]), 1e-6), fixed

        def step(state: Any, batch: Any, rate: Any, shares: Any, means: Any) -> Any:
            weights, first, second, fixed, count, averages = state
            (_, new_fixed), found = jax.value_and_grad(loss, has_aux=True)(weights, fixed, batch)
            found = [gradient * (share > 0) for gradient, share in zip(found, shares, strict=True)]
            norm = jnp.sqrt(sum(jnp.sum(gradient**2) for gradient in found))
            found = [gradient * jnp.minimum(1.0, 1.0 / (norm + 1e-12)) for gradient in found]
            count += 1
            size = jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            new: list[list[Any]] = [[], [], []]
            for weight, m, v, gradient, decay, share in zip(
                weights, first, second, found, decayed, shares, strict=True
            ):
                m = m + (gradient - m) * 0.1
                v = v + (gradient**2 - v) * 0.001
                kept = weight * (1 - rate * share * decay)
                new[0].append(kept - rate * share * size * m / (jnp.sqrt(v) + 1e-7))
                new[1].append(m)
                new[2].append(v)
            averages = [
                [
                    mean + (weight - mean) * part
                    for mean, weight in zip(average, new[0], strict=True)
                ]
                for average, part in zip(averages, means, strict=True)
            ]
            after = (*new, new_fixed, count, averages)
            # a seed with fewer batches waits for the others
            return jax.tree.map(
                lambda one, other: jnp.where(batch["used"], one, other), after, state
            )

        def chunk(state: Any, batches: Any, rates: Any, shares: Any, means: Any) -> Any:
            def body(state: Any, given: Any) -> Any:
                batch, rate, parts = given
                each = jax.vmap(step, in_axes=(0, 0, None, None, None))
                return each(state, batch, rate, shares, parts), None

            return jax.lax.scan(body, state, (batches, rates, means))[0]

        return jax.jit(chunk)

    @cached_property
    def answer(self) -> Callable[..., Any]:
        """Logits of all seeds' held-out rows."""
        import jax

        def answers(weights: Any, fixed: Any, batches: Any) -> Any:
            each = jax.vmap(lambda *given: self.model.stateless_call(*given, training=False)[0])
            return jax.lax.scan(
                lambda _, batch: (None, each(weights, fixed, batch)), None, batches
            )[1]

        return jax.jit(answers)

    # === Batches ===

    def _filled(self, slots: np.ndarray, size: int) -> np.ndarray:
        """The slots, padded to a batch of `size` rows with `documents` places each."""
        filled = np.full((size, self.documents), -1, np.int64)
        filled[: slots.shape[0], : slots.shape[1]] = slots
        return filled

    def batches(self, seed: int, order: int, epoch: int) -> Iterator[dict[str, np.ndarray]]:
        """The batches of one epoch of a seed."""
        rows = self.learned[seed]
        for plan in self.packings[seed].epoch(np.random.default_rng([seed, order, epoch])):
            slots = self._filled(np.where(plan.slots >= 0, rows[plan.slots], -1), self.size)
            yield {**self._batch(seed, slots), "used": np.array(True)}

    def _batch(self, seed: int, slots: np.ndarray) -> dict[str, np.ndarray]:
        labels = np.where(slots >= 0, self.labels[slots], 0).astype(np.int32)
        return {
            **lay_out(self.token_ids, PackedPlan(slots, self.length)),
            "labels": labels,
            "weights": np.where(slots >= 0, self.weights[seed][labels], 0).astype(np.float32),
        }

    @cached_property
    def asked(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Slots [batches, seeds, B, K] of the held-out rows, and their inputs."""
        rows = []
        for packing, held_out in zip(self.packings, self.held_out, strict=True):
            plans = packing.in_order(self.lengths[held_out])
            slots = np.concatenate([plan.slots for plan in plans])
            rows.append(np.where(slots >= 0, held_out[slots], -1))
        number = -(-max(map(len, rows)) // EVALUATED)
        slots = np.stack(
            [
                self._filled(each, number * EVALUATED).reshape(number, EVALUATED, -1)
                for each in rows
            ],
            axis=1,
        )
        inputs = [
            [lay_out(self.token_ids, PackedPlan(own, self.length)) for own in batch]
            for batch in slots
        ]
        return slots, {
            name: np.stack([np.stack([own[name] for own in batch]) for batch in inputs])
            for name in self.model.input
        }

    # === Runs ===

    def run(self, schedule: Schedule) -> dict[str, list[Any]]:
        """All seeds' weights after a training, by kind of average."""
        import jax.numpy as jnp

        from bertcnn.training.optimizer import layer_share

        share = layer_share(self.layers, FULL)
        still = ("embeddings/", *(f"layer_{place}/" for place in range(schedule.frozen)))
        shares = np.array(
            [
                0.0 if schedule.frozen and name.startswith(still) else share(name)
                for name in self.names
            ],
            np.float32,
        )
        zeros = [jnp.zeros_like(weight) for weight in self.start]
        count = jnp.zeros(len(self.seeds))
        averages = [self.start] * (len(MEANS) + len(TAILS))
        state = (self.start, zeros, zeros, self.fixed, count, averages)
        steps = max(packing.steps for packing in self.packings)
        total = schedule.epochs * steps
        for epoch in range(schedule.epochs):
            each = [list(self.batches(seed, schedule.order, epoch)) for seed in self.seeds]
            for own in each:
                own += [{**own[0], "used": np.array(False)}] * (
                    -(-steps // CHUNK) * CHUNK - len(own)
                )
            together = [
                {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
                for batches in zip(*each, strict=True)
            ]
            for first in range(0, len(together), CHUNK):
                part = together[first : first + CHUNK]
                done = [epoch * steps + first + place for place in range(len(part))]
                rates = np.array([schedule.rate((step + 1) / total) for step in done], np.float32)
                means = np.array([_means(step, total) for step in done], np.float32)
                batches = {name: np.stack([batch[name] for batch in part]) for name in part[0]}
                state = self.train_chunk(state, batches, rates, shares, means)
        return {LAST: state[0], **dict(zip((*MEANS, *TAILS), state[5], strict=True))}

    def accuracies(self, weights: list[Any]) -> list[float]:
        """The accuracy of each seed on its held-out rows."""
        slots, inputs = self.asked
        logits = np.asarray(self.answer(weights, self.fixed, inputs))  # [batches, seeds, B, K, C]
        found = []
        for seed in self.seeds:
            own, there = slots[:, seed], slots[:, seed] >= 0
            answers = logits[:, seed][there].argmax(axis=1)
            found.append(float(np.mean(answers == self.labels[own[there]])))
        return found


def _means(step: int, total: int) -> list[float]:
    """The share of the new weights in each average after a step; 1 before it has begun."""
    moving = [1 / (share * total) if step >= total / 50 else 1.0 for share in MEANS.values()]
    tails = [
        1.0 if step < share * total else 1 / (step - share * total + 1) for share in TAILS.values()
    ]
    return [min(1.0, part) for part in moving + tails]


def _mean(one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    return [(mine + theirs) / 2 for mine, theirs in zip(one, other, strict=True)]


def main() -> None:
    """Train by every schedule, and print accuracies and differences."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--rows", type=int, default=7003)
    parser.add_argument("--held-out", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="schedules whose names hold this")
    parser.add_argument("--out", type=Path, help="every accuracy, as JSON")
    options = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "jax"
    load_keras()
    lab = Lab(options.data, options.rows, options.held_out, options.seeds)
    found: dict[str, list[float]] = {}

    def show(name: str, cost: float, weights: dict[str, list[Any]]) -> None:
        for mean, own in weights.items():
            found[f"{name}, {mean}"] = accuracies = lab.accuracies(own)
            line = f"{name}, {mean}: cost {cost:.1f}, {np.mean(accuracies):.2%} right"
            apart = 100 * np.subtract(accuracies, found.get(f"{BASELINE}, {LAST}", accuracies))
            if apart.any():
                error = apart.std(ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else np.nan
                line += f", {apart.mean():+.3f} ± {error:.3f} points"
            print(line, flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(found), encoding="utf-8")

    for name, schedule in TWICE.items():
        if options.only in name:
            one, other = lab.run(schedule), lab.run(replace(schedule, order=1))
            show(name, 2 * schedule.epochs, {mean: _mean(one[mean], other[mean]) for mean in one})
    for name, schedule in SINGLE.items():
        if options.only in name:
            started = time.perf_counter()
            weights = lab.run(schedule)
            print(f"{time.perf_counter() - started:.0f} s", flush=True)
            show(name, schedule.cost(lab.layers), weights)


if __name__ == "__main__":
    main()
