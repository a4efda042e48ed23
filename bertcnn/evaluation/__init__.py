"""Figures only: metrics, calibration, decisions, out of scope."""
