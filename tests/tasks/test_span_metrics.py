"""Figures of exact spans, compared with seqeval's."""

import json
from pathlib import Path

import pytest

from bertcnn.tasks.token_labels.labelled_texts import spans_of_tags
from bertcnn.tasks.token_labels.metrics import LabelFigures, SpanFigures

CASES = json.loads(
    (Path(__file__).parents[1] / "golden" / "seqeval_golden.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES)
def test_spans_and_figures_are_those_of_seqeval(case):
    found, expected = (
        [spans_of_tags(tags) for tags in case[name]] for name in ("found", "expected")
    )
    assert found == [[tuple(span) for span in row] for row in case["spans"]]
    figures = SpanFigures.of(found, expected)
    theirs = dict(case["report"])
    micro = theirs.pop("micro avg")
    theirs = {name: one for name, one in theirs.items() if not name.endswith(" avg")}
    assert figures.labels.keys() == theirs.keys()
    for ours, other in [(figures.micro, micro), *((figures.labels[n], theirs[n]) for n in theirs)]:
        assert ours.precision == pytest.approx(other["precision"])
        assert ours.recall == pytest.approx(other["recall"])
        assert ours.f1 == pytest.approx(other["f1-score"])
        assert ours.expected == other["support"]


def test_nothing_found_and_nothing_expected_is_zero_and_json_keeps_all():
    assert SpanFigures.of([[]], [[]]).micro == LabelFigures(0, 0, 0)
    figures = SpanFigures.of([[(0, 3, "A")], []], [[(0, 3, "A")], [(1, 2, "B")]])
    assert SpanFigures.from_json(figures.to_json()) == figures
    assert figures.lines[-1].split() == ["all", "100.0%", "50.0%", "66.7%", "2"]
