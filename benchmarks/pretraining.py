"""Pretraining in tokens/s, compared with Hugging Face's BertForPreTraining in PyTorch.

Also model FLOP utilisation (Chowdhery et al. 2022, appendix B).

python -m benchmarks.pretraining [TEXTS] --size mini --length 128
    # on a GPU
    KERAS_BACKEND=jax python -m benchmarks.pretraining TEXTS --size base --precision bfloat16 \
        --batch 0 --no-peer

The tokens are real ones, without padding. FLOPs follow the formula and count real tokens and real
masked words only: computation on padding, and on positions without a loss, does not count. The peak
is the fastest single matrix product on this machine, of several sizes, through the backend, NumPy
or PyTorch.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import ask_peer
from bertcnn import load_keras
from bertcnn.settings import EncoderSettings, PretrainingDataSettings

_TEXTS = Path(__file__).parents[1] / "data" / "isp_tickets.csv"
_PEAK_SIZES = ((4096, 1024, 1024), (2048, 2048, 2048), (8192, 8192, 8192))
_CPU_LARGEST = 10e9  # multiplications; a larger matrix product would take seconds on a CPU
_FIRST_BATCH, _GAIN = (
    8,
    1.03,
)  # batch size search: from this size it doubles while that is faster by this factor
Batch = dict[str, np.ndarray]
TARGETS = ("masked_labels", "masked_weights", "next_labels", "next_weights")


@dataclass(frozen=True)
class Speed:
    """Training speed on some batches."""

    tokens_per_second: float
    flops_per_second: float


def main() -> None:
    """Measure the peak, run alternating rounds, and print each round, then the medians."""
    options = parse()
    load_keras()
    import keras

    if options.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    encoder, batches_of = prepared(options)
    with tempfile.TemporaryDirectory() as scratch:
        size = options.batch or find_batch(encoder, batches_of)
        plain = batches_of(size, False)
        packed = batches_of(size, True)
        stored = Path(scratch) / "batches.npz"
        store(stored, encoder, plain)
        peaks = {
            f"{keras.backend.backend()} {options.precision}": backend_peak(options.precision),
            "NumPy": numpy_peak(),
        }
        if options.peer:
            peaks["PyTorch"] = float(ask_peer("pretrain_torch", "--peak")["flops_per_second"])
        peak = max(peaks.values())
        print(
            "peak: "
            + ", ".join(f"{name} {value / 1e9:,.0f} GFLOP/s" for name, value in peaks.items()),
            flush=True,
        )
        print(
            f"{encoder.layers} layers, width {encoder.width}, batch {size} x {options.length},"
            f" {options.precision}",
            flush=True,
        )
        competitors: dict[str, Callable[[], Speed]] = {
            "bertcnn": Ours(encoder, plain).run,
            "bertcnn, packed": Ours(encoder, packed).run,
        }
        if options.peer:
            competitors["Hugging Face, PyTorch"] = lambda: theirs(stored, encoder, plain)
        rounds: dict[str, list[Speed]] = {name: [] for name in competitors}
        for number in range(options.rounds):
            for name, run in competitors.items():
                with profiled(options.profile if name == "bertcnn" and number == 0 else None):
                    rounds[name].append(run())
                print(
                    f"round {number + 1}, {name}: {rounds[name][-1].tokens_per_second:,.0f}"
                    " tokens/s",
                    flush=True,
                )
    show(
        rounds,
        peak,
        {
            "bertcnn": filled(plain),
            "bertcnn, packed": filled(packed),
            "Hugging Face, PyTorch": filled(plain),
        },
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "texts", nargs="*", type=Path, default=[_TEXTS], help="documents (the sample tickets)"
    )
    parser.add_argument("--size", default="mini", help="tiny, mini, small, medium, base or large")
    parser.add_argument("--length", type=int, default=128, help="T, tokens of a row")
    parser.add_argument(
        "--batch", type=int, default=32, help="B, rows of a batch; 0: the fastest that fits"
    )
    parser.add_argument("--batches", type=int, default=8, help="timed ones in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--no-peer", dest="peer", action="store_false", help="without PyTorch")
    parser.add_argument(
        "--profile", type=Path, help="a folder for the first round's trace, for TensorBoard"
    )
    return parser.parse_args()


def prepared(
    options: argparse.Namespace,
) -> tuple[EncoderSettings, Callable[[int, bool], list[Batch]]]:
    """The encoder's shape, and a function from batch size and packing to batches."""
    from bertcnn.encoders import fetch_encoder
    from bertcnn.pretraining.batches import PretrainingBatches
    from bertcnn.pretraining.corpus import open_corpus
    from bertcnn.text import WordPieceTokenizer, read_vocabulary

    tokenizer = WordPieceTokenizer(read_vocabulary(fetch_encoder("minilm-l6").folder / "vocab.txt"))
    corpus = open_corpus(options.texts, tokenizer)
    encoder = EncoderSettings.of_size(
        options.size,
        vocabulary_size=len(tokenizer.vocabulary),
        max_positions=max(512, options.length),
    )

    def batches_of(size: int, pack: bool) -> list[Batch]:
        settings = PretrainingDataSettings(
            sequence_length=options.length, batch_size=size, pack=pack, held_out=0.0
        )
        source = PretrainingBatches(corpus, settings)
        steps = source.steps_per_epoch(0)
        return [source.batch(number // steps, number % steps) for number in range(options.batches)]

    return encoder, batches_of


def find_batch(encoder: EncoderSettings, batches_of: Callable[[int, bool], list[Batch]]) -> int:
    """The largest useful batch size, a power of two; doubling it is not faster, or fails."""
    best, size = 0.0, _FIRST_BATCH
    while True:
        try:
            speed = Ours(encoder, batches_of(size, True)[:3]).run().tokens_per_second
        except Exception as error:
            if size == _FIRST_BATCH:
                raise
            print(f"batch {size}: {type(error).__name__}", flush=True)
            return size // 2
        print(f"batch {size}: {speed:,.0f} tokens/s", flush=True)
        if speed < _GAIN * best:
            return size // 2
        best, size = speed, 2 * size


# === FLOPs and peaks ===


def training_flops(encoder: EncoderSettings, batches: list[Batch]) -> float:
    """FLOPs of the forward and backward pass, by formula.

    A multiplication with its addition counts as two, the backward pass as twice the forward pass. A
    block's products are 4 D^2 + 2 D F a token, its attention 2 D for each pair of tokens that see
    each other; a masked word costs D^2 + D V in the head. Normalisation, activations and the
    optimizer are left out, as usual (Chowdhery et al. 2022, appendix B).
    """
    width, inner = encoder.width, encoder.feed_forward_width
    tokens = sum(int(batch["padding_mask"].sum()) for batch in batches)
    pairs = sum(int((documents(batch) ** 2).sum()) for batch in batches)
    masked = sum(float(batch["masked_weights"].sum()) for batch in batches)
    block = tokens * (4 * width**2 + 2 * width * inner) + pairs * 2 * width
    return 3 * 2 * (encoder.layers * block + masked * (width**2 + width * encoder.vocabulary_size))


def documents(batch: Batch) -> np.ndarray:
    """Tokens of each document, int64."""
    if "document_ids" not in batch:
        return batch["padding_mask"].sum(axis=1, dtype=np.int64)
    ids = batch["document_ids"].astype(np.int64)
    numbered = ids + np.arange(len(ids))[:, None] * (ids.max() + 1)
    return np.unique(numbered[ids > 0], return_counts=True)[1]


def filled(batches: list[Batch]) -> float:
    """Share of the positions that are not padding."""
    return sum(int(batch["padding_mask"].sum()) for batch in batches) / sum(
        batch["padding_mask"].size for batch in batches
    )


def backend_peak(precision: str) -> float:
    """The fastest of a few compiled matrix products, FLOP/s."""
    import keras

    from bertcnn.backend import on_gpu

    if keras.backend.backend() == "jax":
        import jax
        from jax import numpy

        def products(left: Any, right: Any) -> Any:
            for _ in range(4):
                left = left @ right
            return left

        compiled = jax.jit(products)

        def timed(rows: int, inner: int) -> float:
            left, right = (
                numpy.ones((rows, inner), precision),
                numpy.ones((inner, inner), precision),
            )
            return best_of(lambda: compiled(left, right).block_until_ready()) / 4

    else:
        import tensorflow as tf

        multiply = tf.function(tf.matmul, jit_compile=True, autograph=False)

        def timed(rows: int, inner: int) -> float:
            left, right = tf.ones((rows, inner), precision), tf.ones((inner, inner), precision)
            return best_of(lambda: multiply(left, right)[0, 0].numpy())

    sizes = [size for size in _PEAK_SIZES if on_gpu() or np.prod(size) < _CPU_LARGEST]
    return float(max(2 * rows * inner * inner / timed(rows, inner) for rows, inner, _ in sizes))


def numpy_peak() -> float:
    """The fastest of a few matrix products in float32 on the CPU, FLOP/s."""
    found = []
    for rows, inner, _ in _PEAK_SIZES[:2]:
        left, right = np.ones((rows, inner), np.float32), np.ones((inner, inner), np.float32)
        found.append(2 * rows * inner * inner / best_of(partial(np.matmul, left, right)))
    return max(found)


def best_of(work: Callable[[], object], times: int = 8) -> float:
    """The shortest time of `work` in seconds, after one warm-up."""
    work()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


# === The competitors ===


class Ours:
    """Our compiled step on batches of one shape.

    The first run compiles before its clock starts.
    """

    def __init__(self, encoder: EncoderSettings, batches: list[Batch]) -> None:
        from bertcnn.models import Bert, BertPretraining, pretraining_figures
        from bertcnn.training import LayerwiseAdamW
        from bertcnn.training.step import make_step

        self._encoder, self._batches, self._warm = encoder, batches, False
        model = BertPretraining(Bert(encoder, packed="document_ids" in batches[0]))
        optimizer = LayerwiseAdamW(1e-4, lambda _: 1.0, weight_decay=0.01, clip_norm=1.0)
        self._step = make_step(model, optimizer, pretraining_figures)
        self._inputs = list(model.input)

    def run(self) -> Speed:
        """Train on every batch once."""
        parts = [self._part(batch) for batch in self._batches]
        if not self._warm:
            self._step([parts[0]])
            self._warm = True
        started = time.perf_counter()
        for part in parts:
            figures = self._step([part])
        float(figures["loss"])  # waits for the device
        seconds = time.perf_counter() - started
        return Speed(
            sum(int(batch["padding_mask"].sum()) for batch in self._batches) / seconds,
            training_flops(self._encoder, self._batches) / seconds,
        )

    def _part(self, batch: Batch) -> tuple[Batch, Batch]:
        targets = {name: batch[name] for name in TARGETS}
        for name in ("masked_weights", "next_weights"):
            targets[name] = (targets[name] / max(1.0, float(targets[name].sum()))).astype(
                np.float32
            )
        return {name: batch[name] for name in self._inputs}, targets


def theirs(stored: Path, encoder: EncoderSettings, batches: list[Batch]) -> Speed:
    """The peer on the same batches."""
    seconds = float(ask_peer("pretrain_torch", "--batches", stored)["seconds"])
    return Speed(
        sum(int(batch["padding_mask"].sum()) for batch in batches) / seconds,
        training_flops(encoder, batches) / seconds,
    )


def store(path: Path, encoder: EncoderSettings, batches: list[Batch]) -> None:
    """Save the batches as arrays and the encoder's shape, for the peer."""
    shape = {
        name: np.array(getattr(encoder, name))
        for name in ("vocabulary_size", "width", "layers", "heads", "feed_forward_width")
    }
    arrays = {
        f"{name}_{number}": values
        for number, batch in enumerate(batches)
        for name, values in batch.items()
    }
    np.savez(
        path,
        count=np.array(len(batches)),
        max_positions=np.array(encoder.max_positions),
        **shape,  # type: ignore[arg-type]
        **arrays,  # type: ignore[arg-type]
    )


@contextmanager
def profiled(folder: Path | None) -> Iterator[None]:
    """Write the backend's own trace of the block, if a folder is given."""
    import keras

    if folder is None:
        yield
    elif keras.backend.backend() == "jax":
        import jax

        with jax.profiler.trace(str(folder)):
            yield
    else:
        import tensorflow as tf

        with tf.profiler.experimental.Profile(str(folder)):
            yield


def show(rounds: dict[str, list[Speed]], peak: float, real: dict[str, float]) -> None:
    """Print a Markdown table of the medians."""
    middle = {
        name: statistics.median(speed.tokens_per_second for speed in speeds)
        for name, speeds in rounds.items()
    }
    print(
        "\n| competitor | no padding | real tokens/s | bertcnn is faster by | model FLOP"
        " utilisation |\n|---|---|---|---|---|"
    )
    for name, speeds in rounds.items():
        ratio = "" if name.startswith("bertcnn") else f"{middle['bertcnn'] / middle[name]:.2f}"
        used = statistics.median(speed.flops_per_second for speed in speeds) / peak
        print(f"| {name} | {real[name]:.1%} | {middle[name]:,.0f} | {ratio} | {used:.1%} |")
    if len(rounds) > 2:
        packed, peer = middle["bertcnn, packed"], middle["Hugging Face, PyTorch"]
        print(
            f"\nPacked, {packed / peer:.2f} times the real tokens/s of Hugging Face's rows of one"
            " pair each."
        )
    print("Compilation not counted.")


if __name__ == "__main__":
    main()
