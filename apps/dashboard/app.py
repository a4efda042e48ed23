"""The dashboard: choose a model, classify one complaint, score a file.

streamlit run apps/dashboard/app.py -- --models FOLDER
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import altair as alt
import pandas as pd
import streamlit as st

from bertcnn import Predictor, load, score_csv
from bertcnn.data.columns import guess_text_columns
from bertcnn.data.tables import open_table
from bertcnn.errors import BertCNNError, ColumnError
from bertcnn.scoring import ScoringReport

EXAMPLE = "My router's led is not working, I tried changing the power socket but still nothing."
MOST_LABELS = 10  # bars shown
ROWS_SHOWN = 1000
FORMATS = ["csv", "tsv", "jsonl", "ndjson", "parquet", "xlsx", "gz"]


class BarProgress:
    """Shows a scoring run's progress in Streamlit's bar."""

    def __init__(self) -> None:
        self._bar = st.progress(0.0, "Starting ...")
        self._name, self._done, self._total = "", 0, 0

    def stage(self, name: str, total: int, unit: str = "rows") -> None:  # noqa: ARG002 - the bar shows shares
        """A new stage starts."""
        self._name, self._done, self._total = name, 0, total

    def advance(self, done: int, **figures: float) -> None:
        """Part of the stage is done."""
        self._done += done
        speed = f", {figures['rows_per_second']:,.0f} rows/s" if "rows_per_second" in figures else ""
        self._bar.progress(min(1.0, self._done / max(1, self._total)), f"{self._name.capitalize()}{speed}")

    def note(self, message: str) -> None:
        """Findings are shown after the run."""

    def close(self) -> None:
        """Take the bar away."""
        self._bar.empty()


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="bertcnn", page_icon=":material/inbox:", layout="centered")
    st.title("Ticket classifier")
    with one_line_errors():
        folder = choose_model()
        if folder is None:
            return
        predictor = cached_predictor(str(folder), (folder / "manifest.json").stat().st_mtime_ns)
        describe(predictor)
        single, many = st.tabs(["One complaint", "A file"])
        with single:
            classify_one(predictor)
        with many:
            score_file(predictor, folder)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show an error the user can act on as what it is: one line."""
    try:
        yield
    except BertCNNError as error:
        st.error(plain(str(error)), icon=":material/error:")


def plain(text: str) -> str:
    """`text` with nothing left that Markdown would act on."""
    return "".join(f"\\{character}" if character in r"\`*_{}[]()<>#+-.!|~$:&" else character for character in text)


# --- the model ---------------------------------------------------------------------------------------------------------


def models_root() -> list[Path]:
    """Where models are looked for: --models, $BERTCNN_MODELS, or `models` and `demo` in the working folder."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--models", default=os.environ.get("BERTCNN_MODELS"))
    given = parser.parse_known_args(sys.argv[1:])[0].models
    return [Path(given)] if given else [Path("models"), Path("demo")]


def saved_models(roots: list[Path]) -> list[Path]:
    """The folders under `roots` (and the roots themselves) that hold a saved model."""
    places = [place for root in roots if root.is_dir() for place in (root, *sorted(root.iterdir()))]
    return [place for place in places if (place / "manifest.json").is_file()]


def choose_model() -> Path | None:
    """The model folder chosen in the sidebar; None while there is none."""
    found = saved_models(models_root())
    with st.sidebar:
        chosen = st.selectbox("Model", found, format_func=str, index=0 if found else None, placeholder="none found")
        typed = st.text_input("or another model folder", placeholder="path of a folder")
    if typed:
        folder = Path(typed).expanduser()
        if not (folder / "manifest.json").is_file():
            st.error(plain(f"{typed} is not a saved model. Give the folder that `bertcnn train --out` wrote."))
            return None
        return folder
    if chosen is None:
        looked = " or ".join(str(root) for root in models_root())
        st.info(plain(f"No saved model in {looked}. Run make demo, or: bertcnn train tickets.csv --out models/triage"))
    return chosen


@st.cache_resource(show_spinner="Loading the model ...", max_entries=3)
def cached_predictor(folder: str, saved_at: int) -> Predictor:  # noqa: ARG001 - a model saved again is loaded again
    """The loaded model, one for all sessions."""
    return load(folder)


def describe(predictor: Predictor) -> None:
    """One line on what the model is."""
    config, metrics = predictor.bundle.config, predictor.bundle.metrics
    names = ", ".join(predictor.labels[:6]) + (" ..." if len(predictor.labels) > 6 else "")
    st.caption(
        plain(
            f"{len(predictor.labels)} labels ({names}), trained {config.created_at[:10]} from {config.encoder_name}, "
            f"macro-F1 {metrics['macro_f1']:.3f} on {metrics['rows']} validation rows"
        )
    )


# --- one complaint -----------------------------------------------------------------------------------------------------


def classify_one(predictor: Predictor) -> None:
    """A text, its label, and how sure the model is."""
    with st.form("one", border=False):
        text = st.text_area("Complaint", EXAMPLE, height=120, help="Ctrl+Enter classifies.")
        asked = st.form_submit_button("Classify", type="primary")
    if not asked:
        return
    answer = predictor.classify([text])[0]
    if answer.label is None or answer.confidence is None:
        st.info("There is no text to classify yet.")
        return
    st.metric("Label", plain(answer.label), f"{answer.confidence:.0%} confidence", delta_color="off", delta_arrow="off")
    st.altair_chart(confidence_bars(answer.probabilities), width="stretch")


def confidence_bars(probabilities: dict[str, float]) -> alt.LayerChart:
    """A bar for each of the most probable labels, with its confidence in figures."""
    shares = pd.DataFrame(sorted(probabilities.items(), key=lambda item: -item[1])[:MOST_LABELS], columns=["label", "confidence"])
    base = alt.Chart(shares, height=34 * len(shares) + 40).encode(
        x=alt.X("confidence:Q", title="confidence", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=220)),
        tooltip=[alt.Tooltip("label:N"), alt.Tooltip("confidence:Q", format=".1%")],
    )
    figures = base.mark_text(align="left", dx=4).encode(text=alt.Text("confidence:Q", format=".1%"))
    return base.mark_bar(cornerRadiusEnd=3) + figures.encode(color=alt.value("gray"))


# --- a file ------------------------------------------------------------------------------------------------------------


def score_file(predictor: Predictor, model: Path) -> None:
    """Upload, check the text column, score, look, download."""
    upload = st.file_uploader(
        "Tickets", type=FORMATS, help="CSV, TSV, JSONL (each also .gz), Parquet or Excel; larger files: bertcnn score"
    )
    if upload is None:
        st.session_state.pop("scored", None)
        return
    place = session_folder() / f"{len(upload.name)}-{upload.file_id}"
    source = place / Path(upload.name).name
    if not source.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        with source.open("wb") as file:
            shutil.copyfileobj(upload, file)
    with open_table(source) as reader:
        columns = reader.columns
        try:
            choice = guess_text_columns(reader.peek(), trained_on=predictor.bundle.config.text_columns).text
        except ColumnError:
            choice = ()
    chosen = st.multiselect("Text column", columns, default=list(choice), help="Several are joined.")
    probabilities = st.checkbox("Also write every label's probability")
    key = (upload.file_id, str(model), tuple(chosen), probabilities)
    if st.button("Score the file", type="primary", disabled=not chosen):
        target = source.with_name(f"scored-{source.name}")
        progress = BarProgress()
        try:
            report = score_csv(predictor, source, target, text=chosen, probabilities=probabilities, overwrite=True, progress=progress)
        finally:
            progress.close()
        st.session_state["scored"] = (key, target, report)
    if st.session_state.get("scored", (None,))[0] == key:
        show_scored(*st.session_state["scored"][1:])


def show_scored(target: Path, report: ScoringReport) -> None:
    """The finished file: what it holds, its first rows, and the download."""
    counts = ", ".join(f"{name} {count:,}" for name, count in report.labels.items())
    st.success(plain(f"{report.rows:,} rows in {report.seconds:.1f} s: {counts}"), icon=":material/check:")
    if report.blank:
        st.info(f"{report.blank:,} rows have no text and got no label.")
    if report.rejected:
        st.warning(f"{report.rejected:,} rows could not be read and are not in the file.")
    with open_table(target) as reader:
        first = reader.peek(ROWS_SHOWN)
    table = pd.DataFrame(first.rows, columns=list(first.columns))
    label_column = report.renamed.get("predicted_label", "predicted_label")
    wanted = st.multiselect("Show only", list(report.labels), placeholder="all labels")
    if wanted:
        table = table[table[label_column].isin(wanted)]
    front = [label_column, report.renamed.get("confidence", "confidence")]
    st.dataframe(table[front + [name for name in table.columns if name not in front]], hide_index=True)
    if report.rows > ROWS_SHOWN:
        st.caption(f"The first {ROWS_SHOWN:,} rows; the download has all {report.rows:,}.")
    st.download_button("Download", data=target.read_bytes, file_name=target.name, type="primary", icon=":material/download:")


def session_folder() -> Path:
    """A private folder for this session's files, gone when the session's state is."""
    if "folder" not in st.session_state:
        st.session_state["folder"] = tempfile.TemporaryDirectory(prefix="bertcnn-dashboard-")
    return Path(st.session_state["folder"].name)


main()
