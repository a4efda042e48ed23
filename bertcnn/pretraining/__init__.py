"""Pretraining an encoder on unlabelled text: masked language model and next sentence prediction."""
