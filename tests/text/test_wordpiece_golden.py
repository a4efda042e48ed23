"""Token ids equal Hugging Face's, as stored by tests/golden/make_wordpiece_golden.py."""

import json
from pathlib import Path

import numpy as np
import pytest

from bertcnn.settings import TokenizerSettings
from bertcnn.text.wordpiece import WordPieceTokenizer, read_vocabulary
from tests.golden import wordpiece_texts as given

GOLDEN = Path(given.__file__).parent
KINDS = {
    "published": True,
    "uncased": True,
    "cased": False,
}  # vocabulary and casing: is it lowercase?


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "wordpiece_golden.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def legacy():
    return json.loads((GOLDEN / "wordpiece_legacy.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def strings():
    return given.random_strings()


@pytest.fixture(scope="module")
def encoders(minilm_folder):
    """For each kind, a function from texts to token ids without [CLS] and [SEP]."""
    vocabularies = {"published": read_vocabulary(minilm_folder / "vocab.txt")}
    vocabularies["uncased"] = vocabularies["cased"] = given.character_vocabulary()

    def encoder(kind):
        tokenizer = WordPieceTokenizer(
            vocabularies[kind], TokenizerSettings(lowercase=KINDS[kind], max_tokens=1_000_000)
        )
        return lambda texts: [row[1:-1].tolist() for row in tokenizer.encode(texts).token_ids]

    return {kind: encoder(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def random_ids(encoders, strings):
    return {kind: encode(strings) for kind, encode in encoders.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_character_alone_and_inside_a_word_has_hugging_faces_ids(encoders, golden, kind):
    blocks = list(given.blocks())
    texts = [
        " ".join(form.format(chr(point)) for point in block for form in given.FORMS)
        for block in blocks
    ]  # one call saves minutes
    found = [given.digest([row]) for row in encoders[kind](texts)]
    wanted = golden[f"{kind}_blocks"].tolist()
    wrong = [
        f"U+{block[0]:04X} to U+{block[-1]:04X}"
        for block, one, other in zip(blocks, found, wanted, strict=True)
        if one != other
    ]
    assert not wrong, "make_wordpiece_golden.py show U+... prints the ids of one of them"


def test_a_basic_plane_character_has_the_same_ids_alone_and_beside_others(encoders):
    characters = [chr(point) for point in given.CODE_POINTS if point < 0x10000]
    encode = encoders["uncased"]
    beside = encode([" ".join(form.format(char) for form in given.FORMS) for char in characters])
    alone, inside = (encode([form.format(char) for char in characters]) for form in given.FORMS)
    assert beside == [first + second for first, second in zip(alone, inside, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_100_000_random_strings_have_hugging_faces_ids(random_ids, golden, kind):
    rows = random_ids[kind]
    assert len(rows) == 100_000
    assert rows[: given.SAMPLE] == kept_rows(golden, f"{kind}_sample")
    groups = range(0, len(rows), given.GROUP)
    found = [given.digest(rows[start : start + given.GROUP]) for start in groups]
    wanted = golden[f"{kind}_random"].tolist()
    assert not [
        (start, start + given.GROUP)
        for start, one, other in zip(groups, found, wanted, strict=True)
        if one != other
    ]


def test_the_random_strings_are_of_many_kinds(strings, random_ids):
    assert len(set(strings)) > 90_000
    assert len(set("".join(strings))) > 90_000
    tokens = [index for row in random_ids["published"] for index in row]
    assert len(tokens) > 400_000
    assert len(set(tokens)) > 2_000
    assert tokens.count(100) < 0.5 * len(tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_naughty_strings_have_hugging_faces_ids(encoders, golden, kind):
    texts = given.naughty_strings()
    assert len(texts) == 485
    for text, found, wanted in zip(
        texts, encoders[kind](texts), kept_rows(golden, f"{kind}_naughty"), strict=True
    ):
        assert found == wanted, text


@pytest.mark.parametrize("kind", ["uncased", "cased"])
def test_random_strings_have_the_older_tokenizers_ids_with_listed_exceptions(
    strings, random_ids, legacy, kind
):
    listed = {
        point
        for found in legacy[kind]["ranges"]
        for first, last in found
        for point in range(first, last + 1)
    }
    sound = [
        ids
        for text, ids in zip(strings, random_ids[kind], strict=True)
        if not given.differs_by_design(text, listed, KINDS[kind])
    ]
    assert len(sound) == legacy[kind]["random_strings"] > 50_000
    found = [
        given.digest(sound[start : start + given.GROUP])
        for start in range(0, len(sound), given.GROUP)
    ]
    assert found == legacy[kind]["random_digests"]


def test_nearly_all_listed_differences_are_unassigned_characters(legacy):
    assert legacy["reasons"] == list(given.REASONS)
    for kind in ("uncased", "cased"):
        for count, found in zip(legacy[kind]["counts"], legacy[kind]["ranges"], strict=True):
            assert count == sum(last + 1 - first for first, last in found)
        assert sum(legacy[kind]["counts"][1:]) < 2_000


def kept_rows(golden, name):
    counts = golden[f"{name}_counts"]
    return [row.tolist() for row in np.split(golden[f"{name}_ids"], np.cumsum(counts)[:-1])]
