"""The intent messages for contrastive pretraining."""

from benchmarks import intents


def test_trades_can_be_left_out():
    texts, found = intents.read(frozenset({"insurance", "university"}))
    assert len(texts) == len(found) == 14 * 840
    assert {name.split("/")[0] for name in found} == intents.trades() - {"insurance", "university"}
