"""The encoder's attention weights for a text, by layer and head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st
from charts import attention_map
from literal import plain

from bertcnn import Predictor

if TYPE_CHECKING:
    from bertcnn import BertCNNClassifier

_MOST_PIECES = 40  # tokens shown
_ALL = "mean"  # of the heads


def offer_attention(folder: Path, predictor: Predictor, text: str) -> None:
    """An expander with the attention, which is computed when it is opened."""
    part = st.expander(
        "Details: attention by layer and head",
        key="attention",
        icon=":material/visibility:",
        on_change="rerun",
    )
    if not part.open:
        return
    with part:
        with st.spinner("Looking inside the model ..."):
            attention = _classifier(str(folder), predictor.bundle.bundle_id).attention([text])[0]
        layers, heads = attention.weights.shape[:2]
        with st.container(horizontal=True):
            layer = st.selectbox("Layer", range(1, layers + 1), index=layers - 1, width=120)
            head = st.selectbox("Head", [_ALL, *range(1, heads + 1)], width=120)
        weights = attention.weights[layer - 1]
        shown = weights.mean(axis=0) if head == _ALL else weights[head - 1]
        pieces = attention.tokens[:_MOST_PIECES]
        with st.container(width=100 + 20 * len(pieces)):  # at most as wide as the page
            chart = attention_map(pieces, shown[: len(pieces), : len(pieces)])
            st.altair_chart(chart, width="stretch")
        left_out = len(attention.tokens) - len(pieces)
        cut = f" {left_out:,} pieces more are not shown." if left_out else ""
        st.caption(
            plain(
                "Each row is a piece of the text, and how much it looked at each other piece. This"
                " shows how the model works, not why the label was given: for that see the words"
                f" marked above.{cut}"
            )
        )


@st.cache_resource(show_spinner=False, max_entries=1)
def _classifier(folder: str, bundle_id: str) -> BertCNNClassifier:  # noqa: ARG001 - part of the key
    from bertcnn import BertCNNClassifier  # imports TensorFlow, which takes seconds

    return BertCNNClassifier.load(folder)
