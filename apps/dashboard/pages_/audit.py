"""Page: accuracy of the automatic answers, from a random sample reviewed blind."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from actions import done, may, moment, tell_done
from audited import holds, how_right, interval, offer_audits
from charts import accuracy_intervals
from literal import plain
from model_choice import promise_of
from review_store import person, review_store

from bertcnn.review import (
    AuditReport,
    ReviewStore,
    WrongAnswer,
    audit_report,
    disagreements,
    draw_more_audits,
    name_of,
    now,
    number_of,
    serving_model,
    wrong_answers,
)
from bertcnn.wording import count, percent

PERIODS = {"all": None, "7 days": 7, "30 days": 30, "90 days": 90}
MOST_LABELS = 12
FEWEST_OF_LABEL = 5  # audits
MORE = 20  # audits drawn by default
_MOST_MORE = 1000
_WRONG_ON_A_PAGE = 10
_LONGEST_TEXT = 1000  # characters
_DAY = 86_400.0


def page() -> None:
    """Draw the page."""
    st.title("Audit", anchor=False)
    tell_done()
    store = review_store()
    serving = serving_model(store)
    if serving is None:
        st.info(
            "There is no model yet. Train one on the page Train, or add one on the page Models."
        )
        return
    st.markdown(
        "People read a random share of the automatic answers, without seeing the answer. Only this"
        " shows how often the model is right when nobody looks."
    )
    period = st.radio("Answers of the last", list(PERIODS), horizontal=True)
    days = PERIODS[period]
    since = 0.0 if days is None else now() - days * _DAY
    report = audit_report(store, since=since)
    if not report.all.population:
        st.info(plain(f"There are no automatic answers in this time. {promise_of(serving)}"))
        return
    show_figures(report)
    with st.container(horizontal=True):
        offer_audits(report)
        offer_more(store)
    show_wrong(wrong_answers(store, since=since), report)
    show_labels(report)
    show_disagreements(store)


def show_figures(found: AuditReport) -> None:
    """The interval of the accuracy, and whether the promise holds."""
    every, promised = found.all, percent(found.model.precision)
    with st.container(horizontal=True):
        if every.accuracy is not None:
            st.metric("Right, with 95% confidence", interval(every.low, every.high), border=True)
        st.metric("Promised", promised, border=True)
        st.metric("Audits read", f"{every.audits:,} of {every.population:,} answers", border=True)
    if found.broken:
        st.error(
            f"The promise of {promised} no longer holds. Roll back on the page Models, or train the"
            " next model.",
            icon=":material/warning:",
        )
    elif holds(found):
        st.success("The promise holds.", icon=":material/check:")
    elif every.accuracy is None:
        st.info(plain(how_right(found)))
    elif every.high < found.model.precision:
        st.warning(f"Fewer than {promised} seem to be right. Read more audits to be sure.")
    else:
        st.info(f"Not known yet whether {promised} are right: the interval is too wide.")
    notes = (
        [f"{every.reason[:1].upper()}{every.reason[1:]}."] if every.audits and every.reason else []
    )
    notes += [
        f"{count(more, 'more audit')} for plus or minus {100 * width:g} points."
        for width, more in found.needed.items()
        if 0 < more <= every.population - every.audits
    ]
    if found.disputed:
        notes.append(f"People disagree on {count(found.disputed, 'audit')}; they do not count.")
    st.caption(plain(" ".join(notes)))


def offer_more(store: ReviewStore) -> None:
    """A button that draws more audits."""
    if not may("reviewer"):
        return
    with st.popover("Draw more audits", icon=":material/casino:"):
        number = st.number_input("How many?", 1, _MOST_MORE, MORE)
        if st.button("Draw", type="primary"):
            drawn = draw_more_audits(store, person(), number)
            if drawn:
                done(f"{count(drawn, 'more audit')} wait on the page Desk.")
            done("All automatic answers are audits already.")


def show_wrong(found: list[WrongAnswer], report: AuditReport) -> None:
    """The wrong automatic answers, with their texts."""
    if not report.all.audits:
        return
    st.header("Wrong automatic answers", anchor=False)
    if not found:
        st.markdown("Audits have found none so far.")
        return
    pages = -(-len(found) // _WRONG_ON_A_PAGE)
    number = st.pagination(pages, key="wrong") if pages > 1 else 1
    for one in found[(number - 1) * _WRONG_ON_A_PAGE : number * _WRONG_ON_A_PAGE]:
        with st.container(border=True):
            cut = "…" if len(one.text) > _LONGEST_TEXT else ""
            st.markdown(plain(one.text[:_LONGEST_TEXT] + cut))
            st.markdown(
                f"The model: **{plain(one.answer)}** ({plain(percent(one.confidence))} sure)."
                f" People: **{plain(one.decided or 'none of the labels')}**."
            )
            name = name_of(one.external_id, one.ticket, one.source)
            st.caption(plain(f"{name}, {moment(one.decided_at)}"))


def show_labels(found: AuditReport) -> None:
    """The accuracy of each label's answers, where there are a few audits."""
    audited = sorted(
        ((name, one) for name, one in found.labels.items() if one.audits >= FEWEST_OF_LABEL),
        key=lambda item: -item[1].population,
    )[:MOST_LABELS]
    if not audited:
        return
    st.header("By label", anchor=False)
    st.altair_chart(
        accuracy_intervals(
            {name: (one.accuracy or 0.0, one.low, one.high) for name, one in audited},
            {name: count(one.audits, "audit") for name, one in audited},
            found.model.precision,
        ),
        width="stretch",
    )
    st.caption(
        f"Labels with at least {FEWEST_OF_LABEL} audits. Bars: 95% confidence. Dashed line:"
        f" {percent(found.model.precision)}, as promised for all automatic answers together."
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
