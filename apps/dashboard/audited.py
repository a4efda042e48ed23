"""The audits of automatic answers, for the pages Audit and Health."""

from __future__ import annotations

import streamlit as st
from actions import may

from bertcnn.review import AuditReport
from bertcnn.wording import count, percent

_WIDE = 0.1


def how_right(found: AuditReport) -> str:
    """How many automatic answers are right, as an interval: a share of four audits says nothing."""
    every, promised = found.all, percent(found.model.precision)
    if not every.population:
        return "There are no automatic answers yet."
    if every.accuracy is None:
        answers = count(every.population, "automatic answer")
        return f"Nobody has checked any of {answers} yet. {promised} are promised to be right."
    return (
        f"{interval(every.low, every.high)} of"
        f" {count(every.population, 'automatic answer')} are right (95% confidence), by"
        f" {count(every.audits, 'audit')}. {promised} are promised."
    )


def interval(low: float, high: float) -> str:
    """An interval of shares, such as 51% to 100%; with a decimal if it is narrow."""
    digits = 0 if high - low > _WIDE else 1
    return f"{100 * low:.{digits}f}% to {100 * high:.{digits}f}%"


def holds(found: AuditReport) -> bool:
    """Whether the audits show that the promise holds."""
    every = found.all
    return not found.broken and every.accuracy is not None and every.low >= found.model.precision


def offer_audits(found: AuditReport) -> None:
    """A link to the waiting audits."""
    if found.waiting and may("reviewer"):
        label = "Read the audit" if found.waiting == 1 else f"Read {found.waiting:,} audits"
        if st.button(label, type="primary", icon=":material/fact_check:"):
            st.switch_page("pages_/review.py")
