"""The cache of tokenised documents.

Its contents, when it is rebuilt, and its robustness.
"""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from bertcnn.errors import OutputError, TableError
from bertcnn.pretraining import corpus as corpus_module
from bertcnn.pretraining.corpus import open_corpus
from bertcnn.settings import TokenizerSettings
from bertcnn.tables import lines
from bertcnn.text.wordpiece import WordPieceTokenizer
from tests.listener import Listener

from .conftest import write_documents

FAILPOINTS = Path(__file__).parent.parent / "failpoints.py"


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(
        "No signal. Since today!\n\nThe router is slow\n\n\x01\n\nno SIGNAL, since today\n",
        encoding="utf-8",
    )
    return path


def scenario(name, place):
    command = [sys.executable, str(FAILPOINTS), name, str(place)]
    environment = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": str(FAILPOINTS.parent.parent),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sentences_are_tokenised_like_the_tokenizer(texts, tokenizer, tmp_path):
    corpus = open_corpus([texts], tokenizer, cache=tmp_path)
    starts = np.append(0, corpus.sentence_ends)
    found = [
        corpus.tokens[start:end].tolist()
        for start, end in zip(starts, corpus.sentence_ends, strict=False)
    ]
    wanted = tokenizer.encode(
        ["No signal.", "Since today!", "The router is slow", "no SIGNAL, since today"]
    ).token_ids
    assert found == [ids[1:-1].tolist() for ids in wanted]
    assert corpus.part_ends.tolist() == [2, 3, 4]
    summary = corpus.summary
    assert (summary.documents, summary.sentences, summary.single, summary.blank) == (3, 4, 2, 1)
    assert summary.tokens == len(corpus.tokens)
    assert "1 documents without a word left out" in summary.lines()


def test_the_corpus_is_cached(texts, tokenizer, tmp_path):
    first, second = Listener(), Listener()
    made = open_corpus([texts], tokenizer, cache=tmp_path, progress=first)
    found = open_corpus([texts], tokenizer, cache=tmp_path, progress=second)
    assert [name for name, _, _ in first.stages] == ["hashing the texts", "tokenising"]
    assert [name for name, _, _ in second.stages] == ["hashing the texts"]
    assert first.done == texts.stat().st_size
    assert found.key == made.key
    assert found.summary == made.summary


def test_the_cache_depends_on_texts_and_tokenizer_but_not_on_file_names(texts, tokenizer, tmp_path):
    key = open_corpus([texts], tokenizer, cache=tmp_path).key
    moved = texts.rename(tmp_path / "moved.txt")
    assert open_corpus([moved], tokenizer, cache=tmp_path).key == key
    cased = WordPieceTokenizer(tokenizer.vocabulary, TokenizerSettings(lowercase=False))
    longer = WordPieceTokenizer([*tokenizer.vocabulary, "zebra"])
    others = {open_corpus([moved], other, cache=tmp_path).key for other in (cased, longer)}
    moved.write_text("Something else.", encoding="utf-8")
    others.add(open_corpus([moved], tokenizer, cache=tmp_path).key)
    assert len(others | {key}) == 4


@pytest.mark.parametrize("spoil", ["cut", "changed", "version", "missing"])
def test_a_damaged_corpus_is_built_again(texts, tokenizer, tmp_path, spoil):
    made = open_corpus([texts], tokenizer, cache=tmp_path)
    tokens, manifest = made.tokens.tolist(), made.folder / "manifest.json"
    data = (made.folder / "tokens.bin").read_bytes()
    if spoil == "cut":
        (made.folder / "tokens.bin").write_bytes(data[:-2])
    elif spoil == "changed":
        (made.folder / "tokens.bin").write_bytes(b"\x09" + data[1:])
    elif spoil == "version":
        manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    else:
        (made.folder / "part_keys.bin").unlink()
    assert open_corpus([texts], tokenizer, cache=tmp_path).tokens.tolist() == tokens
    assert [path.name for path in made.folder.parent.iterdir()] == [made.key]


def test_a_long_document_is_stored_in_parts_of_one_key(tokenizer, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("router slow.\n" * 4000 + "\n" + "modem " * 9000, encoding="utf-8")
    corpus = open_corpus([path], tokenizer, cache=tmp_path)
    starts = np.append(0, corpus.sentence_ends)[np.append(0, corpus.part_ends)]
    assert np.diff(starts).max() <= 4096
    assert starts[-1] == len(corpus.tokens) == 4000 * 3 + 9000
    assert corpus.summary.documents == 2
    assert corpus.summary.single == 1
    assert len(set(corpus.part_keys.tolist())) == 2


def test_documents_that_differ_only_in_case_and_digits_share_a_key(tokenizer, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("Order 12 is lost.\n\norder 47 IS lost\n\norder is found", encoding="utf-8")
    keys = open_corpus([path], tokenizer, cache=tmp_path).part_keys.tolist()
    assert keys[0] == keys[1] != keys[2]


def test_memory_does_not_grow_with_the_texts(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_BATCH_SENTENCES", 64)
    monkeypatch.setattr(lines, "_BLOCK", 1 << 14)
    peaks = []
    for documents in (500, 2500):
        path = write_documents(tmp_path / f"{documents}.txt", documents, most=3)
        tracemalloc.start()
        open_corpus([path], tokenizer, cache=tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_texts_without_a_word_are_refused_and_leave_nothing(tokenizer, tmp_path):
    path = tmp_path / "blank.txt"
    path.write_text("\n \n\x01\n\n", encoding="utf-8")
    with pytest.raises(
        TableError, match=r"no word in '.*blank.txt'; expected documents to learn from"
    ):
        open_corpus([path], tokenizer, cache=tmp_path)
    assert not list((tmp_path / "corpora").iterdir())


def test_a_vocabulary_without_mask_is_refused(texts, tmp_path):
    with pytest.raises(TableError, match=r"a vocabulary without \[MASK\]"):
        open_corpus(
            [texts], WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]"]), cache=tmp_path
        )


def test_an_unwritable_cache_is_named(texts, tokenizer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        open_corpus([texts], tokenizer, cache=tmp_path / "file")


def test_a_file_that_changes_while_it_is_read_is_refused(texts, tokenizer, tmp_path):
    class Writing(Listener):
        def stage(self, name, total, unit="rows"):
            super().stage(name, total, unit)
            if name == "tokenising":
                texts.write_text("Something much longer than before. " * 9, encoding="utf-8")

    with pytest.raises(TableError, match="a file of texts changed while it was read"):
        open_corpus([texts], tokenizer, cache=tmp_path, progress=Writing())
    assert not list((tmp_path / "corpora").iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_build_killed_at_any_step_leaves_nothing_broken(tmp_path):
    outcomes = scenario("corpus", tmp_path / "place")
    assert len(outcomes) > 15
    assert all(outcome["equal"] for outcome in outcomes)
    assert all(len(outcome["left"]) == 1 for outcome in outcomes)
    assert {outcome["found"] for outcome in outcomes} == {0, 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits of file sizes")
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path):
    (outcome,) = scenario("corpus-full", tmp_path / "place")
    assert "OutputError: no space left to write" in outcome["error"]
    assert outcome["left"] == []
