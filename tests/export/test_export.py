"""A saved model in other formats: each export gives the model's answers, or is refused."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import openvino as ov
import pandas as pd
import pytest

import bertcnn
from benchmarks.environment import CompetitorError, peers_python
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.engine import SavedEngine, int8_bytes, read_engine
from bertcnn.cli.main import main
from bertcnn.errors import (
    BundleError,
    ExportError,
    OutputError,
    SettingsError,
)
from bertcnn.export.export import check_export, export_model
from bertcnn.export.mlflow_model import PyFuncModel
from bertcnn.export.parity import BOUND, CLEAR, compare
from bertcnn.export.parity_texts import PARITY_TEXTS
from bertcnn.inference.openvino_engine import engine_graph
from bertcnn.text.cleaning import clean_text
from tests.inference.test_predictor import NAUGHTY
from tests.listener import Listener
from tests.tickets import tickets
from tests.tiny import saved

FORMATS = ("openvino", "savedmodel", "onnx", "keras")
ROOT = Path(__file__).parents[2]
TEXTS = [*tickets(4)[0], *NAUGHTY]
SENTENCE = "My router's led is not working"


@pytest.fixture(scope="module")
def exported(encoder_folder, tmp_path_factory):
    """The tiny model in a format, exported once; do not write to it."""
    made = {}

    def folder(form):
        if form not in made:
            made[form] = export_model(
                saved(encoder_folder), form, tmp_path_factory.mktemp("exports") / form
            ).folder
        return made[form]

    return folder


@pytest.fixture(scope="module")
def reference(encoder_folder):
    return bertcnn.load(saved(encoder_folder), engine="keras")


def record_of(folder):
    return json.loads((folder / "export.json").read_text())


@pytest.mark.parametrize("form", [*FORMATS, "mlflow"])
def test_an_export_records_its_format_and_files(exported, form, encoder_folder):
    folder = exported(form)
    bundle = read_bundle(saved(encoder_folder), weights=False)
    record = record_of(folder)
    assert (record["format"], record["bundle_id"]) == (form, bundle.bundle_id)
    assert record["parity"]["texts"] == len(PARITY_TEXTS) >= 200
    files = [path for path in folder.rglob("*") if path.is_file()]
    there = {path.relative_to(folder).as_posix(): path for path in files}
    assert set(there) == {*record["files"], "export.json"}
    for name, digest in record["files"].items():
        assert hashlib.sha256(there[name].read_bytes()).hexdigest() == digest
    home = folder / "model" if form == "mlflow" else folder
    assert json.loads((home / "labels.json").read_text()) == list(bundle.labels)
    assert (home / "vocab.txt").read_text().splitlines() == list(bundle.vocabulary)
    assert [path.name for path in folder.parent.iterdir()] == [form]


@pytest.mark.parametrize("form", ["savedmodel", "onnx", "keras"])
def test_float32_answers_are_the_models_own(exported, form):
    parity = record_of(exported(form))["parity"]
    assert (parity["bound"], parity["other_labels"]) == (BOUND, 0)
    assert parity["largest_difference"] <= 1e-5


def test_openvino_is_the_graph_that_was_saved_with_the_model_for_one_text_a_row(
    exported, encoder_folder
):
    bundle = read_bundle(saved(encoder_folder))
    engine = read_engine(saved(encoder_folder), bundle.bundle_id)
    written = ov.Core().read_model(exported("openvino") / "model.xml")
    inputs = {parameter.get_friendly_name() for parameter in written.get_parameters()}
    assert inputs == {"padding_mask", "token_ids"}
    own, stored = (
        Counter(node.get_type_name() for node in graph.get_ordered_ops())
        for graph in (written, engine_graph(engine, bundle))
    )
    for kind in ("FakeQuantize", "MatMul"):
        assert own[kind] == stored[kind]
    assert record_of(exported("openvino"))["precision"] == engine.record.precision


def test_openvino_of_a_model_without_an_engine_is_float32(encoder_folder, tmp_path):
    write_bundle(read_bundle(saved(encoder_folder)), tmp_path / "model")
    report = export_model(tmp_path / "model", "openvino", tmp_path / "out")
    assert report.record.precision == "float32"
    assert report.record.parity.largest_difference < 1e-5


@pytest.mark.parametrize("form", FORMATS)
def test_the_example_in_its_readme_runs_and_gives_the_models_label(
    exported, form, reference, monkeypatch, capsys
):
    folder = exported(form)
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)[1]
    assert len(code.strip().splitlines()) <= 22
    # compared in float32; otherwise some CPUs use bfloat16
    assert form != "openvino" or '{"INFERENCE_PRECISION_HINT": "f32"}' in code
    monkeypatch.chdir(folder)
    exec(code, {})
    label, share = capsys.readouterr().out.splitlines()[0].split()
    (answer,) = reference.classify([SENTENCE])
    assert label == answer.label
    assert abs(float(share) - answer.confidence) < (0.1 if form == "openvino" else 1e-4)


def test_the_savedmodel_takes_raw_strings_of_any_kind(exported, reference):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    loaded = tf.saved_model.load(str(exported("savedmodel")))
    serve = loaded.signatures["serving_default"]
    answer = serve(texts=tf.constant([text.encode("utf-8", "surrogatepass") for text in TEXTS]))
    np.testing.assert_allclose(answer["probabilities"], reference.predict_proba(TEXTS), atol=1e-5)
    assert answer["probabilities"].dtype == tf.float32
    assert [label.decode() for label in answer["labels"].numpy()] == list(reference.predict(TEXTS))
    assert serve(texts=tf.constant([], tf.string))["probabilities"].shape == (0, 3)
    assert json.loads(Path(loaded.labels_asset.asset_path.numpy().decode()).read_text()) == list(
        reference.labels
    )


# === What is refused ===


def rolled(folder, bundle):
    """The saved int8 engine with its filters exchanged, so that it gives other labels."""
    config, stored = bundle.config, read_engine(folder, bundle.bundle_id)
    tensors = stored.int8_tensors(config.encoder, config.head)
    tensors["taps/weights"] = np.roll(tensors["taps/weights"], 5, axis=0)
    return SavedEngine(stored.record, lambda: int8_bytes(tensors))


def test_an_int8_engine_that_answers_otherwise_gives_way_to_float32(encoder_folder, tmp_path):
    bundle, notes = read_bundle(saved(encoder_folder)), Listener()
    engine = rolled(saved(encoder_folder), bundle)
    write_bundle(replace(bundle, engine=engine), tmp_path / "model")
    report = export_model(tmp_path / "model", "openvino", tmp_path / "out", progress=notes)
    assert report.record.precision == "float32"
    assert report.record.parity.bound is not None
    (told,) = (note for note in notes.notes if "float32" in note)
    assert re.match(
        r"in int8 the exported model gives another label on \d+ of 2\d\d test texts, such as .*: it"
        r" is exported in float32",
        told,
    )
    files = {"README.md", "labels.json", "model.bin", "model.xml", "vocab.txt"}
    assert set(report.record.files) == files


def test_weights_of_8_bits_are_exported_in_float32_for_cpus_that_would_saturate(
    encoder_folder, tmp_path
):
    bundle, notes, model = read_bundle(saved(encoder_folder)), Listener(), tmp_path / "model"
    stored = read_engine(saved(encoder_folder), bundle.bundle_id)
    files = stored.read()
    record = stored.record.model_copy(update={"precision": "int8", "weight_bits": 8})
    write_bundle(replace(bundle, engine=SavedEngine(record, lambda: files)), model)
    report = export_model(model, "openvino", tmp_path / "out", progress=notes)
    assert report.record.precision == "float32"
    assert "weights of 8 bits, which would saturate on a CPU without VNNI" in " ".join(notes.notes)


def compared(reference, other, precision, **options):
    """The comparison of the probabilities of two labels, of which the first is given."""
    shares = (
        np.array([[one, 1 - one] for one in given], np.float32) for given in (reference, other)
    )
    return compare(*shares, ["a", "b"][: len(reference)], precision=precision, **options)


def test_only_an_undecided_text_may_get_another_label():
    sure, torn = 0.9, 0.50004
    found = compared([sure, torn], [sure, 1 - torn], "float32")
    assert (found.other_labels, found.decided_texts) == (1, 1)
    assert "the same label on 1 of 2 test texts" in found.describe()
    same = compared([sure, torn], [sure, torn], "float32").describe()
    assert same == "the same label on all of 2 test texts, equal probabilities"
    for other, precision, message in (
        ([1 - sure, torn], "float32", r"another label on 1 of 2 test texts, such as 'a'"),
        (
            [0.899, torn],
            "float32",
            r"probabilities 0\.001 away .* on 'a'; expected at most 0\.0001",
        ),
        ([sure, np.nan], "int8", "another label"),
    ):
        with pytest.raises(ExportError, match=message):
            compared([sure, torn], other, precision)


def test_int8_may_move_probabilities_but_no_clear_label():
    near, clear = (0.5 + CLEAR / 2 + more for more in (-0.01, 0.01))
    assert compared([near], [1 - near], "int8").other_labels == 1
    with pytest.raises(ExportError, match="another label on 1 of 1"):
        compared([clear], [1 - clear], "int8")


def test_an_unknown_format_and_a_missing_model_are_refused(encoder_folder, tmp_path):
    with pytest.raises(SettingsError, match=r"format 'tflite'; expected one of openvino, saved"):
        export_model(saved(encoder_folder), "tflite", tmp_path / "out")
    with pytest.raises(BundleError, match="does not exist"):
        export_model(tmp_path / "none", "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_an_export_is_overwritten_and_only_with_force(encoder_folder, exported, tmp_path):
    model, out = saved(encoder_folder), tmp_path / "out"
    shutil.copytree(exported("keras"), out)
    with pytest.raises(OutputError, match=r"holds an export already.*--force"):
        check_export(model, "openvino", out, overwrite=False)
    export_model(model, "openvino", out, overwrite=True)
    assert record_of(out)["format"] == "openvino"
    assert not (out / "model.keras").exists()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"'notes.txt', which is no part of the export"):
        check_export(model, "openvino", out, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("record", [None, "{}", "not json", '{"format": "onnx"}'])
def test_a_folder_that_is_not_an_export_is_never_replaced(record, encoder_folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    if record is not None:
        (out / "export.json").write_text(record)
    with pytest.raises(OutputError, match=r"is not an export by bertcnn.*never overwritten"):
        export_model(saved(encoder_folder), "onnx", out, overwrite=True)
    assert (out / "thesis.tex").read_text() == "mine"


@pytest.mark.parametrize("out", ["file", "file/below", "a\0b"])
def test_an_unusable_target_is_refused(out, encoder_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        check_export(saved(encoder_folder), "onnx", f"{tmp_path}/{out}", overwrite=True)


# === The command ===


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["bertcnn", "export", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, capsys.readouterr().err

    return call


def test_the_command_reports_place_parity_and_next_step(run, encoder_folder, tmp_path):
    out = tmp_path / "deep" / "out"
    arguments = (saved(encoder_folder), "--format", "onnx", "--out", out)
    code, err = run(*arguments)
    assert code == 0, err
    assert f"Exported {out} (onnx, float32, model " in err
    assert f"the same label on all of {len(PARITY_TEXTS)} test texts, " in err
    assert f"Next: the example in {out}/README.md runs it with ONNX Runtime." in err
    code, err = run(*arguments)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("bertcnn: ")


def test_the_test_texts_are_many_and_of_every_kind():
    assert len(set(PARITY_TEXTS)) == len(PARITY_TEXTS) >= 200
    assert "" in PARITY_TEXTS
    assert any(clean_text(text) != text for text in PARITY_TEXTS)
    assert sum(len(text.split()) > 512 for text in PARITY_TEXTS) >= 2
    assert sum(not text.isascii() for text in PARITY_TEXTS) >= 50


def test_of_several_labels_each_is_compared_with_its_threshold():
    reference = np.array([[0.9, 0.1], [0.50005, 0.9]], np.float32)

    def found(other, precision):
        other, labels = np.array(other, np.float32), ["a", "b"]
        limits = (0.5, 0.3)
        return compare(reference, other, labels, precision=precision, label_thresholds=limits)

    moved = found([[0.9, 0.1], [0.49998, 0.9]], "float32")
    assert (moved.other_labels, moved.decided_texts) == (1, 1)
    with pytest.raises(ExportError, match="another label on 1 of 2 test texts"):
        found([[0.9, 0.6], [0.50005, 0.9]], "int8")
    assert found([[0.8, 0.2], [0.4, 0.9]], "int8")


# === MLflow ===


_ASK_MLFLOW = """
import json, re, sys
from pathlib import Path
import mlflow, pandas as pd

exec(re.search(r"```python\\n(.*?)```", Path("README.md").read_text(), re.S)[1])
model = mlflow.pyfunc.load_model(".")
texts = json.load(sys.stdin)
table = pd.DataFrame({name: texts for name in model.metadata.get_input_schema().input_names()})
answers = model.predict(table, params={"probabilities": True})
print(json.dumps({"rows": json.loads(answers.to_json(orient="records")),
                  "keras": "keras" in sys.modules}))
"""


def test_mlflow_loads_it_and_gives_the_models_answers(exported, encoder_folder):
    try:
        python = peers_python("mlflow")
    except CompetitorError as error:
        pytest.skip(f"no MLflow: {error}")
    texts = [SENTENCE, "", "I was charged twice"]
    # bertcnn and its dependencies from here, MLflow from its own environment
    path = os.pathsep.join([str(ROOT), str(Path(np.__file__).parents[1])])
    done = subprocess.run(
        [python, "-c", _ASK_MLFLOW],
        cwd=exported("mlflow"),
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "predicted_label" in done.stdout.splitlines()[0]  # the output of the README's example
    assert not found["keras"]
    expected = bertcnn.load(saved(encoder_folder)).classify(texts)
    for row, answer in zip(found["rows"], expected, strict=True):
        assert row["predicted_label"] == (answer.label or "")
        assert row["confidence"] == pytest.approx(answer.confidence)
        assert row["decision"] == answer.decision
        assert row["because"] == " | ".join(phrase.words for phrase in answer.because)
        shares = {name: row[f"p_{name}"] for name in answer.probabilities}
        assert shares == pytest.approx(answer.probabilities, abs=1e-6)


def test_an_export_for_mlflow_holds_the_saved_model_and_no_pickle(exported, encoder_folder):
    folder, model = exported("mlflow"), saved(encoder_folder)
    for path in model.rglob("*"):
        if path.is_file():
            copied = folder / "model" / path.relative_to(model)
            assert copied.read_bytes() == path.read_bytes()
    assert not [path for path in folder.rglob("*") if path.suffix in (".pkl", ".pickle")]
    described = (folder / "MLmodel").read_text()
    assert "loader_module: bertcnn.export.mlflow_model" in described
    assert bertcnn.load(folder / "model").bundle.bundle_id in described


def test_the_mlflow_model_takes_tables_and_texts(encoder_folder):
    predictor = bertcnn.load(saved(encoder_folder))
    model = PyFuncModel(predictor)
    (expected,) = predictor.classify([SENTENCE])
    for given in (
        [SENTENCE],
        SENTENCE,
        np.array([SENTENCE], object),
        pd.Series([SENTENCE]),
        pd.DataFrame({"anything": [SENTENCE]}, index=[7]),
    ):
        answers = model.predict(given)
        assert answers["predicted_label"].tolist() == [expected.label]
        assert list(answers) == ["predicted_label", "confidence", "decision", "because"]
    assert answers.index.tolist() == [7]
    cells = pd.DataFrame({"text": [404, None, float("nan"), "my router"]}, dtype=object)
    assert model.predict(cells).equals(model.predict(["404", "", "", "my router"]))
    with pytest.raises(SettingsError, match=r"without the column .*rename the column of the texts"):
        model.predict(pd.DataFrame({"one": ["a"], "two": ["b"]}))


# === Versions ===


@pytest.mark.parametrize(
    ("form", "backend", "name", "kind", "other"),
    [
        ("openvino", "openvino", "model.xml", "TYPE_INT32", "onnx"),
        ("onnx", "onnxruntime", "model.onnx", "TYPE_INT64", "openvino"),
    ],
)
def test_a_version_for_triton_stands_beside_the_configuration(
    form, backend, name, kind, other, encoder_folder, tmp_path
):
    model, out = saved(encoder_folder), tmp_path / "triage"
    assert export_model(model, form, out, version=3).folder == out / "3"
    assert {path.name for path in out.iterdir()} == {"3", "config.pbtxt"}
    assert (out / "3" / name).is_file()  # the names that these backends expect
    config = (out / "config.pbtxt").read_text()
    assert config.startswith(f'name: "triage"\nbackend: "{backend}"\nmax_batch_size: 0\n')
    assert f'{{ name: "token_ids" data_type: {kind} dims: [ -1, -1 ] }}' in config
    assert '{ name: "logits" data_type: TYPE_FP32 dims: [ -1, 3 ] }' in config
    with pytest.raises(OutputError, match="holds an export already"):
        export_model(model, form, out, version=3)
    with pytest.raises(OutputError, match="one format for all versions of a model"):
        check_export(model, other, out, overwrite=False, version=4)


def test_a_version_with_other_outputs_is_refused(encoder_folder, tmp_path):
    (tmp_path / "config.pbtxt").write_text('backend: "onnxruntime"\noutput [ ]\n')
    with pytest.raises(OutputError, match="versions that differ only in their weights"):
        export_model(saved(encoder_folder), "onnx", tmp_path, version=1)
    export_model(saved(encoder_folder), "onnx", tmp_path, version=1, overwrite=True)
    assert '"token_ids"' in (tmp_path / "config.pbtxt").read_text()


def test_a_version_for_tensorflow_serving_is_a_numbered_folder(encoder_folder, tmp_path):
    report = export_model(saved(encoder_folder), "savedmodel", tmp_path / "triage", version=12)
    assert report.folder == tmp_path / "triage" / "12"
    assert (report.folder / "saved_model.pb").is_file()
    assert [path.name for path in (tmp_path / "triage").iterdir()] == ["12"]


@pytest.mark.parametrize(
    ("form", "version", "message"),
    [
        ("keras", 1, "--version with one of savedmodel, openvino, onnx"),
        ("mlflow", 1, "leave --version out"),
        ("onnx", 0, "a number from 1 on"),
    ],
)
def test_an_unsupported_version_is_refused(form, version, message, encoder_folder, tmp_path):
    with pytest.raises(SettingsError, match=message):
        check_export(saved(encoder_folder), form, tmp_path / "out", False, version)
