"""Tickets that a tiny model learns to summarise in seconds: it copies a word and generates one."""

_DEVICES = ("modem", "router", "cable", "box", "socket", "tv")
_STATES = ("dead", "slow", "down", "lost", "red", "green")


def small_summaries() -> tuple[list[str], list[str]]:
    """36 tickets of two sentences and their summaries."""
    pairs = [(device, state) for device in _DEVICES for state in _STATES]
    return (
        [f"Please help. My {device} is {state} since today." for device, state in pairs],
        [f"{device} {state} again" for device, state in pairs],
    )


SHORT = {"feed_forward_width": 32, "source_tokens": 24, "target_tokens": 6}
QUICK = {
    "epochs": 60,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "dropout": 0.0,
    "compiled_shapes": 1,
}
