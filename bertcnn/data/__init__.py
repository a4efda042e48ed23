"""Rows for the network: labels, splits, batches and packing."""
