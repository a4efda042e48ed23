"""Pretrained encoders: catalogue, download, and conversion."""
