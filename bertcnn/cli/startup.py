"""Keeps the numerical libraries' start-up messages and delays away from the user."""

from __future__ import annotations

import logging
import os
import sys


def load_keras() -> None:
    """Import Keras and its backend, some seconds of work, without what they print before their own log levels hold.

    Only the process-wide standard error is turned away, and only for the import; an import that
    fails raises as usual.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import keras  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def skip_converter() -> None:
    """Have OpenVINO imported without its converter of other libraries' models, which is half of its import and not used by a command."""
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type] # None: importing it fails, which OpenVINO expects


def prepare_engine(engine: str) -> None:
    """Refuse an unknown engine; import Keras quietly, seconds of work, for the one that needs it."""
    from bertcnn.inference.engines import check_engine

    check_engine(engine)
    if engine == "keras":
        load_keras()
    else:
        skip_converter()
