"""Page: score a file of complaints."""

from __future__ import annotations

import os
import re
from pathlib import Path

import streamlit as st
from actions import tell_done
from charts import MOST_BARS, count_bars
from file_choice import chosen_file
from job_list import show_jobs
from literal import plain
from model_choice import chosen_model, chosen_predictor
from review_store import may_see, review_store
from scored_jobs import DECIDED, offer_result, show_answers, show_result, start_scoring
from uploads import (
    FORMATS,
    ROWS_SHOWN,
    Upload,
    discard,
    first_rows,
    limits,
    look_into,
    save,
    session_folder,
)

from bertcnn import Predictor, score_csv
from bertcnn.errors import BertCNNError
from bertcnn.review.jobs import job_status
from bertcnn.scoring import ScoringReport
from bertcnn.tables import tables_in
from bertcnn.wording import count


class BarProgress:
    """Shows a scoring run's progress in Streamlit's bar."""

    def __init__(self) -> None:
        self._bar = st.progress(0.0, "Starting")
        self._name, self._done, self._total = "", 0, 0

    def stage(self, name: str, total: int, unit: str = "rows") -> None:  # noqa: ARG002 - the bar shows shares
        """Start a stage."""
        self._name, self._done, self._total = name.capitalize(), 0, total
        self._bar.progress(0.0, f"{self._name}: the first rows take some seconds ...")

    def advance(self, done: int, **figures: float) -> None:
        """Report progress within the stage."""
        self._done += done
        share = min(1.0, self._done / max(1, self._total))
        speed = (
            f", {figures['rows_per_second']:,.0f} rows per second"
            if "rows_per_second" in figures
            else ""
        )
        self._bar.progress(share, f"{self._name}: {share:.0%}{speed}")

    def note(self, message: str) -> None:
        """Do nothing; the final report shows the findings."""

    def close(self) -> None:
        """Remove the bar."""
        self._bar.empty()


def page() -> None:
    """Draw the page."""
    st.title("Score an inbox", anchor=False)
    chosen = st.query_params.get("job")
    if may_see("reviewer") and chosen:
        show_result(job_status(review_store(), chosen))
        return
    st.markdown("Upload a file of complaints: each row gets a label, a confidence and a decision.")
    if may_see("reviewer"):
        tell_done()
        if model := chosen_model():
            score_as_job(*model)
        show_jobs(("score",), results=offer_result, empty="No file was scored yet.")
    elif predictor := chosen_predictor():
        score_file(predictor)


def score_as_job(folder: Path, predictor: Predictor) -> None:
    """Choose a file or folder, check its text column, and start the scoring job."""
    file = chosen_file("File of complaints", "inbox", folders=True)
    if file is None:
        return
    trained_on = predictor.bundle.config.text_columns
    if file.is_dir():
        tables = count(len(list(tables_in(file))), "file")
        st.caption(plain(f"{tables}. Texts come from the columns of the model's training file."))
        text, ready, what = [], True, "Score the files"
    else:
        upload = cached_look(file, file.stat().st_mtime_ns, trained_on)
        text = chosen_text(upload, str(file))
        ready, what = bool(text), "Score the file"
    probabilities = offered_probabilities()
    if st.button(what, type="primary", icon=":material/play_arrow:", disabled=not ready):
        start_scoring(folder, file, text, probabilities=probabilities)


@st.cache_data(scope="session", max_entries=4, show_spinner="Reading the file ...")
def cached_look(path: Path, written_at: int, trained_on: tuple[str, ...]) -> Upload:  # noqa: ARG001
    """The header and first rows of a file, cached."""
    return look_into(path, trained_on, limited=path.is_relative_to(session_folder()))


def score_file(predictor: Predictor) -> None:
    """Upload a file, check its text column, score it, and show and download the result."""
    current = current_upload(predictor.bundle.config.text_columns)
    if current is None:
        return
    file_id, upload = current
    chosen = chosen_text(upload, file_id)
    probabilities = offered_probabilities()
    run = (file_id, predictor.bundle.bundle_id, tuple(chosen), probabilities)
    name = re.sub(r"(?i)\.json(\.gz)?\Z", r".jsonl\1", upload.path.name)
    state, target = st.session_state, upload.path.with_name(f"scored-{name}")
    if state.pop("asked to score", False):
        state["scoring"], state["restart"] = run, True
    working = state.get("scoring") == run
    st.button(
        "Score the file",
        type="primary",
        icon=":material/play_arrow:",
        disabled=working or not chosen,
        on_click=lambda: state.update({"asked to score": True}),
    )
    # any other click on the page ends the script; the next run resumes the scoring here
    if working:
        restart, state["restart"] = state["restart"], False
        progress = BarProgress()
        try:
            report = score_csv(
                predictor,
                upload.path,
                target,
                text=chosen,
                probabilities=probabilities,
                overwrite=True,
                restart=restart,
                progress=progress,
            )
        except BertCNNError:
            del state["scoring"]
            raise
        finally:
            progress.close()
        state["scored"] = (run, target, report)
        del state["scoring"]
        st.rerun()  # redraws the button
    done, target, report = st.session_state.get("scored", (None, None, None))
    if done == run and target.exists():
        show_scored(target, report)


def chosen_text(upload: Upload, key: str) -> list[str]:
    """The text columns, guessed and then chosen, above the first rows."""
    if upload.remark:
        st.warning(
            plain(upload.remark.replace(f"{session_folder()}{os.sep}", "")),
            icon=":material/warning:",
        )
    chosen = st.multiselect(
        "Text column",
        upload.columns,
        default=list(upload.guessed),
        key=f"text-{key}",
        persist_state="session",
        placeholder="choose the column with the complaints",
        help="Guessed from the names and the contents. Several columns are joined.",
    )
    with st.expander("First rows of the file"):
        st.dataframe(upload.preview, hide_index=True)
    return chosen


def offered_probabilities() -> bool:
    """A checkbox for all probabilities; returns its value."""
    return st.checkbox(
        "Add a column with the probability of each label",
        key="probabilities",
        persist_state="session",
    )


def current_upload(trained_on: tuple[str, ...]) -> tuple[str, Upload] | None:
    """The upload with its id, kept on other pages, although the widget loses it there."""
    uploaded = st.file_uploader(
        "File of complaints: CSV, TSV, JSONL or JSON (each also .gz), Parquet or Excel",
        type=FORMATS,
        on_change=forget_upload,
        help=limits(),
    )
    file_id, saved_columns, upload = st.session_state.get("upload", (None, None, None))
    if uploaded is None and upload is None:
        return None
    if uploaded is not None and (uploaded.file_id != file_id or not upload.path.exists()):
        uploaded.seek(0)
        file_id, saved_columns, upload = uploaded.file_id, None, None
        path = save(uploaded.name, uploaded)
    else:
        path = upload.path
    if saved_columns != trained_on:  # once, not at each rerun by Streamlit
        upload = look_into(path, trained_on)
        st.session_state["upload"] = (file_id, trained_on, upload)
    if uploaded is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(plain(f"{path.name} was uploaded before."))
            st.button("Remove", on_click=forget_upload, icon=":material/delete:")
    return file_id, upload


def forget_upload() -> None:
    """Remove the upload and its results."""
    st.session_state.pop("upload", None)
    discard()


def show_scored(target: Path, report: ScoringReport) -> None:
    """Show the results, the download button, and the first rows."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.success(
            f"{count(report.rows, 'row')} scored in {report.seconds:.1f} s.",
            icon=":material/check:",
        )
        st.download_button(
            "Download",
            data=target.read_bytes,  # read when the button is pressed
            file_name=target.name,
            mime="application/octet-stream",
            on_click="ignore",
            type="primary",
            icon=":material/download:",
        )
    tell_findings(report)
    automatic = report.decisions.get("auto", 0)
    if report.rows:
        reasons = [
            f"{rows:,} {DECIDED[name].removeprefix('review: ')}"
            for name, rows in report.decisions.items()
            if name != "auto"
        ]
        shares = (
            f"{count(automatic, 'row')} ({automatic / report.rows:.0%}) can be handled"
            f" automatically; {report.rows - automatic:,} need a"
            f" review{': ' * bool(reasons)}{', '.join(reasons)}."
        )
        st.info(shares, icon=":material/bolt:")
    if report.labels:
        st.altair_chart(count_bars(report.labels, report.rows), width="stretch")
        if len(report.labels) > MOST_BARS:
            st.caption(f"The {MOST_BARS} most frequent of {len(report.labels)} labels.")
    if report.rows:
        show_rows(target, report)


def tell_findings(report: ScoringReport) -> None:
    """Show the blank and rejected rows and the renamed columns."""
    if report.blank:
        st.info(f"{count(report.blank, 'row')} without a text got no label.")
    for name, written in report.renamed.items():
        st.info(plain(f"The file already has a column {name}; the new one is called {written}."))
    if report.padded:
        st.info(f"{count(report.padded, 'row')} lacked the last cells; they were read as blank.")
    if report.rejected and report.rejects is not None:
        st.warning(f"{count(report.rejected, 'row')} could not be read; not in the scored file.")
        with st.expander("Rows that could not be read"):
            st.dataframe(
                first_rows(report.rejects, report.rejects.stat().st_mtime_ns, ()), hide_index=True
            )
            st.download_button(
                "Download these rows",
                report.rejects.read_bytes,
                "rejected-rows.csv",
                "text/csv",
                on_click="ignore",
            )


def show_rows(target: Path, report: ScoringReport) -> None:
    """Show the first scored rows, filtered by label and decision."""
    ours = [
        report.renamed.get(name, name)
        for name in ("predicted_label", "confidence", "decision", "because")
    ]
    label, _, decision, _ = ours
    several = report.label_separator is not None
    offered = [*report.labels, *([""] if report.blank or several else [])]
    labels = st.multiselect(
        "Label", offered, format_func=lambda name: name or "no label", placeholder="all labels"
    )
    decided = st.multiselect(
        "Decision",
        list(report.decisions),
        format_func=DECIDED.__getitem__,
        placeholder="all decisions",
    )
    filters = ((label, tuple(labels), report.label_separator), (decision, tuple(decided), None))
    table = first_rows(target, target.stat().st_mtime_ns, filters)
    show_answers(table, ours, report.text_columns.text)
    if len(table) < ROWS_SHOWN:
        return
    if (labels and decided) or (labels and several):
        st.caption(f"The first {ROWS_SHOWN:,} of these rows; the download has all {report.rows:,}.")
        return
    matching = (
        sum(report.labels.get(name, report.blank) for name in labels) if labels else report.rows
    )
    matching = sum(report.decisions[name] for name in decided) if decided else matching
    if matching > ROWS_SHOWN:
        st.caption(
            f"The first {ROWS_SHOWN:,} of {matching:,} rows; the download has all {report.rows:,}."
        )


page()
