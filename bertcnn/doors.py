"""Public names of a package, loaded when they are first used.

The `__init__` of a package imports its public names only for type checkers:

    if TYPE_CHECKING:
        from bertcnn.doctor.check import check_csv as check_csv

    __getattr__, __dir__, __all__ = door(__name__)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def door(
    package: str, *, light: bool = False
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, read from its `__init__`.

    `light` is for packages whose modules do not import Keras: its backend is not chosen for them.
    """
    module = sys.modules[package]
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    guarded = [node for node in tree.body if isinstance(node, ast.If)]
    homes = {
        alias.name: str(statement.module)
        for node in guarded
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    def load(name: str) -> Any:  # noqa: ANN401 - any public name
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from bertcnn.errors import explain_missing_packages

        if not light:
            from bertcnn.backend import choose_backend

            choose_backend()
        with explain_missing_packages():
            return getattr(import_module(homes[name]), name)

    return load, lambda: [*vars(module), *homes], sorted(homes)
