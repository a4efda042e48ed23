"""Scoring jobs: start them, and page through their results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st
from actions import done
from charts import MOST_BARS, count_bars
from file_choice import for_job
from literal import plain
from review_store import person, review_store

from bertcnn.bundle import read_config
from bertcnn.data import split_cell
from bertcnn.errors import BundleError, StoreError
from bertcnn.review.jobs import Job, start_job
from bertcnn.scoring import ScoredRows, Wanted, index_scored
from bertcnn.tables import tables_in
from bertcnn.wording import count, percent

DECIDED = {
    "auto": "automatic",
    "review:ambiguous": "review: not certain enough",
    "review:out_of_scope": "review: unlike known texts",
    "review:empty": "review: no text",
    "review:language": "review: another language",
}
PAGE = 100  # rows
_TARGET = 3  # score MODEL SOURCE TARGET
_LONGEST_CELL = 500


def start_scoring(model: Path, file: Path, text: list[str], *, probabilities: bool) -> None:
    """Start a job that scores a file, or all files of a folder on the server."""
    store = review_store()
    folder, name = for_job(store, file)
    target = re.sub(r"(?i)\.json(\.gz)?\Z", r".jsonl\1", f"scored-{Path(name).name}")
    columns = [part for column in text for part in ("--text", column)]
    options = [*columns, "--reasons", *(["--probabilities"] if probabilities else [])]
    arguments = ["score", str(model.resolve()), name, target, *options]
    start_job(store, arguments, person(), folder=folder)
    done(f"{file.name} is being scored.")


def offer_result(job: Job) -> None:
    """A job's results: a download, and a button that opens them."""
    target = result_of(job)
    if not target.exists():
        if job.state == "done":
            st.caption("The scored file is not there any more.")
        return
    with st.container(horizontal=True):
        if st.button("Show rows", key=f"show-{job.id}", icon=":material/table_view:"):
            st.query_params["job"] = job.id
            st.rerun()
        if target.is_file():
            offer_download(target, f"download-{job.id}")


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


def result_of(job: Job) -> Path:
    """The output file or folder of a scoring job; StoreError for another kind of job."""
    if job.command != "score" or len(job.arguments) <= _TARGET:
        raise StoreError(
            f"the job {job.id} scores no file", expected="a scoring job", fix="choose one below"
        )
    return Path(job.folder, job.arguments[_TARGET])


def show_result(job: Job) -> None:
    """Counts, a chart, filters, and the rows in pages."""
    if st.button("All files", icon=":material/arrow_back:", type="tertiary"):
        del st.query_params["job"]
        st.rerun()
    target = result_of(job)
    st.header(plain(target.name), anchor=False)
    if target.is_dir():
        chosen = file_of(target)
        if chosen is None:
            return
        target = chosen
    index = Path(job.folder, f"{job.id}-{blake2b(str(target).encode()).hexdigest()[:12]}.parquet")
    rows = index_scored(target, index, separator=separator_of(job.arguments[1]))
    counts = counted(str(index), rows)
    show_counts(rows, counts)
    filters = chosen_rows(rows, counts)
    positions = matching(str(index), filters, rows)
    st.caption(f"{count(len(positions), 'row')} of {len(rows):,}")
    pages = max(1, -(-len(positions) // PAGE))
    number = st.pagination(pages, key=f"page-{index.name}-{filters}") if pages > 1 else 1
    show_rows(rows, positions[(number - 1) * PAGE : number * PAGE])


def file_of(folder: Path) -> Path | None:
    """The chosen file of a scored folder; None if the folder is empty."""
    files = {path.relative_to(folder).as_posix(): path for path in tables_in(folder)}
    files = {name: path for name, path in files.items() if not name.endswith(".rejects.csv")}
    if not files:
        st.info("No file was scored.")
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = files[st.selectbox("File", list(files), filter_mode="contains")]
        offer_download(chosen, "download-chosen")
    return chosen


@st.cache_data(show_spinner="Counting ...", max_entries=8)
def counted(index: str, _rows: ScoredRows) -> Counter[tuple[str, str]]:  # noqa: ARG001
    """The number of rows with each label and decision; cached per file."""
    return _rows.counts()


@st.cache_data(show_spinner="Looking ...", max_entries=16)
def matching(index: str, wanted: Wanted, _rows: ScoredRows) -> np.ndarray:  # noqa: ARG001
    """Positions of the matching rows."""
    return _rows.matching(wanted)


def separator_of(model: str) -> str | None:
    """The separator of labels; None for a single-label or missing model."""
    try:
        return read_config(model).label_separator
    except BundleError:
        return None


def labels_of(rows: ScoredRows, counts: Counter[tuple[str, str]]) -> Counter[str]:
    """Rows of each label; a row may have several labels or none."""
    totals: Counter[str] = Counter()
    for (cell, _), number in counts.items():
        names = split_cell(cell, rows.separator) if rows.separator and cell else (cell,)
        for name in names:
            totals[name] += number
    return totals


def show_counts(rows: ScoredRows, counts: Counter[tuple[str, str]]) -> None:
    """Show the number of rows with each decision and label."""
    decisions: Counter[str] = Counter()
    for (_, decision), number in counts.items():
        decisions[decision] += number
    if not rows:
        st.info("The file has no rows.")
        return
    automatic = decisions.pop("auto", 0)
    reviews = [
        f"{number:,} {DECIDED.get(name, name).removeprefix('review: ')}"
        for name, number in decisions.most_common()
    ]
    st.info(
        plain(
            f"{count(automatic, 'row')} ({percent(automatic / len(rows))}) can be handled"
            f" automatically; {len(rows) - automatic:,} need a review"
            f"{': ' * bool(reviews)}{', '.join(reviews)}."
        ),
        icon=":material/bolt:",
    )
    labels = {name: number for name, number in labels_of(rows, counts).items() if name}
    if labels:
        st.altair_chart(count_bars(labels, len(rows)), width="stretch")
        if len(labels) > MOST_BARS:
            st.caption(f"The {MOST_BARS} most frequent of {len(labels)} labels.")


def chosen_rows(rows: ScoredRows, counts: Counter[tuple[str, str]]) -> Wanted:
    """The filters."""
    labels = [name for name, _ in labels_of(rows, counts).most_common()]
    days = rows.days()
    columns = st.columns(3 if days else 2)
    with columns[0]:
        chosen_labels = st.multiselect(
            "Label", labels, format_func=lambda name: name or "no label", placeholder="all labels"
        )
    with columns[1]:
        decided = st.multiselect(
            "Decision",
            list(dict.fromkeys(decision for _, decision in counts)),
            format_func=lambda name: DECIDED.get(name, name),
            placeholder="all decisions",
        )
    first_day = last_day = ""
    if days:
        with columns[2]:
            first, last = (date.fromisoformat(one) for one in days)
            chosen = st.date_input("Day", (first, last), first, last)
            if isinstance(chosen, tuple) and len(chosen) == 2 and chosen != (first, last):
                first_day, last_day = (one.isoformat() for one in chosen)
    return Wanted(tuple(chosen_labels), tuple(decided), first_day, last_day)


def show_rows(rows: ScoredRows, places: np.ndarray) -> None:
    """Rows at these positions, with the answers first."""
    table = pd.DataFrame(
        [[cell[:_LONGEST_CELL] for cell in row] for row in rows.rows(places)],
        columns=list(rows.columns),
        dtype=object,
    )
    show_answers(table, rows.ours)


def show_answers(table: pd.DataFrame, ours: Sequence[str], texts: Sequence[str] = ()) -> None:
    """Scored rows: first our columns, then `texts`, then the others."""
    _, confidence, decision, _ = ours
    table[decision] = table[decision].map(lambda name: DECIDED.get(name, name))
    table[confidence] = pd.to_numeric(table[confidence], errors="coerce")
    st.dataframe(
        table[list(dict.fromkeys([*ours, *texts, *table.columns]))],
        hide_index=True,
        column_config={
            confidence: st.column_config.ProgressColumn(
                confidence, format="percent", min_value=0.0, max_value=1.0, width="medium"
            )
        },
    )
