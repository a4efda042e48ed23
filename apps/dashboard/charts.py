"""The dashboard's bar charts: one horizontal bar per label, readable in light and dark mode."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

MOST_BARS = 10
_LEAF = (  # of a label with levels the end is shown, which names its lowest level
    "indexof(datum.label, ' > ') > 0 && length(datum.label) > 30 ? '…' + slice(datum.label, -29) :"
    " datum.label"
)
_FIRST, _OTHERS, _FIGURES = (
    "#3b82f6",
    "#94a9c9",
    "#7f8794",
)  # each has enough contrast on white and on near-black


def confidence_bars(probabilities: Mapping[str, float]) -> alt.LayerChart:
    """The most probable labels, the most probable one first.

    Args:
        probabilities: probability of each label, 0 to 1.
    """
    figures = {
        label: "over 99%" if share > 0.99 else f"{share:.1%}"
        for label, share in probabilities.items()
    }
    return _bars(
        probabilities,
        figures,
        alt.X("value:Q", title="confidence", axis=_axis("%"), scale=alt.Scale(domain=[0, 1])),
    )


def count_bars(counts: Mapping[str, int], rows: int) -> alt.LayerChart:
    """The labels given most often, the most frequent one first.

    Args:
        counts: rows of each label.
        rows: number of all rows, the base of the shares; a row may have several labels or none.
    """
    figures = {label: f"{count:,} ({count / rows:.0%})" for label, count in counts.items()}
    # room for the figure after the longest bar
    scale = alt.Scale(domain=[0, max(counts.values()) * 1.15], nice=False)
    return _bars(
        counts,
        figures,
        alt.X("value:Q", title="rows", axis=_axis(",d", tickMinStep=1), scale=scale),
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
