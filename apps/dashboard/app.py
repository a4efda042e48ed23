"""The dashboard: its pages, and who sees them.

streamlit run apps/dashboard/app.py -- [--models FOLDER] [--files FOLDER] [--store FILE|URL]
    [--person NAME | --people FILE [--behind-proxy HEADER]]
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from literal import one_line_errors
from menu_counts import menu_counts
from protection import Protection, prepared
from review_store import may_see
from starlette.middleware import Middleware
from visitors import admit

from bertcnn.review import Role

# a file in pages_, its address, title and icon, and the role it needs; None: it needs no store
PAGES: tuple[tuple[str, str, str, str, Role | None], ...] = (
    ("tickets", "tickets", "Tickets", ":material/inbox:", "viewer"),
    ("review", "desk", "Desk", ":material/fact_check:", "reviewer"),
    ("audit", "audit", "Audit", ":material/rule:", "viewer"),
    ("health", "health", "Health", ":material/monitor_heart:", "viewer"),
    ("train", "train", "Train", ":material/model_training:", "admin"),
    ("models", "models", "Models", ":material/deployed_code:", "viewer"),
    ("jobs", "jobs", "Jobs", ":material/pending_actions:", "viewer"),
    ("classify", "try", "Try a text", ":material/edit_note:", None),
)

WIDTH, WIDTH_OF_TABLES = 1040, 1240  # of a page, in pixels


def main() -> None:
    """Draw the requested page."""
    st.set_page_config(page_icon="📥", layout="wide")
    st.html(Path(__file__).with_name("frame.css"))
    with st.container(horizontal_alignment="center"), one_line_errors():
        with st.container(width=WIDTH):
            admit()
        waiting = menu_counts()
        pages = [
            st.Page(
                f"pages_/{name}.py",
                title=f"{title} ({waiting[address]:,})" if waiting.get(address) else title,
                icon=icon,
                url_path=address,
            )
            for name, address, title, icon, role in PAGES
            if may_see(role)
        ]

        def first_page() -> None:
            st.switch_page(pages[0], query_params=st.query_params.to_dict())

        # a page of the address "/" has no other: each page shall have its own
        home = st.Page(first_page, title=PAGES[0][2], default=True, visibility="hidden")
        page = st.navigation([home, *pages], position="top")
        with st.container(width=WIDTH_OF_TABLES if page.url_path == PAGES[0][1] else WIDTH):
            page.run()


if __name__ == "__main__":
    main()  # Streamlit runs this file at each visit and click
else:  # Streamlit's server imports it once
    app = st.App(__file__, middleware=[Middleware(Protection)], lifespan=prepared)
