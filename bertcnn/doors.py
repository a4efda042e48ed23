"""Public names of a package, loaded when they are first used.

The `__init__` of a package imports its public names only for type checkers, one a line:

    if TYPE_CHECKING:
        from bertcnn.doctor.check import check_csv as check_csv

    __getattr__, __dir__, __all__ = door(__name__)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_PUBLIC = re.compile(r"^    from ([\w.]+) import (?:\(\s+)?(\w+) as \2\b", re.MULTILINE)


def door(
    package: str, prepare: Callable[[], None] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, read from its `__init__`.

    `prepare` is called before a name is loaded: `choose_backend` if its module imports Keras.
    """
    module = sys.modules[package]
    lines = Path(str(module.__file__)).read_text(encoding="utf-8")
    homes = {name: home for home, name in _PUBLIC.findall(lines)}

    def load(name: str) -> Any:  # noqa: ANN401 - any public name
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from bertcnn.errors import explain_missing_packages

        if prepare is not None:
            prepare()
        with explain_missing_packages():
            return getattr(import_module(homes[name]), name)

    return load, lambda: [*vars(module), *homes], sorted(homes)
