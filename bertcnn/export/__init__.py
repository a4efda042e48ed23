"""Saved models in other programs' formats, compared with the model before they appear."""
