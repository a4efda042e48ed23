"""Texts that a tiny language model learns in seconds: places of towns."""

PLACES = {"Rome": "Italy", "Milan": "Italy", "Lyon": "France", "Nice": "France", "Bonn": "Germany"}


def small_texts() -> list[str]:
    """30 sentences, six about each town."""
    forms = ("{0} is a city in {1} .", "{1} has the city {0} .", "Where is {0} ? In {1} .")
    return [
        form.format(town, country) + ending
        for town, country in PLACES.items()
        for form in forms
        for ending in ("", " Yes .")
    ]


NARROW = {
    "width": 32,
    "layers": 2,
    "heads": 2,
    "feed_forward_width": 64,
    "dropout": 0.0,
    "context_tokens": 24,
}
BRIEF = {
    "epochs": 60,
    "batch_size": 8,
    "warmup_steps": 40,
    "learning_rate": 4e-3,
    "compiled_shapes": 1,
    "patience": None,
    "vocabulary_size": 80,
    "validation_fraction": 0.05,
}
