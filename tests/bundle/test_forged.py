"""Forged models whose hashes are all consistent.

Each is refused with a one-line error or answered by its own weights, quickly and in little memory.
"""

import json
import math
import os
import pickle
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from bertcnn import load
from bertcnn.bundle.bundle import read_bundle, write_bundle
from bertcnn.bundle.engine import read_engine
from bertcnn.bundle.schemas import SCHEMA_VERSION
from bertcnn.bundle.tensors import parse_tensors
from bertcnn.data.hierarchy import MOST_LEVELS, Hierarchy
from bertcnn.encoders.checkpoint import read_checkpoint, read_tensors
from bertcnn.errors import BundleError, EncoderError, SettingsError
from bertcnn.export.export import export_model
from bertcnn.storage.manifest import parse_json
from tests.failpoints import tiny_bundle
from tests.forging import Outcome, ask, change_json, put, replace_member, reseal
from tests.tiny import saved

MOST_MEGABYTES = 600
WEIGHTS, SCOPE = "model.safetensors", "out_of_scope.safetensors"
ENGINE = "engine/engine.safetensors"


@pytest.fixture(scope="module", autouse=True)
def _int8(cpu_with_vnni):
    """Run the saved engine."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A saved model of a few hundred bytes, without an engine; do not write to it."""
    folder = tmp_path_factory.mktemp("plain") / "model"
    write_bundle(tiny_bundle(), folder)
    return folder


@pytest.fixture
def tiny(plain, tmp_path) -> Path:
    """The small model, to be forged."""
    return Path(shutil.copytree(plain, tmp_path / "model"))


@pytest.fixture
def folder(encoder_folder, tmp_path, monkeypatch) -> Path:
    """A trained model with an int8 engine, to be forged; the cache holds nothing of it."""
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(saved(encoder_folder), tmp_path / "model"))


def refusal(folder: Path) -> str:
    """The one-line error of reading a forged model."""
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(folder: Path, words: str) -> None:
    """Assert that loading the model, or its first inference, is refused in one line."""
    with pytest.raises(BundleError, match=rf"\A[^\n]*{re.escape(words)}[^\n]*\Z"):
        load(folder).classify(["my router is dead"])


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


def made_up(data: bytes, change) -> bytes:
    """A safetensors file with another header and the same data."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    change(header)
    start = json.dumps(header).encode()
    return struct.pack("<Q", len(start)) + start + data[end:]


def with_header(folder: Path, name: str, change) -> None:
    """Change the header of a safetensors file in place; the data stays."""
    replace_member(folder, name, made_up((folder / name).read_bytes(), change))


def with_weights(folder: Path, change) -> None:
    tensors = safetensors.numpy.load((folder / WEIGHTS).read_bytes())
    changed = {name: change(name, tensor) for name, tensor in tensors.items()}
    replace_member(folder, WEIGHTS, safetensors.numpy.save(changed))


def test_the_helper_of_these_tests_forges_a_model_that_answers(folder):
    change_json(folder, "labels.json", lambda labels: [label.upper() for label in labels])
    outcome = ask(folder)
    assert (outcome.engine, outcome.error, outcome.warnings) == ("openvino-int8", "", "")
    assert finite(outcome)


# === JSON ===


SHIFT = {"temperature": 1.0, "bias": [0.0] * 3, "shares": [0.3] * 3, "rows": 5}
HELD_OUT = {"confidence": [0.5], "predicted": [1], "right": [True]}
JSON = [  # member, path, value, and what the message says
    ("config", "encoder>layers", 1_000_000, "BundleConfig.encoder.layers was '1000000'"),
    ("config", "encoder>layers", "2", "BundleConfig.encoder.layers was '2'"),
    ("config", "encoder>vocabulary_size", 10**9, "encoder.vocabulary_size was '1000000000'"),
    ("config", "encoder>width", 16_384, "model.safetensors has "),
    ("config", "encoder>layer_norm_epsilon", 1e-45, "encoder.layer_norm_epsilon was '1e-45'"),
    ("config", "encoder>loader", "x", "unknown key 'encoder.loader'"),
    ("config", "encoder>self", "x", "unknown key 'encoder.self'"),
    ("config", "head>filters", 65_536, "model.safetensors has "),
    ("config", "head>window_sizes", [2] * 100_000, "BundleConfig.head.window_sizes was"),
    ("config", "head>window_sizes", [10**9], "head.window_sizes.0 was '1000000000'"),
    ("config", "tokenizer>lowercase", 1, "BundleConfig.tokenizer.lowercase was '1'"),
    ("config", "tokenizer>max_tokens", 17, "at most the encoder's 16 positions, not 17"),
    ("config", "text_columns", ["c"] * 500_000, "BundleConfig.text_columns was"),
    ("config", "encoder_name", "x" * 5_000_000, "BundleConfig.encoder_name was"),
    ("config", "merged_labels", dict.fromkeys(map(str, range(150_000)), "a"), "merged_labels was"),
    ("config", "created_at", "yesterday", "created_at as an ISO 8601 time, not 'yesterday'"),
    ("config", "trust_remote_code", "x", "unknown key 'trust_remote_code'"),
    ("config", "self", "x", "unknown key 'self'"),
    ("calibration", "temperature", 1e-320, "Calibration.temperature was '1e-320'"),
    ("calibration", "temperature", 1e308, "Calibration.temperature was '1e+308'"),
    ("calibration", "label_thresholds", [0.5] * 500_000, "Calibration.label_thresholds was"),
    ("calibration", "fitted_on_rows", True, "Calibration.fitted_on_rows was 'True'"),
    ("calibration", "label_shift", {**SHIFT, "bias": [0.0], "shares": [1.0] * 9}, "1 and 9 labels"),
    *(
        ("calibration", "label_shift", {**SHIFT, "temperature": value}, f"was '{value}'")
        for value in (0.0, 1e-45, 1e300, True, "1.0")
    ),
    ("calibration", "trust_remote_code", "x", "unknown key 'trust_remote_code'"),
    ("decisions", "held_out>doubtful", 10**400, "Decisions.held_out.doubtful was"),
    ("decisions", "held_out>confidence", [0.5] * 200_000, "Decisions.held_out.confidence was"),
    ("decisions", "held_out", {**HELD_OUT, "predicted": [2]}, "names a label that the model does"),
    ("decisions", "held_out", {**HELD_OUT, "right": []}, "predicted and right of the same rows"),
    ("decisions", "reachable", "0.9", "Decisions.reachable was '0.9'"),
    ("decisions", "thresholds", [0.5] * 500_000, "Decisions.thresholds was"),
    ("decisions", "thresholds", [0.5], "holds 1 thresholds; expected one for each of the 2"),
    ("decisions", "thresholds", [0.5, 1.5], "thresholds.1 was '1.5'"),
    ("decisions", "trust_remote_code", "x", "unknown key 'trust_remote_code'"),
    ("metrics", "macro_f1", 1e300, "Metrics.macro_f1 was '1e+300'"),
]


@pytest.mark.parametrize(("name", "path", "value", "words"), JSON)
def test_json_values_that_no_model_has_are_refused(tiny, name, path, value, words):
    change_json(tiny, f"{name}.json", put(path, value))
    message = refusal(tiny)
    assert words in message
    assert f"{name}.json" in message or words == "model.safetensors has "


@pytest.mark.parametrize("name", ["config", "calibration", "decisions", "metrics"])
@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0])
def test_another_schema_version_is_refused(tiny, name, version):
    newer = {"schema_version": version, "something_new": 1}
    change_json(tiny, f"{name}.json", lambda value: {**value, **newer})
    assert refusal(tiny).startswith(
        f"{name}.json has schema version {version}: another version of bertcnn wrote it; expected"
        f" schema version {SCHEMA_VERSION}. What to do: use the version of bertcnn that wrote it"
    )


def test_metrics_may_have_keys_of_later_versions(tiny):
    change_json(tiny, "metrics.json", lambda _: {"accuracy": 0.9, "auroc": 0.8})
    assert read_bundle(tiny).metrics == {"accuracy": 0.9, "auroc": 0.8}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b'{"a": 1, "a": 2}', "the key 'a' occurs twice", id="twice"),
        pytest.param(b'{"a": NaN}', "is not usable JSON", id="nan"),
        pytest.param(b'{"a": 1e999}', "is not usable JSON", id="infinity"),
        pytest.param(b'{"a": "\\ud800"}', "is not usable JSON", id="surrogate"),
        pytest.param(b"[" * 100_000, "is not usable JSON", id="tower"),
        pytest.param(b'{"a": ' + b"1" * 5000 + b"}", "is not usable JSON", id="long number"),
        pytest.param(b"\xff\xfe{}", "is not usable JSON", id="utf-16"),
        pytest.param(b"", "is not usable JSON", id="empty"),
        pytest.param(b"[]", "a JSON object", id="list"),
    ],
)
def test_ambiguous_or_invalid_json_is_refused(tiny, data, words):
    for name in ("config.json", "metrics.json"):
        whole = (tiny / name).read_bytes()
        replace_member(tiny, name, data)
        message = refusal(tiny)
        replace_member(tiny, name, whole)
        assert name in message
        assert words in message


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
    replace_member(folder, "metrics.json", data())
    refused_in_bounds(folder, f"metrics.json is not usable JSON ({words})")


def test_brackets_inside_strings_are_not_counted_as_values():
    strings = ["[" * 100_000, "\\" * 9, "\\\\" * 10_001, '"{', "é\u2028", 1.5e300, -1e-320]
    for ascii_only in (False, True):
        text = json.dumps({'[[["\\"': strings}, ensure_ascii=ascii_only)
        assert parse_json("a.json", text.encode()) == json.loads(text)


def test_labels_have_at_most_sixteen_levels():
    deep = [" > ".join([*map(str, range(10_000)), end]) for end in "ab"]
    hierarchy = Hierarchy.of(deep)
    assert len(hierarchy.levels) == MOST_LEVELS
    assert hierarchy.parents[-1] == "0"
    assert hierarchy.parents[0] == " > ".join(map(str, range(MOST_LEVELS)))


# === Labels and vocabulary ===


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a"], "1 labels, 1 of them different"),
        (["a", "a"], "2 labels, 1 of them different"),
        (["a", " "], "not blank"),
        (["a", 1], "not blank"),
        ({"a": "b"}, "not blank"),
        ({"labels": ["a", "b"]}, "labels.json holds something other than labels"),
        (["x" * 15_000_000, "a"], "labels of up to 15,000,000 characters"),
        ([" > ".join(["level"] * 20_000), "a"], "labels of up to 159,997 characters"),
        ([str(number) for number in range(1_000_000)], "holds 1,000,000 labels"),
    ],
)
def test_labels_are_at_least_two_different_short_texts(tiny, labels, words):
    change_json(tiny, "labels.json", lambda _: labels)
    assert words in refusal(tiny)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrouter\n",
            "holds 5 WordPieces; expected the encoder's vocabulary size of 6",
        ),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrouter\nrouter\n", "holds a WordPiece twice"),
        (b"[PAD]\n[UNK]\n[CLS]\n[MASK]\nrouter\n##s\n", "lacks [SEP]"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n\n##s\n", "holds an empty WordPiece"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrouter\n##s", "does not end with a line break"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\nrouter\n\xff\n", "is not UTF-8 text"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(tiny, data, words):
    replace_member(tiny, "vocab.txt", data)
    assert words in refusal(tiny)


def test_a_vocabulary_of_empty_lines_is_counted_before_it_is_split(folder):
    replace_member(folder, "vocab.txt", b"\n" * 30_000_000)
    refused_in_bounds(folder, "vocab.txt holds 30,000,000 WordPieces")


# === Tensors ===


def tensor(*shape, at=(0, 0)):
    return {"dtype": "F32", "shape": list(shape), "data_offsets": list(at)}


FAR = 1 << 62


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("logits/bias>shape", [1] * 199 + [2], "TensorRecord.shape was"),
        ("logits/bias>shape", [], "'logits/bias' of shape () at the bytes"),
        ("logits/bias>shape", [2, 1], "of shape (2, 1); expected the shape (2,)"),
        ("logits/bias>shape", [-2], "TensorRecord.shape.0 was '-2'"),
        ("logits/bias>shape", "2", "TensorRecord.shape was '2'"),
        ("logits/bias>shape", [True], "TensorRecord.shape.0 was 'True'"),
        ("logits/bias>data_offsets", [0, 8], "of shape (3,) at the bytes (0, 12), where 8 to 20"),
        ("logits/bias>data_offsets", [FAR, FAR + 8], "TensorRecord.data_offsets.0 was"),
        ("logits/bias>dtype", "F4", "of the unknown type 'F4'"),
        ("x", tensor(0, FAR), "TensorRecord.shape.1 was"),
        ("x", tensor(0, 7), "holds 'x' of shape (0, 7)"),
        ("x", tensor(*[1 << 40] * 7, 0), "too large for any memory"),
        ("x", 3, "is not a safetensors file"),
        ("__metadata__", {"row": "my router is dead"}, "the unknown key '__metadata__'"),
        ("logits/bias", None, "is not a safetensors file"),
    ],
)
def test_tensors_of_odd_shapes_are_refused_without_an_error_of_numpy(tiny, path, value, words):
    with_header(tiny, WEIGHTS, put(path, value))
    assert f"{WEIGHTS} " in refusal(tiny)
    assert words in refusal(tiny)


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        *(
            (np.array([1, bad], np.float32), "holds 'logits/bias' with NaN or infinity in it")
            for bad in (np.nan, np.inf, -np.inf)
        ),
        (np.array([1, 2, 3, 4], np.float16), "holds 'logits/bias' as F16"),
    ],
)
def test_weights_that_are_not_finite_or_not_float32_are_refused(tiny, bias, words):
    with_weights(tiny, lambda name, tensor: bias if name == "logits/bias" else tensor)
    assert f"model.safetensors {words}" in refusal(tiny)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("limit", np.array([np.inf], np.float32), "holds 'limit' with NaN or infinity in it"),
        ("embedding_centroids", np.full((1, 4), np.nan, np.float32), "with NaN or infinity in it"),
        ("embedding_centroids", np.eye(4), "as F64; expected F32"),
        ("embedding_centroids", np.eye(3, dtype=np.float32), "(3, 3); expected rows of 4 numbers"),
        ("logit_centroids", np.eye(5, dtype=np.float32), "(5, 5); expected rows of 2 numbers"),
        ("rows", np.zeros(1, np.float32), "lacks 'rows' or should not have it"),
    ],
)
def test_a_forged_scope_is_refused(tiny, name, value, words):
    tensors = {**tiny_bundle().scope.tensors(), name: value}
    replace_member(tiny, SCOPE, safetensors.numpy.save(tensors))
    assert refusal(tiny).startswith(f"{SCOPE} ")
    assert words in refusal(tiny)


@pytest.mark.parametrize(
    "name", ["logit_centroids", "embedding_centroids", "weights", "limit", "words", "log_odds"]
)
@pytest.mark.parametrize("shape", [[], [0], [1] * 200, [0, 1 << 62]], ids=str)
def test_a_scope_of_odd_shapes_is_refused(tiny, name, shape):
    with_header(tiny, SCOPE, lambda header: header[name].update(shape=shape))
    assert SCOPE in refusal(tiny)


def test_text_beside_the_tensors_of_the_scope_is_refused(tiny):
    with_header(tiny, SCOPE, put("__metadata__", {"row": "my router is dead"}))
    assert f"{SCOPE} holds the unknown key '__metadata__'" in refusal(tiny)


class _Runs:
    def __reduce__(self):
        return (os.mkdir, (str(_Runs.place),))


def test_a_pickle_under_the_name_of_the_weights_is_refused_and_never_opened(tiny, tmp_path):
    _Runs.place = tmp_path / "pickle was here"
    data = pickle.dumps(_Runs()).ljust((tiny / WEIGHTS).stat().st_size, b".")
    replace_member(tiny, WEIGHTS, data)
    assert "model.safetensors is not a safetensors file" in refusal(tiny)
    assert not _Runs.place.exists()
    pickle.loads(data)  # noqa: S301 - shows that it would have run
    assert _Runs.place.exists()


def test_a_hundred_thousand_empty_tensors_are_refused():
    header = json.dumps({f"t{number}": tensor(0) for number in range(100_000)}).encode()
    with pytest.raises(BundleError, match="more than 65,536 tensors"):
        parse_tensors(WEIGHTS, struct.pack("<Q", len(header)) + header)


@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 100, b"\x02" + bytes(7) + b"[]", b"\x02" + bytes(7) + b"{", bytes(8)]
)
def test_an_invalid_safetensors_file_is_a_one_line_error(data):
    with pytest.raises(BundleError, match="is not a safetensors file"):
        parse_tensors(WEIGHTS, data)


def test_weights_far_larger_than_the_settings_say_are_refused_before_they_are_read(folder):
    with (folder / WEIGHTS).open("r+b") as file:
        file.truncate(1 << 30)
    reseal(folder)
    refused_in_bounds(folder, "model.safetensors has 1,073,741,824 bytes")


@pytest.mark.parametrize(
    ("layer", "factor", "words"),
    [
        ("", 1e30, "numbers over 1e+12"),
        ("convolution_2", 1e30, "gives answers that are not finite"),
        ("logits/kernel", 1e38, "numbers over 1e+12"),
    ],
)
def test_weights_that_overflow_never_give_nan(folder, layer, factor, words):
    shutil.rmtree(folder / "engine")
    with_weights(
        folder,
        lambda name, tensor: tensor * np.float32(factor if name.startswith(layer) else 1),
    )
    refused(folder, words)


# === The compiled engine ===


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("taps/scales>shape", [1, 144], "holds 'taps/scales' of shape (1, "),
        ("layer_0/expand/weights>dtype", "U8", "as U8; expected I8"),
        ("layer_0/expand/scales>dtype", "I32", "as I32; expected F32"),
        ("x", tensor(0), "holds 'x' of shape (0,); expected no tensor of that name"),
        ("x", 3, "engine.safetensors is not a safetensors file"),
    ],
)
def test_an_engine_with_other_tensors_than_the_network_has_is_not_used(
    folder, path, value, words, caplog
):
    with_header(folder, ENGINE, put(path, value))
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
    replace_member(folder, ENGINE, data)
    falls_back(folder, words, caplog)


def with_engine(folder, change):
    """Change each float32 tensor of the engine."""
    tensors = safetensors.numpy.load((folder / ENGINE).read_bytes())
    changed = {
        name: change(name, tensor).astype(tensor.dtype) if tensor.dtype != np.int8 else tensor
        for name, tensor in tensors.items()
    }
    replace_member(folder, ENGINE, safetensors.numpy.save(changed))


@pytest.mark.parametrize(
    ("ending", "factor", "words"),
    [
        ("", np.nan, "with NaN or infinity in it"),
        ("_range", -1, "expected bounds below and above 0"),
        ("_range", 0, "expected bounds below and above 0"),
    ],
)
def test_an_engine_with_numbers_that_no_engine_has_is_not_used(
    folder, ending, factor, words, caplog
):
    with_engine(folder, lambda name, tensor: tensor * factor if name.endswith(ending) else tensor)
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
    with pytest.raises(BundleError, match=r"engine\.safetensors was changed after the model was"):
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
    data = (encoder_folder / WEIGHTS).read_bytes()
    odd = tensor(*shape, at=(0, 0 if 0 in shape else 4))
    (tmp_path / WEIGHTS).write_bytes(made_up(data, put("odd", odd)))
    with pytest.raises(EncoderError, match=r"could not be read \("):
        read_tensors(tmp_path / WEIGHTS)


def with_config(encoder_folder, tmp_path, content):
    """A copy of the encoder with these settings."""
    folder = Path(shutil.copytree(encoder_folder, tmp_path / "encoder"))
    (folder / "config.json").write_text(content)
    return folder


@pytest.mark.parametrize("change", [{"num_hidden_layers": 10**6}, {"vocab_size": 10**12}], ids=str)
def test_an_encoder_of_a_size_that_none_has_is_refused_at_once(encoder_folder, tmp_path, change):
    config = json.loads((encoder_folder / "config.json").read_text())
    folder = with_config(encoder_folder, tmp_path, json.dumps({**config, **change}))
    with pytest.raises(SettingsError, match="less than or equal to"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"a": [' + "[]," * 2_000_000 + "[]]}"], ids=["deep", "long"]
)
def test_an_encoder_whose_settings_are_deep_or_long_is_refused_in_one_line(
    encoder_folder, tmp_path, content
):
    with pytest.raises(EncoderError, match=r"config\.json could not be read"):
        read_checkpoint(with_config(encoder_folder, tmp_path, content))
