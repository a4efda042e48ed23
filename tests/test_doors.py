"""Package interfaces: other packages import only a package's public names."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST = {  # names of each door; a number may only fall
    "bertcnn.bundle": 44,
    "bertcnn.data": 61,
    "bertcnn.doctor": 4,
    "bertcnn.encoders": 19,
    "bertcnn.evaluation": 66,
    "bertcnn.export": 2,
    "bertcnn.inference": 55,
    "bertcnn.layers": 15,
    "bertcnn.models": 25,
    "bertcnn.pretraining": 6,
    "bertcnn.reports": 11,
    "bertcnn.review": 108,
    "bertcnn.review.jobs": 11,
    "bertcnn.review.statistics": 28,
    "bertcnn.scoring": 19,
    "bertcnn.serving": 9,
    "bertcnn.storage": 58,
    "bertcnn.tables": 51,
    "bertcnn.tables.sql": 8,
    "bertcnn.tasks.language_model": 5,
    "bertcnn.tasks.question_answering": 7,
    "bertcnn.tasks.summaries": 9,
    "bertcnn.tasks.token_labels": 9,
    "bertcnn.tasks.translation": 5,
    "bertcnn.text": 25,
    "bertcnn.training": 71,
    "bertcnn.workflows": 10,
}
DOORS = tuple(MOST)


def place(path):
    """A module's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path):
    """The modules that a file imports from, the names, and line numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [alias.name for alias in node.names], node.lineno


def is_in(module, package):
    return f"{module}.".startswith(f"{package}.")


def private_names(path):
    """What a file imports from another package without its public names, with line numbers."""
    for module, names, line in imports(path):
        package = max((door for door in DOORS if is_in(module, door)), key=len, default=None)
        if package is None or is_in(place(path), package):
            continue
        public = import_module(package).__all__ if module == package else ()
        yield from (
            f"{path.relative_to(ROOT)}:{line} imports {module}.{name}"
            for name in names
            if name not in public
        )


@pytest.mark.parametrize("package", DOORS)
def test_a_package_interface_has_few_documented_names(package):
    door = import_module(package)
    assert 1 <= len(door.__all__) <= MOST[package]
    values = [getattr(door, name) for name in door.__all__]
    documented = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    assert [value for value in documented if not inspect.getdoc(value)] == []
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        door.nothing  # noqa: B018


@pytest.mark.parametrize("package", DOORS)
def test_no_public_name_shadows_a_module(package):
    folder = ROOT.joinpath(*package.split("."))
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(import_module(package).__all__)  # otherwise ambiguous


def test_other_packages_import_public_names_only():
    found = [
        name
        for folder in ("bertcnn", "apps")
        for path in (ROOT / folder).rglob("*.py")
        for name in private_names(path)
    ]
    assert found == []


def test_the_architecture_page_lists_the_doors():
    page = (ROOT / "docs" / "how" / "architecture.md").read_text(encoding="utf-8")
    for package in DOORS:
        names = ", ".join(f"`{name}`" for name in import_module(package).__all__)
        assert f"| `{package}` | {names} |" in page


def test_a_door_loads_nothing_before_a_name_is_used():
    program = f"""
import sys
from importlib import import_module
for package in {DOORS}:
    import_module(package)
    inside = [name for name in sys.modules if name.startswith(package + ".")]
    assert inside == [], inside
"""
    subprocess.run([sys.executable, "-c", program], check=True)
