"""Whole jobs on files: train, evaluate, compare encoders, tune."""
