"""Pretraining on unlabelled text: masked language model, next sentence prediction."""
