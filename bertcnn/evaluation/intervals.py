"""Confidence intervals of proportions."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri


def wilson(right: int, rows: int, level: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a proportion (Wilson 1927, "Probable inference").

    Example:
        >>> [round(bound, 4) for bound in wilson(9, 10)]
        [0.5958, 0.9821]
    """
    z = float(ndtri((1 + level) / 2))
    share = right / rows
    middle = share + z * z / (2 * rows)
    half = z * np.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return max(0.0, float((middle - half) / (1 + z * z / rows))), min(
        1.0, float((middle + half) / (1 + z * z / rows))
    )
