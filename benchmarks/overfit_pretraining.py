"""Can pretraining memorise 200 tickets, with new masks in every epoch?

    python -m benchmarks.overfit_pretraining [--steps 10000] [--seed 0]

A network that cannot memorise 200 documents has a bug in its gradients, masks or labels. Each epoch
draws new masks, 80/10/10 choices and sentence pairs. The figures come from epochs that training
never reached, so no word or pair was masked or paired in just this way before. Training masks 30%
of the words, which takes half the steps; the evaluation masks 15%, as published.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bertcnn import show_progress
from bertcnn.encoders import load_published, read_checkpoint, read_published
from bertcnn.models import Bert, BertPretraining, pretraining_figures
from bertcnn.pretraining import NewEncoder, RunOptions, pretrain
from bertcnn.pretraining.batches import PretrainingBatches
from bertcnn.pretraining.corpus import open_corpus
from bertcnn.pretraining.documents import split_sentences
from bertcnn.settings import EncoderSettings, PretrainingDataSettings, TokenizerSettings
from bertcnn.text import WordPieceTokenizer, read_vocabulary
from bertcnn.training import make_figures

TICKETS = Path(__file__).parents[1] / "data" / "isp_tickets.csv"
DOCUMENTS, SENTENCES, WORDS = 200, 4, 40
ASKED = {"sequence_length": 64, "batch_size": 8, "held_out": 0.0}
LEARNED = {**ASKED, "mask_fraction": 0.3}
SHAPE = EncoderSettings(
    vocabulary_size=1,
    width=256,
    layers=2,
    heads=4,
    feed_forward_width=1024,
    max_positions=64,
    dropout=0.0,
    attention_dropout=0.0,
)
UNSEEN_EPOCHS = range(1_000_000, 1_000_005)


def write_documents(path: Path) -> None:
    """The first tickets of several sentences, each cut to a few short ones."""
    documents = []
    with TICKETS.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            sentences = [
                sentence
                for sentence in split_sentences(row["text"])[:SENTENCES]
                if len(sentence.split()) <= WORDS // 2
            ]
            if (
                len(sentences) >= 2
                and sum(len(sentence.split()) for sentence in sentences) <= WORDS
            ):
                documents.append("\n".join(sentences))
    path.write_text("\n\n".join(documents[:DOCUMENTS]), encoding="utf-8")
    print(f"{min(len(documents), DOCUMENTS)} documents", flush=True)


def measure(folder: Path, texts: Path, cache: Path, seed: int) -> tuple[float, float]:
    """Accuracy of masked words and next sentences, over epochs that training never reached."""
    settings = PretrainingDataSettings(**ASKED)
    checkpoint = read_checkpoint(folder)
    tokenizer = WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"), TokenizerSettings())
    batches = PretrainingBatches(open_corpus([texts], tokenizer, cache=cache), settings, seed=seed)
    model = BertPretraining(Bert(checkpoint.settings, packed=True, name="bert"))
    load_published(model, read_published(folder)[1])
    figures = make_figures(model, pretraining_figures)
    sums = np.zeros(4)
    for epoch in UNSEEN_EPOCHS:
        for step in range(batches.steps_per_epoch(epoch)):
            batch = batches.batch(epoch, step)
            targets = {
                name: batch[name]
                for name in ("masked_labels", "masked_weights", "next_labels", "next_weights")
            }
            found = figures({name: batch[name] for name in model.input}, targets)
            sums += [
                found["mlm_accuracy"],
                batch["masked_weights"].sum(),
                found["nsp_accuracy"],
                batch["next_weights"].sum(),
            ]
    return sums[0] / sums[1], sums[2] / sums[3]


def main() -> None:
    """Train until the texts are memorised, and evaluate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, show_progress() as progress:
        texts, out, cache = (Path(scratch) / name for name in ("texts.txt", "encoder", "cache"))
        write_documents(texts)
        started = time.monotonic()
        training = {"steps": arguments.steps, "learning_rate": 1.5e-3, "weight_decay": 0.0}
        options = RunOptions(cache=cache)
        pretrain(
            [texts],
            out,
            start=NewEncoder(SHAPE),
            data=LEARNED,
            training=training,
            seed=arguments.seed,
            options=options,
            progress=progress,
        )
        seconds = time.monotonic() - started
        mlm, nsp = measure(out, texts, cache, arguments.seed)
    passed = mlm >= 0.95 and nsp >= 0.98
    print(
        f"{arguments.steps} steps in {seconds:.0f} s: masked words {mlm:.2%} (0.95 wanted), next"
        f" sentence {nsp:.2%} (0.98 wanted)"
    )
    sys.exit(not passed)


if __name__ == "__main__":
    main()
