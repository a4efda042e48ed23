"""The cache shared between tests returns what a fresh search would."""

import nncf.common.graph.graph
import nncf.common.insertion_point_graph
import numpy as np
import pytest

from bertcnn.data.packing import packed_batches, plan_packed
from bertcnn.inference.openvino_graph import classifier_graph
from bertcnn.inference.quantization import quantize
from bertcnn.settings import EncoderSettings, HeadSettings
from bertcnn.shapes import classifier_shapes
from tests.compiling import remembered

SEARCHERS = (nncf.common.graph.graph, nncf.common.insertion_point_graph)
NARROW = {"vocabulary_size": 50, "width": 16, "heads": 2, "feed_forward_width": 32}
NETWORKS = [{"layers": 1}, {"layers": 2}, {"layers": 1, "activation": "relu"}]


def quantize_one(form, seed):
    """Quantise a network of this form with random weights."""
    random = np.random.default_rng(seed)
    encoder, head = EncoderSettings(**NARROW, **form), HeadSettings(filters=4)
    tensors = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in classifier_shapes(encoder, head, 3).items()
    }
    rows = [random.integers(0, 50, 12).astype(np.int32) for _ in range(4)]
    batches = list(packed_batches(rows, plan_packed(np.full(4, 12)), 0))
    graph = classifier_graph(tensors, encoder, head, int8_tokens=True)
    quantize(graph, batches, encoder, head)


@pytest.mark.parametrize("searcher", SEARCHERS, ids=lambda module: module.__name__)
def test_isomorphic_graphs_are_searched_once(searcher, monkeypatch):
    search = searcher.find_subgraphs_matching_pattern
    search = getattr(search, "__wrapped__", search)
    searched, found = [], []

    def counted(*given):
        searched.append(given)
        return search(*given)

    look_up = remembered(counted)

    def compared(graph, patterns, strict=True):
        matches = look_up(graph, patterns, strict)
        assert sorted(map(sorted, matches)) == sorted(map(sorted, search(graph, patterns, strict)))
        found.append(matches)
        return matches

    monkeypatch.setattr(searcher, "find_subgraphs_matching_pattern", compared)
    for seed in (0, 1):
        for form in NETWORKS:
            quantize_one(form, seed)
    # each form, and some again: the order of a graph's nodes may vary
    assert len(NETWORKS) <= len(searched) < len(found)
    assert any(found)
