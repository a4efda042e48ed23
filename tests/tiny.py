"""A tiny trained model, made once for all tests that only read it."""

from functools import cache
from pathlib import Path

import keras
import numpy as np

from bertcnn import BertCNNClassifier
from bertcnn.settings import EncoderSettings
from tests.test_classifier import quick
from tests.tickets import tickets

SHAPE = {"width": 16, "layers": 2, "heads": 4, "feed_forward_width": 24, "max_positions": 40}


def tiny_settings(**changes: object) -> EncoderSettings:
    """The settings of an encoder that computes in milliseconds."""
    return EncoderSettings(**{"vocabulary_size": 50, **SHAPE, **changes})


def noisy(model: keras.Model) -> keras.Model:
    """The model with noise on its weights: none is 0 or 1, so that a missing one is noticed."""
    generator = np.random.default_rng(0)
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(np.asarray(weight) + 0.3 * generator.standard_normal(weight.shape))
    return model


@cache
def trained(encoder_folder: Path) -> BertCNNClassifier:
    """A classifier trained on `tickets()`; do not change it."""
    return quick(encoder_folder).fit(*tickets())


@cache
def saved_with_scope(encoder_folder: Path) -> Path:
    """A model with enough validation rows for out-of-scope detection; do not change it."""
    folder = encoder_folder.with_name("with-scope")
    quick(encoder_folder).fit(*tickets(), valid=tickets(18)).save(folder)
    return folder


@cache
def saved(encoder_folder: Path) -> Path:
    """The saved folder of that classifier; do not write to it."""
    folder = encoder_folder.with_name("trained")
    trained(encoder_folder).save(folder)
    return folder
