"""Line charts as SVG coordinates; the template draws them, CSS colours them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 440, 290  # SVG units; the page scales them
LEFT, RIGHT, TOP, BOTTOM = 62, 24, 12, 44  # around the plot
_TICKS = 5


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; `percent` for shares."""

    name: str
    low: float
    high: float
    percent: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Line:
    """A polyline through (x, y) points; `kind` is its CSS class, `dots` shows each point."""

    name: str
    kind: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position in the drawing and its label."""

    place: float
    text: str


@dataclass(frozen=True)
class Dot:
    """A point in the drawing, with the values it represents."""

    x: float
    y: float
    values: tuple[float, float]


@dataclass(frozen=True)
class DrawnLine:
    """A line in the drawing: `path` is the `d` of an SVG path."""

    name: str
    kind: str
    path: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class Chart:
    """A chart for the template."""

    title: str
    x: Axis
    y: Axis
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[DrawnLine, ...]


def draw(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> Chart:
    """Convert lines to drawing coordinates; clips at the axes.

    `title` is the description for screen readers.
    """
    return Chart(
        title,
        x,
        y,
        tuple(Tick(_across(value, x), label) for value, label in ticks(x)),
        tuple(Tick(_down(value, y), label) for value, label in ticks(y)),
        tuple(_drawn(line, x, y) for line in lines),
    )


def _drawn(line: Line, x: Axis, y: Axis) -> DrawnLine:
    coordinates = [(_across(a, x), _down(b, y)) for a, b in line.points]
    path = " ".join(
        f"{'L' if number else 'M'}{a:g} {b:g}" for number, (a, b) in enumerate(coordinates)
    )
    dots = (
        tuple(Dot(a, b, values) for (a, b), values in zip(coordinates, line.points, strict=True))
        if line.dots
        else ()
    )
    return DrawnLine(line.name, line.kind, path, dots)


def _across(value: float, axis: Axis) -> float:
    return round(LEFT + _share(value, axis) * (WIDTH - LEFT - RIGHT), 1)


def _down(value: float, axis: Axis) -> float:
    return round(HEIGHT - BOTTOM - _share(value, axis) * (HEIGHT - TOP - BOTTOM), 1)


def _share(value: float, axis: Axis) -> float:
    return (
        min(1.0, max(0.0, (value - axis.low) / (axis.high - axis.low)))
        if axis.high > axis.low
        else 0.5
    )


def ticks(axis: Axis) -> list[tuple[float, str]]:
    """Round values on an axis, with their labels.

    Example:
        >>> share, epoch = Axis("share", 0, 1, percent=True), Axis("epoch", 1, 3, whole=True)
        >>> [text for _, text in ticks(share)], [text for _, text in ticks(epoch)]
        (['0%', '20%', '40%', '60%', '80%', '100%'], ['1', '2', '3'])
    """
    wide = axis.high - axis.low
    if wide <= 0:
        return [(axis.low, _written(axis.low, axis, 0))]
    scale = 100 if axis.percent else 1
    rough = wide * scale / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= rough * 0.999)
    step = max(1.0, math.ceil(step)) if axis.whole else step
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) + (
        1 if step / 10 ** math.floor(math.log10(step) + 1e-9) % 1 else 0
    )
    first = math.ceil(axis.low * scale / step - 1e-9)
    last = math.floor(axis.high * scale / step + 1e-9)
    return [
        (multiple * step / scale, _written(multiple * step, axis, decimals))
        for multiple in range(first, last + 1)
    ]


def _written(value: float, axis: Axis, decimals: int) -> str:
    return f"{value:,.{decimals}f}" + ("%" if axis.percent else "")


def nice_top(value: float) -> float:
    """The smallest round number not below `value`, for the end of an axis.

    Example:
        >>> nice_top(0.083), nice_top(0.0), nice_top(2.3)
        (0.1, 0.01, 2.5)
    """
    if value <= 0:
        return 0.01
    power = 10.0 ** math.floor(math.log10(value))
    return float(
        next(
            round(power * times, 12)
            for times in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
            if power * times >= value * 0.999
        )
    )
