"""Writes the tree of files in README.md, from the first line of each one's docstring.

    python docs/tree.py     # or: make tree

The package's files stand in the order in which they build on each other, so that they can be read from top to bottom.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
COLUMN = 36  # where sentences begin
WITHOUT_DOCSTRING = {
    "apps": "What runs on the package and has no logic of its own.",
    "apps/dashboard": "`make dashboard`.",
    "data": "Sample tickets, an inbox to score, and the guide by which both were labelled.",
    "docs": "Pictures, and what writes this tree.",
    "notebooks": "first_steps.ipynb: train, ask, explain, save.",
    "tests": "A file a module; golden/ holds Hugging Face's answers and the script that asked.",
}
BEGIN, END = "<!-- tree: written by `make tree` -->\n", "<!-- end of tree -->\n"


def main() -> None:
    """Write the tree into README.md."""
    readme = ROOT / "README.md"
    readme.write_text(with_tree(readme.read_text(encoding="utf-8")), encoding="utf-8")


def with_tree(readme: str) -> str:
    """`readme`, with the tree as it is now between its two marks."""
    block = "\n".join(["", "```", *tree(), "```", "", ""])
    return re.sub(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", lambda _: block, readme, flags=re.DOTALL)


def tree() -> Iterator[str]:
    """The tree's lines."""
    yield _line(ROOT / "bertcnn")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    modules = [module for row in reversed(contracts[0]["layers"]) for module in row.split(" | ")]
    graph = grimp.build_graph("bertcnn", cache_dir=None)
    for module in [*modules, "bertcnn.__main__"]:
        path = ROOT / module.replace(".", "/")
        yield _line(path if path.is_dir() else path.with_suffix(".py"))
        parts = sorted(graph.find_children(module))
        needs = {part: sorted(graph.find_modules_directly_imported_by(part) & set(parts)) for part in parts}
        for part in TopologicalSorter(needs).static_order():
            yield _line(ROOT / f"{part.replace('.', '/')}.py")
    for folder in ("apps", "apps/dashboard", "benchmarks", "benchmarks/peers", "data", "docs", "notebooks", "tests"):
        yield _line(ROOT / folder)
        if folder not in ("data", "notebooks", "tests"):
            yield from (_line(path) for path in sorted((ROOT / folder).glob("[!_]*.py")))


def _line(path: Path) -> str:
    """A file's or folder's line: its name, indented by its depth, and what it says of itself."""
    place = path.relative_to(ROOT).as_posix()
    source = path / "__init__.py" if path.is_dir() else path
    said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) if source.exists() else WITHOUT_DOCSTRING[place]
    name = "  " * place.count("/") + path.name + ("/" if path.is_dir() else "")
    return f"{name:<{COLUMN}}{str(said).splitlines()[0]}"


if __name__ == "__main__":
    main()
