"""Pretrained encoders: which there are, where they come from, how they load."""
