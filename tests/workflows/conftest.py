"""Fixtures of a task that a tiny network can learn."""

from tests.learnable import make_rows, tiny_encoder, token_examples, vector_examples

__all__ = ["make_rows", "tiny_encoder", "token_examples", "vector_examples"]
