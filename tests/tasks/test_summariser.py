"""The summariser: it learns small summaries, and copies unseen words."""

import numpy as np
import pytest

from bertcnn.errors import ColumnError, SettingsError, TableError
from bertcnn.tasks.summaries import Summariser, read_summaries
from tests.tasks.small_summaries import QUICK, SHORT, small_summaries


@pytest.fixture(scope="module")
def fitted(shallow_encoder_folder):
    return Summariser(shallow_encoder_folder, model=SHORT, training=QUICK).fit(*small_summaries())


def test_it_learns_to_copy_and_to_generate(fitted):
    texts, summaries = small_summaries()
    for beam in (1, 3):
        written = [one.text for one in fitted.summarise(texts, beam=beam)]
        right = [own.lower() == other for own, other in zip(written, summaries, strict=True)]
        assert np.mean(right) > 0.8
    figures = fitted.evaluate(texts, summaries)
    assert figures.pairs == 36
    assert figures.rouge_l.value > 0.9
    assert figures.first_sentence.value == 0  # "Please help."
    assert figures.gain.low > 0.8
    assert figures.rouge_l.low <= figures.rouge_l.value <= figures.rouge_l.high


def test_a_word_that_no_summary_has_is_copied(fitted):
    (summary,) = fitted.summarise(["Please help. My wifi is dead since today."])
    assert summary.text == "Wifi dead again"
    assert summary.score < 0


def test_without_copying_it_cannot(fitted, shallow_encoder_folder):
    model, training = {**SHORT, "copies": False}, {**QUICK, "epochs": 20}
    plain = Summariser(shallow_encoder_folder, model=model, training=training)
    plain.fit(*small_summaries())
    (summary,) = plain.summarise(["Please help. My wifi is dead since today."])
    assert "wifi" not in summary.text.lower()


def test_pairs_are_read_from_two_columns(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("ticket,summary\n" + "my modem is down,modem down\n" * 20, encoding="utf-8")
    pairs = read_summaries(path)
    assert (pairs.sources[0], pairs.targets[0], len(pairs)) == (
        "my modem is down",
        "modem down",
        20,
    )
    with pytest.raises(ColumnError, match="'line'"):
        read_summaries(path, summary="line")
    path.write_text("ticket,summary\n" + "my modem is down,\n" * 20, encoding="utf-8")
    with pytest.raises(TableError, match="pair 1, whose summary is empty"):
        read_summaries(path)
    path.write_text("ticket,summary\nmy modem is down,modem down\n", encoding="utf-8")
    with pytest.raises(TableError, match="1 pairs; expected at least 20"):
        read_summaries(path)


def test_a_blank_text_has_no_summary(fitted):
    (summary,) = fitted.summarise([" "])
    assert (summary.text, summary.score) == ("", 0.0)


def test_unusable_settings_are_refused(fitted):
    with pytest.raises(SettingsError, match="layers was '0'"):
        Summariser(model={"layers": 0})
    with pytest.raises(SettingsError, match="beam 0; expected a whole number"):
        fitted.summarise(["a"], beam=0)
