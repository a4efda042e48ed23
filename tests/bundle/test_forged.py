"""Forged models whose hashes are all consistent.

Each is refused with a one-line error or answered by its own weights, quickly and in little memory.
"""

import json
import math
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from bertcnn import load
from bertcnn.bundle.bundle import read_bundle
from bertcnn.bundle.engine import read_engine
from bertcnn.bundle.tensors import parse_tensors
from bertcnn.data.hierarchy import MOST_LEVELS, Hierarchy
from bertcnn.encoders.checkpoint import read_checkpoint, read_tensors
from bertcnn.errors import BundleError, EncoderError, SettingsError
from bertcnn.export.export import export_model
from bertcnn.storage.manifest import parse_json
from tests.forging import Outcome, ask, change_json, reseal
from tests.tiny import saved

MOST_MEGABYTES = 600
WEIGHTS, SCOPE = "model.safetensors", "out_of_scope.safetensors"
ENGINE = "engine/engine.safetensors"


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """Run the saved engine."""


@pytest.fixture
def folder(encoder_folder, tmp_path, monkeypatch) -> Path:
    """A saved model with an int8 engine, to be forged; the cache holds nothing of it."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(saved(encoder_folder), tmp_path / "model"))


def refused(folder: Path, words: str) -> None:
    """Assert that loading the model, or its first inference, is refused."""
    with pytest.raises(BundleError) as caught:
        load(folder).classify(["my router is dead"])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def refused_in_bounds(folder: Path, words: str) -> None:
    """The same in a process of its own, whose memory is measured."""
    outcome = ask(folder)
    assert (outcome.kind, words in outcome.error) == ("BundleError", True), outcome
    assert outcome.mb < MOST_MEGABYTES


def falls_back(folder: Path, words: str, caplog) -> None:
    """Assert that inference falls back to the model's own weights, with a warning."""
    model = load(folder)
    assert model.engine.name == "openvino-float32"
    assert words in caplog.text
    assert np.isfinite(model.predict_proba(["my router is dead", ""])).all()


def finite(outcome: Outcome) -> bool:
    return bool(outcome.numbers) and all(map(math.isfinite, outcome.numbers))


def with_header(folder: Path, name: str, change) -> None:
    """Change the header of a safetensors file in place; the data stays."""
    data = (folder / name).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    made_up = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(made_up)) + made_up + data[end:])
    reseal(folder)


def with_weights(folder: Path, change) -> None:
    tensors = safetensors.numpy.load((folder / WEIGHTS).read_bytes())
    (folder / WEIGHTS).write_bytes(
        safetensors.numpy.save({name: change(name, tensor) for name, tensor in tensors.items()})
    )
    reseal(folder)


def test_the_forger_of_these_tests_can_make_a_model_that_answers(folder):
    change_json(folder, "labels.json", lambda labels: [label.upper() for label in labels])
    outcome = ask(folder)
    assert (outcome.engine, outcome.error, outcome.warnings) == ("openvino-int8", "", "")
    assert finite(outcome)


# === JSON ===


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "config.json",
            lambda value: value["encoder"].update(layers=1_000_000),
            "BundleConfig.encoder.layers was '1000000'",
        ),
        (
            "config.json",
            lambda value: value["encoder"].update(vocabulary_size=10**9),
            "BundleConfig.encoder.vocabulary_size was '1000000000'",
        ),
        (
            "config.json",
            lambda value: value["encoder"].update(width=16_384),
            "model.safetensors has ",
        ),
        (
            "config.json",
            lambda value: value["head"].update(filters=65_536),
            "model.safetensors has ",
        ),
        (
            "config.json",
            lambda value: value["head"].update(window_sizes=[2] * 100_000),
            "BundleConfig.head.window_sizes was",
        ),
        (
            "config.json",
            lambda value: value["head"].update(window_sizes=[10**9]),
            "BundleConfig.head.window_sizes.0 was '1000000000'",
        ),
        (
            "config.json",
            lambda value: value.update(text_columns=["c"] * 500_000),
            "BundleConfig.text_columns was",
        ),
        (
            "config.json",
            lambda value: value.update(encoder_name="x" * 5_000_000),
            "BundleConfig.encoder_name was",
        ),
        (
            "config.json",
            lambda value: value.update(merged_labels={str(n): "a" for n in range(150_000)}),
            "BundleConfig.merged_labels was",
        ),
        (
            "calibration.json",
            lambda value: value.update(temperature=1e-320),
            "Calibration.temperature was '1e-320'",
        ),
        (
            "calibration.json",
            lambda value: value.update(temperature=1e308),
            "Calibration.temperature was '1e+308'",
        ),
        (
            "calibration.json",
            lambda value: value.update(label_thresholds=[0.5] * 500_000),
            "Calibration.label_thresholds was",
        ),
        (
            "calibration.json",
            lambda value: value.update(
                label_shift={"temperature": 1.0, "bias": [0.0], "shares": [1.0] * 9, "rows": 5}
            ),
            "holds a label_shift of 1 and 9 labels",
        ),
        (
            "calibration.json",
            lambda value: value.update(
                label_shift={"temperature": 0.0, "bias": [0.0], "shares": [1.0], "rows": 5}
            ),
            "Calibration.label_shift.temperature was '0.0'",
        ),
        *(
            (
                "calibration.json",
                lambda value, temperature=temperature: value.update(
                    label_shift={
                        "temperature": temperature,
                        "bias": [0.0] * 3,
                        "shares": [0.3] * 3,
                        "rows": 5,
                    }
                ),
                f"Calibration.label_shift.temperature was '{temperature}'",
            )
            for temperature in (1e-45, 1e300, True, "1.0")
        ),
        (
            "calibration.json",
            lambda value: value.update(fitted_on_rows=True),
            "Calibration.fitted_on_rows was 'True'",
        ),
        (
            "config.json",
            lambda value: value["encoder"].update(layers="2"),
            "BundleConfig.encoder.layers was '2'",
        ),
        (
            "config.json",
            lambda value: value["tokenizer"].update(lowercase=1),
            "BundleConfig.tokenizer.lowercase was '1'",
        ),
        (
            "config.json",
            lambda value: value["encoder"].update(layer_norm_epsilon=1e-45),
            "BundleConfig.encoder.layer_norm_epsilon was '1e-45'",
        ),
        (
            "decisions.json",
            lambda value: value["held_out"].update(doubtful=10**400),
            "Decisions.held_out.doubtful was",
        ),
        (
            "decisions.json",
            lambda value: value.update(reachable="0.9"),
            "Decisions.reachable was '0.9'",
        ),
        (
            "metrics.json",
            lambda value: value.update(macro_f1=1e300),
            "Metrics.macro_f1 was '1e+300'",
        ),
        (
            "decisions.json",
            lambda value: value.update(thresholds=[0.5] * 500_000),
            "Decisions.thresholds was",
        ),
        (
            "decisions.json",
            lambda value: value["held_out"].update(confidence=[0.5] * 200_000),
            "Decisions.held_out.confidence was",
        ),
        (
            "labels.json",
            lambda labels: ["x" * 15_000_000, *labels[1:]],
            "labels of up to 15,000,000 characters",
        ),
        (
            "labels.json",
            lambda labels: [" > ".join(["level"] * 20_000), *labels[1:]],
            "labels of up to 159,997 characters",
        ),
        (
            "labels.json",
            lambda _: [str(number) for number in range(1_000_000)],
            "holds 1,000,000 labels",
        ),
    ],
)
def test_numbers_lengths_and_lists_that_no_model_has_are_refused(folder, name, change, words):
    change_json(folder, name, change)
    refused(folder, words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda: b'{"a": [' + b"[]," * 10_000_000 + b"[]]}", "more values than a model has"),
        (lambda: b'{"a": [' + b"0.5," * 10_000_000 + b"1]}", "more values than a model has"),
        (lambda: b'{"a": [' + b'"",' * 10_000_000 + b'""]}', "more strings than a model has"),
        (lambda: b'{"a": ' + b"[" * 33 + b"]" * 33 + b"}", "more than 32 values in each other"),
    ],
    ids=["lists", "numbers", "strings", "deep"],
)
def test_a_file_of_many_values_is_refused_before_they_are_made(folder, data, words):
    (folder / "metrics.json").write_bytes(data())
    reseal(folder)
    refused_in_bounds(folder, f"metrics.json is not usable JSON ({words})")


def test_signs_inside_strings_are_no_values():
    text = json.dumps(
        {'[[["\\"': ["[" * 100_000, "\\" * 9, "\\\\" * 10_001, '"{', "é\u2028", 1.5e300, -1e-320]},
        ensure_ascii=False,
    )
    assert parse_json("a.json", text.encode()) == json.loads(text)
    assert parse_json("a.json", json.dumps(json.loads(text)).encode()) == json.loads(text)


def test_a_vocabulary_of_empty_lines_is_counted_before_it_is_taken_apart(folder):
    (folder / "vocab.txt").write_bytes(b"\n" * 30_000_000)
    reseal(folder)
    refused_in_bounds(folder, "vocab.txt holds 30,000,000 WordPieces")


def test_labels_have_sixteen_levels_at_most_and_the_rest_is_a_name():
    deep = [" > ".join([*map(str, range(10_000)), end]) for end in "ab"]
    hierarchy = Hierarchy.of(deep)
    assert len(hierarchy.levels) == MOST_LEVELS
    assert hierarchy.parents[-1] == "0"
    assert hierarchy.parents[0] == " > ".join(map(str, range(MOST_LEVELS)))


# === Tensors ===


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda header: header["logits/bias"].update(shape=[1] * 199 + [3]),
            "TensorRecord.shape was",
        ),
        (
            lambda header: header.update(
                x={"dtype": "F32", "shape": [0, 1 << 62], "data_offsets": [0, 0]}
            ),
            "TensorRecord.shape.1 was",
        ),
        (
            lambda header: header.update(
                x={"dtype": "F32", "shape": [0, 7], "data_offsets": [0, 0]}
            ),
            "holds 'x' of shape (0, 7)",
        ),
        (
            lambda header: header["logits/bias"].update(shape=[]),
            "'logits/bias' of shape () at the bytes",
        ),
        (
            lambda header: header["logits/bias"].update(shape=[3, 1]),
            "holds 'logits/bias' of shape (3, 1); expected the shape (3,)",
        ),
        (lambda header: header["logits/bias"].update(shape=[-3]), "TensorRecord.shape.0 was '-3'"),
        (lambda header: header["logits/bias"].update(shape="3"), "TensorRecord.shape was '3'"),
        (
            lambda header: header["logits/bias"].update(data_offsets=[0, 12]),
            "at the bytes (0, 64), where 12 to 76 are expected",
        ),
        (
            lambda header: header["logits/bias"].update(data_offsets=[1 << 62, (1 << 62) + 12]),
            "TensorRecord.data_offsets.0 was",
        ),
        (
            lambda header: header.update(
                x={"dtype": "F32", "shape": [1 << 40] * 7 + [0], "data_offsets": [0, 0]}
            ),
            "too large for any memory",
        ),
        (
            lambda header: header["logits/bias"].update(shape=[True]),
            "TensorRecord.shape.0 was 'True'",
        ),
        (lambda header: header["logits/bias"].update(dtype="F4"), "of the unknown type 'F4'"),
        (lambda header: header.update(x=3), "is not a safetensors file"),
        (lambda header: header.pop("logits/bias"), "is not a safetensors file"),
    ],
)
def test_tensors_of_odd_shapes_are_refused_without_an_error_of_numpy(folder, change, words):
    with_header(folder, WEIGHTS, change)
    if words.startswith("holds"):  # only phrases need the weights
        shutil.rmtree(folder / "engine")
    refused(folder, words)


def test_a_hundred_thousand_empty_tensors_are_refused():
    header = json.dumps(
        {
            f"t{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
            for number in range(100_000)
        }
    ).encode()
    with pytest.raises(BundleError, match="more than 65,536 tensors"):
        parse_tensors(WEIGHTS, struct.pack("<Q", len(header)) + header)


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 100, b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{", bytes(8)]
)
def test_an_invalid_safetensors_file_is_a_one_line_error(data):
    with pytest.raises(BundleError, match="is not a safetensors file"):
        parse_tensors(WEIGHTS, data)


@pytest.mark.parametrize(
    "name", ["logit_centroids", "embedding_centroids", "weights", "limit", "words", "log_odds"]
)
@pytest.mark.parametrize("shape", [[], [0], [1] * 200, [0, 1 << 62]], ids=str)
def test_a_scope_of_odd_shapes_is_refused(encoder_folder, tmp_path, name, shape):
    folder = Path(shutil.copytree(saved(encoder_folder), tmp_path / "model"))
    with_header(folder, SCOPE, lambda header: header[name].update(shape=shape))
    if (name, shape) == ("words", [0]):  # the original
        read_bundle(folder)
        return
    with pytest.raises(BundleError, match=r"out_of_scope\.safetensors"):
        read_bundle(folder)


def test_weights_far_larger_than_the_settings_say_are_refused_before_they_are_read(folder):
    with (folder / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 30)
    reseal(folder)
    refused_in_bounds(folder, "model.safetensors has 1,073,741,824 bytes")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _, tensor: tensor * np.float32(1e30), "numbers over 1e+12"),
        (
            lambda name, tensor: (
                tensor * np.float32(1e30 if name.startswith("convolution_2") else 1)
            ),
            "gives answers that are not finite",
        ),
        (
            lambda name, tensor: tensor * np.float32(1e38 if name == "logits/kernel" else 1),
            "numbers over 1e+12",
        ),
        (
            lambda name, tensor: tensor + np.float32(3e38 if name == "logits/bias" else 0),
            "numbers over 1e+12",
        ),
    ],
)
def test_weights_that_overflow_never_give_nan(folder, change, words):
    shutil.rmtree(folder / "engine")
    with_weights(folder, change)
    refused(folder, words)


# === The compiled engine ===


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda header: header["taps/scales"].update(
                shape=[1, header["taps/scales"]["shape"][0]]
            ),
            "holds 'taps/scales' of shape (1, ",
        ),
        (lambda header: header["layer_0/expand/weights"].update(dtype="U8"), "as U8; expected I8"),
        (
            lambda header: header["layer_0/expand/scales"].update(dtype="I32"),
            "as I32; expected F32",
        ),
        (
            lambda header: header.update({"taps/bias": header.pop("taps/scales")}),
            "engine.safetensors holds 'taps/bias' of shape",
        ),
        (
            lambda header: header.update(x={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
            "engine.safetensors holds 'x' of shape (0,); expected no tensor of that name",
        ),
        (lambda header: header.update(x=3), "engine.safetensors is not a safetensors file"),
    ],
)
def test_an_engine_with_other_tensors_than_the_network_has_is_not_used(
    folder, change, words, caplog
):
    with_header(folder, ENGINE, change)
    falls_back(folder, words, caplog)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a safetensors file"),
        (b'<?xml version="1.0"?><net name="a" version="11"></net>', "is not a safetensors file"),
        (safetensors.numpy.save({}), "engine.safetensors lacks"),
    ],
)
def test_an_engine_that_holds_something_else_is_not_used(folder, data, words, caplog):
    (folder / ENGINE).write_bytes(data)
    reseal(folder)
    falls_back(folder, words, caplog)


def with_engine(folder, change):
    """Change each float32 tensor of the engine."""
    tensors = safetensors.numpy.load((folder / ENGINE).read_bytes())
    changed = {
        name: change(name, tensor).astype(tensor.dtype) if tensor.dtype != np.int8 else tensor
        for name, tensor in tensors.items()
    }
    (folder / ENGINE).write_bytes(safetensors.numpy.save(changed))
    reseal(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _, tensor: tensor * np.nan, "with NaN or infinity in it"),
        (
            lambda name, tensor: tensor[::-1].copy() if name.endswith("_range") else tensor,
            "expected bounds below and above 0",
        ),
        (
            lambda name, tensor: tensor * 0 if name.endswith("_range") else tensor,
            "expected bounds below and above 0",
        ),
    ],
)
def test_an_engine_with_numbers_that_no_engine_has_is_not_used(folder, change, words, caplog):
    with_engine(folder, change)
    falls_back(folder, words, caplog)


@pytest.mark.parametrize("ending", ["/scales", "/bias"])
def test_an_engine_whose_numbers_overflow_gives_no_answer(folder, ending):
    with_engine(
        folder,
        lambda name, tensor: np.full_like(tensor, 3e38) if name.endswith(ending) else tensor,
    )
    refused(folder, "not finite")


def test_an_engine_larger_than_the_weights_of_its_model_is_not_read(folder, caplog):
    with (folder / ENGINE).open("r+b") as file:
        file.truncate(1 << 30)
    reseal(folder)
    falls_back(folder, "engine/engine.safetensors has 1,073,741,824 bytes", caplog)


def test_a_changed_engine_with_a_cached_compiled_copy_answers_as_saved(folder):
    expected = ask(folder).numbers
    with (folder / ENGINE).open("r+b") as file:
        file.write(b"\xff" * 100)
    outcome = ask(folder)  # the file is not read: the cached copy is bound to its hash
    assert (outcome.numbers, outcome.warnings) == (expected, "")
    with pytest.raises(
        BundleError, match=r"engine\.safetensors was changed after the model was saved"
    ):
        read_engine(folder, read_bundle(folder).bundle_id).read()


def test_neither_a_forged_engine_nor_weights_that_overflow_are_exported(folder, tmp_path):
    with_header(folder, ENGINE, lambda header: header["taps/scales"].update(dtype="I32"))
    with pytest.raises(BundleError, match="holds 'taps/scales' as I32; expected F32"):
        export_model(folder, "openvino", tmp_path / "out")
    with_weights(folder, lambda _, tensor: tensor * np.float32(1e30))
    with pytest.raises(BundleError, match="gives answers that are not finite"):
        export_model(folder, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# === Siblings: other folders of unknown origin ===


@pytest.mark.parametrize("shape", [[1] * 200, [0, 1 << 62], [1 << 40] * 7 + [0]], ids=str)
def test_an_encoder_with_tensors_of_odd_shapes_is_refused_in_one_line(
    encoder_folder, tmp_path, shape
):
    place = Path(shutil.copytree(encoder_folder, tmp_path / "encoder")) / WEIGHTS
    data = place.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["odd"] = {
        "dtype": "F32",
        "shape": shape,
        "data_offsets": [0, 0] if 0 in shape else [0, 4],
    }
    made_up = json.dumps(header).encode()
    place.write_bytes(struct.pack("<Q", len(made_up)) + made_up + data[end:])
    with pytest.raises(EncoderError, match=r"could not be read \("):
        read_tensors(place)


@pytest.mark.parametrize("change", [{"num_hidden_layers": 10**6}, {"vocab_size": 10**12}], ids=str)
def test_an_encoder_of_a_size_that_none_has_is_refused_at_once(encoder_folder, tmp_path, change):
    folder = Path(shutil.copytree(encoder_folder, tmp_path / "encoder"))
    (folder / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), **change})
    )
    with pytest.raises(SettingsError, match="less than or equal to"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a": [' + "[]," * 2_000_000 + "[]]}"], ids=["deep", "long"]
)
def test_an_encoder_whose_settings_are_deep_or_long_is_refused_in_one_line(
    encoder_folder, tmp_path, content
):
    folder = Path(shutil.copytree(encoder_folder, tmp_path / "encoder"))
    (folder / "config.json").write_text(content)
    with pytest.raises(EncoderError, match=r"config\.json could not be read"):
        read_checkpoint(folder)
