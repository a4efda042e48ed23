"""Pairs that a tiny model learns in seconds: numbers as words and as digits."""

UNITS = ("one", "two", "three", "four", "five", "six")


def small_pairs() -> tuple[list[str], list[str]]:
    """36 two-digit numbers."""
    numbers = [(ten, unit) for ten in range(6) for unit in range(6)]
    return (
        [f"{UNITS[ten]} and {UNITS[unit]}" for ten, unit in numbers],
        [f"{ten + 1}-{unit + 1}" for ten, unit in numbers],
    )


TINY = {"width": 32, "layers": 1, "heads": 2, "feed_forward_width": 64, "dropout": 0.0}
SHORT = {**TINY, "source_tokens": 16, "target_tokens": 8}
QUICK = {
    "epochs": 90,
    "batch_size": 8,
    "warmup_steps": 60,
    "learning_rate": 4e-3,
    "compiled_shapes": 1,
    "patience": None,
    "vocabulary_size": 40,
}
