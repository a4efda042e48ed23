"""Upload tickets: keep them in the store, record decisions from a file, or only score it."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st
from actions import button_or_why, done, may
from file_choice import chosen_file, for_job
from job_list import show_jobs
from literal import plain
from model_folders import models_roots, saved_models
from review_store import person
from scored_jobs import offer_result, start_scoring
from uploads import Upload, look_into, session_folder

from bertcnn.bundle import read_config
from bertcnn.errors import BundleError
from bertcnn.review import (
    KnownModel,
    ReviewStore,
    add_model,
    label_file,
    serving_model,
    ticket_groups,
)
from bertcnn.review.jobs import start_job
from bertcnn.tables import tables_in
from bertcnn.wording import count

KEEP, SCORE, DECISIONS = "Keep the tickets", "Only score them", "Record its labels as decisions"
WAYS = {
    KEEP: "Each ticket gets the model's answer. People decide on the doubtful ones.",
    SCORE: "The scored file can be downloaded below. No ticket is kept here.",
    DECISIONS: "For an export of this page with corrected labels: columns ticket and label.",
}


def upload_tickets(store: ReviewStore) -> None:
    """Choose a file, say what to do with it, and start the job."""
    serving = serving_model(store)
    if serving is None and ticket_groups(store):
        st.info("The tickets are in groups. Name the groups, decide, and train a first model.")
        if may("admin") and st.button(
            "Name the groups", type="primary", icon=":material/category:"
        ):
            st.switch_page("pages_/train.py")
        return
    if serving is None:
        offer_saved_model(store)
        st.markdown(
            "There is no model yet. Upload tickets: they are put into groups by what they are"
            " about, and you give the groups their labels. With a file of **labelled** tickets,"
            " begin on the page Train."
        )
    file = chosen_file("File of tickets", "tickets", folders=serving is not None)
    if file is None:
        return
    label = None
    if file.is_dir():
        tables = count(len(list(tables_in(file))), "file")
        st.caption(plain(f"{tables}. Texts come from the columns of the model's training file."))
        way, text = SCORE, []
    else:
        upload = cached_look(file, file.stat().st_mtime_ns, trained_on(serving))
        way = chosen_way(upload, serving)
        text = [] if way == DECISIONS else chosen_text(upload, str(file))
        if way == KEEP and serving is not None:
            label = chosen_label(upload, text, str(file))
        if way != DECISIONS:
            with st.expander("First rows of the file"):
                st.dataframe(upload.preview, hide_index=True)
    begin(store, serving, file, way, (text, label))


def begin(
    store: ReviewStore,
    serving: KnownModel | None,
    file: Path,
    way: str,
    columns: tuple[list[str], str | None],
) -> None:
    """Draw the options and the button of a way; `columns` hold the text and the label."""
    text, label = columns
    if way == DECISIONS:
        if st.button("Record the decisions", type="primary", icon=":material/fact_check:"):
            recorded = label_file(store, file, person())
            refused = "".join(f" Refused: {reason}." for reason in recorded.refused.values())
            done(f"{count(len(recorded.stored), 'decision')} recorded.{refused}")
        return
    why_not = "" if text or file.is_dir() else "Choose the column with the texts first."
    if way == SCORE and serving is not None:
        probabilities = st.checkbox("Add a column with the probability of each label")
        if button_or_why("Score", why_not, type="primary", icon=":material/play_arrow:"):
            start_scoring(Path(serving.folder), file, text, probabilities=probabilities)
        return
    if serving is None and not may("admin"):
        why_not = "Only an admin may begin without a model."
    if button_or_why("Add the tickets", why_not, type="primary", icon=":material/add:"):
        folder, name = for_job(store, file)
        command = ["review", "start" if serving is None else "add", name]
        labels = [] if label is None else ["--label", label]
        options = ["--text", ",".join(text), *labels, "--person", person().name]
        start_job(store, [*command, *options], person(), folder=folder)
        done(f"{file.name}: the tickets are being added.")


def offer_saved_model(store: ReviewStore) -> None:
    """A button that lets a saved model serve; nothing without one or for others than admins."""
    folders = {path.name: path for path in saved_models(models_roots())}
    if not folders or not may("admin"):
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Saved model", list(folders), width=280)
        if st.button("Use this model", icon=":material/deployed_code:"):
            add_model(store, folders[name], person())
            done(f"{name} answers the tickets from now on.")


def trained_on(serving: KnownModel | None) -> tuple[str, ...]:
    """The text columns of the serving model's training file."""
    try:
        return () if serving is None else read_config(serving.folder).text_columns
    except BundleError:
        return ()


@st.cache_data(scope="session", max_entries=4, show_spinner="Reading the file ...")
def cached_look(path: Path, written_at: int, trained_on: tuple[str, ...]) -> Upload:  # noqa: ARG001
    """The header and first rows of a file, cached."""
    return look_into(path, trained_on, limited=path.is_relative_to(session_folder()))


def chosen_way(upload: Upload, serving: KnownModel | None) -> str:
    """What to do with the file; without a model tickets can only be kept."""
    if serving is None:
        return KEEP
    decided = {"ticket", "label"} <= {name.casefold() for name in upload.columns}
    ways = [KEEP, SCORE, *([DECISIONS] if decided else [])]
    way = st.radio("What to do", ways, captions=[WAYS[one] for one in ways], horizontal=True)
    return str(way)


def chosen_text(upload: Upload, key: str) -> list[str]:
    """The text columns, guessed and then chosen."""
    if upload.remark:
        remark = upload.remark.replace(f"{upload.path.parent}{os.sep}", "")
        st.warning(plain(remark), icon=":material/warning:")
    return st.multiselect(
        "Text column",
        upload.columns,
        default=list(upload.guessed),
        key=f"text-{key}",
        persist_state="session",
        placeholder="choose the column with the texts",
        help="Guessed from the names and the contents. Several columns are joined.",
    )


def chosen_label(upload: Upload, text: list[str], key: str) -> str | None:
    """The column with labels that people gave; none unless it is chosen."""
    return st.selectbox(
        "Label column",
        [name for name in upload.columns if name not in text],
        index=None,
        key=f"label-{key}",
        persist_state="session",
        placeholder="none: the file has no labels that people gave",
        help="Each label that differs from its ticket's becomes your decision, also on a ticket"
        " that is here already. Rows without a label only add their ticket.",
    )


def show_uploads() -> None:
    """The jobs that read files of tickets."""
    show_jobs(
        ("review add", "review start", "review answer", "score"),
        results=offer_result,
        empty="No file was uploaded yet.",
    )
