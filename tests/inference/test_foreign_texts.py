"""A text in another language, from training to decision."""

import numpy as np
import pytest

from bertcnn import load
from bertcnn.bundle.scope import Strangeness
from bertcnn.inference.decide import foreign_texts
from tests.test_classifier import quick
from tests.tickets import tickets

FRENCH = "Bonjour, ma facture de ce mois est presque le double et je ne comprends pas pourquoi"
GERMAN = "Guten Tag, seit dem Gewitter am Sonntag ist unser Internet leider vollkommen tot"
ENGLISH = "Something altogether different puzzles everybody around here nowadays"


def said(text):
    return f"hello, the {text} has been on my mind since yesterday, please help me with it"


@pytest.fixture(scope="module")
def model(encoder_folder, tmp_path_factory):
    texts, labels = tickets(20)
    valid_texts, valid_labels = tickets(18)
    folder = tmp_path_factory.mktemp("english") / "model"
    quick(encoder_folder).fit(
        [said(text) for text in texts],
        labels,
        valid=([said(text) for text in valid_texts], valid_labels),
    ).save(folder)
    return load(folder)


def test_a_text_in_another_language_than_the_training_rows_goes_to_review(model):
    assert model.bundle.config.languages == ("en",)
    found = model.classify([FRENCH, GERMAN, said("router"), ""])
    assert [one.decision == "review:language" for one in found] == [True, True, False, False]
    assert found[0].reason == "in another language than the training texts"


def test_only_texts_with_hardly_any_known_words_are_language_checked():
    texts = [FRENCH, FRENCH, ENGLISH, "ça va"]
    known = np.array([0.0, 0.5, 0.0, 0.0], np.float32)
    nothing = np.zeros(4, bool)
    parts, nearest = np.zeros((4, 5), np.float32), np.full(4, -1, np.int32)
    strange = Strangeness(parts, nothing, nothing, nearest, known)
    assert foreign_texts(texts, strange, ("en",)).tolist() == [True, False, False, False]
    assert foreign_texts(texts, strange, ("en", "fr")).tolist() == [False] * 4
    assert not foreign_texts(texts, strange, ()).any()
