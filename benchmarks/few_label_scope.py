"""Which out-of-domain texts, and texts of held-out labels, are answered automatically.

    python -m benchmarks.few_label_scope train.csv --labels 8 --other data/isp_tickets.csv
    [--other data/intents.csv] [--own 0] [--draws 5]

Faster than `benchmarks.out_of_scope`, for many draws: embeddings are computed once, and a
regression on their means replaces the head. Each draw picks the known labels; rows of the other
labels are the near ones. A fifth of the known rows is the test set; five folds of the rest give
limits and thresholds. `--own` uses some near rows as out-of-scope examples. Prints AUROC, and the
shares called out of scope, held back, and answered automatically at 95%.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from benchmarks.out_of_scope import auroc, labelled
from bertcnn import load_keras
from bertcnn.bundle import DetectorInputs, OutOfScopeDetector, unit
from bertcnn.evaluation import FoldInputs, OutsideTexts, background_texts, fit_detector
from bertcnn.evaluation.thresholds import find_threshold
from bertcnn.inference import mean_embeddings
from bertcnn.progress import Silent

_TARGET, _FOLDS, _MOST = 0.95, 5, 1500  # _MOST: rows of each kind


class Reader:
    """The default encoder."""

    def __init__(self) -> None:
        load_keras()
        from bertcnn.inference import fastest_embed
        from bertcnn.training import load_start

        start = load_start("minilm-l6", 128, seed=0, progress=Silent())
        self._tokenizer, self.width = start.tokenizer, start.encoder.settings.width
        self._embed = fastest_embed(start.encoder, start.tokenizer.pad_id)

    def read(self, texts: list[str]) -> DetectorInputs:
        """Embed the texts; no logits."""
        token_ids = self._tokenizer.encode(texts).token_ids
        return DetectorInputs(
            np.empty((len(texts), 0), np.float32),
            mean_embeddings(self._embed, token_ids, self.width),
            self._tokenizer.whole_words(token_ids),
            np.array([len(row) for row in token_ids]),
        )


@dataclass(frozen=True)
class Probe:
    """A regression on mean embeddings of length 1, as the recipe `frozen` starts from."""

    model: LogisticRegression

    @classmethod
    def of(cls, texts: DetectorInputs, labels: np.ndarray) -> Probe:
        """Fit a probe to these texts."""
        return cls(LogisticRegression(C=10.0, max_iter=1000).fit(unit(texts.means), labels))

    def read(self, texts: DetectorInputs) -> DetectorInputs:
        """The same texts with logits."""
        scores = self.model.decision_function(unit(texts.means)).astype(np.float32)
        if scores.ndim == 1:
            scores = np.stack([-scores, scores], axis=1) / 2
        return DetectorInputs(scores, texts.means, texts.words, texts.lengths)


def confidence(texts: DetectorInputs) -> np.ndarray:
    """The highest probability of each text, float32 [rows]."""
    powers = np.exp(texts.logits - texts.logits.max(axis=1, keepdims=True))
    return powers.max(axis=1) / powers.sum(axis=1)


def is_held(scope: OutOfScopeDetector, texts: DetectorInputs) -> np.ndarray:
    """Texts that are never automatic, bool [rows]."""
    judged = scope.judge(texts)
    return judged.outside | judged.doubtful


def measure(
    known: DetectorInputs,
    labels: np.ndarray,
    near: DetectorInputs,
    others: list[DetectorInputs],
    background: np.ndarray,
    own: int,
    seed: int,
) -> np.ndarray:
    """AUROC and shares out of scope, held, automatic, for known, near, other texts [2 + O, 4]."""
    chance = np.random.default_rng(seed)
    rows = chance.permutation(len(labels))
    tested, learned = np.sort(rows[: len(rows) // 5]), np.sort(rows[len(rows) // 5 :])
    strange = chance.permutation(len(near.logits))
    given, near_tested = strange[:own], np.sort(strange[own:][:_MOST])
    taught, limiting = np.sort(given[own // 2 :]), np.sort(given[: own // 2])
    whole, labels = known.of(learned), labels[learned]
    folds, truth = [], []
    for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(
        labels, labels
    ):
        part = whole.of(train)
        probe = Probe.of(part, labels[train])
        folds.append(FoldInputs(probe.read(part), labels[train], probe.read(whole.of(test))))
        truth.append(labels[test])
    probe = Probe.of(whole, labels)
    examples = probe.read(near.of(limiting)) if own else folds[0].held_out.of(np.arange(0))
    outside = OutsideTexts(background, near.means[taught], examples)
    nothing = folds[0].held_out.of(np.arange(0))
    fit = fit_detector(probe.read(whole), labels, nothing, outside, seed=seed, folds=folds)
    sure, right = [], []
    for scope, fold, true in zip(fit.folds, folds, truth, strict=True):
        kept = ~is_held(scope, fold.held_out)
        sure.append(confidence(fold.held_out)[kept])
        right.append((fold.held_out.logits.argmax(axis=1) == true)[kept])
    automatic = ~is_held(fit.detector, examples)
    sure.append(confidence(examples)[automatic])
    right.append(np.zeros(automatic.sum(), bool))
    threshold = find_threshold(np.concatenate(sure), np.concatenate(right), _TARGET) or np.inf
    figures, usual = [], None
    for one in (known.of(tested), near.of(near_tested), *others):
        if not len(one.logits):  # all labels are known
            figures.append([np.nan] * 4)
            continue
        texts = probe.read(one)
        scores, held = fit.detector.outlier_score(texts), is_held(fit.detector, texts)
        usual = scores if usual is None else usual
        automatic = (confidence(texts) >= threshold) & ~held
        called = fit.detector.outside(texts)
        figures.append([auroc(usual, scores), called.mean(), held.mean(), automatic.mean()])
    return np.array(figures)


def main() -> None:
    """Embed all texts once, then measure each draw and print the means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[8])
    parser.add_argument("--other", type=Path, action="append", required=True)
    parser.add_argument("--own", type=int, nargs="+", default=[0], help="examples out of scope")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    reader = Reader()
    texts, names = labelled(options.data)
    everything, given = reader.read(texts), np.array(names)
    background = reader.read(list(background_texts())).means
    chance = np.random.default_rng(0)
    others = []
    for path in options.other:
        foreign = labelled(path)[0]
        chosen = chance.permutation(len(foreign))[:_MOST]
        others.append(reader.read([foreign[row] for row in chosen]))
    print("| labels | examples | texts | AUROC | called out of scope | held by scope | automatic |")
    for count in options.labels:
        for own in options.own:
            found = []
            for draw in range(options.draws):
                order = np.random.default_rng(draw).permutation(np.unique(given))
                is_known = np.isin(given, order[:count])
                rows = np.flatnonzero(is_known)
                labels = np.unique(given[rows], return_inverse=True)[1]
                near = everything.of(np.flatnonzero(~is_known))
                found.append(
                    measure(everything.of(rows), labels, near, others, background, own, draw)
                )
            kinds = ["known", "near", *(path.stem for path in options.other)]
            for kind, row in zip(kinds, np.mean(found, axis=0), strict=True):
                shares = " | ".join(f"{share:.1%}" for share in row[1:])
                print(f"| {count} | {own} | {kind} | {row[0]:.3f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
