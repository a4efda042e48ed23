"""The list of jobs: their progress and actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import streamlit as st
from actions import done, may, moment
from advice import on_page
from literal import one_line_errors, plain
from model_choice import tell_of
from review_store import person, review_store

from bertcnn.errors import BertCNNError
from bertcnn.review import Person, ReviewStore
from bertcnn.review.jobs import (
    Job,
    cancel_job,
    list_jobs,
    remove_job,
    restart_dead_jobs,
    restart_job,
)

Color = Literal["blue", "green", "gray", "orange", "red"]

EVERY = 1.0  # seconds between updates of running jobs
_MOST = 50
_COLORS: dict[str, Color] = {
    "waiting": "gray",
    "running": "blue",
    "done": "green",
    "failed": "red",
    "cancelled": "orange",
}
NAMES = {
    "check": "Check a file",
    "evaluate": "Evaluate a model",
    "pretrain": "Learn the language of texts",
    "qa extract": "Extract fields",
    "qa train": "Train question answering",
    "recalibrate": "Correct a model's confidence",
    "retrain": "Train a model",
    "review add": "Add tickets",
    "review answer": "Answer waiting tickets again",
    "review export": "Export decisions",
    "review start": "Group tickets",
    "score": "Score a file",
    "train": "Train a model",
    "translate train": "Train a translator",
    "tune": "Search settings",
}
_SUBJECTS = {"check": 1, "score": 2, "review add": 2, "review start": 2}  # places of files
_TRAINING = ("retrain", "train")

Results = Callable[[Job], None]  # draws the results of a finished job


@st.cache_resource(show_spinner=False)
def restart_dead_jobs_once(name: str) -> None:  # noqa: ARG001 - once for each store
    """Restart jobs whose processes ended with the machine or the server."""
    restart_dead_jobs(review_store())


def show_jobs(
    commands: Sequence[str] | None = None, *, results: Results | None = None, empty: str
) -> None:
    """Draw the latest jobs; redraw every second while one of them runs.

    Args:
        commands: show only jobs with these commands.
        results: draws the results of a finished job.
        empty: shown if there are no jobs.
    """
    store = review_store()
    restart_dead_jobs_once(store.name)
    visitor = person()
    running = any(job.ended_at is None for job in _of(store, commands))

    @st.fragment(run_every=EVERY if running else None)
    def drawn() -> None:
        if not _is_still(visitor):
            st.rerun()  # the page shows what the visitor may see now
        with one_line_errors():  # a fragment is redrawn outside the page's own error handler
            jobs = _of(store, commands)
            if not jobs:
                st.info(empty)
            for job in jobs:
                _show(store, job, results)
            if running and not any(job.ended_at is None for job in jobs):
                st.rerun()  # the last job has ended: draw its results and stop updating

    drawn()


def _is_still(visitor: Person) -> bool:
    try:
        return person() == visitor
    except BertCNNError:
        return False


def _of(store: ReviewStore, commands: Sequence[str] | None) -> list[Job]:
    return [job for job in list_jobs(store, most=_MOST) if not commands or job.command in commands]


def _show(store: ReviewStore, job: Job, results: Results | None) -> None:
    with st.container(border=True, key=f"job-{job.id}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(_title(job))}**", width="content")
            st.badge(_state(job), color=_COLORS[job.state])
            st.caption(plain(f"{moment(job.created_at)}, {job.actor}"), width="content")
            st.space("stretch")
            _buttons(store, job)
        if job.ended_at is None:
            progress = job.progress
            left = f", about {progress.left} left" if progress.left else ""
            st.progress(progress.share or 0.0, plain(f"{progress.stage or 'starting'}{left}"))
        elif job.state == "failed" and job.message:
            st.error(plain(on_page(job.message)))
        elif job.state == "done" and job.message:
            st.markdown(plain(job.message))
        elif job.command in _TRAINING and job.state == "done":
            _show_training(job)
        if job.ended_at is not None and results is not None:
            results(job)
        with st.expander("Details"):
            st.caption(plain(f"bertcnn {' '.join(job.arguments)}"))
            if job.state == "cancelled" and job.message:
                st.caption(plain(on_page(job.message)))


def _title(job: Job) -> str:
    """What a job does, with the file or the model that it is about."""
    name = NAMES.get(job.command, job.command)
    place = _SUBJECTS.get(job.command)
    if "--out" in job.arguments[:-1]:
        subject = job.arguments[job.arguments.index("--out") + 1]
    elif place is not None and place < len(job.arguments):
        subject = job.arguments[place]
    else:
        return name
    return f"{name}: {Path(subject).name}"


def _show_training(job: Job) -> None:
    """How often the new model is right, what limits it, and the page where it is promoted."""
    tell_of(job.arguments[job.arguments.index("--out") + 1], share=True)
    st.page_link(
        "pages_/models.py", label="Compare and promote on Models", icon=":material/deployed_code:"
    )


def _buttons(store: ReviewStore, job: Job) -> None:
    if not (may("admin") or (may("reviewer") and job.actor == person().name)):
        return
    if job.ended_at is None and not job.dead:
        st.button(
            "Cancel",
            key=f"cancel-{job.id}",
            icon=":material/close:",
            disabled=job.cancelled,
            on_click=_cancel,
            args=(store, job.id),
        )
        return
    if job.state != "done" and st.button(
        "Start again", key=f"again-{job.id}", icon=":material/refresh:"
    ):
        restart_job(store, job.id, person())
        st.rerun()
    if not job.dead and st.button("Remove", key=f"remove-{job.id}", icon=":material/delete:"):
        remove_job(store, job.id, person())
        done(f"{_title(job)}: removed, with its files.")


def _cancel(store: ReviewStore, id: str) -> None:
    """Runs before the list is drawn, so that the next drawing shows it."""
    with one_line_errors():
        cancel_job(store, id, person())


def _state(job: Job) -> str:
    if job.dead:
        return "process gone"
    return "is being cancelled" if job.cancelled and job.ended_at is None else job.state
