"""The code imports what pyproject.toml declares, and all lists of dependencies agree."""

import ast
import re
import sys
import tomllib
from importlib.metadata import version

from bertcnn.errors import missing_package
from tests.packaging.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FEATURES = (
    *("jax", "tune", "sql", "databases", "login", "serve", "ray"),
    "tensorboard",
    "translate",
)
IMPORTED_AS = {"scikit_learn": "sklearn"}  # packages with another import name


def requirements(text):
    """The lines of a requirements file, without comments and blank lines."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def names(lines):
    """The import names of some requirements."""
    found = [re.split(r"[^\w-]", line, maxsplit=1)[0].lower().replace("-", "_") for line in lines]
    return {IMPORTED_AS.get(name, name) for name in found}


def imported_by(folder):
    """The top-level names that the modules below a folder import, anywhere in them."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    beside = {path.stem for path in folder.glob("*.py")}  # from apps, which import each other
    return found - sys.stdlib_module_names - beside - {"bertcnn"}


def test_declared_dependencies_are_those_imported():
    declared = names(PROJECT["dependencies"]).union(*(names(EXTRAS[name]) for name in FEATURES))
    imported = imported_by(ROOT / "bertcnn") | imported_by(ROOT / "apps" / "dashboard")
    assert {"numpy", "scipy", "streamlit"} <= imported
    # imported in the source of a child process's program
    program = (ROOT / "bertcnn" / "encoders" / "keras_hub_source.py").read_text(encoding="utf-8")
    assert "\n    import kagglehub\n" in program
    by_uvicorn = {"uvloop"}  # which imports it where it is installed
    assert declared - imported == {"kagglehub"} | by_uvicorn
    part_of_pydantic = {"pydantic_core"}  # which pins one exact version of it
    assert imported - declared == part_of_pydantic


def test_a_missing_package_of_an_extra_is_named_with_that_extra():
    first = {}
    for extra in FEATURES:
        for package in names(EXTRAS[extra]):
            first.setdefault(package, extra)
    for package, extra in first.items():
        error = missing_package(package)
        assert error.expected == f'bertcnn with its extra "{extra}"'
        # works for every kind of install: bertcnn is on no package index
        name, fix = package.replace("_", "-"), error.fix
        assert re.fullmatch(rf"pip install '{name}(\[\w+\])?>=[\d.]+'", fix), fix


def test_all_is_every_extra_that_a_user_may_want_and_development_has_it_too():
    assert set(EXTRAS) == {*FEATURES, "gpu", "all", "dev"}  # CUDA is useless without a GPU
    assert EXTRAS["all"] == [f"bertcnn[{','.join(FEATURES)}]"]
    assert "bertcnn[all]" in EXTRAS["dev"]


def test_a_server_gets_the_versions_that_the_full_install_gets():
    file = ROOT / "deploy" / "requirements-runtime.txt"
    wanted = requirements(file.read_text(encoding="utf-8"))
    assert "openvino" in names(wanted)
    assert set(wanted) <= set(PROJECT["dependencies"])
    serve = requirements((file.with_name("requirements-serve.txt")).read_text(encoding="utf-8"))
    assert set(EXTRAS["serve"]) <= set(serve) <= {*EXTRAS["serve"], *PROJECT["dependencies"]}


def test_every_direct_dependency_is_pinned():
    pinned = names(requirements((ROOT / "constraints.txt").read_text(encoding="utf-8")))
    lists = [PROJECT["dependencies"], *EXTRAS.values()]
    assert set().union(*map(names, lists)) - {"bertcnn"} <= pinned


def test_every_place_that_names_the_version_names_the_same():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+\.\d+)", changes, flags=re.MULTILINE)
    assert re.findall(r"^version: (\S+)$", citation, flags=re.MULTILINE) == [PROJECT["version"]]
    assert released[0] == PROJECT["version"]
    assert version("bertcnn") == PROJECT["version"]
