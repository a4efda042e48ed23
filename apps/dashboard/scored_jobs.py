"""Scoring jobs: start them, and offer their results for download."""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st
from actions import done
from file_choice import for_job
from review_store import person, review_store

from bertcnn.review.jobs import Job, start_job
from bertcnn.tables import tables_in

_TARGET = 3  # score MODEL SOURCE TARGET


def start_scoring(model: Path, file: Path, text: list[str], *, probabilities: bool) -> None:
    """Start a job that scores a file, or all files of a folder on the server."""
    store = review_store()
    folder, name = for_job(store, file)
    target = re.sub(r"(?i)\.json(\.gz)?\Z", r".jsonl\1", f"scored-{Path(name).name}")
    columns = ["--text", ",".join(text)] if text else []
    options = [*columns, "--reasons", *(["--probabilities"] if probabilities else [])]
    arguments = ["score", str(model.resolve()), name, target, *options]
    start_job(store, arguments, person(), folder=folder)
    done(f"{file.name} is being scored.")


def offer_result(job: Job) -> None:
    """A download of a scoring job's file, or of one file of its folder; nothing for other jobs."""
    if job.command != "score" or len(job.arguments) <= _TARGET:
        return
    target = Path(job.folder, job.arguments[_TARGET])
    if target.is_file():
        offer_download(target, f"download-{job.id}")
    elif target.is_dir():
        offer_file_of(target, job.id)
    elif job.state == "done":
        st.caption("The scored file is not there any more.")


def offer_file_of(folder: Path, key: str) -> None:
    """A download of a chosen file of a scored folder."""
    files = {path.relative_to(folder).as_posix(): path for path in tables_in(folder)}
    files = {name: path for name, path in files.items() if not name.endswith(".rejects.csv")}
    if not files:
        st.info("No file was scored.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("File", list(files), filter_mode="contains", key=f"file-{key}")
        offer_download(files[chosen], f"download-{key}")


def offer_download(target: Path, key: str) -> None:
    """A download button; the file is read when it is pressed."""
    st.download_button(
        "Download",
        target.read_bytes,
        target.name,
        "application/octet-stream",
        on_click="ignore",
        icon=":material/download:",
        key=key,
    )
