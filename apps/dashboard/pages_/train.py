"""Page: train the first model, and the next one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import streamlit as st
from actions import done, may, tell_done
from file_choice import chosen_file, for_job
from job_list import show_jobs
from literal import plain
from model_choice import tell_of
from model_folders import models_roots
from review_store import person, review_store

from bertcnn.errors import ColumnError, LabelColumnError
from bertcnn.review import (
    ReviewStore,
    TicketGroup,
    decided,
    model_history,
    name_groups,
    now,
    serving_model,
    ticket_groups,
    waiting_tickets,
)
from bertcnn.review.jobs import Job, start_job
from bertcnn.tables import Chunk, guess_columns, open_table
from bertcnn.wording import count

SAMPLE = Path(__file__).parents[3] / "data" / "isp_tickets.csv"
RECIPES = ("auto", "few-shot", "frozen", "full")
ENOUGH = 20  # decisions for a first model
_LONGEST_NAME = 60
_NAME = "name of the model"  # key of its box
LABELLED, UNLABELLED, EXAMPLE = "Tickets with labels", "Tickets without labels", "The sample"


def page() -> None:
    """Draw the page."""
    st.title("Train", anchor=False)
    tell_done()
    store = review_store()
    if not may("admin"):
        st.info("Only an admin may train a model.")
    elif serving_model(store) is not None:
        train_next(store)
    elif groups := ticket_groups(store):
        name_and_train(store, groups)
    else:
        begin(store)
    show_jobs(
        ("retrain", "review start", "review answer"), results=trained, empty="No training yet."
    )


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
            "The tickets are put into groups by what they are about. You name the groups, decide"
            " on ten tickets of each, and a first model learns from that."
        )
        group(store, chosen_file("File of tickets", "unlabelled"))
    else:
        st.markdown(
            "Tickets to an internet provider, with three labels. The training takes some minutes."
        )
        train_on(store, SAMPLE)


def group(store: ReviewStore, file: Path | None) -> None:
    """Start a job that finds groups."""
    if file is None:
        return
    if st.button("Find groups", type="primary", icon=":material/category:"):
        folder, name = for_job(store, file)
        start_job(store, ["review", "start", name, *me()], person(), folder=folder)
        done("The tickets are read and put into groups. This takes about a minute for 2,000.")


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
        key="groups",
    )
    names = {
        one.name: str(label or "")
        for one, label in zip(groups, edited["label"], strict=True)
        if label != one.name
    }
    with st.container(horizontal=True):
        if st.button("Use these names", disabled=not names, icon=":material/edit:"):
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


def train_on(store: ReviewStore, file: Path | None) -> None:
    """Train on a file: check its columns and start the job."""
    columns = None if file is None else chosen_columns(file)
    if file is not None and columns is not None:
        start_training(store, file, columns, "auto")


# === The next model ===


def train_next(store: ReviewStore) -> None:
    """Train the next model with people's decisions."""
    trained = [one.at for one in model_history(store) if one.kind == "added"]
    counts = decided(store, since=max(trained))
    st.markdown(
        f"{count(counts.tickets, 'ticket')} decided since the last training. The next model learns"
        " from the old file and from all decisions, but for those that are kept to compare models"
        " on. It does not serve before somebody promotes it on the page Models."
    )
    file = chosen_file("File that the serving model was trained on", "old")
    if file is None:
        st.caption("Without the file, the next model learns from decisions only.")
        start_training(store, None, (), "auto")
    else:
        train_on(store, file)


# === Shared ===


def chosen_columns(file: Path) -> tuple[str, str] | None:
    """The text and label columns, guessed and then chosen; None if one is missing."""
    with open_table(file) as reader:
        sample = reader.peek()
    text, label = guessed(sample)
    names = list(sample.columns)
    left, right = st.columns(2)
    with left:
        text = st.selectbox("Text", names, index=None if text is None else names.index(text))
    with right:
        label = st.selectbox("Label", names, index=None if label is None else names.index(label))
    if text is None or label is None:
        return None
    if text == label:
        st.warning("Text and label are the same column.")
        return None
    return text, label


def guessed(sample: Chunk) -> tuple[str | None, str | None]:
    """The columns that look like text and label."""
    try:
        choice = guess_columns(sample)
    except ColumnError as error:
        if isinstance(error, LabelColumnError):
            st.warning(str(error))
        return None, None
    return choice.text[0], choice.label


def start_training(
    store: ReviewStore, file: Path | None, columns: tuple[str, ...], recipe: str
) -> None:
    """Draw the options and the button that starts the job."""
    with st.expander("Options"):
        # cached: a new default a minute later would clear the box
        offered = datetime.fromtimestamp(now(), UTC).strftime("model-%Y-%m-%d-%H%M")
        st.session_state.setdefault(_NAME, offered)
        typed = st.text_input("Name of the model", key=_NAME)
        recipe = st.selectbox(
            "Recipe",
            RECIPES,
            index=RECIPES.index(recipe),
            help="auto chooses by the rows; full is best for many rows, and takes longest.",
        )
    name = re.sub(r"[^\w.-]+", "-", typed).strip(".-")[:_LONGEST_NAME]
    out = models_roots()[0].resolve() / name
    if not name or out.exists():
        st.warning(plain(f"There is a model {name} already." if name else "The model has no name."))
        return
    if st.button("Train", type="primary", icon=":material/model_training:"):
        folder, data = for_job(store, file)
        named = ["--text", columns[0], "--label", columns[1]] if columns else []
        options = ["--out", str(out), "--recipe", recipe, *named, *me()]
        start_job(store, ["retrain", *([data] if data else []), *options], person(), folder=folder)
        del st.session_state[_NAME]
        done(f"The training of {out.name} has begun.")


def trained(job: Job) -> None:
    """Show what limits a trained model's automatic answers."""
    if job.state == "done" and "--out" in job.arguments:
        tell_of(job.arguments[job.arguments.index("--out") + 1])


def me() -> list[str]:
    """The person's option for the command line."""
    return ["--person", person().name]


def shortened(examples: tuple[str, ...], most: int = 120) -> str:
    """The first example in one line."""
    words = " ".join(examples[0].split()) if examples else ""
    return words if len(words) <= most else f"{words[: most - 3]}..."


page()
