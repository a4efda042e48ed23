"""Page: train the first model, and the next one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st
from actions import button_or_why, done, local_time, may, tell_done
from advice import on_page
from file_choice import chosen_file, for_job, kept
from job_list import show_jobs
from literal import plain
from model_folders import models_roots
from review_store import person, review_store
from server_files import files_roots, server_files
from uploads import guessed_text, session_folder

from bertcnn.errors import ColumnError, LabelColumnError
from bertcnn.review import (
    KnownModel,
    ReviewStore,
    TicketGroup,
    TrainingFile,
    decided,
    model_history,
    name_groups,
    now,
    serving_model,
    ticket_groups,
    training_file,
    waiting_tickets,
)
from bertcnn.review.jobs import start_job
from bertcnn.storage import sha256_of
from bertcnn.tables import Chunk, guess_columns, open_table
from bertcnn.wording import count

SAMPLE = Path(__file__).parents[3] / "data" / "isp_tickets.csv"
RECIPES = {  # of `bertcnn train`, in words
    "auto": "as fits the number of tickets",
    "few-shot": "for few tickets",
    "frozen": "fast",
    "full": "thorough: for many tickets, takes longest",
}
ENOUGH = 20  # decisions for a first model
_LONGEST_NAME = 60
_SHOWN_GROUPS = 20  # a longer table scrolls
_NAME = "name of the model"  # key of its box
LABELLED, UNLABELLED, EXAMPLE = "Tickets with labels", "Tickets without labels", "The sample"


def page() -> None:
    """Draw the page."""
    st.title("Train", anchor=False)
    tell_done()
    store = review_store()
    if not may("admin"):
        st.info("Only an admin may train a model.")
    elif (serving := serving_model(store)) is not None:
        train_next(store, serving)
    elif groups := ticket_groups(store):
        name_and_train(store, groups)
    else:
        begin(store)
    show_jobs(("retrain", "review start", "review answer"), empty="No training yet.")


# === The first model ===


def begin(store: ReviewStore) -> None:
    """An empty store: three ways to start."""
    st.markdown("There is no model yet. What do you have?")
    ways = [LABELLED, UNLABELLED, *([EXAMPLE] if SAMPLE.is_file() else [])]
    way = st.radio("Begin with", ways, horizontal=True)
    if way == LABELLED:
        st.markdown("Each row has a text and its label. Some hundred rows make a good start.")
        train_on(store, chosen_file("File of labelled tickets", "labelled"))
    elif way == UNLABELLED:
        st.markdown(
            "Upload them on the page Tickets: they are put into groups by what they are about. You"
            " name the groups here, decide on ten tickets of each, and a first model learns from"
            " that."
        )
        st.page_link("pages_/tickets.py", label="Upload tickets", icon=":material/upload:")
    else:
        st.markdown(
            "Tickets to an internet provider, with three labels. The training takes some minutes."
        )
        train_on(store, SAMPLE)


def name_and_train(store: ReviewStore, groups: list[TicketGroup]) -> None:
    """Tickets in groups: name them, decide, train."""
    counts, waiting = decided(store), waiting_tickets(store)["reviews"]
    st.markdown(
        f"{count(waiting, 'ticket')} wait in {count(len(groups), 'group')}. Give each group the"
        " name of a label. Groups with the same name become one, and a group without a name gives"
        " no suggestion."
    )
    table = pd.DataFrame(
        [(one.name, one.tickets, shortened(one.examples)) for one in groups],
        columns=["label", "tickets", "for example"],
    )
    edited = st.data_editor(
        table,
        hide_index=True,
        disabled=["tickets", "for example"],
        column_config={"label": st.column_config.TextColumn(width="medium", max_chars=200)},
        height="content" if len(groups) <= _SHOWN_GROUPS else "auto",
        key="groups",
    )
    names = {
        one.name: str(label or "")
        for one, label in zip(groups, edited["label"], strict=True)
        if label != one.name
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        why_not = "" if names else "Change a label in the table first."
        if button_or_why("Use these names", why_not, icon=":material/edit:"):
            name_groups(store, person(), names)
            del st.session_state["groups"]
            done("The desk offers these labels now.")
        if st.button(
            "Decide on tickets",
            icon=":material/fact_check:",
            type="secondary" if counts.tickets >= ENOUGH else "primary",
        ):
            st.switch_page("pages_/review.py")
    st.header("First model", anchor=False)
    if counts.tickets < ENOUGH:
        st.progress(
            counts.tickets / ENOUGH,
            f"{count(counts.tickets, 'ticket')} decided. From {ENOUGH} on, a model can learn from"
            " them; ten for each label are better.",
        )
        return
    st.markdown(f"{count(counts.tickets, 'ticket')} decided. More make the model better.")
    start_training(store, None, (), "few-shot")


def train_on(store: ReviewStore, file: Path | None, trained_on: TrainingFile | None = None) -> None:
    """Train on a file: check its columns and start the job."""
    columns = None if file is None else chosen_columns(file, trained_on)
    if file is not None and columns is not None:
        start_training(store, file, columns, "auto")


# === The next model ===


def train_next(store: ReviewStore, serving: KnownModel) -> None:
    """Train the next model with people's decisions."""
    trained = [one.at for one in model_history(store) if one.kind == "added"]
    counts = decided(store, since=max(trained))
    needs_no_file = learned_from_decisions(store, serving)
    file = "" if needs_no_file else "the file of the serving model and from "
    st.markdown(
        f"{count(counts.tickets, 'ticket')} decided since the last training. The next model learns"
        f" from {file}all decisions, but for those that are kept to compare models on. It is not"
        " used before somebody promotes it on the page Models."
    )
    if needs_no_file:
        start_training(store, None, (), "auto")
        return
    known = training_file(store, serving.id)
    place = None if known is None else found(known)
    if known is not None and place is not None:
        with st.container(border=True):
            st.markdown(plain(f"The serving model learned from {known.name}. It is still there."))
            if not st.checkbox("Use another file", key="another file"):
                columns = (",".join(known.text), known.label or "")
                start_training(store, place, columns if all(columns) else (), "auto")
                return
    elif known is not None:
        st.markdown(
            plain(
                f"The serving model learned from {known.name}, which is not on the server in that"
                " form. Choose it, so that the next model learns from it too."
            )
        )
    chosen = chosen_file("File that the serving model was trained on", "old")
    if chosen is None:
        st.caption("Without the file, the next model learns from decisions only.")
        start_training(store, None, (), "auto")
    else:
        train_on(store, chosen, known)


def learned_from_decisions(store: ReviewStore, serving: KnownModel) -> bool:
    """Whether the serving model was trained here on people's decisions alone."""
    added = next(one for one in model_history(store, serving.id) if one.kind == "added")
    return added.figures.get("data", "unknown") is None


def found(known: TrainingFile) -> Path | None:
    """A file with the remembered content, where it was or among the server's; None if gone."""
    for path in (Path(known.path), SAMPLE, *server_files(files_roots())):
        if path.name == known.name and path.is_file():
            status = path.stat()
            if content_of(str(path), status.st_size, status.st_mtime_ns) == known.sha256:
                return path.resolve()
    return None


@st.cache_data(max_entries=16, show_spinner="Reading the file ...")
def content_of(path: str, size: int, written_at: int) -> str:  # noqa: ARG001 - parts of the key
    """A file's hash, cached until the file changes."""
    return sha256_of(Path(path))


# === Shared ===


def read_sample(file: Path) -> Chunk:
    """The first rows of a file."""
    with open_table(file) as reader:
        return reader.peek()


def chosen_text(sample: Chunk, trained_on: Sequence[str] = ()) -> list[str]:
    """The text columns, guessed as on all pages and then chosen."""
    names = list(sample.columns)
    return st.multiselect("Text column", names, default=list(guessed_text(sample, trained_on)))


def chosen_columns(file: Path, trained_on: TrainingFile | None) -> tuple[str, str] | None:
    """The text and label columns, guessed and then chosen; None if one is missing."""
    sample, known = read_sample(file), trained_on or TrainingFile("", "")
    names = list(sample.columns)
    left, right = st.columns(2)
    with left:
        text = chosen_text(sample, known.text)
    label = known.label if known.label in names else guessed_label(sample, text)
    with right:
        label = st.selectbox("Label", names, index=None if label is None else names.index(label))
    if not text or label is None:
        st.caption("Choose the columns with the texts and with the labels first.")
        return None
    if label in text:
        st.warning("Text and label are the same column.")
        return None
    return ",".join(text), label


def guessed_label(sample: Chunk, text: Sequence[str]) -> str | None:
    """The column that looks like labels."""
    try:
        return guess_columns(sample, text=text or None).label
    except LabelColumnError as error:
        st.warning(plain(on_page(str(error))))
    except ColumnError:
        pass
    return None


def start_training(
    store: ReviewStore, file: Path | None, columns: tuple[str, ...], recipe: str
) -> None:
    """Draw the options and the button that starts the job."""
    keep = False
    if file is not None and file.is_relative_to(session_folder()):
        keep = st.checkbox(
            "Keep a copy of this file on the server, so that the next training is one button",
            value=True,
            help="Erasing a ticket does not change the copy.",
        )
    with st.expander("Options"):
        # cached: a new default a minute later would clear the box
        st.session_state.setdefault(_NAME, local_time(now()).strftime("model-%Y-%m-%d-%H%M"))
        typed = st.text_input("Name of the model", key=_NAME)
        recipe = st.selectbox(
            "Way of training",
            list(RECIPES),
            index=list(RECIPES).index(recipe),
            format_func=RECIPES.__getitem__,
        )
    name = re.sub(r"[^\w.-]+", "-", typed).strip(".-")[:_LONGEST_NAME]
    out = models_roots()[0].resolve() / name
    taken = f"There is a model {name} already: give another name in Options."
    why_not = "Give the model a name in Options." if not name else taken if out.exists() else ""
    if button_or_why("Train", why_not, type="primary", icon=":material/model_training:"):
        if file is not None and keep:
            file = kept(store, file)
        folder, data = for_job(store, file)
        named = ["--text", columns[0], "--label", columns[1]] if columns else []
        options = ["--out", str(out), "--recipe", recipe, *named, *me()]
        start_job(store, ["retrain", *([data] if data else []), *options], person(), folder=folder)
        del st.session_state[_NAME]
        done(f"The training of {out.name} has begun.")


def me() -> list[str]:
    """The person's option for the command line."""
    return ["--person", person().name]


def shortened(examples: tuple[str, ...], most: int = 120) -> str:
    """The first example in one line."""
    words = " ".join(examples[0].split()) if examples else ""
    return words if len(words) <= most else f"{words[: most - 3]}..."


page()
