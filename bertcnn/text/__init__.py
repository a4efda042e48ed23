"""Tokenization: text to token ids."""
