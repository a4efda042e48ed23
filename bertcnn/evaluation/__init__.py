"""How good a classifier is: figures and calibration."""
