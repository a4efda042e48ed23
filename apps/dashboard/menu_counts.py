"""The counts of waiting work in the menu."""

from __future__ import annotations

import streamlit as st
from review_store import may_see, review_store

from bertcnn.errors import OutputError, StoreError
from bertcnn.review import ReviewStore, waiting_tickets
from bertcnn.review.jobs import list_jobs

_KEPT = 3.0  # seconds: the desk runs the app at each key


def menu_counts() -> dict[str, int]:
    """The number of waiting tickets, waiting audits and running jobs, by the page's address."""
    if not may_see("viewer"):
        return {}
    try:
        store = review_store()
        return _counts(store.name, store)
    except (StoreError, OutputError):  # the pages of the store show it
        return {}


@st.cache_data(show_spinner=False, ttl=_KEPT)
def _counts(name: str, _store: ReviewStore) -> dict[str, int]:  # noqa: ARG001 - part of the key
    waiting = waiting_tickets(_store)
    return {
        "desk": sum(waiting.values()),
        "audit": waiting["audits"],
        "jobs": len(list_jobs(_store, states=("waiting", "running"))),
    }
