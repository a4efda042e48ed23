"""Makes label_shift_golden.npz: results of abstention 0.1.3.1 and QuaPy 0.2.3.

abstention is the package of Alexandari, Kundaje and Shrikumar. Run where both are installed (they
are no dependencies of bertcnn):

    python make_label_shift_golden.py

`valid_logits` float32 [V, C], `valid_labels` int32 [V] and `logits` float32 [N, C] are random, with
other label shares in the latter. `valid_probabilities` float64 [V, C] and `probabilities` float64
[N, C] are calibrated by abstention's TempScaling with all biases. `shares` float64 [C] is the
result of QuaPy's EMQ.EM on them.
"""

import sys
from pathlib import Path

import numpy as np
import quapy
from abstention.calibration import TempScaling
from quapy.method.aggregative import EMQ

HERE = Path(__file__).parent
SEED = 2002
VALID, NEW = 600, 400
SHARES, NEW_SHARES = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.7, 0.05]
CONFIDENCE, BIAS = 2.5, [0.8, -0.5, 0.0, 0.3]  # the true calibration


def draw(rows: int, shares: list[float], generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    labels = generator.choice(len(shares), rows, p=shares)
    logits = generator.normal(size=(rows, len(shares)))
    logits[np.arange(rows), labels] += 2.0
    return (CONFIDENCE * logits + BIAS).astype(np.float32), labels.astype(np.int32)


def main() -> None:
    generator = np.random.default_rng(SEED)
    valid_logits, valid_labels = draw(VALID, SHARES, generator)
    logits, _ = draw(NEW, NEW_SHARES, generator)
    one_hot = np.eye(len(SHARES))[valid_labels]
    calibrate = TempScaling(bias_positions="all")(valid_logits.astype(float), one_hot)
    valid_probabilities = calibrate(valid_logits.astype(float))
    probabilities = calibrate(logits.astype(float))
    shares, _ = EMQ.EM(valid_probabilities.mean(axis=0), probabilities, epsilon=1e-10)
    np.savez_compressed(
        HERE / "label_shift_golden.npz",
        valid_logits=valid_logits,
        valid_labels=valid_labels,
        logits=logits,
        valid_probabilities=valid_probabilities,
        probabilities=probabilities,
        shares=shares,
    )
    size = (HERE / "label_shift_golden.npz").stat().st_size
    sys.stdout.write(f"QuaPy {quapy.__version__}: shares {shares.round(4)}, {size:,} bytes\n")


if __name__ == "__main__":
    main()
