"""Language detection."""

import csv
from pathlib import Path

import pytest

from bertcnn.text.languages import is_foreign, language_of, main_languages

DATA = Path(__file__).parents[2] / "data"
FOREIGN = {
    "de": "Guten Tag, mein Internet ist seit Montag tot und niemand ruft zurück",
    "fr": "Bonjour, ma facture est deux fois plus élevée que d'habitude",
    "es": "Hola, llevo tres días sin internet y nadie me da una solución",
    "tr": "Merhaba, internetim dört gündür sürekli kopuyor",
    "hi": "मेरा इंटरनेट पिछले हफ्ते से बंद है",
    "zh": "我的网络从昨天起就连不上了",
    "ru": "Здравствуйте, интернет не работает со вчерашнего дня",
}


@pytest.mark.parametrize(("language", "text"), FOREIGN.items())
def test_a_text_in_another_language_is_foreign(language, text):
    assert language_of(text) in (language, None)  # language_of is sure of fewer texts
    assert is_foreign(text, ("en",))
    assert not is_foreign(text, (language,))
    assert not is_foreign(text, ("en", language))


@pytest.mark.parametrize("text", ["", "ok", "gracias", "12345 67890 12345 67890", "???", "\ud800"])
def test_a_text_too_short_to_tell_is_not_foreign(text):
    assert language_of(text) is None
    assert not is_foreign(text, ("en",))


def test_without_languages_nothing_is_foreign():
    assert not is_foreign(FOREIGN["de"], ())


def test_hardly_any_english_sample_ticket_is_foreign():
    texts = [row["text"] for row in csv.DictReader((DATA / "isp_tickets.csv").open())]
    assert sum(is_foreign(text, ("en",)) for text in texts) == 0
    assert not is_foreign(texts[0].upper(), ("en",))  # capitals look like another language


def test_a_main_language_has_at_least_a_twentieth_of_the_texts():
    english = [row["text"] for row in csv.DictReader((DATA / "isp_tickets.csv").open())][:100]
    assert main_languages(english) == ("en",)
    assert main_languages([*english, FOREIGN["fr"]]) == ("en",)
    assert main_languages([*english, *[FOREIGN["fr"] + str(row) for row in range(30)]]) == (
        "en",
        "fr",
    )
    assert main_languages(english[:5]) == ()
    assert main_languages([]) == ()
