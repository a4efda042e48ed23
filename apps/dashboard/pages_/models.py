"""Page: the serving model, comparisons, promotion and rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from actions import answer_what_waits, day, done, may, moment, tell_done
from literal import badge, plain
from model_choice import tell_of
from model_folders import model_folder, models_roots, saved_models
from review_store import person, review_store

from bertcnn.review import (
    WORSE,
    KnownModel,
    ModelEvent,
    ReviewStore,
    add_model,
    compare_models,
    earlier_model,
    last_comparison,
    list_models,
    model_history,
    promote,
    roll_back,
    serving_model,
)
from bertcnn.wording import count, percent

COLORS = {"better": "green", "not worse": "blue", "cannot tell": "gray", WORSE: "red"}


def page() -> None:
    """Draw the page."""
    st.title("Models", anchor=False)
    tell_done()
    store = review_store()
    serving, models, history = serving_model(store), list_models(store), model_history(store)
    if serving is None:
        st.info("No model serves yet. Train one on the page Train, or add a saved one.")
    else:
        show_serving(store, serving, history)
    for one in models:
        if serving is not None and one.id != serving.id:
            show_other(store, one)
    if may("admin"):
        add_saved(store, models)
    if history:
        with st.expander("History"):
            st.dataframe(history_table(history, models), hide_index=True)


def show_serving(store: ReviewStore, serving: KnownModel, history: Sequence[ModelEvent]) -> None:
    """The serving model: since when, promoted by whom, and the rollback."""
    since = [one for one in history if one.kind in ("promoted", "rolled_back")][-1]
    with st.container(border=True):
        heading(serving, "serves", "green")
        tell_of(serving.folder)
        why = f": {since.reason}" if since.reason else ""
        st.markdown(plain(f"Since {moment(since.at)}, by {since.actor}{why}"))
        st.caption(
            plain(
                f"{count(len(serving.labels), 'label')}. {percent(serving.precision)} of the"
                f" automatic answers are promised to be right. Saved in {serving.folder}"
            )
        )
        earlier = earlier_model(store)
        if earlier is None or not may("admin"):
            return
        with st.popover("Roll back", icon=":material/undo:"):
            reason = st.text_input("Why?", placeholder="such as: complaints about refunds")
            if st.button(badge(f"Let {name_of(earlier)} serve again"), type="primary"):
                roll_back(store, person(), reason=reason)
                answer_what_waits(store)
                done(f"{name_of(earlier)} serves again. It is answering the tickets that wait.")


def show_other(store: ReviewStore, one: KnownModel) -> None:
    """Another model: its comparison and the possible actions."""
    comparison = last_comparison(store, one.id)
    with st.container(border=True):
        if comparison is None:
            heading(one, "not compared yet", "gray")
        else:
            heading(one, comparison["verdict"], COLORS[comparison["verdict"]])
            st.markdown(plain(comparison["sentences"]))
            st.dataframe(figures(comparison["result"]), hide_index=True, width="content")
        tell_of(one.folder)
        st.caption(
            plain(
                f"Added on {day(one.added_at)}. {count(len(one.labels), 'label')}. Saved in"
                f" {one.folder}"
            )
        )
        with st.container(horizontal=True):
            if may("reviewer") and st.button(
                "Compare with the serving model" if comparison is None else "Compare again",
                key=f"compare-{one.id}",
                icon=":material/compare_arrows:",
            ):
                with st.spinner("Both models answer tickets that neither has learned ..."):
                    compare_models(store, one.id, person())
                done(f"{name_of(one)} was compared with the serving model.")
            if may("admin") and comparison is not None:
                offer_promotion(store, one, comparison["verdict"])


def offer_promotion(store: ReviewStore, one: KnownModel, verdict: str) -> None:
    """The promotion button; a worse model needs a reason."""
    advised = verdict in ("better", "not worse")
    with st.popover(
        "Promote", icon=":material/publish:", type="primary" if advised else "secondary"
    ):
        if verdict == WORSE:
            st.markdown("This model is worse. Write down why it shall serve in spite of that.")
        reason = st.text_input("Why?", key=f"reason-{one.id}")
        if st.button(badge(f"Let {name_of(one)} serve"), key=f"promote-{one.id}", type="primary"):
            promote(store, one.id, person(), reason=reason)
            answer_what_waits(store)
            done(f"{name_of(one)} serves now. It is answering the tickets that wait.")


def add_saved(store: ReviewStore, known: Sequence[KnownModel]) -> None:
    """Offer saved models that are not in the store."""
    roots, stored = models_roots(), {one.folder for one in known}
    folders = [str(path) for path in saved_models(roots) if str(path.resolve()) not in stored]
    if not folders:
        return
    with st.expander("Add a saved model", expanded=not known):
        folder = st.selectbox("Folder", folders, help="Written by bertcnn train.")
        if st.button("Add", type="secondary" if known else "primary"):
            path, _ = model_folder(folder, roots)
            done(f"{name_of(add_model(store, path, person()))} was added.")


def heading(one: KnownModel, state: str, color: Any) -> None:  # noqa: ANN401 - Streamlit's colours
    """A model's name and state."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(name_of(one))}**", width="content")
        st.badge(state, color=color)


def name_of(one: KnownModel) -> str:
    """A model's folder and the first characters of its id."""
    return f"{Path(one.folder).name} ({one.id[:8]})"


def figures(result: Mapping[str, Any]) -> pd.DataFrame:
    """A comparison as a table."""
    rows = [("accuracy", result["champion"], result["challenger"], result["difference"])]
    for name, key in (("macro-F1", "macro_f1"), ("answered automatically", "automated")):
        if result[key] is not None:
            rows.append((name, result[key]["champion"], result[key]["challenger"], result[key]))
    return pd.DataFrame(
        [
            (
                name,
                f"{now:.1%}",
                f"{then:.1%}",
                f"{100 * gap['low']:+.1f} to {100 * gap['high']:+.1f}",
            )
            for name, now, then, gap in rows
        ],
        columns=["figure", "serving", "this model", "difference in points, 95% confidence"],
    )


def history_table(history: Sequence[ModelEvent], known: Sequence[KnownModel]) -> pd.DataFrame:
    """The model events, newest first."""
    names = {one.id: name_of(one) for one in known}
    return pd.DataFrame(
        [
            (
                moment(one.at),
                names.get(one.model, one.model[:8]),
                one.kind.replace("_", " "),
                one.actor,
                one.reason or str(one.figures.get("verdict", "")),
            )
            for one in reversed(history)
        ],
        columns=["when", "model", "what", "who", "why"],
    )


page()
