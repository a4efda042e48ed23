"""The entry point; it reads the engine from disk during Python's imports."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from bertcnn.cli.console import guard_streams
from bertcnn.cli.interrupts import handle_termination, show_interrupted
from bertcnn.cli.startup import skip_converter

# between garbage collections; imports create many objects and little garbage
_NEW_OBJECTS = 100_000
_NOT_OPENVINO = ("--help", "keras", "--engine=keras", "onnx", "--engine=onnx")


def main() -> None:
    """Run a command; `classify` reads its engine during Python's imports, a fifth faster."""
    guard_streams()
    handle_termination()
    try:
        if is_fast_classify(sys.argv[1:]):
            _hurry()
            skip_converter()
            from bertcnn.inference import read_ahead

            read_ahead(Path(sys.argv[2]) / "engine", streams=1)
        from bertcnn.cli.main import main as run

        run()
    except KeyboardInterrupt:  # during imports
        sys.exit(show_interrupted())


def _hurry() -> None:
    gc.set_threshold(_NEW_OBJECTS)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it scans every package
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's matrix products are small here


def is_fast_classify(arguments: list[str]) -> bool:
    """Whether the arguments run `classify` with a compiled engine."""
    if (
        len(arguments) < 2
        or arguments[0] != "classify"
        or any(option in arguments for option in _NOT_OPENVINO)
    ):
        return False
    try:
        return (Path(arguments[1]) / "manifest.json").is_file()
    except (OSError, ValueError):  # an invalid or too long name, reported later
        return False


if __name__ == "__main__":
    main()
