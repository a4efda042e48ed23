"""The wheel and the sdist: their contents, and scoring on a server with the wheel."""

import re
import shlex
import shutil
import tarfile
import zipfile
from email.parser import HeaderParser
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest

from bertcnn import score_csv
from tests.packaging.conftest import ROOT, UV, attempt, run, sources
from tests.packaging.test_dependencies import EXTRAS
from tests.tiny import saved

HEAVY = ("keras", "tensorflow", "pandas", "streamlit", "sklearn", "scipy", "nncf", "jax", "torch")
RUNTIME = ("-r", ROOT / "deploy" / "requirements-runtime.txt")


def test_the_wheel_holds_the_package_its_metadata_and_nothing_else(distributions):
    about = f"bertcnn-{version('bertcnn')}.dist-info"
    with zipfile.ZipFile(distributions[1]) as wheel:
        found = set(wheel.namelist())
        metadata = HeaderParser().parsestr(wheel.read(f"{about}/METADATA").decode("utf-8"))
    package = {name for name in found if not name.startswith("bertcnn-")}
    assert package == sources() >= {"bertcnn/py.typed", "bertcnn/reports/report.html.j2"}
    assert f"{about}/licenses/LICENSE" in found
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# bertcnn\n")
    assert set(metadata.get_all("Provides-Extra")) == set(EXTRAS)


def test_the_sdist_holds_what_the_wheel_is_built_from_and_no_tests(distributions):
    with tarfile.open(distributions[0]) as sdist:
        found = {name.partition("/")[2] for name in sdist.getnames()}
    assert found >= {*sources(), "pyproject.toml", "README.md", "LICENSE"}
    assert {Path(name).parts[0] for name in found if name} <= {
        "bertcnn",
        "bertcnn.egg-info",
        *("LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"),
    }


@pytest.fixture(scope="module")
def server(environment, distributions):
    """The Python of a server with only the runtime's requirements and the wheel."""
    return environment(RUNTIME, ("--no-deps", distributions[1]))


@pytest.fixture
def place(encoder_folder, tmp_path):
    """A folder with a model and a table."""
    shutil.copytree(saved(encoder_folder), tmp_path / "model")
    rows = "no signal since monday,7\n=refund my invoice,007\n,x\n" * 5
    (tmp_path / "in.csv").write_text("text,id\n" + rows, encoding="utf-8")
    return tmp_path


def test_a_server_scores_every_format_as_the_full_install_does(server, place):
    absent = f"from importlib.util import find_spec; print(*filter(find_spec, {HEAVY}))"
    assert run([server, "-c", absent], cwd=place).split() == []
    command = server.with_name("bertcnn")
    run([command, "score", "model", "in.csv", "a.csv", "--probabilities"], cwd=place)
    score_csv(place / "model", place / "in.csv", place / "here.csv", probabilities=True)
    assert (place / "a.csv").read_bytes() == (place / "here.csv").read_bytes()
    chain = ["in.csv", "b.xlsx", "c.parquet", "d.jsonl.gz", "e.tsv"]
    for given, out in pairwise(chain):
        run([command, "score", "model", given, out, "--auto-precision", "0.9"], cwd=place)
    store = f"file://{place}/store/model"
    run([command, "push", "model", store], cwd=place)
    assert run([command, "classify", store, "no signal"], cwd=place)
    assert Path(run([command, "pull", store], cwd=place).strip()).is_dir()
    rows = (place / "e.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 16
    assert rows[1].split("\t")[:2] == ["no signal since monday", "7"]


def test_a_server_answers_without_the_compiled_engine_too(server, place):
    code = "import bertcnn; print(bertcnn.load('model').classify(['no signal'])[0].label)"
    compiled = run([server, "-c", code], cwd=place)
    shutil.rmtree(place / "model" / "engine")
    assert run([server, "-c", code], cwd=place) == compiled
    command = server.with_name("bertcnn")
    assert run([command, "classify", "model", "no signal"], cwd=place).startswith(compiled.strip())


def test_training_on_a_server_install_names_the_needed_install(server, place):
    done = attempt([server.with_name("bertcnn"), "train", "in.csv", "--out", "new"], cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    message, _, fix = done.stderr.partition(" What to do: ")
    assert message == (
        "bertcnn: the package keras is not installed; expected the full install of bertcnn."
    )
    command = shlex.split(fix.strip().removesuffix("."))
    assert command[:2] == ["pip", "install"]
    # every package of the plain install that the server lacks: nothing else is missing then
    assert {"keras", "tensorflow", "pandas"} <= {re.split("[<>=]", one)[0] for one in command}
    run([*UV, "pip", "install", "--dry-run", "--python", server, *command[2:]])
