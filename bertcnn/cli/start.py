"""Where the command begins: the engine is read while Python is still importing."""

from __future__ import annotations

import sys
from pathlib import Path

from bertcnn.cli.memory import supervise
from bertcnn.cli.startup import skip_converter


def main() -> None:
    """Run a command; `classify` has its engine read from disk while Python imports the rest, two tenths of the time to its answer."""
    supervise()
    if _classifies(sys.argv[1:]):
        skip_converter()
        from bertcnn.inference.compiled import read_ahead

        read_ahead(Path(sys.argv[2]) / "engine", streams=1)
    from bertcnn.cli.main import main as run

    run()


def _classifies(arguments: list[str]) -> bool:
    """Whether these ask for answers of a model that has an engine, and not for another engine or for help."""
    if (
        len(arguments) < 2
        or arguments[0] != "classify"
        or any(given in arguments for given in ("--help", "keras", "--engine=keras"))
    ):
        return False
    try:
        return (Path(arguments[1]) / "engine").is_dir()
    except (OSError, ValueError):  # a name that is forbidden or too long, which is told later
        return False


if __name__ == "__main__":
    main()
