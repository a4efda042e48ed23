"""A tiny trained model, made once for all tests that only read it."""

from functools import cache
from pathlib import Path

from bertcnn import BertCNNClassifier
from tests.test_classifier import quick
from tests.tickets import tickets


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
