"""The dashboard's charts, readable in light and dark mode."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Literal

import altair as alt
import numpy as np
import pandas as pd

from bertcnn.review.statistics import AuditedAccuracy

MOST_BARS = 10
NOW, BEFORE = "last 7 days", "weeks before"
_LEAF = (  # show the end of a label with levels, its lowest level
    "indexof(datum.label, ' > ') > 0 && length(datum.label) > 30 ? '…' + slice(datum.label, -29) :"
    " datum.label"
)
_SMALLEST_TOP = 0.01  # of an axis of shares, which may all be 0
_WITHOUT_PLACE = "replace(datum.label, /^[0-9]+ /, '')"
# these have enough contrast on white and on near-black
_FIRST = "#3b82f6"
_OTHERS = "#94a9c9"
_FIGURES = "#7f8794"


def confidence_bars(probabilities: Mapping[str, float]) -> alt.LayerChart:
    """The most probable labels, the most probable first; probabilities are 0 to 1."""
    figures = {
        label: "over 99%" if share > 0.99 else f"{share:.1%}"
        for label, share in probabilities.items()
    }
    return _bars(
        probabilities,
        figures,
        alt.X("value:Q", title="confidence", axis=_axis("%"), scale=alt.Scale(domain=[0, 1])),
    )


def _axis(form: str, **options: float) -> alt.Axis:
    return alt.Axis(format=form, tickCount=5, **options)


def _bars(values: Mapping[str, float], figures: Mapping[str, str], x: alt.X) -> alt.LayerChart:
    """At most `MOST_BARS` bars; the longest comes first, in a stronger colour."""
    labels = sorted(values, key=lambda label: -values[label])[:MOST_BARS]
    rows = pd.DataFrame(
        {
            "label": labels,
            "value": [values[label] for label in labels],
            "figure": [figures[label] for label in labels],
            "place": range(len(labels)),
        }
    )
    names = alt.Axis(labelExpr=_LEAF, labelLimit=220, labelFontSize=13, ticks=False, domain=False)
    base = alt.Chart(rows, height=32 * len(labels) + 70).encode(
        x=x,
        y=alt.Y("label:N", sort=None, title=None, axis=names),
        tooltip=[alt.Tooltip("label:N"), alt.Tooltip("figure:N", title="figure")],
    )
    bars = base.mark_bar(cornerRadiusEnd=3, height=18).encode(
        color=alt.condition(alt.datum.place == 0, alt.value(_FIRST), alt.value(_OTHERS)),
    )
    return bars + base.mark_text(align="left", dx=5, fontSize=13).encode(
        text="figure:N", color=alt.value(_FIGURES)
    )


def accuracy_intervals(
    figures: Mapping[str, tuple[float, float, float]], counts: Mapping[str, str], promised: float
) -> alt.LayerChart:
    """An accuracy with its interval for each name, and the promised accuracy; all are 0 to 1.

    `counts` has the sample sizes as texts, such as "12 audits".
    """
    rows = pd.DataFrame(
        [
            {
                "label": f"{name} ({counts[name]})",
                "accuracy": accuracy,
                "low": low,
                "high": high,
                "figure": f"{accuracy:.1%} ({low:.1%} to {high:.1%})",
            }
            for name, (accuracy, low, high) in figures.items()
        ]
    )
    names = alt.Axis(labelLimit=320, labelFontSize=13, ticks=False, domain=False)
    base = alt.Chart(rows, height=32 * len(rows) + 70).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=names),
        tooltip=[alt.Tooltip("label:N"), alt.Tooltip("figure:N", title="accuracy")],
    )
    return _accuracies(base, rows, promised, "x")


def _accuracies(
    base: alt.Chart, rows: pd.DataFrame, promised: float, along: Literal["x", "y"]
) -> alt.LayerChart:
    """Points with their intervals along an axis, and a dashed line at the promised accuracy.

    `base` has the other axis and the tooltips; `rows` has accuracy, low and high, 0 to 1.
    """
    channel = {"x": alt.X, "y": alt.Y}[along]
    lowest = min(promised, *rows["low"]) if len(rows) else promised
    scale = alt.Scale(domain=[max(0.0, lowest - 0.05), 1], nice=False)
    low = channel("low:Q", title="accuracy", axis=_axis("%"), scale=scale)
    intervals = base.mark_rule(strokeWidth=3, color=_OTHERS).encode(
        **{along: low, f"{along}2": "high:Q"}
    )
    points = base.mark_point(filled=True, size=110, opacity=1, color=_FIRST).encode(
        **{along: channel("accuracy:Q", scale=scale)}
    )
    line = (
        alt.Chart(pd.DataFrame({"promised": [promised]}))
        .mark_rule(strokeDash=[5, 4], color=_FIGURES, strokeWidth=1.5)
        .encode(**{along: channel("promised:Q", scale=scale)})
    )
    return line + intervals + points


# === Changes over time ===

_DAYS = alt.Axis(labelAngle=0, labelOverlap="greedy", labelBound=True, ticks=False)


def accuracy_over_time(
    weeks: Sequence[tuple[date, AuditedAccuracy]], promised: float
) -> alt.LayerChart:
    """Weekly accuracy with its interval, and the promised one; weeks need an audit."""
    rows = pd.DataFrame(
        [
            {
                "week": _short(monday),
                "from": monday.isoformat(),
                "accuracy": one.accuracy,
                "low": one.low,
                "high": one.high,
                "figure": f"{one.accuracy:.1%} ({one.low:.1%} to {one.high:.1%})",
                "audits": one.audits,
                "answers": one.population,
            }
            for monday, one in weeks
            if one.accuracy is not None
        ]
    )
    base = alt.Chart(rows, height=240).encode(
        x=alt.X("week:O", sort=None, title="week from", axis=_DAYS),
        tooltip=[
            alt.Tooltip("from:N", title="week from"),
            alt.Tooltip("figure:N", title="right"),
            alt.Tooltip("audits:Q", format=","),
            alt.Tooltip("answers:Q", title="automatic answers", format=","),
        ],
    )
    return _accuracies(base, rows, promised, "y")


def share_by_day(
    days: Sequence[tuple[date, int, int]], title: str, recent: Collection[date]
) -> alt.Chart:
    """A share of each day's tickets, one bar a day; `days` has the counted and all tickets."""
    rows = pd.DataFrame(
        [
            {
                "day": _short(day),
                "date": day.isoformat(),
                "share": counted / every if every else None,
                "figure": f"{counted:,} of {every:,}"
                + (f" ({counted / every:.1%})" if every else ""),
                "recent": day in recent,
            }
            for day, counted, every in _without_gaps(days)
        ]
    )
    largest = max((counted / every for _, counted, every in days if every), default=0.0)
    top = max(largest, _SMALLEST_TOP)
    return (
        alt.Chart(rows, height=240)
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("day:O", sort=None, title=None, axis=_DAYS),
            y=alt.Y(
                "share:Q",
                title=title,
                axis=_axis("%"),
                scale=alt.Scale(domain=[0, top], nice=True),
            ),
            color=alt.condition(alt.datum.recent, alt.value(_FIRST), alt.value(_OTHERS)),
            tooltip=[alt.Tooltip("date:N"), alt.Tooltip("figure:N", title=title)],
        )
    )


def attention_map(pieces: Sequence[str], weights: np.ndarray) -> alt.Chart:
    """Attention weights [T, T] of T tokens as a heat map; the last axis is the attended token."""
    names = [f"{index} {piece}" for index, piece in enumerate(pieces)]  # a piece may occur twice
    rows = pd.DataFrame(
        [
            {"from": one, "to": other, "weight": float(weight), "figure": f"{weight:.1%}"}
            for one, row in zip(names, weights, strict=True)
            for other, weight in zip(names, row, strict=True)
        ]
    )
    axis = {"labelExpr": _WITHOUT_PLACE, "labelFontSize": 12, "ticks": False, "domain": False}
    top = alt.Axis(orient="top", labelAngle=-90, labelOverlap="greedy", **axis)
    return (
        alt.Chart(rows, height=alt.Step(20))
        .mark_rect(cornerRadius=2)
        .encode(
            x=alt.X("to:N", sort=None, title=None, axis=top),
            y=alt.Y("from:N", sort=None, title=None, axis=alt.Axis(**axis)),
            color=alt.value(_FIRST),
            opacity=alt.Opacity(
                "weight:Q",
                legend=None,
                scale=alt.Scale(type="sqrt", domain=[0, max(0.01, weights.max())], range=[0.04, 1]),
            ),
            tooltip=[
                alt.Tooltip("from:N", title="piece"),
                alt.Tooltip("to:N", title="looked at"),
                alt.Tooltip("figure:N", title="how much"),
            ],
        )
    )


def _short(day: date) -> str:
    return f"{day:%d %b}"


def _without_gaps(days: Sequence[tuple[date, int, int]]) -> list[tuple[date, int, int]]:
    by_day = {day: (counted, every) for day, counted, every in days}
    first, last = min(by_day), max(by_day)
    every_day = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [(day, *by_day.get(day, (0, 0))) for day in every_day]


def mix_now_and_before(
    now: Mapping[str, int], before: Mapping[str, int], *, ordered: bool = False
) -> alt.Chart:
    """The share of each label or bin in the last days and before; unless `ordered`, the top ten."""
    totals = {name: sum(counts.values()) for name, counts in (("now", now), ("before", before))}
    names = list(dict.fromkeys([*now, *before]))
    if not ordered:
        names = sorted(names, key=lambda name: -(now.get(name, 0) + before.get(name, 0)))
        names = names[:MOST_BARS]
    rows = pd.DataFrame(
        [
            {
                "label": name,
                "when": when,
                "share": counts.get(name, 0) / max(1, totals[key]),
                "figure": f"{counts.get(name, 0):,} of {totals[key]:,}"
                f" ({counts.get(name, 0) / max(1, totals[key]):.1%})",
            }
            for name in names
            for key, when, counts in (("now", NOW, now), ("before", BEFORE, before))
        ]
    )
    axis = alt.Axis(labelExpr=_LEAF, labelLimit=220, labelFontSize=13, ticks=False, domain=False)
    return (
        alt.Chart(rows, height=alt.Step(13))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("share:Q", title="share", axis=_axis("%")),
            y=alt.Y("label:N", sort=None, title=None, axis=axis),
            yOffset=alt.YOffset("when:N", sort=[NOW, BEFORE]),
            color=alt.Color(
                "when:N",
                title=None,
                sort=[NOW, BEFORE],
                scale=alt.Scale(domain=[NOW, BEFORE], range=[_FIRST, _OTHERS]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=[
                alt.Tooltip("label:N"),
                alt.Tooltip("when:N"),
                alt.Tooltip("figure:N", title="tickets"),
            ],
        )
    )
