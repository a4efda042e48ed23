"""Modules that only some systems have are imported on use, not with the package."""

import ast

import pytest

from tests.packaging.conftest import ROOT

OF_ONE_SYSTEM = {"resource", "fcntl", "pwd", "grp", "termios", "pty", "tty", "msvcrt", "winreg"}


def imported_at_once(path):
    """The modules that a file imports at import time."""
    inside = [ast.parse(path.read_text(encoding="utf-8"))]
    while inside:
        node = inside.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside += ast.iter_child_nodes(node)


@pytest.mark.parametrize("folder", ["bertcnn", "apps", "benchmarks", "tests"])
def test_no_file_imports_system_modules_at_import(folder):
    files = [path for path in (ROOT / folder).rglob("*.py") if ".envs" not in path.parts]
    assert files
    found = {path: OF_ONE_SYSTEM.intersection(imported_at_once(path)) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_every_module_is_imported_where_they_are_not_there(run_without):
    program = """
import importlib, pkgutil, sys
absent = {name: sys.modules.pop(name) for name in ("resource", "fcntl", "pwd", "grp")}
import psutil  # its wheel for this system needs some of them, those for others do not
sys.modules.update(absent)
import bertcnn
for module in pkgutil.walk_packages(bertcnn.__path__, "bertcnn."):
    if not module.name.endswith(("__main__", ".cluster", ".ray_connection", ".ray_workers")):
        importlib.import_module(module.name)
print("all of them")
"""
    # Ray, whose wheel for Linux needs some of them, is imported for a cluster only
    done = run_without(["resource", "fcntl", "pwd", "grp"], "-c", program)
    assert done.stdout == "all of them\n", done.stderr[-2000:]
