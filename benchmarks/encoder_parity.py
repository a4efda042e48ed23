"""Do exported encoders give the same numbers in transformers and sentence-transformers?

python -m benchmarks.encoder_parity [ENCODER ...]

Without an argument it compares minilm-l6, and a tiny encoder with random weights and all heads.
Exits with code 1 if a number differs by more than 1e-5.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.environment import ask_peer
from bertcnn import load_keras
from bertcnn.encoders import (
    EncoderCheckpoint,
    Pieces,
    export_encoder,
    fetch_encoder,
    read_checkpoint,
    write_encoder,
)
from bertcnn.encoders.checkpoint import HEADS
from bertcnn.settings import EncoderSettings
from bertcnn.shapes import pretraining_shapes
from bertcnn.text import WordPieceTokenizer, read_vocabulary

CLOSE = 1e-5
TEXTS = (
    "My router's led is not working, I tried changing the power socket but still nothing.",
    "ok",
    "You billed me £49.99 twice on 03/07/2025 (invoice #AB-10293/7); naïve café, 你好 and Привет.",
    "the invoice is wrong again. " * 60,
)


def random_encoder(folder: Path, vocabulary: tuple[str, ...]) -> Path:
    """A tiny encoder with all heads.

    Its weights are far from their usual initial values, so that each one affects the output.
    """
    settings, generator = EncoderSettings.of_size("tiny", len(vocabulary)), np.random.default_rng(0)
    tensors = {
        name: generator.normal(1 if name.endswith("gamma") else 0, 0.1, shape).astype(np.float32)
        for name, shape in pretraining_shapes(settings).items()
    }
    folder.mkdir()
    write_encoder(folder, EncoderCheckpoint(settings, tensors), Pieces(vocabulary, lowercase=True))
    return folder


def our_answers(folder: Path) -> dict[str, np.ndarray]:
    """Our encoder's outputs, under the names that `peers/load_encoder.py` uses.

    Logits are included only if there is an MLM head.
    """
    from bertcnn.models import Bert, BertPretraining

    checkpoint = read_checkpoint(folder)
    tokenizer = WordPieceTokenizer.from_folder(folder)
    model = BertPretraining(Bert(checkpoint.settings, name="bert"))
    for weight in model.weights:
        if weight.path in checkpoint.tensors:
            weight.assign(checkpoint.tensors[weight.path])
    found = {}
    for row, token_ids in enumerate(tokenizer.encode(TEXTS).token_ids):
        inputs = {
            "token_ids": token_ids[None],
            "segment_ids": 0 * token_ids[None],
            "padding_mask": 0 * token_ids[None] + 1,
        }
        outputs = model.encoder(inputs)
        found[f"{row}/token_ids"] = token_ids
        found[f"{row}/sequence"] = np.asarray(outputs["sequence_output"])[0]
        found[f"{row}/mean"] = found[f"{row}/sequence"].mean(axis=0)
        if "pooler" in checkpoint.heads:
            found[f"{row}/pooled"] = np.asarray(outputs["pooled_output"])[0]
        if "mlm" in checkpoint.heads:
            places = np.arange(len(token_ids), dtype=np.int32)[None]
            found[f"{row}/mlm"] = np.asarray(
                model({**inputs, "masked_positions": places})["mlm_logits"]
            )[0]
    return found


def compare(encoder: str | Path, place: Path) -> bool:
    """Export, run both sides, print a row for each kind of output."""
    exported = place / "exported"
    report = export_encoder(encoder, exported)
    texts, answers = place / "texts.json", place / "answers.npz"
    texts.write_text(json.dumps(TEXTS), encoding="utf-8")
    said = ask_peer("load_encoder", exported, texts, answers)
    with np.load(answers) as file:
        theirs = dict(file)
    ours = our_answers(exported)
    good = True
    for kind in ("token_ids", "sequence", "pooled", "mlm", "mean"):
        names = [name for name in ours if name.endswith(f"/{kind}")]
        if not names:
            print(f"| {report.name} | {kind} | no such head | |", flush=True)
            continue
        worst = max(
            (
                float(np.abs(ours[name] - theirs[name]).max())
                if ours[name].shape == theirs[name].shape
                else np.inf
            )
            for name in names
        )
        largest = max(float(np.abs(theirs[name]).max()) for name in names)
        good &= worst <= (0 if kind == "token_ids" else CLOSE)
        print(f"| {report.name} | {kind} | {worst:.1e} | {largest:.3g} |", flush=True)
    versions = ", ".join(f"{name} {version}" for name, version in said["versions"].items())
    print(
        f"\n{versions}; heads {', '.join(report.heads) or 'none'} of {', '.join(HEADS)}\n",
        flush=True,
    )
    return good


def main() -> None:
    """Compare each encoder given."""
    load_keras()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        encoders: list[str | Path] = list(sys.argv[1:])
        if not encoders:
            vocabulary = read_vocabulary(fetch_encoder("minilm-l6").folder / "vocab.txt")
            encoders = ["minilm-l6", random_encoder(place / "random-tiny", vocabulary)]
        print(
            "| encoder | numbers | largest difference | largest number |\n|---|---|---|---|",
            flush=True,
        )
        results = []
        for number, encoder in enumerate(encoders):
            own = place / str(number)
            own.mkdir()
            results.append(compare(encoder, own))
    if not all(results):
        sys.exit(1)


if __name__ == "__main__":
    main()
