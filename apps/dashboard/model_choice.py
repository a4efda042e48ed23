"""The choice of a saved model, and its description, for the pages that need one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from literal import badge, plain
from model_folders import model_folder, models_roots, saved_models
from review_store import may_see, review_store

from bertcnn import Predictor, load
from bertcnn.bundle import read_id, read_metrics
from bertcnn.errors import BundleError, OutputError, StoreError
from bertcnn.evaluation import (
    automation,
    describe_decisions,
    saved_limits,
    saved_warning,
    wilson,
)
from bertcnn.inference import usable_cores
from bertcnn.review import KnownModel, ReviewStore, list_models, serving_model
from bertcnn.wording import count, percent

_MOST_NAMES = 12  # labels named in a model's description


def chosen_model() -> tuple[Path, Predictor] | None:
    """The folder of the chosen model and the model, with its description; None if none is chosen.

    Raises as `choose_model`.
    """
    folder = choose_model()
    if folder is None:
        return None
    with st.spinner("Loading the model ..."):
        predictor = cached_predictor(*folder)
    describe(folder[0], predictor)
    return Path(folder[0]), predictor


def choose_model() -> tuple[str, int] | None:
    """The chosen model folder and its save time; None if none is chosen.

    It is the serving model by default, wherever it lies, after a promotion or a rollback too. A
    choice survives new or removed folders and a page reload, so every answer comes from the model
    on the screen. If the chosen folder is gone, the page shows a message and answers nothing.

    Raises:
        BundleError: the chosen folder is no longer a model below the models' folders.
    """
    roots = models_roots()
    offered = [str(folder) for folder in saved_models(roots)]
    known = _serving_model()
    serving = None if known is None else _folder_of(known, offered)
    if serving is not None and serving not in offered:
        offered.insert(0, serving)
    if not offered:
        tell_no_model()
    state, addresses = st.session_state, {_address(folder, roots): folder for folder in offered}
    asked = st.query_params.get("model", "")
    state["model"] = state.get("chosen model") or addresses.get(asked, asked) or serving
    if state["model"] is None and offered and known is None:
        state["model"] = offered[0]
    if state["model"] is not None and state["model"] not in offered:
        offered.insert(0, state["model"])
    if not offered:
        return None
    chosen = st.selectbox(
        "Model",
        offered,
        index=None if state["model"] is None else 0,  # without a button that clears the choice
        key="model",
        placeholder="choose a model",
        format_func=lambda folder: shown_name(folder) + " (serving)" * (folder == serving),
        on_change=_keep_choice,
    )
    if chosen is None:
        return None
    if chosen != serving:
        remember_model()
        folder, saved_at = model_folder(chosen, roots)
        return str(folder), saved_at
    return chosen, Path(chosen, "manifest.json").stat().st_mtime_ns


def tell_no_model() -> None:
    """Say that there is no saved model, and how to get one."""
    how = "Train one on the page Train." if may_see("admin") else "Ask an admin to train one."
    st.info(f"There is no model yet. {how}")
    with st.expander("Details"):
        looked = " or ".join(str(root) for root in models_roots())
        st.markdown(
            plain(
                f"Looked in {looked}. In a terminal: make demo. Or: bertcnn train tickets.csv --out"
                " models/triage"
            )
        )


def _serving_model() -> KnownModel | None:
    if not may_see("viewer"):
        return None
    try:
        return serving_model(review_store())
    except (StoreError, OutputError):  # the pages of the store show it
        return None


def _folder_of(serving: KnownModel, folders: list[str]) -> str | None:
    """The folder that holds the serving model; folders are moved and linked, so its id decides."""
    listed = next((one for one in folders if os.path.realpath(one) == serving.folder), None)
    for folder in (listed or serving.folder, *folders):
        try:
            if read_id(folder) == serving.id:
                return folder
        except BundleError:
            continue
    st.warning(
        plain(
            f"The files of the serving model, {Path(serving.folder).name}, are gone or were"
            " replaced. An admin can restore them, or promote another model on the page Models."
        ),
        icon=":material/warning:",
    )
    return None


def _keep_choice() -> None:
    st.session_state["chosen model"] = st.session_state["model"]
    remember_model()


def remember_model() -> None:
    """Keep the choice in the session and the URL, because the box loses it with a new list."""
    chosen = st.session_state["model"]
    st.session_state["chosen model"] = chosen
    st.query_params["model"] = _address(chosen, models_roots())


def _address(folder: str, roots: list[Path]) -> str:
    """A model's folder in a page's address: without the place of the models' folders."""
    for root in roots:
        if folder != str(root) and Path(folder).is_relative_to(root):
            return str(Path(folder).relative_to(root))
    return folder


def shown_name(folder: str) -> str:
    """A model's folder without the place of the models' folders, such as demo/model."""
    root = next((one for one in models_roots() if Path(folder).is_relative_to(one)), None)
    return Path(folder).name if root is None else str(root.name / Path(folder).relative_to(root))


@st.cache_resource(show_spinner=False, max_entries=3)
def cached_predictor(folder: str, saved_at: int) -> Predictor:  # noqa: ARG001 - part of the key
    """The loaded model, shared by all sessions; a model that was saved again is reloaded."""
    return load(folder, streams=usable_cores())  # compiled: a GPU is for training


# === Description ===


def describe(folder: str, predictor: Predictor) -> None:
    """Describe the model: how often it is right and since when, then labels; figures in Details."""
    config, metrics = predictor.bundle.config, predictor.bundle.metrics
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if right := how_right(metrics):
            st.badge(badge(right), icon=":material/target:", color="green")
        st.badge(
            badge(f"trained {config.created_at[:10]}"),
            icon=":material/calendar_today:",
            color="gray",
        )
        if report := predictor.bundle.report:
            st.download_button(
                "Report",
                report,
                "report.html",
                "text/html",
                type="tertiary",
                icon=":material/monitoring:",
                on_click="ignore",
                help="Download the training report, a page to open in a browser.",
            )
    names = ", ".join(predictor.labels[:_MOST_NAMES])
    left = len(predictor.labels) - _MOST_NAMES
    more = f" and {left} more" if left > 0 else ""
    st.caption(plain(f"{count(len(predictor.labels), 'label')}: {names}{more}"))
    if warning := saved_warning(metrics):
        st.warning(plain(warning), icon=":material/casino:")
    if nothing := answers_nothing(predictor):
        st.info(
            "This model gives no automatic answers yet: a person decides on every ticket. Train it"
            " with more labelled tickets.",
            icon=":material/person_search:",
        )
    facts = [f"Folder {folder}", f"encoder {Path(config.encoder_name).name}"]
    if isinstance(metrics.get("macro_f1"), float):
        facts.append(f"macro-F1 {metrics['macro_f1']:.3f}")
    if nothing:
        facts.append(describe_decisions(predictor.decisions, predictor.labels))
    with st.expander("Details"):
        st.caption(plain(f"{'; '.join(facts)}."))


def how_right(metrics: Mapping[str, Any]) -> str:
    """How often a model is right, from tickets kept aside; empty if unknown.

    Example:
        >>> how_right({"accuracy": 0.9, "rows": 200})
        'right on 85% to 93% of tickets (180 of 200 kept aside)'
    """
    accuracy, rows = metrics.get("accuracy"), metrics.get("rows")
    if not isinstance(accuracy, float) or not isinstance(rows, int) or not rows:
        return ""
    right = round(accuracy * rows)
    low, high = wilson(right, rows)
    return f"right on {low:.0%} to {high:.0%} of tickets ({right:,} of {rows:,} kept aside)"


def tell_of(folder: str, *, share: bool = False) -> None:
    """Show how a model did, maybe its automatic share, and a warning; ignore a missing folder."""
    try:
        metrics = read_metrics(folder)
    except BundleError:
        return
    if right := how_right(metrics):
        st.markdown(plain(f"{right[0].upper()}{right[1:]}."))
    if share and (answers := automatic_answers(metrics)):
        st.markdown(plain(answers))
    if warning := saved_warning(metrics):
        st.warning(plain(warning), icon=":material/casino:")


def automatic_share(metrics: Mapping[str, Any]) -> float | None:
    """The share of held-out tickets that a model answers automatically; None if unknown.

    Example:
        >>> automatic_share({"decisions": {"automatic": 30, "rows": 40}}), automatic_share({})
        (0.75, None)
    """
    counts = metrics.get("decisions")
    if isinstance(counts, Mapping) and counts.get("rows"):
        return float(counts.get("automatic", 0) / counts["rows"])
    limits = saved_limits(metrics)
    return None if limits is None else limits.share


def automatic_answers(metrics: Mapping[str, Any]) -> str:
    """The share of automatic answers and what limits it, in a sentence; empty if unknown.

    Example:
        >>> automatic_answers({"decisions": {"automatic": 30, "rows": 40}})
        'It answers about 75% of tickets by itself.'
    """
    share, limits = automatic_share(metrics), saved_limits(metrics)
    if share is None:
        return ""
    if share == 0:
        return "It gives no automatic answers: a person decides on every ticket."
    reason = "" if limits is None else f", {limits.reason}"
    return f"It answers about {percent(share)} of tickets by itself{reason}."


def promise_of(one: KnownModel) -> str:
    """What a model promises about its automatic answers, in a sentence."""
    try:
        metrics = read_metrics(one.folder)
    except BundleError:
        metrics = {}
    answers = automatic_answers(metrics)
    if automatic_share(metrics) == 0:
        return answers
    promise = f"It promises that {percent(one.precision)} of its automatic answers are right."
    return f"{answers} {promise}".strip()


def answers_nothing(predictor: Predictor) -> bool:
    """Whether all tickets go to review, as held-out rows cannot show the required precision."""
    decisions = predictor.decisions
    return bool(decisions.held_out.right) and not automation(decisions).automatic


def model_names(store: ReviewStore) -> dict[str, str]:
    """A name for each model of a store: its folder's, with a part of the id where two are equal."""
    names = {one.id: Path(one.folder).name for one in list_models(store)}
    often = Counter(names.values())
    return {id: name if often[name] == 1 else f"{name} ({id[:8]})" for id, name in names.items()}
