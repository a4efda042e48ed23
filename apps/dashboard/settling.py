"""Disagreements: both people's labels, the text, and the label that settles it."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from actions import done, may
from literal import plain

from bertcnn.data import join_labels
from bertcnn.review import (
    Disagreement,
    LabelsInUse,
    Person,
    ReviewStore,
    agreement_report,
    disagreements,
    labels_in_use,
    name_of,
    settle,
)
from bertcnn.review.statistics import Agreement
from bertcnn.wording import count, percent, visible

_MOST = 20
_NONE = "none of the labels"


def show_disagreements(store: ReviewStore, me: Person) -> None:
    """Tickets that people decided differently, each with a way to settle it."""
    used = labels_in_use(store)
    for one in disagreements(store, most=_MOST):
        with st.container(border=True, key=f"disagreement-{one.ticket}"):
            st.markdown(f"**{plain(name_of(one.external_id, one.ticket, one.source))}**")
            st.text(visible(one.text))
            said = [f"{who}: {label or _NONE}" for who, label in one.labels.items()]
            st.markdown(plain(" / ".join(said)))
            if may("admin"):
                settle_one(store, me, one, used)


def settle_one(store: ReviewStore, me: Person, one: Disagreement, used: LabelsInUse) -> None:
    """Buttons with the given labels, and a box with all others."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for label in dict.fromkeys(one.labels.values()):
            if st.button(plain(label or _NONE), key=f"settle-{one.ticket}-{label}"):
                settled(store, me, one, label)
        others = [name for name in used.names if name not in one.labels.values()]
        other = st.selectbox(
            "Another label",
            others,
            index=None,
            key=f"other-{one.ticket}",
            placeholder="another label",
            label_visibility="collapsed",
            width=220,
        )
        if other is not None:
            label = join_labels([other], used.separator) if used.separator else other
            settled(store, me, one, label)


def settled(store: ReviewStore, me: Person, one: Disagreement, label: str) -> None:
    """Settle a disagreement, and draw the page again."""
    settle(store, one.ticket, label or None, me)
    done(f"{name_of(one.external_id, one.ticket, one.source)} is settled: {label or _NONE}.")


def show_agreement(store: ReviewStore) -> None:
    """How much people agree on tickets that several decided."""
    report = agreement_report(store)
    if not report.all.tickets:
        return
    with st.expander(f"Agreement on {count(report.all.tickets, 'ticket')} of two people"):
        st.markdown(plain(in_words(report.all)))
        rows = [(f"{a} and {b}", one) for (a, b), one in report.pairs.items()]
        rows += [(name or _NONE, one) for name, one in report.labels.items()]
        table = [(visible(name), one.value, _interval(one), one.tickets) for name, one in rows]
        st.dataframe(
            pd.DataFrame(table, columns=["People or label", "Agreement", "95%", "Tickets"]),
            hide_index=True,
            column_config={"Agreement": st.column_config.NumberColumn(format="%.2f")},
        )
        st.caption(
            "1 is perfect agreement, 0 is what chance gives. People: Cohen's kappa; labels and"
            " all together: Krippendorff's alpha."
        )


def in_words(one: Agreement) -> str:
    """The agreement of all in a sentence."""
    if one.value is None:
        return "Everybody gave the same label, so agreement beyond chance cannot be measured."
    return (
        f"People agree on {percent(max(0.0, one.value))} of what chance leaves ({_interval(one)})."
    )


def _interval(one: Agreement) -> str:
    if one.low is None or one.high is None:
        return "too few tickets"
    return f"{one.low:.2f} to {one.high:.2f}"
