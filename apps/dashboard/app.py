"""The dashboard: its pages, and who sees them.

streamlit run apps/dashboard/app.py -- [--models FOLDER] [--files FOLDER] [--store FILE|URL]
    [--person NAME | --people FILE [--behind-proxy HEADER]]
"""

from __future__ import annotations

import streamlit as st
from literal import one_line_errors
from protection import Protection, prepared
from review_store import may_see
from starlette.middleware import Middleware
from visitors import admit

from bertcnn.review import Role

# a file in pages_, its title and icon, and the role it needs; None: it needs no store
PAGES: tuple[tuple[str, str, str, Role | None], ...] = (
    ("classify", "Classify", ":material/send:", None),
    ("inbox", "Inbox", ":material/inbox:", None),
    ("review", "Review", ":material/fact_check:", "reviewer"),
    ("audit", "Audit", ":material/rule:", "viewer"),
    ("health", "Health", ":material/monitor_heart:", "viewer"),
    ("models", "Models", ":material/deployed_code:", "viewer"),
    ("train", "Train", ":material/model_training:", "admin"),
    ("jobs", "Jobs", ":material/pending_actions:", "viewer"),
)


def main() -> None:
    """Draw the requested page."""
    st.set_page_config(page_title="Ticket classifier", page_icon="📥", layout="wide")
    with (
        st.container(horizontal_alignment="center"),
        st.container(width=1040),
        one_line_errors(),
    ):
        admit()
        pages = [
            st.Page(f"pages_/{name}.py", title=title, icon=icon)
            for name, title, icon, role in PAGES
            if may_see(role)
        ]
        st.navigation(pages, position="top").run()


if __name__ == "__main__":
    main()  # Streamlit runs this file at each visit and click
else:  # Streamlit's server imports it once
    app = st.App(__file__, middleware=[Middleware(Protection)], lifespan=prepared)
