"""A missing package gives a one-line error with the command that installs it."""

import pytest

from bertcnn.bundle.bundle import write_bundle
from bertcnn.errors import missing_package
from tests.failpoints import tiny_bundle

OF_TRAINING = ("keras", "tensorflow", "sklearn", "scipy", "pandas", "nncf", "h5py", "jinja2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model and a table."""
    folder = tmp_path_factory.mktemp("missing")
    write_bundle(tiny_bundle(), folder / "model")
    (folder / "in.csv").write_text("text,label\nrouter,hardware\nbill,billing\n", encoding="utf-8")
    (folder / "in.parquet").write_bytes(b"PAR1" + bytes(60) + b"PAR1")
    return folder


@pytest.mark.parametrize(
    ("package", "command", "install"),
    [
        ("keras", "train in.csv --out new", "pip install 'keras<"),
        ("jax", "train in.csv --out new", "pip install 'jax>="),
        ("torch", "train in.csv --out new", "KERAS_BACKEND=tensorflow"),
        ("sklearn", "evaluate model in.csv", "pip install 'scikit-learn>"),
        ("keras", "classify model hello --engine keras", "pip install 'keras<"),
        ("ml_dtypes", "encoder list", "pip install 'ml-dtypes>"),
        ("optuna", "tune in.csv --out new", "pip install 'optuna>="),
        ("onnx", "export model --format onnx --out new", "pip install 'onnx>="),
        ("tensorflow_text", "export model --format savedmodel --out new", "tensorflow-text"),
        ("pyarrow", "score model in.csv new.parquet", "pip install 'pyarrow>"),
        ("pyarrow", "score model in.parquet new.csv", "pip install 'pyarrow>"),
        ("xlsxwriter", "score model in.csv new.xlsx", "pip install 'xlsxwriter>"),
        ("openvino", "score model in.csv new.csv", "pip install 'openvino>"),
        ("ray", "score model in.csv new.csv --ray", "pip install 'ray>="),
        ("fastapi", "serve model --port 0", "pip install 'fastapi>="),
        (
            "adbc_driver_postgresql",
            "score model postgresql://h/d --query select --into answers",
            "pip install 'adbc-driver-postgresql>=",
        ),
    ],
)
def test_a_command_without_its_package_ends_in_one_line(
    run_without, place, package, command, install
):
    known = {name.name: str(name) for name in place.iterdir()}
    arguments = [
        known.get(word, str(place / word) if word.startswith("new") else word)
        for word in command.split()
    ]
    backend = {"KERAS_BACKEND": package} if package in ("jax", "torch") else {}
    done = run_without([package], "-m", "bertcnn", *arguments, **backend)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"bertcnn: the package {package} is not installed; expected ")
    assert install in last
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line]
    assert not list(place.glob("new*"))


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("keras", "from bertcnn import BertCNNClassifier"),
        ("psycopg", "from bertcnn.review import open_review; open_review('postgresql://h/d')"),
    ],
)
def test_a_python_call_without_its_package_raises_one_line(run_without, package, code):
    program = f"""
from bertcnn import BertCNNError
try:
    {code}
except BertCNNError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    done = run_without([package], "-c", program)
    assert done.stdout == f"{missing_package(package)}\n", done.stderr


def test_scoring_needs_no_library_of_training(run_without, place, tmp_path):
    target = tmp_path / "scored.csv"
    words = ("-m", "bertcnn", "score", place / "model", place / "in.csv", target)
    done = run_without(OF_TRAINING, *words, "--auto-precision", "0.9", "--probabilities")
    assert done.returncode == 0, done.stderr
    assert len(target.read_text(encoding="utf-8").splitlines()) == 3


def test_a_module_of_our_own_that_is_missing_is_a_defect(run_without, place):
    arguments = ("-m", "bertcnn", "score", place / "model", place / "in.csv", place / "new.csv")
    done = run_without(["bertcnn.scoring.score"], *arguments)
    assert "Traceback" in done.stderr
    assert "bertcnn.scoring.score" in done.stderr
