"""The intent messages for contrastive pretraining."""

import sys

import pytest

from benchmarks import intents


def test_trades_can_be_left_out():
    texts, found = intents.read(frozenset({"insurance", "university"}))
    assert len(texts) == len(found) == 14 * 840
    assert {name.split("/")[0] for name in found} == intents.trades() - {"insurance", "university"}


def test_an_unknown_trade_is_refused_before_any_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        sys, "argv", ["intents", str(tmp_path / "out"), "--leave-out", "insurance,banking"]
    )
    with pytest.raises(SystemExit):
        intents.main()
    assert (
        "--leave-out banking: no such trade; there are airline_and_trains,"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()
