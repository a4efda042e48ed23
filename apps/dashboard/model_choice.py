"""The choice of a saved model, for the pages that need one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from literal import badge, plain
from model_folders import model_folder, models_roots, saved_models
from review_store import may_see, review_store

from bertcnn import Predictor, load
from bertcnn.bundle import read_metrics
from bertcnn.errors import BundleError, OutputError, StoreError
from bertcnn.evaluation import automation, describe_decisions, saved_limits, saved_warning
from bertcnn.inference import usable_cores
from bertcnn.review import serving_model

_ANOTHER = "Another folder ..."
_MOST_NAMES = 12  # labels named in a model's description


def chosen_predictor() -> Predictor | None:
    """The chosen model, with its description, or None; raises as `choose_model`."""
    chosen = chosen_model()
    return None if chosen is None else chosen[1]


def chosen_model() -> tuple[Path, Predictor] | None:
    """The folder and the model chosen on the page; see `chosen_predictor`."""
    folder = choose_model()
    if folder is None:
        return None
    with st.spinner("Loading the model ..."):
        predictor = cached_predictor(*folder)
    describe(predictor)
    return Path(folder[0]), predictor


def choose_model() -> tuple[str, int] | None:
    """The chosen model folder and its save time; None if none is chosen.

    It is the serving model by default, after a promotion or a rollback too. A choice survives new
    or removed folders and a page reload, so every answer comes from the model on the screen. If the
    chosen folder is gone, the page shows a message and answers nothing.

    Raises:
        BundleError: the chosen folder is no longer a model below the models' folders.
    """
    roots = models_roots()
    folders = [str(folder) for folder in saved_models(roots)]
    if not folders:
        looked = " or ".join(str(root) for root in roots)
        here = "Train one on the page Train. Or run" if may_see("admin") else "Run"
        st.info(
            plain(
                f"There is no saved model in {looked} yet. {here}: make demo. Or: bertcnn train"
                " tickets.csv --out models/triage"
            )
        )
    offered = [*folders, _ANOTHER]
    state, serving = st.session_state, _serving_folder(folders)
    by_default = serving or offered[0]
    state["model"] = state.get("chosen model") or st.query_params.get("model") or by_default
    if state["model"] not in offered:
        offered.insert(0, state["model"])
    chosen = st.selectbox(
        "Model",
        offered,
        key="model",
        format_func=lambda folder: f"{folder} (serving)" if folder == serving else folder,
        on_change=remember_model,
        help="Folders written by bertcnn train.",
    )
    if chosen != _ANOTHER:
        if chosen != serving:
            remember_model()
    else:
        below = " or ".join(str(root) for root in roots)
        chosen = st.text_input(
            "Model folder", placeholder=f"a folder in {below}, written by bertcnn train --out"
        ).strip()
    if not chosen:
        return None
    folder, saved_at = model_folder(chosen, roots)
    return str(folder), saved_at


def _serving_folder(folders: Sequence[str]) -> str | None:
    """The folder of the store's serving model, if it is among these."""
    if not may_see("viewer"):
        return None
    try:
        serving = serving_model(review_store())
    except (StoreError, OutputError):  # the pages of the store show it
        return None
    own = None if serving is None else Path(serving.folder).absolute()
    return next((folder for folder in folders if Path(folder).absolute() == own), None)


def remember_model() -> None:
    """Keep the choice in the session and the URL, because the box loses it with a new list."""
    st.session_state["chosen model"] = st.query_params["model"] = st.session_state["model"]


@st.cache_resource(show_spinner=False, max_entries=3)
def cached_predictor(folder: str, saved_at: int) -> Predictor:  # noqa: ARG001 - part of the key
    """The loaded model, shared by all sessions; a model that was saved again is reloaded."""
    return load(folder, streams=usable_cores())  # compiled: a GPU is for training


def describe(predictor: Predictor) -> None:
    """Describe the model: origin and figures in a row, labels below."""
    config, metrics = predictor.bundle.config, predictor.bundle.metrics
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if isinstance(metrics.get("macro_f1"), float):
            rows = (
                f" on {metrics['rows']:,} validation rows"
                if isinstance(metrics.get("rows"), int)
                else ""
            )
            st.badge(
                badge(f"macro-F1 {metrics['macro_f1']:.3f}{rows}"),
                icon=":material/target:",
                color="green",
            )
        st.badge(
            badge(f"encoder {Path(config.encoder_name).name}"),
            icon=":material/neurology:",
            color="gray",
        )
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
    more = (
        f" and {len(predictor.labels) - _MOST_NAMES} more"
        if len(predictor.labels) > _MOST_NAMES
        else ""
    )
    st.caption(plain(f"{len(predictor.labels)} labels: {names}{more}"))
    if warning := saved_warning(metrics):
        st.warning(plain(warning), icon=":material/casino:")
    if answers_nothing(predictor):
        st.info(
            plain(
                "This model gives no automatic answers yet:"
                f" {describe_decisions(predictor.decisions, predictor.labels)}."
            )
            + " Train it with more labelled rows or with a lower precision.",
            icon=":material/person_search:",
        )


def tell_of(folder: str) -> None:
    """Show what limits a model's automatic answers or a warning; ignore a missing folder."""
    try:
        metrics = read_metrics(folder)
    except BundleError:
        return
    if limits := saved_limits(metrics):
        st.markdown(plain(f"{limits.describe()}."))
    if warning := saved_warning(metrics):
        st.warning(plain(warning), icon=":material/casino:")


def answers_nothing(predictor: Predictor) -> bool:
    """Whether all tickets go to review, as held-out rows cannot show the required precision."""
    decisions = predictor.decisions
    return bool(decisions.held_out.right) and not automation(decisions).automatic
