"""The summariser: it learns small summaries, copies unseen words, and comes back from a folder."""

import csv

import numpy as np
import pytest

from bertcnn.errors import BundleError, ColumnError, SettingsError, TableError, TrainingError
from bertcnn.tasks.summaries import Summariser, read_summaries, summarise_csv
from bertcnn.tasks.translation.translator import Translator
from bertcnn.training import savepoints as saving
from tests.tasks.small_summaries import QUICK, SHORT, small_summaries
from tests.test_classifier import Notes


def summariser(encoder_folder, **changes):
    options = {key: changes.pop(key) for key in ("progress", "model") if key in changes}
    return Summariser(encoder_folder, **{"model": SHORT, **options}, training={**QUICK, **changes})


@pytest.fixture(scope="module")
def fitted(shallow_encoder_folder):
    return summariser(shallow_encoder_folder).fit(*small_summaries())


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
    plain = summariser(shallow_encoder_folder, model={**SHORT, "copies": False}, epochs=20)
    plain.fit(*small_summaries())
    (summary,) = plain.summarise(["Please help. My wifi is dead since today."])
    assert "wifi" not in summary.text.lower()


def test_a_text_is_summarised_alike_alone_and_among_others(fitted):
    texts = [*small_summaries()[0], "", "one " * 40, "?"]
    together = fitted.summarise(texts)
    backwards = fitted.summarise(texts[::-1])[::-1]
    assert [one.text for one in together] == [one.text for one in backwards]
    for row in (0, 17, 36, 37):
        (alone,) = fitted.summarise([texts[row]])
        assert alone.text == together[row].text
        assert alone.score == pytest.approx(together[row].score, abs=1e-4)
    assert (together[36].text, together[36].score) == ("", 0.0)
    assert fitted.summarise([]) == []


def test_a_saved_summariser_writes_alike(fitted, tmp_path):
    identity = fitted.save(tmp_path / "model")
    again = Summariser.load(tmp_path / "model")
    texts = small_summaries()[0]
    assert again.summarise(texts) == fitted.summarise(texts)
    assert again.metrics_ == fitted.metrics_
    assert again.save(tmp_path / "again") == identity
    with pytest.raises(BundleError, match="holds a 'bertcnn summariser'"):
        Translator.load(tmp_path / "model")


def test_an_interrupted_training_ends_with_the_weights_of_another(
    shallow_encoder_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(saving, "_SECONDS_BETWEEN", 0.0)
    whole = summariser(shallow_encoder_folder, epochs=4, dropout=0.1).fit(*small_summaries())

    class Stop(Notes):
        batches = 0

        def stage(self, title, *_):
            self.title = title

        def advance(self, done, **_):
            self.batches += done * (self.title == "training")
            if self.batches == 9:
                raise KeyboardInterrupt

    options = {"epochs": 4, "dropout": 0.1}
    stopped = summariser(shallow_encoder_folder, progress=Stop(), **options)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(*small_summaries(), savepoints=tmp_path / "points")
    notes = Notes()
    resumed = summariser(shallow_encoder_folder, progress=notes, **options)
    resumed.fit(*small_summaries(), savepoints=tmp_path / "points")
    assert any("resuming an interrupted training after step " in note for note in notes.notes)
    assert resumed.save(tmp_path / "one") == whole.save(tmp_path / "other")


def test_a_file_gets_a_column_of_summaries(fitted, tmp_path):
    texts = [*small_summaries()[0][:5], ""]
    with (tmp_path / "in.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([["id", "text"], *enumerate(texts)])
    report = summarise_csv(fitted, tmp_path / "in.csv", tmp_path / "out.csv", text="text", beam=1)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["text"] for row in rows] == texts
    written = [one.text for one in fitted.summarise(texts, beam=1)]
    assert [row["summary"] for row in rows] == written
    assert (report.rows, report.answered) == (6, {"summary": 5})


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


def test_what_cannot_be_used_is_refused(fitted, shallow_encoder_folder):
    for make, message in (
        (lambda: Summariser(model={"layers": 0}), "layers was '0'"),
        (lambda: Summariser(training={"epochs": 0}), "epochs was '0'"),
        (lambda: fitted.summarise(["a"], beam=0), "beam 0; expected a whole number"),
        (lambda: fitted.summarise("a"), "list"),
        (
            lambda: Summariser(shallow_encoder_folder).fit(*small_summaries()),
            "max_tokens 160 and an encoder with 64 positions",
        ),
    ):
        with pytest.raises(SettingsError, match=message):
            make()
    with pytest.raises(TrainingError, match="a summariser without a model"):
        Summariser().summarise(["a"])
