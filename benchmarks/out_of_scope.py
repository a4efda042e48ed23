"""How well texts of unknown labels and of another domain are detected.

Also how precise automatic answers are.

    python -m benchmarks.out_of_scope train.csv --other data/isp_tickets.csv [--draws 3] [--first 0]
    [--held-out 0.34] [--recipe frozen]

For each draw a third of the labels is held out. A model is trained, saved and loaded as users do,
on five sixths of the other labels' rows. The test rows are the last sixth, the held-out labels'
rows and the other file's rows. They are scored by strangeness, the highest probability, energy
(Liu et al. 2020) and the distance to the nearest training row, by logits and by mean token
embeddings. Prints AUROC, the share detected where 2 % of the last sixth are called strange, the
shares called out of scope and answered automatically, and the precision of automatic answers on the
last sixth.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from bertcnn import load_keras, show_progress
from bertcnn.bundle import PARTS, DetectorInputs, OutOfScopeDetector, unit
from bertcnn.inference import Predictor, load
from bertcnn.settings import DECISIONS
from bertcnn.tables import guess_columns, join_texts, read_table

_TARGETS = (0.9, 0.95, 0.98)
_FALSE_ALARMS = 0.02


def labelled(path: Path) -> tuple[list[str], list[str]]:
    """Texts and labels of a file, whose columns are guessed."""
    table = read_table(path)
    choice = guess_columns(table)
    texts = [
        join_texts(parts)
        for parts in zip(*(table.column(name) for name in choice.text), strict=True)
    ]
    return texts, table.column(str(choice.label))


def read(predictor: Predictor, texts: list[str]) -> DetectorInputs:
    """The model's outputs for the texts, as the detector needs them."""
    encoded = predictor.encode(texts)
    output = predictor.run(encoded)
    return predictor.detector_inputs(
        encoded.token_ids, output.logits, output.requested_evidence.means
    )


def scores(
    predictor: Predictor, texts: DetectorInputs, train: DetectorInputs
) -> dict[str, np.ndarray]:
    """The outlier score of each row, by each rule."""
    logits, means = texts.logits, texts.means
    scope = predictor.bundle.scope
    return {
        "outlier score, the product's": scope.outlier_score(texts),
        "outlier score without background": without(scope, texts, "background"),
        "outlier score without words": without(scope, texts, "words"),
        "highest probability": logsumexp(logits, axis=1) - logits.max(axis=1),
        "energy": -logsumexp(logits, axis=1),
        "nearest training row, logits": -(unit(logits) @ unit(train.logits).T).max(axis=1),
        "nearest training row, means": -(unit(means) @ unit(train.means).T).max(axis=1),
    }


def without(scope: OutOfScopeDetector, texts: DetectorInputs, part: str) -> np.ndarray:
    """The outlier score without one of its parts, float32 [rows]."""
    parts = scope.judge(texts).parts
    return parts.sum(axis=1) - parts[:, PARTS.index(part)]


def main() -> None:
    """Hold out labels, train, measure and print, once for each draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--held-out", type=float, default=0.34, help="share of the labels")
    parser.add_argument("--recipe", default="frozen")
    options = parser.parse_args()
    load_keras()
    from bertcnn.classifier import BertCNNClassifier

    texts, labels = labelled(options.data)
    foreign, names = labelled(options.other)[0], sorted(set(labels))
    for draw in range(options.first, options.first + options.draws):
        chance = np.random.default_rng(draw)
        out = {
            names[place]
            for place in chance.permutation(len(names))[: round(options.held_out * len(names))]
        }
        rows = chance.permutation([row for row, label in enumerate(labels) if label not in out])
        tested, learned = rows[: len(rows) // 6], rows[len(rows) // 6 :]
        unknown = [text for text, label in zip(texts, labels, strict=True) if label in out]
        with tempfile.TemporaryDirectory() as folder, show_progress() as progress:
            classifier = BertCNNClassifier(recipe=options.recipe, seed=draw, progress=progress)
            classifier.fit([texts[row] for row in learned], [labels[row] for row in learned]).save(
                Path(folder) / "model"
            )
            predictor = load(Path(folder) / "model")
        if not predictor.bundle.scope:
            print(f"draw {draw}: {len(learned)} rows are too few to set a limit with", flush=True)
            continue
        train = read(predictor, [texts[row] for row in learned])
        parts = {
            "known": [texts[row] for row in tested],
            "held-out labels": unknown,
            "another domain": foreign,
        }
        found = {
            name: scores(predictor, read(predictor, part), train) for name, part in parts.items()
        }
        print(
            f"draw {draw}: {len(out)} of {len(names)} labels held out; "
            + ", ".join(f"{len(part):,} {name}" for name, part in parts.items())
        )
        for rule, known in found["known"].items():
            strange = [found[name][rule] for name in ("held-out labels", "another domain")]
            limit = np.quantile(known, 1 - _FALSE_ALARMS)
            figures = [f"{auroc(known, one):.4f}, {(one > limit).mean():.1%}" for one in strange]
            print(f"| {draw} | {rule} | {figures[0]} | {figures[1]} |")
        truth = np.array([labels[row] for row in tested])
        outside = {name: outside_share(predictor, part) for name, part in parts.items()}
        print(
            "called out of scope: "
            + ", ".join(f"{share:.1%} {name}" for name, share in outside.items())
        )
        for name in ("held-out labels", "another domain"):
            share = automatic_share(predictor, parts[name])
            print(f"answered automatically at 95%: {share:.1%} {name}")
        for target in _TARGETS:
            print(
                f"asked for {target:.0%}:"
                f" {automatic(load_again(predictor, target), parts['known'], truth)}",
                flush=True,
            )


def auroc(known: np.ndarray, strange: np.ndarray) -> float:
    """AUROC: the chance that a strange row gets a higher score than a known one."""
    return float(
        roc_auc_score(
            np.repeat([0, 1], [len(known), len(strange)]), np.concatenate([known, strange])
        )
    )


def outside_share(predictor: Predictor, texts: list[str]) -> float:
    """Share of the texts that are called out of scope."""
    return float(
        np.mean(predictor.answer(texts).decisions == DECISIONS.index("review:out_of_scope"))
    )


def automatic_share(predictor: Predictor, texts: list[str]) -> float:
    """Share of the texts that are answered automatically."""
    decisions = load_again(predictor, 0.95).answer(texts).decisions
    return float(np.mean(decisions == DECISIONS.index("auto")))


def load_again(predictor: Predictor, target: float) -> Predictor:
    """The same model with the thresholds for another precision."""
    from bertcnn.evaluation import decide
    from bertcnn.settings import PrecisionTargets

    decisions = decide(
        predictor.bundle.decisions.held_out, predictor.labels, PrecisionTargets.of(target)
    )
    return Predictor(
        predictor.bundle, predictor.engine, predictor.output_layer, decisions=decisions
    )


def automatic(predictor: Predictor, texts: list[str], truth: np.ndarray) -> str:
    """How many answers are automatic, and how many of them are right, as text."""
    answers = predictor.answer(texts)
    chosen = answers.decisions == DECISIONS.index("auto")
    right = np.array(predictor.labels, object)[answers.labels] == truth
    return (
        f"{chosen.mean():.1%} automatic,"
        f" {right[chosen].mean() if chosen.any() else float('nan'):.1%} of them right"
    )


if __name__ == "__main__":
    main()
