"""Choosing a file for a job: an upload, or a file on the server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from server_files import files_roots, server_file, server_files, server_folder, server_folders
from uploads import FORMATS, limits, save_in, session_folder

from bertcnn.review import ReviewStore
from bertcnn.review.jobs import UPLOADS, new_folder
from bertcnn.storage import output_error

_UPLOAD, _SERVER = "Upload", "On the server"


def chosen_file(label: str, key: str, *, folders: bool = False) -> Path | None:
    """The file that the visitor has chosen, or None; `folders` also offers the server's folders.

    An upload stays in the session's folder; `for_job` copies it.

    Raises:
        TableError: it is not one of the server's files or folders.
        OutputError: the disk is full.
    """
    roots = files_roots()
    source = _UPLOAD
    if roots:
        source = st.radio(label, [_UPLOAD, _SERVER], horizontal=True, key=f"{key}-place")
    if source == _SERVER:
        return _on_server(roots, f"{key}-file", folders=folders)
    uploaded = st.file_uploader(label, type=FORMATS, key=f"{key}-upload", help=limits())
    if uploaded is None:
        return None
    folder = session_folder() / key
    saved_id, path = st.session_state.get(f"{key}-saved", (None, None))
    if saved_id != uploaded.file_id or not path.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        path = save_in(folder, uploaded.name, uploaded)
        st.session_state[f"{key}-saved"] = (uploaded.file_id, path)
    return Path(path)


def _on_server(roots: Sequence[Path], key: str, *, folders: bool) -> Path | None:
    listed = [f"{path}{os.sep}" for path in server_folders(roots)] if folders else []
    listed += map(str, server_files(roots))
    if not listed:
        st.info("There is no table in the server's folder yet.")
    label = "File or folder on the server" if folders else "File on the server"
    chosen = st.selectbox(
        label,
        listed,
        index=None,
        key=key,
        filter_mode="contains",
        format_func=lambda path: _shown(path, roots),
    )
    if chosen is None:
        return None
    return (server_folder if chosen.endswith(os.sep) else server_file)(chosen, roots)


def _shown(path: str, roots: Sequence[Path]) -> str:
    """A file's place below the server's folder, such as tickets/2026/may.csv."""
    root = next(root for root in roots if Path(path).is_relative_to(root))
    shown = (Path(root.name) / Path(path).relative_to(root)).as_posix()
    return f"{shown}/" if path.endswith(os.sep) else shown


def kept(store: ReviewStore, file: Path) -> Path:
    """A copy of an upload that stays on the server; other files stay where they are."""
    if not file.is_relative_to(session_folder()):
        return file
    return _copied(file, new_folder(store))


def for_job(store: ReviewStore, file: Path | None) -> tuple[Path, str]:
    """A job's folder with a copy of an upload, and the file's path; OutputError if full.

    The copy is removed when the job is done.
    """
    folder = new_folder(store)
    if file is None:
        return folder, ""
    if not file.is_relative_to(session_folder()):
        return folder, str(file)
    uploads = folder / UPLOADS
    uploads.mkdir()
    return folder, str(_copied(file, uploads).relative_to(folder))


def _copied(file: Path, folder: Path) -> Path:
    try:
        return Path(shutil.copyfile(file, folder / file.name))
    except OSError as error:
        raise output_error(folder / file.name, error) from None
