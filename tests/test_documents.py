"""What people read runs: the notebook, the README's Python, and the tree of files in it."""

import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from docs.tree import tree, with_tree

ROOT = Path(__file__).parents[1]


def test_the_notebook_runs(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS")  # as people run it
    notebook = nbformat.read(ROOT / "notebooks" / "first_steps.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    assert "software" in str(notebook.cells[-1].outputs)


def test_the_readmes_python_runs(tmp_path, encoder_folder):
    from tests.tickets import tickets

    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
    code = code.replace('encoder="minilm-l6"', f"encoder={str(encoder_folder)!r}")
    texts, labels = tickets(6)
    (tmp_path / "inbox.csv").write_text("text\nthe router\n")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        exec(code, {"texts": texts, "labels": labels})
    finally:
        os.chdir(here)
    assert (tmp_path / "scored.csv").exists()


def test_the_readmes_tree_is_what_the_files_say_of_themselves():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_tree(readme) == readme, "run: make tree"
    files = [*(ROOT / "bertcnn").rglob("*.py"), *(ROOT / "apps").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    named = {line.split()[0] for line in tree()}
    assert {path.name for path in files if path.name != "__init__.py"} <= named


def test_a_line_of_the_tree_can_be_read_without_scrolling():
    assert max(map(len, tree())) <= 125
