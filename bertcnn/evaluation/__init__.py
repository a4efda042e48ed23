"""Metrics, calibration, decisions, and out-of-scope detection."""
