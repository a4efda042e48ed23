"""Untrusted texts shown literally, and errors in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st
from advice import on_page
from uploads import session_folder

from bertcnn.errors import BertCNNError
from bertcnn.wording import visible


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Show an error in one line that says what to do on the pages, without the upload's folder."""
    try:
        yield
    except BertCNNError as error:
        # an upload is in a folder of the session's folder
        own = re.escape(f"{session_folder()}{os.sep}") + rf"(?:\w+{re.escape(os.sep)})?"
        st.error(plain(on_page(re.sub(own, "", str(error)))), icon=":material/error:")
    except MemoryError:
        st.error("Out of memory. Upload a smaller file.", icon=":material/error:")


def plain(text: str) -> str:
    """`text` on one line, escaped for Markdown and Streamlit.

    An invisible joiner breaks up addresses, names of icons and emoji, and arrows, which Streamlit
    replaces despite the escapes.
    """
    text = visible(" ".join(text.split()))
    text = re.sub(
        r"(?i)(?<=[a-z]:)(?=//)|(?<=www)(?=\.)|(?<=\w)(?=@)|(?<=:)(?=[\w/+-]+:)", "\u2060", text
    )
    text = re.sub(r"(?<!\S)(?=(?:<->|->|<-|--|>=|<=|~=)(?:\s|$))", "\u2060", text)
    return re.sub(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])", r"\\\1", text)


def badge(text: str) -> str:
    """`text` as from `plain`, for `st.badge`, which escapes brackets itself."""
    return plain(text).replace(r"\[", "[").replace(r"\]", "]")
