"""Accuracy and speed beside named peers: the same rows, taking turns, on one machine."""
