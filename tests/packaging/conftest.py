"""Fixtures for the tests of the installed package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = (sys.executable, "-m", "uv")


@pytest.fixture
def run_without(tmp_path):
    """Run Python in a child process that cannot import some packages; nor can its children."""

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


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """The sdist and the wheel built from it; built in a copy, since building leaves files."""
    place = tmp_path_factory.mktemp("distributions")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place / name)
    for name in ("bertcnn", "apps", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "golden")
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    run([sys.executable, "-m", "build", "--no-isolation"], cwd=place)
    (sdist,) = (place / "dist").glob("*.tar.gz")
    (wheel,) = (place / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Makes an environment with some requirements; returns its Python."""
    made = []

    def make(*requirements):
        folder = tmp_path_factory.mktemp("environment") / "venv"
        made.append(folder)
        run([*UV, "venv", "--quiet", "--python", sys.executable, folder])
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        for wanted in requirements:
            given = [*wanted, "--quiet", "--constraint", ROOT / "constraints.txt"]
            try:
                run([*UV, "pip", "install", "--python", python, *given])
            except AssertionError:  # as in `make setup`: pip also reads pip.conf
                run([sys.executable, "-m", "pip", "--python", python, "install", *given])
        return python

    yield make
    for folder in made:  # gigabytes, which pytest would keep for three sessions
        shutil.rmtree(folder)


def run(command, **options):
    """The output of a command that runs outside the checkout; it must succeed."""
    done = attempt(command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def attempt(command, **options):
    """The result of a command that runs outside the checkout."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)),
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def sources():
    """The package's source files in the checkout."""
    files = (path for path in (ROOT / "bertcnn").rglob("*") if path.is_file())
    return {
        path.relative_to(ROOT).as_posix() for path in files if path.parent.name != "__pycache__"
    }
