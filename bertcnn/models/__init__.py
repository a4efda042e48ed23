"""Whole networks, built from the layers."""
