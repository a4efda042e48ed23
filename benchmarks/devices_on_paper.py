"""Estimated gain from several GPUs and machines, from sizes and bandwidths; nothing is measured.

A step takes the time for one GPU's share of the batch, plus an all-reduce of the float32 gradients,
which XLA may overlap with the computation. Both extremes are printed.

    python -m benchmarks.devices_on_paper
"""

from __future__ import annotations

from dataclasses import dataclass

PEAK = 989e12  # bfloat16 operations/s of an H100 SXM (NVIDIA's data sheet, without sparsity)
UTILISATION = 0.45  # of the peak, a target
NVLINK = 0.8 * 450e9  # bytes/s in each direction; NCCL reaches about four fifths
NETWORKS = {"8 x 400 Gb/s a machine": 8 * 50e9, "100 Gb/s a machine": 12.5e9}
GPUS = 8  # in a machine


@dataclass(frozen=True)
class Work:
    """A training: weights, weights in matrix products, and tokens for each step and GPU."""

    name: str
    weights: float
    multiplied: float
    tokens: int

    def seconds(self) -> float:
        """Seconds to compute a step: 6 operations for each token and multiplied weight."""
        return 6 * self.multiplied * self.tokens / (UTILISATION * PEAK)

    def exchange(self, machines: int, network: float) -> float:
        """Seconds for an all-reduce within each machine, and then between machines."""
        volume = 4 * self.weights  # bytes of gradients
        within = 2 * (GPUS - 1) / GPUS * volume / NVLINK
        return within + 2 * (machines - 1) / machines * volume / network


WORKS = (
    Work("BERT-base, 256 x 128 a GPU", 110e6, 85e6, 256 * 128),
    Work("BERT-base, 32 x 128 a GPU", 110e6, 85e6, 32 * 128),
    Work("BERT-base, 32 x 128 divided by 8", 110e6, 85e6, 4 * 128),
    Work("MiniLM-L6, 256 x 64 a GPU", 22e6, 10.6e6, 256 * 64),
)


def main() -> None:
    """Print the table."""
    first, *networks = ("8 GPUs", *(f"16 machines, {name}" for name in NETWORKS))
    print(f"| a step of | gradients | computation | {first} | {' | '.join(networks)} |")
    print("|---|---|---|---|---|---|")
    for work in WORKS:
        cells = [f"{4 * work.weights / 1e6:.0f} MB", f"{1e3 * work.seconds():.1f} ms"]
        for machines, network in ((1, 1.0), *((16, one) for one in NETWORKS.values())):
            exchange, alone = work.exchange(machines, network), work.seconds()
            least, most = alone / (alone + exchange), min(1.0, alone / exchange)
            cells.append(f"{1e3 * exchange:.1f} ms: {least:.0%} to {most:.0%}")
        print(f"| {work.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
