"""Shared by the tests of the package as it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_without(tmp_path):
    """Run Python in a child process that finds none of some packages; nor do its own children."""

    def run(packages, *arguments, **variables):
        hiding = tmp_path / "hiding"
        hiding.mkdir()
        (hiding / "sitecustomize.py").write_text(
            f"import sys; sys.modules.update(dict.fromkeys({packages}))"
        )
        path = os.pathsep.join(map(str, (hiding, ROOT)))
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return run
