"""Figures on a model in use: audits, comparisons, drift, topics."""
