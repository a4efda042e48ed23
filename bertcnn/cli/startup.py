"""Imports the numerical libraries without their start-up messages and avoidable delays."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from bertcnn.backend import choose_backend, jax_has_gpu


def load_keras(backend: str | None = None, *, distributed: bool = False) -> None:
    """Import Keras and its backend, which takes some seconds, without their start-up messages.

    They print these before their own log levels take effect. Only the process's standard error is
    redirected, and only during the import; a failed import raises as usual.

    Args:
        backend: taken unless KERAS_BACKEND is set; by default JAX where it can compute on an NVIDIA
            GPU, else TensorFlow.
        distributed: whether this is one of several processes that train together.

    Raises:
        SettingsError: the processes do not come together.
    """
    if backend is None:
        choose_backend()
    else:
        os.environ.setdefault("KERAS_BACKEND", backend)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        _load_tensorflow()
        import keras  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
    if distributed:
        from bertcnn.training.devices import join_processes

        join_processes()


def _load_tensorflow() -> None:
    """Import TensorFlow without JAX, unless Keras has another backend.

    A converter for telephones imports JAX where that is installed, which takes a tenth of the time.
    """
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow" or "jax" in sys.modules:
        return
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        with suppress(ModuleNotFoundError):  # Keras says so, if it is there itself
            import tensorflow  # noqa: F401
    finally:
        del sys.modules["jax"]


def skip_converter() -> None:
    """Have OpenVINO imported without its model converter.

    The converter takes half of the import's time, and no command uses it.
    """
    # None makes its import fail, which OpenVINO expects
    sys.modules.setdefault("openvino.tools.ovc", None)  # type: ignore[arg-type]


def prepare_engine(engine: str, *, compiled: bool = False) -> None:
    """Refuse an unknown engine, and import Keras if the engine needs it.

    Args:
        engine: as asked.
        compiled: whether "auto" is a compiled engine in any case.
    """
    from bertcnn.inference.engines import check_engine

    check_engine(engine)
    if engine == "keras" or (engine == "auto" and not compiled and jax_has_gpu()):
        load_keras()
    else:
        skip_converter()
