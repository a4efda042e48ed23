"""The HTTP service: requests share batches, models are exchanged while it answers."""
