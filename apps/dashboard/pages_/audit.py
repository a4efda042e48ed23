"""Page: accuracy of the automatic answers, from a random sample reviewed blind."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from actions import may
from charts import accuracy_intervals
from literal import plain
from review_store import review_store

from bertcnn.review import (
    AuditReport,
    ReviewStore,
    audit_report,
    disagreements,
    now,
    number_of,
    serving_model,
)
from bertcnn.wording import count, percent

PERIODS = {"all": None, "7 days": 7, "30 days": 30, "90 days": 90}
MOST_LABELS = 12
_DAY = 86_400.0


def page() -> None:
    """Draw the page."""
    st.title("Audit", anchor=False)
    store = review_store()
    if serving_model(store) is None:
        st.info("No model serves yet. Train one on the page Train, or add one on the page Models.")
        return
    st.markdown(
        "A random share of the automatic answers is read by people who do not see the answer."
        " Corrections alone say little: only what the model doubted is looked at there."
    )
    period = st.radio("Answers of the last", list(PERIODS), horizontal=True)
    days = PERIODS[period]
    report = audit_report(store, since=0.0 if days is None else now() - days * _DAY)
    show_figures(report)
    offer_audits(report)
    if any(one.accuracy is not None for one in report.labels.values()):
        show_labels(report)
    show_disagreements(store)


def show_figures(found: AuditReport) -> None:
    """The accuracy with its interval, and whether the promise holds."""
    every, promised = found.all, percent(found.model.precision)
    if not every.population:
        st.info("No automatic answers in this time. Add tickets: bertcnn review add")
        return
    with st.container(horizontal=True):
        if every.accuracy is not None:
            st.metric("Right", f"{every.accuracy:.1%}", border=True)
            st.metric("95% confidence", f"{every.low:.1%} to {every.high:.1%}", border=True)
        st.metric("Promised", promised, border=True)
        st.metric("Audits read", f"{every.audits:,} of {every.population:,} answers", border=True)
    state, *notes = found.lines()[1 if every.accuracy is not None else 0 :]
    if found.broken:
        st.error(plain(state), icon=":material/warning:")
    elif every.accuracy is not None and every.low >= found.model.precision:
        st.success(plain(state), icon=":material/check:")
    else:
        st.info(plain(state))
    # the chart has the labels
    st.caption(plain(" ".join(line for line in notes if not line.startswith("  "))))


def offer_audits(found: AuditReport) -> None:
    """A link to the waiting audits."""
    if found.waiting and may("reviewer"):
        label = "Read the audit" if found.waiting == 1 else f"Read {found.waiting:,} audits"
        if st.button(label, type="primary", icon=":material/fact_check:"):
            st.switch_page("pages_/review.py")


def show_labels(found: AuditReport) -> None:
    """The accuracy of each label's answers."""
    st.header("By label", anchor=False)
    audited = sorted(
        ((name, one) for name, one in found.labels.items() if one.accuracy is not None),
        key=lambda item: -item[1].population,
    )[:MOST_LABELS]
    st.altair_chart(
        accuracy_intervals(
            {name: (one.accuracy or 0.0, one.low, one.high) for name, one in audited},
            {name: count(one.audits, "audit") for name, one in audited},
            found.model.precision,
        ),
        width="stretch",
    )
    st.caption(
        f"Bars: 95% confidence. Dashed line: {percent(found.model.precision)}, as promised for all"
        " automatic answers together."
    )


def show_disagreements(store: ReviewStore) -> None:
    """Tickets that people decided differently."""
    disputed = disagreements(store)
    if not disputed:
        return
    st.header("People disagree", anchor=False)
    st.markdown(f"On {count(len(disputed), 'ticket')}. Models do not learn them.")
    st.dataframe(
        pd.DataFrame(
            [
                (
                    one.external_id,
                    number_of(one.ticket),
                    one.source,
                    "; ".join(f"{who}: {what or 'no label'}" for who, what in one.labels.items()),
                )
                for one in disputed
            ],
            columns=["ticket", "number", "source", "decisions"],
        ),
        hide_index=True,
    )


page()
