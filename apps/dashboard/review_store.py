"""The dashboard's review store, and the pages that a visitor may see."""

from __future__ import annotations

import streamlit as st
from model_folders import models_roots
from options import option
from visitors import person

from bertcnn.errors import RoleError
from bertcnn.review import ReviewStore, Role, open_review

__all__ = ["may_see", "person", "review_store"]


def may_see(role: Role | None) -> bool:
    """Whether to show a page that needs this role; None: everybody may see it."""
    if role is None:
        return True
    try:
        person().needs(role, "see a page")
    except RoleError:
        return False
    return True


def review_store() -> ReviewStore:
    """The store, opened once for all sessions; an admin's visit creates a missing one.

    It is --store or $BERTCNN_STORE, by default `review.db` in the models' folder.

    Raises:
        StoreError: it is unusable, or missing and the visitor is no admin.
    """
    location = option("store") or str(models_roots()[-1] / "review.db")
    return _opened(location, _create=person().role == "admin")


@st.cache_resource(show_spinner=False)
def _opened(location: str, _create: bool) -> ReviewStore:
    return open_review(location, create=_create)
