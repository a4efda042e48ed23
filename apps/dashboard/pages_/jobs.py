"""Page: background jobs."""

from __future__ import annotations

import streamlit as st
from actions import tell_done
from job_list import show_jobs

st.title("Jobs", anchor=False)
st.markdown(
    "Long work goes on when this page is closed, and after a restart of the server. What a"
    " cancelled job has done is kept: start it again, and it goes on from there."
)
tell_done()
show_jobs(empty="No jobs yet. Long work, such as a training, is listed here.")
