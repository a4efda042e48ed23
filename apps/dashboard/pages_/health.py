"""Page: the serving model's health, by audits and without labels, and topics it does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import streamlit as st
from actions import done, may, moment, tell_done
from audited import holds, how_right, offer_audits
from charts import accuracy_over_time, mix_now_and_before, share_by_day
from literal import plain
from model_choice import model_names
from review_store import person, review_store
from rollback import offer_rollback

from bertcnn.review import (
    AuditReport,
    ReviewStore,
    ShadowReport,
    StoreDrift,
    StoreTopic,
    StoreTopics,
    add_labels,
    audit_report,
    drift_report,
    earlier_model,
    labels_in_use,
    last_changes,
    model_history,
    newest_day,
    read_texts,
    serving_model,
    serving_predictor,
    shadow_report,
    store_topics,
)
from bertcnn.review.statistics import CONFIDENCE_EDGES, DailyFigures, DriftFinding
from bertcnn.wording import count, percent

_KEPT = 600.0  # seconds that unchanged figures are cached
_PAGES = 8  # cached stores and states
_FEWEST_WEEKS, _MOST_WEEKS = 2, 26  # in the chart

Color = Literal["gray", "green", "red"]
STATES: dict[Color, str] = {
    "gray": "not known yet",
    "green": "promise holds",
    "red": "promise broken",
}
ABOUT = {  # the names of findings
    "out_of_scope": "tickets that fit no label",
    "automatic": "tickets answered automatically",
    "in another language": "tickets in another language",
    "labels": "how often each label is given",
    "label_shift": "estimated shares of the labels",
    "confidence": "how sure the model is",
    "lengths": "length of the tickets",
    "words": "new frequent words",
}


def page() -> None:
    """Draw the page; slow parts come last."""
    st.title("Health", anchor=False)
    tell_done()
    store = review_store()
    serving = serving_model(store)
    if serving is None:
        st.info(
            "There is no model yet. Train one on the page Train, or add one on the page Models."
        )
        return
    names = model_names(store)
    show_serving(store, names[serving.id])
    changes = last_changes(store)
    audits = cached_audits(store.name, changes, store)
    if audits.broken:
        show_alarm(store, audits, names)
    show_accuracy(audits, cached_shadow(store.name, changes, store), names)
    st.header("What comes in", anchor=False)
    if newest_day(store) is None:
        st.info("No tickets yet. Upload some on the page Tickets.")
        return
    with st.spinner("Counting the last nine weeks ..."):
        drift = cached_drift(store.name, changes, store)
    show_changes(drift)
    show_charts(drift)
    show_shares(store, changes)
    show_topics(store, changes)


# === Cached figures ===


@st.cache_data(show_spinner=False, max_entries=_PAGES, ttl=_KEPT)
def cached_audits(name: str, changes: tuple[int, ...], _store: ReviewStore) -> AuditReport:  # noqa: ARG001 - keys
    """The serving model's audit report."""
    return audit_report(_store)


@st.cache_data(show_spinner=False, max_entries=_PAGES, ttl=_KEPT)
def cached_shadow(name: str, changes: tuple[int, ...], _store: ReviewStore) -> ShadowReport | None:  # noqa: ARG001 - keys
    """The comparison of the serving model with the previous one."""
    return shadow_report(_store)


@st.cache_data(show_spinner=False, max_entries=_PAGES, ttl=_KEPT)
def cached_drift(name: str, changes: tuple[int, ...], _store: ReviewStore) -> StoreDrift:  # noqa: ARG001 - keys
    """The drift report, without estimated label shares."""
    return drift_report(_store)


@st.cache_data(show_spinner=False, max_entries=_PAGES, ttl=_KEPT)
def cached_shares(name: str, changes: tuple[int, ...], _store: ReviewStore) -> DriftFinding:  # noqa: ARG001 - keys
    """The estimated share of each label."""
    findings = drift_report(_store, predictor=serving_predictor(_store)).report.findings
    return next(one for one in findings if one.about == "label_shift")


@st.cache_data(show_spinner=False, max_entries=_PAGES, ttl=_KEPT)
def cached_topics(name: str, changes: tuple[int, ...], _store: ReviewStore) -> StoreTopics:  # noqa: ARG001 - keys
    """Topics that no label fits."""
    return store_topics(_store)


# === The model ===


def show_serving(store: ReviewStore, name: str) -> None:
    """The serving model, since when, and who promoted it."""
    since = [one for one in model_history(store) if one.kind in ("promoted", "rolled_back")][-1]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(name)}**", width="content")
        st.badge("serving", color="green")
        st.caption(plain(f"since {moment(since.at)}, by {since.actor}"), width="content")


def show_alarm(store: ReviewStore, audits: AuditReport, names: Mapping[str, str]) -> None:
    """The alarm for a broken promise: its evidence, and the rollback."""
    promised, alarm = percent(audits.model.precision), audits.alarm
    when = "" if alarm is None else f" Noticed on {moment(alarm.at)}: {alarm.reason}."
    st.error(
        plain(
            f"The promise no longer holds: fewer than {promised} of the automatic answers are"
            f" right.{when}"
        ),
        icon=":material/warning:",
    )
    if earlier_model(store) is None:
        st.markdown("There is no earlier model. Train the next one on the page Train.")
    elif not may("admin"):
        st.markdown("An admin can go back to the earlier model.")
    reason = "the promise no longer holds"
    offer_rollback(store, names, reason=reason, urgent=True)


# === Accuracy ===


def show_accuracy(
    audits: AuditReport, beside: ShadowReport | None, names: Mapping[str, str]
) -> None:
    """The audited accuracy over time, and the previous model's accuracy on the same tickets."""
    st.header("Automatic answers", anchor=False)
    state: Color = "green" if holds(audits) else "red" if audits.broken else "gray"
    with_badge(STATES[state], state, how_right(audits))
    weeks = [(one.start, one.accuracy) for one in audits.weeks][-_MOST_WEEKS:]
    if sum(one.accuracy is not None for _, one in weeks) >= _FEWEST_WEEKS:
        st.altair_chart(accuracy_over_time(weeks, audits.model.precision), width="stretch")
        st.caption(
            f"Points: accuracy of the answers of each week. Bars: 95% confidence. Dashed line:"
            f" {percent(audits.model.precision)}, as promised."
        )
    offer_audits(audits)
    if beside is not None:
        show_earlier(beside, names[beside.change.before.id])


def show_earlier(beside: ShadowReport, earlier: str) -> None:
    """Compares the serving model with the earlier one on the same tickets."""
    gap = beside.difference
    if gap is None:
        answered = count(beside.answered, "ticket")
        with_badge(
            STATES["gray"], "gray", f"{earlier} has answered {answered} too; none is decided yet."
        )
        return
    figures = (
        f"of {count(beside.decided, 'decided ticket')}, {beside.serving:.1%} of the serving model's"
        f" answers are right, and {beside.before:.1%} of those by {earlier}, the earlier model."
    )
    if gap.low > 0:
        with_badge("better than before", "green", f"O{figures[1:]}")
    elif gap.high < 0:
        with_badge("worse than before", "red", f"O{figures[1:]} Think of going back.")
    else:
        with_badge(STATES["gray"], "gray", f"Which one is better: {figures}")


# === What has changed ===


def show_changes(drift: StoreDrift) -> None:
    """The changes, then what is not known yet, then what was tested and is as before."""
    day, week = drift.report.day, sum(sum(one.lengths) for one in drift.week)
    others = week - sum(one.texts for one in drift.week)
    aside = (
        f" {others:,} of them do not count below: they came on days when the model that serves now"
        " did not answer most tickets."
    )
    st.markdown(
        f"{count(week, 'ticket')} in the seven days up to {day:%A}, {day.day} {day:%B %Y}."
        f"{aside if others > 0 else ''}"
    )
    for one in drift.report.changed:
        st.warning(plain(one.sentence), icon=":material/change_circle:")
    findings = drift.report.findings
    listed("not known yet", "gray", [one for one in findings if one.changed is None])
    listed("as before", "green", [one for one in findings if one.changed is False])


def listed(state: str, color: Color, findings: Sequence[DriftFinding]) -> None:
    """Findings that are no alarm: their names, and their sentences on request."""
    if not findings:
        return
    with st.container(border=True):
        with_badge(state, color, ", ".join(ABOUT.get(one.about, one.about) for one in findings))
        with st.expander("Details"):
            for one in findings:
                st.markdown(plain(one.sentence))


def with_badge(state: str, color: Color, words: str) -> None:
    """A state before the words that it is about."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(state, color=color)
        st.markdown(plain(words), width="content")


def show_charts(drift: StoreDrift) -> None:
    """The figures behind the sentences."""
    week, before = drift.week, drift.before
    left, right = st.columns(2, gap="large")
    with left:
        shares = [(one.day, one.out_of_scope, one.texts) for one in drift.days]
        if any(texts for _, _, texts in shares):
            st.markdown("**Tickets that fit no label**")
            recent = {one.day for one in week}
            st.altair_chart(share_by_day(shares, "fit no label", recent), width="stretch")
            st.caption("Share of each day's tickets; the last seven days in blue.")
    with right:
        now, earlier = bins(week), bins(before)
        shown = [name for name in now if now[name] or earlier[name]]
        if any(now.values()):
            st.markdown("**How sure the model is**")
            chart = mix_now_and_before(
                {name: now[name] for name in shown},
                {name: earlier[name] for name in shown},
                ordered=True,
            )
            st.altair_chart(chart, width="stretch")
    with left:
        answered, answered_before = labels(week), labels(before)
        if answered:
            st.markdown("**Labels**")
            st.altair_chart(mix_now_and_before(answered, answered_before), width="stretch")
    with right:
        show_words(drift)


def bins(days: Sequence[DailyFigures]) -> dict[str, int]:
    """Answers in ten bins of confidence, the highest first."""
    totals = [0] * ((len(CONFIDENCE_EDGES) - 1) // 2)
    for one in days:
        for index, number in enumerate(one.confidence):
            totals[index // 2] += number
    return {
        f"{10 * index}% to {10 * index + 10}%": number
        for index, number in reversed([*enumerate(totals)])
    }


def labels(days: Sequence[DailyFigures]) -> dict[str, int]:
    """The number of answers of each label."""
    return dict(sum((Counter(one.labels) for one in days), Counter[str]()))


def show_words(drift: StoreDrift) -> None:
    """Words that have become frequent; nothing while that is not known."""
    [finding] = [one for one in drift.report.findings if one.about == "words"]
    if finding.changed is None:
        return
    st.markdown("**New words**")
    if not drift.words:
        st.markdown(plain(finding.sentence))
        return
    st.dataframe(
        pd.DataFrame(
            [
                (one.word, f"{one.texts:,} ({one.share:.1%})", f"{one.before:.1%}", one.days)
                for one in drift.words[:20]
            ],
            columns=["word", "tickets", "before", "days"],
        ),
        hide_index=True,
    )


# === Slow parts, on request ===


def wanted(label: str, icon: str) -> bool:
    """A button, and whether it was pressed in this session."""
    pressed = st.button(label, icon=icon, key=label)
    state = st.session_state
    state[f"pressed {label}"] = pressed or state.get(f"pressed {label}", False)
    return bool(state[f"pressed {label}"])


def show_shares(store: ReviewStore, changes: tuple[int, ...]) -> None:
    """The estimated share of each label and its share of the answers."""
    st.header("Estimated shares of the labels", anchor=False)
    st.markdown(
        "The model's mistakes distort how often each label is given. This estimate corrects for"
        " them."
    )
    if not wanted("Estimate", ":material/query_stats:"):
        return
    with st.spinner("The model answers up to 4,000 tickets again ..."):
        finding = cached_shares(store.name, changes, store)
    st.markdown(plain(finding.sentence))
    if finding.figures["labels"]:
        st.dataframe(shares_table(finding), hide_index=True, width="content")


def shares_table(found: DriftFinding) -> pd.DataFrame:
    """The estimate for each label, the most frequent first."""
    return pd.DataFrame(
        [
            (
                one["label"],
                f"{one['share']:.1%}",
                "{:.1%} to {:.1%}".format(*one["interval"]),
                f"{one['before']:.1%}",
                "changed" if one["changed"] else "",
            )
            for one in sorted(found.figures["labels"], key=lambda one: -one["share"])
        ],
        columns=["label", "share", "95% confidence", "before", ""],
    )


def show_topics(store: ReviewStore, changes: tuple[int, ...]) -> None:
    """Topics of tickets that no label fits; each is a candidate label."""
    st.header("New topics", anchor=False)
    st.markdown(
        "Groups among the tickets that the model has no label for or is not sure of, in the last 30"
        " days. Each may become a label, which the desk then offers and the next training learns."
    )
    if not wanted("Look for topics", ":material/search:"):
        return
    with st.spinner("Comparing tickets ..."):
        result = cached_topics(store.name, changes, store)
    st.markdown(plain(result.lines()[0]))
    for index, one in enumerate(result.topics):
        show_topic(store, one, index)


def show_topic(store: ReviewStore, topic: StoreTopic, place: int) -> None:
    """A topic, its examples, and the button that turns it into a label."""
    with st.container(border=True):
        size, on = count(len(topic.tickets), "ticket"), count(topic.days, "day")
        st.markdown(f"**{plain(topic.name)}** · {size} on {on}")
        examples = topic.tickets[: len(topic.examples)]
        texts = read_texts(store, examples)  # read now, because a ticket may have been erased since
        for text in (texts[number] for number in examples if number in texts):
            st.caption(plain(text if len(text) <= 200 else f"{text[:199]}…"))
        if not may("admin"):
            return
        with st.container(horizontal=True, vertical_alignment="bottom"):
            name = st.text_input("Name of the label", topic.name, key=f"topic-{place}-{topic.name}")
            if st.button("Add as a label", key=f"add-{place}-{topic.name}"):
                used = name.strip() in labels_in_use(store).names
                add_labels(store, person(), [name.strip()])
                done(f"The label {name.strip()} {'was there already' if used else 'was added'}.")


page()
