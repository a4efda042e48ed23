"""The dashboard: choose a model, classify one complaint, score a file.

streamlit run apps/dashboard/app.py -- --models FOLDER
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from charts import MOST_BARS, confidence_bars, count_bars
from model_folders import model_folder, models_roots, saved_models
from uploads import ROWS_SHOWN, Upload, discard, first_rows, look_into, save, session_folder

from bertcnn import Predictor, load, score_csv
from bertcnn.errors import BertCNNError
from bertcnn.evaluation.decisions import automation, in_words
from bertcnn.inference.answers import Phrase
from bertcnn.scoring.score import ScoringReport
from bertcnn.wording import count, percent, visible

EXAMPLE = "My router's led is not working, I tried changing the power socket but still nothing."
FORMATS = ["csv", "tsv", "jsonl", "ndjson", "json", "parquet", "xlsx", "gz"]
ANOTHER = "Another folder ..."
MOST_NAMES = 12  # labels named in the description of a model
AROUND = 200  # characters of a text shown before and after a marked phrase
LONG_LABEL = 22  # characters; st.metric would cut a longer label
DECIDED = {
    "auto": "automatic",
    "review:ambiguous": "review: not certain enough",
    "review:out_of_scope": "review: unlike known texts",
    "review:empty": "review: no text",
    "review:language": "review: another language",
}


class BarProgress:
    """Shows a scoring run's progress in Streamlit's bar."""

    def __init__(self) -> None:
        self._bar = st.progress(0.0, "Starting")
        self._name, self._done, self._total = "", 0, 0

    def stage(self, name: str, total: int, unit: str = "rows") -> None:  # noqa: ARG002 - the bar shows shares
        """A new stage starts."""
        self._name, self._done, self._total = name.capitalize(), 0, total
        self._bar.progress(0.0, f"{self._name}: the first rows take some seconds ...")

    def advance(self, done: int, **figures: float) -> None:
        """Part of the stage is done."""
        self._done += done
        share = min(1.0, self._done / max(1, self._total))
        speed = (
            f", {figures['rows_per_second']:,.0f} rows per second"
            if "rows_per_second" in figures
            else ""
        )
        self._bar.progress(share, f"{self._name}: {share:.0%}{speed}")

    def note(self, message: str) -> None:
        """Ignored: the report shows the findings when the run is over."""

    def close(self) -> None:
        """Remove the bar."""
        self._bar.empty()


def main() -> None:
    """Draw the page."""
    st.set_page_config(page_title="Ticket classifier", page_icon="📥", layout="wide")
    with st.container(horizontal_alignment="center"), st.container(width=1040):
        st.title("Ticket classifier", anchor=False)
        st.markdown(
            "Find out which team a complaint belongs to, and how certain the model is. Classify one"
            " text, or a whole file."
        )
        with one_line_errors():
            folder = choose_model()
            if folder is None:
                return
            with st.spinner("Loading the model ..."):
                predictor = cached_predictor(*folder)
            describe(predictor)
            single, many = st.tabs(["One complaint", "A file"])
            with single, one_line_errors():
                classify_one(predictor)
            with many, one_line_errors():
                score_file(predictor)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show an error that the user can act on in one line, without the path of our upload folder."""
    try:
        yield
    except BertCNNError as error:
        st.error(
            plain(str(error).replace(f"{session_folder()}{os.sep}", "")), icon=":material/error:"
        )
    except MemoryError:
        st.error(
            "Out of memory. Upload a smaller file, or score it on the command line with: bertcnn"
            " score",
            icon=":material/error:",
        )


def plain(text: str) -> str:
    """`text` on one line, escaped for Markdown and Streamlit.

    An invisible joiner breaks what they replace in spite of the escapes: addresses, names of icons
    and emoji, arrows.
    """
    text = visible(" ".join(text.split()))
    text = re.sub(
        r"(?i)(?<=[a-z]:)(?=//)|(?<=www)(?=\.)|(?<=\w)(?=@)|(?<=:)(?=[\w/+-]+:)", "\u2060", text
    )
    text = re.sub(r"(?<!\S)(?=(?:<->|->|<-|--|>=|<=|~=)(?:\s|$))", "\u2060", text)
    return re.sub(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])", r"\\\1", text)


def badge(text: str) -> str:
    """`text` as `plain` returns it, for `st.badge`, which escapes brackets itself."""
    return plain(text).replace(r"\[", "[").replace(r"\]", "]")


# --- the model ------------------------------------------------------------------------------------


def choose_model() -> tuple[str, int] | None:
    """The chosen model folder and when it was saved; None while nothing is chosen.

    The choice is kept when other folders appear or disappear and when the page is reloaded, so
    every answer comes from the model on the screen. If the chosen folder is gone, the page says so
    and answers nothing.

    Raises:
        BundleError: the chosen folder is not, or no longer, a model below the folders for models.
    """
    roots = models_roots()
    found = [str(folder) for folder in saved_models(roots)]
    if not found:
        looked = " or ".join(str(root) for root in roots)
        st.info(
            plain(
                f"There is no saved model in {looked} yet. Run: make demo. Or: bertcnn train"
                " tickets.csv --out models/triage"
            )
        )
    offered = [*found, ANOTHER]
    state = st.session_state
    state["model"] = state.get("chosen model") or st.query_params.get("model") or offered[0]
    if state["model"] not in offered:
        offered.insert(0, state["model"])
    chosen = st.selectbox(
        "Model",
        offered,
        key="model",
        on_change=remember_model,
        help="Folders written by bertcnn train.",
    )
    if chosen != ANOTHER:
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


def remember_model() -> None:
    """Keep the choice in the session and the page's address; the box loses it with a new list."""
    st.session_state["chosen model"] = st.query_params["model"] = st.session_state["model"]


@st.cache_resource(show_spinner=False, max_entries=3)
def cached_predictor(folder: str, saved_at: int) -> Predictor:  # noqa: ARG001 - part of the key
    """The loaded model, shared by all sessions; a model that was saved again is loaded again."""
    return load(folder)


def describe(predictor: Predictor) -> None:
    """Describe the model: its origin and figures in a row, its labels below."""
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
    names = ", ".join(predictor.labels[:MOST_NAMES])
    more = (
        f" and {len(predictor.labels) - MOST_NAMES} more"
        if len(predictor.labels) > MOST_NAMES
        else ""
    )
    st.caption(plain(f"{len(predictor.labels)} labels: {names}{more}"))
    if answers_nothing(predictor):
        st.info(
            plain(
                "This model gives no automatic answers yet:"
                f" {in_words(predictor.decisions, predictor.labels)}."
            )
            + " Train it with more labelled rows or with a lower precision.",
            icon=":material/person_search:",
        )


def answers_nothing(predictor: Predictor) -> bool:
    """Whether all tickets go to review, since held-out rows cannot show the wanted precision."""
    decisions = predictor.decisions
    return bool(decisions.held_out.right) and not automation(decisions).automatic


# --- one complaint --------------------------------------------------------------------------------


def classify_one(predictor: Predictor) -> None:
    """Classify one text: its label, and how certain the model is."""
    left, right = st.columns(2, gap="large")
    with left, st.form("one", border=False):
        text = st.text_area(
            "Complaint", EXAMPLE, height=150, help="Press Ctrl+Enter to classify the text."
        )
        if st.form_submit_button("Classify", type="primary", icon=":material/send:"):
            st.session_state["complaint"] = text
    with right:
        if "complaint" in st.session_state:
            answer_one(predictor, st.session_state["complaint"])


def in_percent(confidence: float) -> str:
    """The confidence as text; never 100%, since no model is that certain."""
    return percent(min(confidence, 0.999))


def answer_one(predictor: Predictor, text: str) -> None:
    """Show label, confidence and bars, or a hint if there is no text."""
    answer = predictor.classify([text])[0]
    if answer.label is None or answer.confidence is None:
        st.info(
            "There is no text to classify yet. Write a complaint, then press Classify.",
            icon=":material/edit:",
        )
        return
    title, sure = (
        ("Labels" if predictor.multi_label else "Label"),
        f"{in_percent(answer.confidence)} confidence",
    )
    if len(answer.label) > LONG_LABEL:
        st.caption(title)
        st.subheader(plain(answer.label), anchor=False)
        st.badge(sure, color="gray")
    else:
        st.metric(title, plain(answer.label) or "none", sure, delta_color="off", delta_arrow="off")
    if answer.decision == "auto":
        st.badge("can be handled automatically", icon=":material/bolt:", color="green")
    elif answer.decision == "review:out_of_scope":
        reason = "unlike all training texts" if answer.label else "no label is probable enough"
        st.badge(f"for review: {reason}", icon=":material/help:", color="orange")
    elif answer.decision == "review:language":
        st.badge("for review: another language", icon=":material/translate:", color="orange")
    elif answers_nothing(predictor):
        st.badge(
            "for review, like all texts with this model",
            icon=":material/person_search:",
            color="orange",
        )
    else:
        st.badge(
            badge(f"for review: {answer.runner_up} is also possible"),
            icon=":material/person_search:",
            color="orange",
        )
    st.caption(plain(f"Why: {answer.reason}."))
    if answer.because:
        st.markdown(highlighted(text, answer.because))
        st.caption("Marked: the words with the largest effect on the answer.")
    st.altair_chart(
        confidence_bars({label: answer.probabilities[label] for label in predictor.labels}),
        width="stretch",
    )
    if predictor.multi_label:
        st.caption(
            "Each label has its own probability and threshold. A text may have several labels, or"
            " none."
        )
        return
    shown = (
        f"The {MOST_BARS} most probable of {len(predictor.labels)} labels. "
        if len(predictor.labels) > MOST_BARS
        else ""
    )
    st.caption(
        f"{shown}Every text gets a label, even one that belongs to none of them. Such a text"
        " goes to"
        " review if it is unlike all training texts."
    )


def highlighted(text: str, phrases: Sequence[Phrase]) -> str:
    """The text as Markdown with the phrases marked; a long text is cut to the parts around them."""
    shown: list[str] = []
    behind = 0
    for phrase in sorted(phrases, key=lambda phrase: phrase.start):
        between = text[behind : phrase.start]
        if not shown and len(between) > AROUND:
            between = f"... {between[-AROUND:]}"
        elif len(between) > 2 * AROUND:
            between = f"{between[:AROUND]} ... {between[-AROUND:]}"
        shown += [spaced(between), f":orange-background[{plain(phrase.words)}]"]
        behind = phrase.end
    rest = text[behind:]
    return "".join([*shown, spaced(rest if len(rest) <= AROUND else f"{rest[:AROUND]} ...")])


def spaced(text: str) -> str:
    """`text` as `plain` returns it, with a space for white space at either end."""
    return f"{' ' * text[:1].isspace()}{plain(text)}{' ' * (len(text) > 1 and text[-1:].isspace())}"


# --- a file ---------------------------------------------------------------------------------------


def score_file(predictor: Predictor) -> None:
    """Upload a file, check its text column, score it, and show and download the result."""
    uploaded = st.file_uploader(
        "File of complaints: CSV, TSV, JSONL or JSON (each also .gz), Parquet or Excel",
        type=FORMATS,
    )
    if uploaded is None:
        if st.session_state.pop("upload", None):
            discard()
        return
    upload = received(uploaded, predictor.bundle.config.text_columns)
    if upload.remark:
        st.warning(
            plain(upload.remark.replace(f"{session_folder()}{os.sep}", "")),
            icon=":material/warning:",
        )
    chosen = st.multiselect(
        "Text column",
        upload.columns,
        default=list(upload.guessed),
        key=f"text-{uploaded.file_id}",
        placeholder="choose the column with the complaints",
        help="Guessed from the names and the contents. Several columns are joined.",
    )
    with st.expander("First rows of the file"):
        st.dataframe(upload.preview, hide_index=True)
    probabilities = st.checkbox("Add a column with the probability of each label")
    run = (uploaded.file_id, predictor.bundle.bundle_id, tuple(chosen), probabilities)
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
    # pressing anything else on the page ends the script; the next run resumes the scoring here
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
        st.rerun()  # to draw the button again
    done, target, report = st.session_state.get("scored", (None, None, None))
    if done == run and target.exists():
        show_scored(target, report)


def received(uploaded: Any, trained_on: tuple[str, ...]) -> Upload:  # noqa: ANN401 - not public
    """The upload on disk; written and read once, not at each of Streamlit's reruns."""
    key = (uploaded.file_id, trained_on)
    known, upload = st.session_state.get("upload", (None, None))
    if known != key or not upload.path.exists():
        uploaded.seek(0)
        upload = look_into(save(uploaded.name, uploaded), trained_on)
        st.session_state["upload"] = (key, upload)
    return upload


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
    """Show which rows were blank or rejected and which columns were renamed."""
    if report.blank:
        st.info(f"{count(report.blank, 'row')} without a text got no label.")
    for wanted, written in report.renamed.items():
        st.info(plain(f"The file already has a column {wanted}; the new one is called {written}."))
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
    label, confidence, decision = ours[:3]
    several = report.label_separator is not None
    offered = [*report.labels, *([""] if report.blank or several else [])]
    wanted = st.multiselect(
        "Label", offered, format_func=lambda name: name or "no label", placeholder="all labels"
    )
    decided = st.multiselect(
        "Decision",
        list(report.decisions),
        format_func=DECIDED.__getitem__,
        placeholder="all decisions",
    )
    filters = ((label, tuple(wanted), report.label_separator), (decision, tuple(decided), None))
    table = first_rows(target, target.stat().st_mtime_ns, filters)
    table[decision] = table[decision].map(lambda name: DECIDED.get(name, name))
    table[confidence] = pd.to_numeric(table[confidence], errors="coerce")
    front = [*ours, *report.text_columns.text]
    st.dataframe(
        table[list(dict.fromkeys([*front, *table.columns]))],
        hide_index=True,
        column_config={
            confidence: st.column_config.ProgressColumn(
                confidence, format="percent", min_value=0.0, max_value=1.0, width="medium"
            )
        },
    )
    if len(table) < ROWS_SHOWN:
        return
    if (wanted and decided) or (wanted and several):
        st.caption(f"The first {ROWS_SHOWN:,} of these rows; the download has all {report.rows:,}.")
        return
    matching = (
        sum(report.labels.get(name, report.blank) for name in wanted) if wanted else report.rows
    )
    matching = sum(report.decisions[name] for name in decided) if decided else matching
    if matching > ROWS_SHOWN:
        st.caption(
            f"The first {ROWS_SHOWN:,} of {matching:,} rows; the download has all {report.rows:,}."
        )


main()
