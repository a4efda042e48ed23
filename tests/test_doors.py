"""Package interfaces: other packages import only a package's public names."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOORS = (
    "bertcnn.doctor",
    "bertcnn.encoders",
    "bertcnn.export",
    "bertcnn.layers",
    "bertcnn.models",
    "bertcnn.pretraining",
    "bertcnn.reports",
    "bertcnn.scoring",
    "bertcnn.serving",
    "bertcnn.tasks.question_answering",
    "bertcnn.tasks.translation",
    "bertcnn.text",
    "bertcnn.workflows",
)
MOST = 22  # names


def place(path):
    """A module's dotted name."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path):
    """The modules that a file imports from, with line numbers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno


@pytest.mark.parametrize("package", DOORS)
def test_a_package_interface_has_few_documented_names(package):
    door = import_module(package)
    assert 1 <= len(door.__all__) <= MOST
    values = [getattr(door, name) for name in door.__all__]
    documented = [value for value in values if inspect.isclass(value) or inspect.isfunction(value)]
    assert [value for value in documented if not inspect.getdoc(value)] == []
    assert set(door.__all__) <= set(dir(door))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        door.nothing  # noqa: B018


@pytest.mark.parametrize("package", DOORS)
def test_no_name_is_that_of_a_module_of_the_package(package):
    folder = ROOT.joinpath(*package.split("."))
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(import_module(package).__all__)  # otherwise ambiguous


def test_other_packages_import_public_names_only():
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for folder in ("bertcnn", "apps")
        for path in (ROOT / folder).rglob("*.py")
        for module, line in imports(path)
        for package in DOORS
        if module.startswith(f"{package}.") and not place(path).startswith(package)
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
