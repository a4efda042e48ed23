"""Line charts."""

import pytest

from bertcnn.reports.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Line,
    draw,
    nice_top,
    ticks,
)


def test_the_ends_of_the_axes_are_the_edges_of_the_plot():
    chart = draw(
        "t",
        Axis("x", 0, 10),
        Axis("y", 0.2, 1, percent=True),
        [Line("l", "one", ((0, 0.2), (10, 1), (5, 9)), dots=True)],
    )
    first, last, beyond = chart.lines[0].dots
    assert (first.x, first.y) == (LEFT, HEIGHT - BOTTOM)
    assert (last.x, last.y) == (WIDTH - RIGHT, TOP)
    assert beyond.y == TOP
    assert beyond.values == (5, 9)
    assert chart.lines[0].path.startswith(f"M{LEFT} {HEIGHT - BOTTOM} L")


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis("", 0, 0.1, percent=True), ["0%", "2%", "4%", "6%", "8%", "10%"]),
        (Axis("", 0, 0.012, percent=True), ["0.00%", "0.25%", "0.50%", "0.75%", "1.00%"]),
        (Axis("", 1, 25, whole=True), ["5", "10", "15", "20", "25"]),
        (Axis("", 0, 2.5), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
        (Axis("", 3, 3), ["3"]),
    ],
    ids=lambda value: None if isinstance(value, list) else f"{value.low} to {value.high}",
)
def test_ticks_are_round(axis, texts):
    assert [text for _, text in ticks(axis)] == texts


def test_an_axis_ends_at_or_above_the_largest_value():
    assert [nice_top(value) for value in (0.05, 0.0501, 1, 7.3)] == [0.05, 0.06, 1, 8]
