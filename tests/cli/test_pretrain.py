"""`bertcnn pretrain`, as people type it."""

import numpy as np
import pytest

from benchmarks.kill_pretrain import write_texts
from bertcnn.encoders.convert import load_encoder
from tests.cli.outcomes import left, refused


@pytest.fixture
def texts(tmp_path):
    write_texts(tmp_path / "texts.txt")
    return tmp_path / "texts.txt"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps", "0"), ("steps", "greater than or equal to 1")),
        (("--from", "minilm-l6", "--size", "tiny"), ("both --from and --size",)),
        (("--size", "huge"), ("'huge'", "tiny, mini")),
        (("--precision", "float8"), ("precision", "'float8'")),
        (("--batch-size", "4000", "--size", "tiny"), ("4,000 rows of one batch",)),
        (("--vocabulary", "20000"), ("20,000 pieces",)),
    ],
    ids=["steps", "both", "size", "precision", "batch", "vocabulary"],
)
def test_invalid_options_are_a_one_line_error_and_leave_nothing(run, texts, options, words):
    out = texts.parent / "encoder"
    refused(run("pretrain", texts, "--out", out, *options), *words)
    assert left(texts.parent) == ["texts.txt"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, b" \n\n \n"],
    ids=["empty", "binary", "blank"],
)
def test_a_file_without_texts_is_one_line(run, tmp_path, content):
    (tmp_path / "texts.txt").write_bytes(content)
    refused(run("pretrain", tmp_path / "texts.txt", "--out", tmp_path / "encoder"))
    assert left(tmp_path) == ["texts.txt"]


def test_an_encoder_without_heads_gets_new_ones_with_a_note(run, texts, encoder_folder):
    """Covers single-document rows, gradient accumulation, half precision and TensorBoard too."""
    out, logs = texts.parent / "encoder", texts.parent / "logs"
    batches = "--steps 1 --accumulate 2 --batch-size 4 --sequence-length 32 --held-out 0 --no-pack"
    more = "--no-next-sentence --precision bfloat16 --whole-words --seed 3"
    options = (*f"{batches} {more}".split(), "--logs", logs)
    code, _, err = run("pretrain", texts, "--from", encoder_folder, "--out", out, *options)
    assert code == 0, err
    for line in (
        "tiny has no head for masked words: it starts from random weights",
        "tiny has no head for next sentences: it starts from random weights",
        "no document is held out, so there are no figures on unseen texts",
        f"Saved {out}",
    ):
        assert line in err
    assert any(logs.iterdir())
    before, after = load_encoder(encoder_folder), load_encoder(out)
    assert after.settings == before.settings
    assert (out / "vocab.txt").read_text() == (encoder_folder / "vocab.txt").read_text()
    assert 0 < np.abs(after.weights[0].numpy() - before.weights[0].numpy()).max() < 0.01
    code, output, err = run("encoder", "info", out)
    assert code == 0, err
    assert "2 of width 16" in output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--verdict", "missing.csv"), "--verdict without --from"),
        (("--from", "minilm-l6", "--verdict", "missing.csv"), "there is no file 'missing.csv'"),
        (
            ("--from", "minilm-l6", "--verdict", "missing.csv", "--verdict-seeds", "1"),
            "--verdict-seeds 1",
        ),
    ],
    ids=["from", "file", "seeds"],
)
def test_a_run_that_cannot_be_evaluated_is_refused_before_pretraining(run, texts, options, words):
    code, _, err = run("pretrain", texts, "--out", texts.parent / "encoder", *options)
    assert code == 2
    assert words in err
    assert left(texts.parent) == ["texts.txt"]
