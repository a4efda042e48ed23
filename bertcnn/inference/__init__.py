"""One path to an answer: engines, the predictor and its evidence."""
