"""Page: the serving model, comparisons, promotion and rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from actions import answer_what_waits, day, done, may, moment, tell_done
from literal import badge, plain
from model_choice import model_names, promise_of, shown_name, tell_of
from model_folders import model_folder, models_roots, saved_models
from review_store import person, review_store
from rollback import offer_rollback

from bertcnn.review import (
    WORSE,
    KnownModel,
    ModelEvent,
    ReviewStore,
    add_model,
    compare_models,
    last_comparison,
    list_models,
    model_history,
    promote,
    serving_model,
)
from bertcnn.wording import count

VERDICTS = {"cannot tell": "cannot tell yet"}
COLORS = {"better": "green", "not worse": "blue", "cannot tell": "gray", WORSE: "red"}


def page() -> None:
    """Draw the page."""
    st.title("Models", anchor=False)
    tell_done()
    store = review_store()
    serving, models, history = serving_model(store), list_models(store), model_history(store)
    names = model_names(store)
    if serving is None:
        st.info("There is no model yet. Train one on the page Train, or add a saved one.")
    else:
        show_serving(store, serving, history, names)
    others = [one for one in models if serving is not None and one.id != serving.id]
    for one in others:
        show_other(store, one, names[one.id])
    if others:
        st.caption(
            "Models are compared on tickets that neither has learned: all audits, and a fifth of"
            " the other decisions."
        )
    if may("admin"):
        add_saved(store, models)
    if history:
        with st.expander("History"):
            st.dataframe(history_table(history, names), hide_index=True)


def show_serving(
    store: ReviewStore,
    serving: KnownModel,
    history: Sequence[ModelEvent],
    names: Mapping[str, str],
) -> None:
    """The serving model: since when, promoted by whom, its promise, and the way back."""
    since = [one for one in history if one.kind in ("promoted", "rolled_back")][-1]
    with st.container(border=True):
        heading(names[serving.id], "serving", "green")
        why = f": {since.reason}" if since.reason else ""
        st.markdown(plain(f"Since {moment(since.at)}, by {since.actor}{why}"))
        st.markdown(plain(promise_of(serving)))
        tell_of(serving.folder)
        show_facts(serving)
        offer_rollback(store, names)


def show_other(store: ReviewStore, one: KnownModel, name: str) -> None:
    """Another model: its comparison and the possible actions."""
    comparison = last_comparison(store, one.id)
    with st.container(border=True):
        if comparison is None:
            heading(name, "not compared yet", "gray")
        else:
            verdict = comparison["verdict"]
            heading(name, VERDICTS.get(verdict, verdict), COLORS[verdict])
            st.markdown(plain(comparison["sentences"]))
        st.markdown(plain(promise_of(one)))
        tell_of(one.folder)
        show_facts(one, comparison)
        with st.container(horizontal=True):
            if may("reviewer") and st.button(
                "Compare with the serving model" if comparison is None else "Compare again",
                key=f"compare-{one.id}",
                icon=":material/compare_arrows:",
            ):
                with st.spinner("Both models answer tickets that neither has learned ..."):
                    compare_models(store, one.id, person())
                done(f"{name} was compared with the serving model.")
            if may("admin") and comparison is not None:
                offer_promotion(store, one, name, comparison["verdict"])


def offer_promotion(store: ReviewStore, one: KnownModel, name: str, verdict: str) -> None:
    """The promotion button; a worse model needs a reason."""
    advised = verdict in ("better", "not worse")
    with st.popover(
        "Promote", icon=":material/publish:", type="primary" if advised else "secondary"
    ):
        if verdict == WORSE:
            st.markdown("This model is worse. Write down why it should be used anyway.")
        reason = st.text_input("Why?", key=f"reason-{one.id}")
        if st.button(badge(f"Use {name} from now on"), key=f"promote-{one.id}", type="primary"):
            promote(store, one.id, person(), reason=reason)
            answer_what_waits(store)
            done(f"{name} is in use now. It is answering the tickets that wait.")


def show_facts(one: KnownModel, comparison: Mapping[str, Any] | None = None) -> None:
    """A model's facts for engineers, and the figures of its comparison, closed at first."""
    with st.expander("Details"):
        st.caption(
            plain(
                f"Added on {day(one.added_at)}. {count(len(one.labels), 'label')}."
                f" Id {one.id[:12]}, folder {one.folder}"
            )
        )
        if comparison is not None and comparison["result"]:
            st.dataframe(figures(comparison), hide_index=True, width="content")


def add_saved(store: ReviewStore, known: Sequence[KnownModel]) -> None:
    """Offer saved models that are not in the store."""
    roots, stored = models_roots(), {one.folder for one in known}
    folders = [str(path) for path in saved_models(roots) if str(path.resolve()) not in stored]
    if not folders:
        return
    with st.expander("Add a saved model", expanded=not known):
        folder = st.selectbox("Model", folders, format_func=shown_name)
        if st.button("Add", type="secondary" if known else "primary"):
            path, _ = model_folder(folder, roots)
            done(f"{Path(add_model(store, path, person()).folder).name} was added.")


def heading(name: str, state: str, color: Any) -> None:  # noqa: ANN401 - Streamlit's colours
    """A model's name and state."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{plain(name)}**", width="content")
        st.badge(state, color=color)


def figures(comparison: Mapping[str, Any]) -> pd.DataFrame:
    """A comparison as a table; where it cannot tell, without intervals as wide as the scale."""
    result, is_clear = comparison["result"], comparison["verdict"] != "cannot tell"
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
                f"{100 * gap['low']:+.1f} to {100 * gap['high']:+.1f}"
                if is_clear
                else "not known yet",
            )
            for name, now, then, gap in rows
        ],
        columns=["figure", "serving", "this model", "difference in points, 95% confidence"],
    )


def history_table(history: Sequence[ModelEvent], names: Mapping[str, str]) -> pd.DataFrame:
    """The model events, newest first."""
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
