"""Page: try the model on a text."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from attention import offer_attention
from charts import MOST_BARS, confidence_bars
from literal import badge, plain
from model_choice import answers_nothing, chosen_model

from bertcnn import Predictor
from bertcnn.inference import Phrase
from bertcnn.wording import percent

EXAMPLE = "My router's led is not working, I tried changing the power socket but still nothing."
AROUND = 200  # characters of a text shown before and after a marked phrase
LONG_LABEL = 22  # characters; st.metric would cut a longer label


def page() -> None:
    """Draw the page."""
    st.title("Try a text", anchor=False)
    st.markdown("See which label the model gives to a text, how sure it is, and why.")
    if chosen := chosen_model():
        folder, predictor = chosen
        classify_one(predictor)
        if text := st.session_state.get("complaint", "").strip():
            offer_attention(folder, predictor, text)


def classify_one(predictor: Predictor) -> None:
    """Classify one text: its label and the model's confidence."""
    left, right = st.columns(2, gap="large")
    with left, st.form("one", border=False):
        text = st.text_area(
            "Text",
            EXAMPLE,
            height=150,
            help="Press Ctrl+Enter to classify the text.",
            key="text",
            persist_state="session",
        )
        if st.form_submit_button("Classify", type="primary", icon=":material/send:"):
            st.session_state["complaint"] = text
    with right:
        if "complaint" in st.session_state:
            answer_one(predictor, st.session_state["complaint"])


def in_percent(confidence: float) -> str:
    """The confidence as text; never 100%, because no model is that certain."""
    return percent(min(confidence, 0.999))


def answer_one(predictor: Predictor, text: str) -> None:
    """Show label, confidence and bars, or a hint if there is no text."""
    answer = predictor.classify([text])[0]
    if answer.label is None or answer.confidence is None:
        st.info(
            "There is no text to classify yet. Write one, then press Classify.",
            icon=":material/edit:",
        )
        return
    title = "Labels" if predictor.multi_label else "Label"
    sure = f"{in_percent(answer.confidence)} confidence"
    if len(answer.label) > LONG_LABEL:
        st.caption(title)
        st.header(plain(answer.label), anchor=False)
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
    """The text as Markdown with marked phrases; a long text is cut to the parts around them."""
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
    """`text` as from `plain`, with a space for white space at either end."""
    return f"{' ' * text[:1].isspace()}{plain(text)}{' ' * (len(text) > 1 and text[-1:].isspace())}"


page()
