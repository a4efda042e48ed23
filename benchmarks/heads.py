"""Is the CNN head worth it? Compared with linear heads on [CLS] and on the mean.

    python -m benchmarks.heads train.csv [tickets.csv ...] [--reviews] [--recipe frozen|full]
    [--seeds 15] [--rows 2000] [--out FILE]

All three start from the same encoder, see the same rows in the same order, and take the same number
of steps. Each seed splits a file differently: a fifth is the test set, a tenth of the rest selects
the epoch, and the others are the training rows. Before that, each head's learning rate is selected
from five, on the rows that select the epoch, not on the test rows (`full` keeps its own). This
takes five splits of its own: with a single split the selection was down to chance. With `frozen`
there is also a logistic regression on the mean embedding (scikit-learn, C selected from five,
fitted to convergence), which has no steps. The paired test is Student's t-test over the seeds.
Finished runs are stored in --out and not repeated.

--reviews adds 3,708 sentences of product reviews. They are negative, neutral or positive by the
mean of 20 people's ratings (Hutto and Gilbert 2014, "VADER", MIT licence), from the package
vaderSentiment 0.5 of the Python package index.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
from keras import ops
from scipy.stats import ttest_rel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from benchmarks.few_shot import INVERSE_REGULARIZATION, read, unit_embeddings
from bertcnn.data import pad
from bertcnn.errors import TrainingError
from bertcnn.inference import fastest_embed
from bertcnn.layers import DocumentMean, HashDropout, MaskedMean
from bertcnn.models import BertCnn, CnnHead, Forward, assign, extract, padded_up_to
from bertcnn.progress import Silent
from bertcnn.settings import FROZEN, FROZEN_HEAD, FULL, HeadSettings, TrainingSettings
from bertcnn.training import RunOptions, TokenizedRows, TrainingData, load_start
from bertcnn.training.batches import Examples
from bertcnn.training.features import Features
from bertcnn.training.head import fit_head
from bertcnn.training.recipes import fit_with_encoder

HEADS = ("cnn", "mean", "cls")
REGRESSION = "regression"
ASKED, CHOOSING = 0.2, 0.1
SHARES_OF_THE_RATE = (
    1.0,
    1 / 3,
    3.0,
    9.0,
    27.0,
)  # factors of `frozen`'s learning rate, tried for each head
CHOOSING_SEEDS = range(1000, 1005)
MOST_TOKENS = 128
NEUTRAL = 0.5  # maximum absolute rating of a neutral review sentence, on a scale from -4 to 4


@keras.saving.register_keras_serializable(package="benchmarks")
class FirstToken(keras.layers.Layer):
    """The vector of each text's first token, [CLS].

    From hidden [B, T, D] and a mask [B, T] to [B, D], or with `documents` to [B, K, D].
    """

    def __init__(self, documents: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.documents = documents

    def call(self, hidden: Any, mask: Any) -> Any:
        """Select the vectors."""
        if self.documents is None:
            return hidden[:, 0]
        members = ops.equal(
            mask[:, None], ops.arange(1, self.documents + 1, dtype=mask.dtype)[None, :, None]
        )  # [B, K, T]
        # [B, K]; 0 for documents that a row does not have
        first = ops.argmax(ops.cast(members, "int32"), axis=2)
        return ops.take_along_axis(hidden, first[:, :, None], axis=1)

    def compute_output_shape(
        self, hidden_shape: tuple[int | None, ...], *_: Any
    ) -> tuple[int | None, ...]:
        """[B, D] or [B, K, D]."""
        return (
            hidden_shape[0],
            *([] if self.documents is None else [self.documents]),
            hidden_shape[-1],
        )


class PooledHead(keras.Model):
    """A head with one pooled vector and one linear layer, called as `CnnHead` is.

    Args:
        kind: "mean" or "cls".
        width: D.
        classes: C.
        dropout: rate on the pooled vector in training.
        documents: K, maximum number of documents in a row; by default a row is one text.
        seed: for the initial weights and for dropout.
    """

    def __init__(
        self,
        kind: str,
        width: int,
        classes: int,
        *,
        dropout: float,
        documents: int | None = None,
        seed: int = 0,
    ) -> None:
        whose = "padding_mask" if documents is None else "document_ids"
        inputs = {
            "sequence_output": keras.Input((None, width), name="sequence_output"),
            whose: keras.Input((None,), dtype="int32", name=whose),
        }
        mean = (
            MaskedMean(name="pooled")
            if documents is None
            else DocumentMean(documents, name="pooled")
        )
        pooled = (mean if kind == "mean" else FirstToken(documents, name="pooled"))(
            inputs["sequence_output"], inputs[whose]
        )
        linear = keras.layers.Dense(
            classes, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), name="logits"
        )
        super().__init__(
            inputs=inputs,
            outputs=linear(HashDropout(dropout, seed=seed, name="head_dropout")(pooled)),
            name="head",
        )
        self.kind, self.width, self.classes, self.dropout, self.seed = (
            kind,
            width,
            classes,
            dropout,
            seed,
        )

    def of_documents(self, documents: int) -> PooledHead:
        """The same head, with the same weights, for rows of at most `documents` documents."""
        other = PooledHead(
            self.kind,
            self.width,
            self.classes,
            dropout=self.dropout,
            documents=documents,
            seed=self.seed,
        )
        assign(other.weights, extract(self.weights), error=TrainingError)
        return other

    def get_config(self) -> dict[str, Any]:
        """Keras requires this, but the head is never saved."""
        return {}


@dataclass(frozen=True)
class Division:
    """Row indices for training, for selecting the epoch, and for testing; each int64 [rows]."""

    learn: np.ndarray
    choose: np.ndarray
    ask: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, seed: int, most: int | None) -> Division:
        """A stratified split, with at most `most` training rows."""
        rest, ask = train_test_split(
            np.arange(len(labels)), test_size=ASKED, stratify=labels, random_state=seed
        )
        learn, choose = train_test_split(
            rest, test_size=CHOOSING, stratify=labels[rest], random_state=seed
        )
        if most is not None and len(learn) > most:
            learn, _ = train_test_split(
                learn, train_size=most, stratify=labels[learn], random_state=seed
            )
        return cls(np.sort(learn), np.sort(choose), np.sort(ask))


@dataclass(frozen=True)
class Outcome:
    """Accuracy on the rows that select the epoch and on the test rows."""

    chosen: float
    asked: float


Run = Callable[[str, float, int, Division], Outcome]  # head, learning rate factor, seed, rows


def main() -> None:
    """Train every head with every seed on every file and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+")
    parser.add_argument("--reviews", action="store_true", help="the review sentences too")
    parser.add_argument("--recipe", choices=("frozen", "full"), default="frozen")
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--rows", type=int, help="rows to learn from, at most; by default all")
    parser.add_argument("--epochs", type=int, help="by default the recipe's")
    parser.add_argument(
        "--out", type=Path, default=Path("heads.jsonl"), help="where finished runs are kept"
    )
    options = parser.parse_args()
    files: dict[str, Callable[[], tuple[list[str], np.ndarray]]] = {
        Path(path).parent.name + "/" + Path(path).name: partial(read, path) for path in options.data
    }
    if options.reviews:
        files["reviews"] = review_sentences
    settings = (FROZEN if options.recipe == "frozen" else FULL).model_copy(
        update={
            "max_tokens": MOST_TOKENS,
            **({} if options.epochs is None else {"epochs": options.epochs}),
        }
    )
    print(
        f"recipe {options.recipe}, {settings.epochs} epochs, at most {options.rows or 'all'} rows"
        " to learn from\n",
        flush=True,
    )
    for name, given in files.items():
        texts, labels = given()
        with tempfile.TemporaryDirectory(prefix="bertcnn-heads-") as folder:
            run = (frozen if options.recipe == "frozen" else full)(
                texts, labels, settings, Path(folder)
            )
            key = [name, options.recipe, settings.epochs, options.rows]
            rates = SHARES_OF_THE_RATE if options.recipe == "frozen" else (1.0,)
            heads = (*HEADS, REGRESSION) if options.recipe == "frozen" else HEADS
            compare(
                key,
                labels,
                remembered(run, options.out, key),
                options.seeds,
                options.rows,
                rates,
                heads,
            )


def compare(
    key: list[Any],
    labels: np.ndarray,
    run: Run,
    seeds: int,
    most: int | None,
    rates: Sequence[float],
    heads: Sequence[str],
) -> None:
    """Select each head's learning rate from `rates`, train with all seeds, print a line each."""
    found: dict[str, list[float]] = {}
    shares: dict[str, float] = {}
    divisions = {seed: Division.of(labels, seed, most) for seed in CHOOSING_SEEDS}
    for head in heads:
        tried = dict.fromkeys(rates, 0.0)
        if len(rates) > 1:
            tried = {
                share: sum(
                    run(head, share, seed, division).chosen for seed, division in divisions.items()
                )
                for share in rates
            }
        shares[head] = max(tried, key=lambda share: tried[share])
    for seed, head in product(range(seeds), heads):
        found.setdefault(head, []).append(
            run(head, shares[head], seed, Division.of(labels, seed, most)).asked
        )
    division = divisions[CHOOSING_SEEDS[0]]
    print(
        f"{key[0]}: {len(division.learn)} rows to learn from, {len(division.choose)} to choose by,"
        f" {len(division.ask)} asked about"
    )
    for head in heads:
        mean, spread = statistics.mean(found[head]), statistics.stdev(found[head])
        line = (
            f"  {head:<10} x{shares[head]:.2f}  {mean:.2%} +- {spread:.2%} "
            f" ({', '.join(f'{share:.2%}' for share in found[head])})"
        )
        if head != "cnn":
            differences = np.subtract(found["cnn"], found[head])
            line += (
                f"; cnn better by {100 * differences.mean():.2f} points, p ="
                f" {ttest_rel(found['cnn'], found[head]).pvalue:.3f}"
            )
        print(line, flush=True)
    print()


def remembered(run: Run, path: Path, key: list[Any]) -> Run:
    """Wrap `run`: store its results in `path` and do not repeat stored runs."""

    def once(head: str, share: float, seed: int, division: Division) -> Outcome:
        mine = [*key, head, round(share, 3), seed]
        known = (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )
        for entry in known:
            if entry["run"] == mine:
                return Outcome(**entry["outcome"])
        outcome = run(head, share, seed, division)
        with path.open("a") as file:
            file.write(json.dumps({"run": mine, "outcome": vars(outcome)}) + "\n")
        return outcome

    return once


def new_head(kind: str, width: int, classes: int, settings: HeadSettings, seed: int) -> CnnHead:
    """A head, newly initialised."""
    if kind == "cnn":
        return CnnHead(width, classes, settings, seed=seed, name="head")
    return cast(CnnHead, PooledHead(kind, width, classes, dropout=settings.dropout, seed=seed))


def frozen(texts: list[str], labels: np.ndarray, settings: TrainingSettings, folder: Path) -> Run:
    """Train heads on a frozen encoder, whose output is computed once."""
    features, lengths, targets, width = features_of(texts, labels, folder)
    classes, vectors = int(targets.max()) + 1, unit_embeddings(texts)

    def run(kind: str, share: float, seed: int, division: Division) -> Outcome:
        if kind == REGRESSION:
            model = LogisticRegression(C=INVERSE_REGULARIZATION * share, max_iter=2000).fit(
                vectors[division.learn], targets[division.learn]
            )
            return Outcome(
                *(
                    float(model.score(vectors[rows], targets[rows]))
                    for rows in (division.choose, division.ask)
                )
            )
        head = new_head(kind, width, classes, FROZEN_HEAD, seed)

        def part(rows: np.ndarray) -> Examples:
            return Examples(features.of(rows).collate, lengths[rows], targets[rows])

        changed = settings.model_copy(update={"learning_rate": settings.learning_rate * share})
        result = fit_head(
            head,
            part(division.learn),
            part(division.choose),
            changed,
            RunOptions(seed, Silent()),
        )
        asked = part(division.ask)
        logits = Forward(head, padded_up_to(MOST_TOKENS)).rows(asked.collate, asked.lengths)
        return _outcome(result.valid_logits, targets[division.choose], logits, asked.labels)

    return run


def features_of(
    texts: list[str], labels: np.ndarray, folder: Path
) -> tuple[Features, np.ndarray, np.ndarray, int]:
    """The default encoder's output for the texts.

    Also returns their lengths in tokens, their labels, int [rows], and the output's width.
    """
    start = load_start("minilm-l6", MOST_TOKENS, seed=0, progress=Silent())
    token_ids = start.tokenizer.encode(texts).token_ids
    embed = fastest_embed(start.encoder, start.tokenizer.pad_id)
    features = Features(embed, start.encoder.settings.width, token_ids, folder / "all", Silent())
    return (
        features,
        np.fromiter(map(len, token_ids), np.int64, len(token_ids)),
        np.unique(labels, return_inverse=True)[1],
        start.encoder.settings.width,
    )


def full(texts: list[str], labels: np.ndarray, settings: TrainingSettings, _: Path) -> Run:
    """Train heads together with the encoder.

    The factor applies to the head's learning rate only, not to the encoder's.
    """
    classes, targets = np.unique(labels, return_inverse=True)

    def run(kind: str, share: float, seed: int, division: Division) -> Outcome:
        start = load_start("minilm-l6", MOST_TOKENS, seed=seed, progress=Silent())
        token_ids = start.tokenizer.encode(texts).token_ids

        def part(rows: np.ndarray) -> TokenizedRows:
            return TokenizedRows([token_ids[row] for row in rows], targets[rows])

        head = new_head(kind, start.encoder.settings.width, len(classes), HeadSettings(), seed)
        changed = settings.model_copy(update={"head_multiplier": settings.head_multiplier * share})
        learn, choose, ask = part(division.learn), part(division.choose), part(division.ask)
        result = fit_with_encoder(
            start.encoder, head, TrainingData(learn, choose), changed, RunOptions(seed, Silent())
        )
        model = BertCnn(start.encoder, head)
        logits = Forward(model, padded_up_to(MOST_TOKENS)).rows(
            lambda plan: pad(ask.token_ids, plan).inputs(), ask.lengths
        )
        return _outcome(result.valid_logits, choose.labels, logits, ask.labels)

    return run


def _outcome(
    chosen: np.ndarray, chosen_labels: np.ndarray, asked: np.ndarray, asked_labels: np.ndarray
) -> Outcome:
    right = [
        float(np.mean(logits.argmax(axis=1) == labels))
        for logits, labels in ((chosen, chosen_labels), (asked, asked_labels))
    ]
    return Outcome(*right)


def review_sentences() -> tuple[list[str], np.ndarray]:
    """Texts and labels of the sentences of product reviews."""
    texts, ratings = rated_sentences("amazonReviewSnippets")
    return texts, np.select(
        [ratings <= -NEUTRAL, ratings >= NEUTRAL], ["negative", "positive"], "neutral"
    )


def rated_sentences(name: str) -> tuple[list[str], np.ndarray]:
    """Texts and mean ratings, from -4 to 4, of one of the sets of vaderSentiment 0.5."""
    with tempfile.TemporaryDirectory() as folder:
        fetch = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--no-build-isolation",
        ]
        subprocess.run([*fetch, "--dest", folder, "vaderSentiment==0.5"], check=True)
        (archive,) = Path(folder).glob("*.zip")
        with zipfile.ZipFile(archive) as package:
            inner = package.read("vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(inner)) as files:
        member = files.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
        lines = [] if member is None else member.read().decode("utf-8", "replace").splitlines()
    rated = [line.split("\t", 2)[1:] for line in lines if line.count("\t") >= 2]
    return [text for _, text in rated], np.array([float(rating) for rating, _ in rated])


if __name__ == "__main__":
    main()
