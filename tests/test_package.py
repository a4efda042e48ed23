"""The package as a whole: importing it is cheap and has no side effects."""

import json
import subprocess
import sys

import pytest

import bertcnn

HEAVY = (
    "keras",
    "tensorflow",
    "jax",
    "pandas",
    "sklearn",
    "scipy",
    "nncf",
    "streamlit",
    "torch",
    "transformers",
    "jinja2",
    "altair",
)
LIGHT_MODULES = (
    "bertcnn.errors, bertcnn.settings, bertcnn.progress, bertcnn.storage.files,"
    " bertcnn.storage.folders, bertcnn.text.wordpiece, bertcnn.text.cleaning,"
    " bertcnn.tables.tables, bertcnn.tables.writing, bertcnn.tables.columns, bertcnn.data.splits,"
    " bertcnn.data.batches, bertcnn.data.labels, bertcnn.storage.manifest, bertcnn.bundle.bundle,"
    " bertcnn.encoders.download,"
    " bertcnn.inference.predictor, bertcnn.evaluation.decisions, bertcnn.scoring.score,"
    " bertcnn.cli.main"
)


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_changes_no_environment_log_level_filter_or_seed():
    state = (
        "(dict(os.environ), logging.root.level, logging.root.handlers[:], warnings.filters[:],"
        " random.getstate(), sys.excepthook)"
    )
    code = (
        f"import json, logging, os, random, sys, warnings; before = {state}; import bertcnn;"
        f" print(json.dumps(before == {state}))"
    )
    assert python(code) is True


def test_a_prediction_imports_no_heavy_library():
    code = (
        f"import json, sys; import {LIGHT_MODULES}; print(json.dumps([name for name in {HEAVY} if"
        " name in sys.modules]))"
    )
    assert python(code) == []


def test_keras_is_loaded_without_jax_which_can_be_imported_afterwards(monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    code = (
        "import json, sys; import bertcnn; bertcnn.load_keras(); import keras;"
        " before = 'jax' in sys.modules; import jax;"
        " print(json.dumps([keras.backend.backend(), before, jax.__name__]))"
    )
    assert python(code) == ["tensorflow", False, "jax"]


def test_help_imports_no_heavy_library():
    code = (
        "import json, sys; sys.argv = ['bertcnn', '--help']\n"
        "from bertcnn.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        f"print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    assert python(code) == []


def test_the_public_names_are_complete():
    assert (
        {name for name in bertcnn.__all__ if getattr(bertcnn, name) is not None}
        == set(bertcnn.__all__)
        <= set(dir(bertcnn))
    )
    with pytest.raises(AttributeError, match="no attribute 'Classifier'"):
        _ = bertcnn.Classifier
