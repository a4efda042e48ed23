"""Thresholds from held-out rows compared with thresholds from cross-fitting on all rows.

    python -m benchmarks.cross_fitting banking77/train.csv --rows 1500 --recipe frozen --repeats 20

Each repetition draws `--rows` training rows; all others are unseen rows. Thresholds for the same
model come from its held-out tenth, and from cross-fitted answers of 2 and 5 folds' models to all
rows. Another model takes its threshold from a held-out third and is then retrained on all rows. The
table shows the share of unseen rows that is automatic, and how often the promised precision is kept
there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.few_shot import read, unit_embeddings
from benchmarks.recipes import grouped, movies
from bertcnn.data import assign_folds, duplicate_key, split_validation
from bertcnn.errors import TrainingError
from bertcnn.evaluation import GroundTruth, ScoredPredictions
from bertcnn.evaluation.thresholds import find_threshold
from bertcnn.inference import Embed, KerasEngine, fastest_embed
from bertcnn.models import Bert, BertCnn, assign, extract
from bertcnn.progress import Silent
from bertcnn.settings import FROZEN_HEAD, HeadSettings
from bertcnn.training import (
    FitResult,
    RunOptions,
    TokenizedRows,
    TrainingData,
    cross_fit,
    load_start,
    recipe_settings,
    train,
)
from bertcnn.training.features import Features, stored_embed


class Task:
    """Tokenised rows of a data set, and the encoder that each training starts from."""

    to_come = 2_500  # unseen rows, to measure the automatic share on

    def __init__(self, texts: list[str], labels: list[str], options: argparse.Namespace) -> None:
        start = load_start(options.encoder, 128, seed=0, progress=Silent())
        self.texts, self.labels, self.encoder = texts, labels, start.encoder
        codes = np.unique(labels, return_inverse=True)[1]
        self.rows = TokenizedRows(start.tokenizer.encode(texts).token_ids, codes)
        self.untrained, self.recipe = extract(start.encoder.weights), options.recipe
        self.settings = recipe_settings(options.recipe, {})
        self.head = FROZEN_HEAD if options.recipe == "frozen" else HeadSettings()
        self.target, self.pad_id = options.target, start.tokenizer.pad_id
        self.embed = fastest_embed(start.encoder, self.pad_id)
        if options.recipe == "frozen":
            self.embed = self._stored()

    def _stored(self) -> Embed:
        """The encoder's output, computed once and stored."""
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "features"
        ids, width = self.rows.token_ids, self.encoder.settings.width
        return stored_embed(Features(self.embed, width, ids, path, Silent()), ids)

    def repetition(self, chosen: np.ndarray, seed: int) -> dict[str, tuple[float, ...]]:
        """Results by procedure: automatic share, precision, possible share, accuracy, seconds."""
        others = np.setdiff1d(np.arange(len(self.labels)), chosen)
        others = np.random.default_rng(seed).permutation(others)[: self.to_come]
        found = {}
        held_out, first, model, seconds = self._trained(chosen, seed, 0.1)
        to_come = self._answers(model, others)
        found["held-out tenth"] = self._figures(
            chosen[held_out], first.valid_logits, to_come, others, seconds
        )
        texts, names = self._of(chosen)
        rest = np.setdiff1d(np.arange(len(chosen)), held_out)
        data = TrainingData(self.rows.of(chosen[rest]), self.rows.of(chosen[held_out]))
        settings = self.settings.model_copy(update={"epochs": len(first.epochs), "fewest_steps": 0})

        def once(encoder: Bert, data: TrainingData, run: RunOptions) -> tuple[BertCnn, FitResult]:
            return train(encoder, data, self.head, self.recipe, settings, run)

        for folds in (2, 5):
            keys = [duplicate_key(texts[row]) for row in rest]
            fold_of = assign_folds(
                keys, [names[row] for row in rest], [texts[row] for row in rest], folds
            )
            run = replace(self._run(seed, first), fold_of=fold_of)
            begun = time.perf_counter()
            answers = cross_fit(
                once,
                self.encoder,
                self.untrained,
                data,
                run,
                seconds=0.0,
            )
            rows = np.concatenate([held_out, *(rest[one.held_out] for one in answers)])
            logits = np.concatenate([first.valid_logits, *(one.logits for one in answers)])
            found[f"{folds} folds"] = self._figures(
                chosen[rows], logits, to_come, others, seconds + time.perf_counter() - begun
            )
        begun = time.perf_counter()
        held_out, third, _, _ = self._trained(chosen, seed, 1 / 3)
        _, _, model, _ = self._trained(chosen, seed, 0.0, like=third)
        found["held-out third, refit"] = self._figures(
            chosen[held_out],
            third.valid_logits,
            self._answers(model, others),
            others,
            time.perf_counter() - begun,
        )
        return found

    def _of(self, rows: np.ndarray) -> tuple[list[str], list[str]]:
        return [self.texts[row] for row in rows], [self.labels[row] for row in rows]

    def _run(self, seed: int, like: FitResult | None = None) -> RunOptions:
        return RunOptions(seed, Silent(), embed_with=lambda _: self.embed, like=like)

    def _trained(
        self, chosen: np.ndarray, seed: int, fraction: float, like: FitResult | None = None
    ) -> tuple[np.ndarray, FitResult, BertCnn, float]:
        """Indices of held-out rows in `chosen`, the training result, the model, seconds."""
        rest, held_out = split_validation(*self._of(chosen), fraction)
        assign(self.encoder.weights, self.untrained, error=TrainingError)
        begun = time.perf_counter()
        valid = self.rows.of(chosen[held_out if len(held_out) else rest[:64]])
        data = TrainingData(self.rows.of(chosen[rest]), valid)
        model, result = train(
            self.encoder, data, self.head, self.recipe, self.settings, self._run(seed, like)
        )
        return held_out, result, model, time.perf_counter() - begun

    def _answers(self, model: BertCnn, rows: np.ndarray) -> np.ndarray:
        token_ids = [self.rows.token_ids[row] for row in rows]
        return KerasEngine(model, self.pad_id).run(token_ids).logits

    def _figures(
        self,
        rows: np.ndarray,
        logits: np.ndarray,
        to_come: np.ndarray,
        others: np.ndarray,
        seconds: float,
    ) -> tuple[float, ...]:
        """Evaluate a threshold from the answers to `rows` on others with logits `to_come`."""
        truth = GroundTruth(np.unique(self.labels).tolist(), self.rows.labels[rows])
        calibration = truth.calibrate(logits)
        scored = ScoredPredictions(truth, logits, calibration)
        threshold = find_threshold(scored.confidence, scored.right, self.target)
        new = ScoredPredictions(
            replace(truth, labels=self.rows.labels[others]), to_come, calibration
        )
        order = np.argsort(-new.confidence)
        precision = np.cumsum(new.right[order]) / np.arange(1, len(order) + 1)
        enough = np.flatnonzero(precision >= self.target)
        most = (enough[-1] + 1) / len(order) if len(enough) else 0.0
        automatic = new.confidence >= (np.inf if threshold is None else threshold)
        kept = float(new.right[automatic].mean()) if automatic.any() else 1.0
        return float(automatic.mean()), kept, float(most), float(new.right.mean()), seconds


class Probe(Task):
    """The same with a linear probe on mean token embeddings, which trains in a second."""

    def __init__(self, texts: list[str], labels: list[str], options: argparse.Namespace) -> None:
        self.texts, self.labels, self.target = texts, labels, options.target
        self.means = unit_embeddings(texts)
        self.rows = TokenizedRows([], np.unique(labels, return_inverse=True)[1])

    def repetition(self, chosen: np.ndarray, seed: int) -> dict[str, tuple[float, ...]]:  # noqa: ARG002
        """As `Task.repetition`, with more folds."""
        others = np.setdiff1d(np.arange(len(self.labels)), chosen)
        texts, names = self._of(chosen)
        keys = [duplicate_key(text) for text in texts]
        begun = time.perf_counter()
        to_come, found = self._logits(chosen, others), {}
        seconds = time.perf_counter() - begun
        for name, fraction in (("held-out tenth", 0.1), ("held-out third, refit", 1 / 3)):
            rest, held_out = split_validation(texts, names, fraction)
            logits = self._logits(chosen[rest], chosen[held_out])
            answers = self._logits(chosen[rest], others) if fraction == 0.1 else to_come
            found[name] = self._figures(chosen[held_out], logits, answers, others, seconds)
        for folds in (2, 3, 5, 10):
            fold_of, begun = assign_folds(keys, names, texts, folds), time.perf_counter()
            logits = np.empty((len(chosen), to_come.shape[1]), np.float32)
            for fold in range(folds):
                inside = fold_of == fold
                logits[inside] = self._logits(chosen[~inside], chosen[inside])
            spent = seconds + time.perf_counter() - begun
            found[f"{folds} folds"] = self._figures(chosen, logits, to_come, others, spent)
        return found

    def _logits(self, learned: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Logits of a probe trained on the rows `learned`, for all labels of the data set."""
        model = LogisticRegression(C=20, max_iter=200)
        model.fit(self.means[learned], self.rows.labels[learned])
        logits = np.full((len(rows), int(self.rows.labels.max()) + 1), -30.0, np.float32)
        scores = model.decision_function(self.means[rows])
        logits[:, model.classes_] = (
            scores if scores.ndim > 1 else np.stack([-scores, scores], 1) / 2
        )
        return logits


def main() -> None:
    """Run the repetitions and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="a CSV with a text and a label; groups:FILE, or movies")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--recipe", default="frozen", choices=("probe", "frozen", "full"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--encoder", default="minilm-l6")
    options = parser.parse_args()
    if options.data == "movies":
        texts, labels = movies()
    elif options.data.startswith("groups:"):
        texts, labels = grouped(options.data.removeprefix("groups:"))
    else:
        texts, labels = read(options.data)
    task = (Probe if options.recipe == "probe" else Task)(list(texts), list(labels), options)
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(options.repeats):
        chosen = np.random.default_rng(seed).permutation(len(labels))[: options.rows]
        for name, figures in task.repetition(np.sort(chosen), seed).items():
            found.setdefault(name, []).append(figures)
        last = "; ".join(f"{name} {own[-1][0]:.3f}" for name, own in found.items())
        print(f"repetition {seed + 1}, automatic: {last}", flush=True)
    print("\n| thresholds from | automatic | smallest | possible | precision | kept in | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, own in found.items():
        share, precision, most, _, seconds = np.array(own).T
        print(
            f"| {name} | {share.mean():.1%} | {share.min():.0%} | {most.mean():.1%} |"
            f" {precision.mean():.1%} | {np.mean(precision >= options.target):.0%} |"
            f" {np.mean(seconds):.0f} |"
        )


if __name__ == "__main__":
    main()
