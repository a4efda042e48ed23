"""Comparison of two encoders."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from bertcnn.errors import LabelError, SettingsError
from bertcnn.settings import FROZEN
from bertcnn.workflows.encoder_comparison import compare_encoders, judge
from tests.tickets import as_csv, tickets


def answers(shares, rows=400, seeds=5):
    """Random right answers of two encoders, each with its own share."""
    generator = np.random.default_rng(0)
    return np.stack([generator.random((seeds, rows)) < share for share in shares])


def test_a_clear_gain_is_distinguished_from_loss_and_chance():
    assert judge(answers((0.7, 0.9)), 10).word == "helped"
    assert judge(answers((0.9, 0.7)), 10).word == "did not help"
    assert judge(answers((0.8, 0.8), rows=40), 10).word == "cannot tell"


def test_with_seeds_alone_the_interval_equals_the_paired_t_test():
    right = np.zeros((2, 4, 1000))
    for seed, (old, new) in enumerate(((700, 720), (710, 715), (690, 730), (705, 712))):
        right[0, seed, :old], right[1, seed, :new] = 1, 1
    verdict = judge(right, 10)
    peer = ttest_rel(verdict.new, verdict.old).confidence_interval(0.95)
    assert verdict.difference == pytest.approx(0.018)
    assert verdict.low < peer.low  # the rows' variance makes ours a little wider
    assert verdict.high > peer.high
    assert verdict.high - verdict.low == pytest.approx(peer.high - peer.low, rel=0.2)


def test_intervals_have_their_stated_coverage():
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        row_gain = generator.normal(0.03, 0.2, 200)  # some rows gain, some lose
        old = generator.random((5, 200)) < 0.7
        new = generator.random((5, 200)) < np.clip(
            0.7 + row_gain + generator.normal(0, 0.02, (5, 1)), 0, 1
        )
        verdict = judge(np.stack([old, new]), 10)
        held += verdict.low <= 0.03 <= verdict.high
    assert held / 400 > 0.95


def test_an_encoder_is_no_better_than_itself(encoder_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "bertcnn.training.recipes.FROZEN",
        FROZEN.model_copy(update={"epochs": 2, "fewest_steps": 0}),
    )
    texts, labels = tickets()
    cells = [name.replace("hardware", "router; cable") for name in labels]
    (tmp_path / "tickets.csv").write_text(as_csv(texts, cells))
    notes = []

    class Listener:
        def note(self, told):
            notes.append(told)

    verdict = compare_encoders(
        tmp_path / "tickets.csv",
        encoder_folder,
        encoder_folder,
        label="label",
        multi_label="no",
        seeds=2,
        rows_per_label=6,
        recipe="frozen",
        progress=Listener(),
    )
    assert verdict.old == verdict.new
    assert (verdict.trained_rows, verdict.difference, verdict.word) == (18, 0, "did not help")
    assert verdict.rows == 18
    assert notes[0].startswith("seed 0: accuracy ")
    assert "2 seeds, 18 rows to learn from, 18 to test on" in verdict.describe()


def test_bad_requests_are_refused(encoder_folder, tmp_path):
    (tmp_path / "tickets.csv").write_text(as_csv(*tickets()))
    (tmp_path / "sets.csv").write_text(
        as_csv([f"text {row}" for row in range(20)], ["a", "b", "a;b", "a"] * 5)
    )
    with pytest.raises(LabelError, match="rows with several labels in column 'label'"):
        compare_encoders(tmp_path / "sets.csv", encoder_folder, encoder_folder)
    with pytest.raises(SettingsError, match="1 seeds; expected at least 2"):
        compare_encoders(tmp_path / "tickets.csv", encoder_folder, encoder_folder, seeds=1)
    with pytest.raises(
        LabelError, match="20 rows of the label 'billing' to learn from; expected at least 30"
    ):
        compare_encoders(
            tmp_path / "tickets.csv",
            encoder_folder,
            encoder_folder,
            test=tmp_path / "tickets.csv",
            rows_per_label=30,
        )
