import dataclasses
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from bertcnn.bundle.bundle import (
    MEMBERS,
    Bundle,
    check_bundle_target,
    check_room_for_labels,
    read_bundle,
    read_config,
    write_bundle,
)
from bertcnn.bundle.schemas import SCHEMA_VERSION, Decisions
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.errors import BundleError, LabelError, OutputError
from bertcnn.storage.folders import work_folder
from bertcnn.storage.manifest import MANIFEST, canonical_json
from tests.failpoints import tiny_bundle

FAILPOINTS = Path(__file__).parent.parent / "failpoints.py"
NAMES = sorted([MANIFEST, *(member.name for member in MEMBERS)])


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    return tiny_bundle()


@pytest.fixture(scope="session")
def saved(bundle, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("saved") / "model"
    write_bundle(bundle, place)
    return place


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A saved model to damage; a copy, since syncing each save to disk takes most of the time."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture
def memory_disk(tmp_path) -> Iterator[Path]:
    """A folder where fsync is free, if the system has one: hundreds of saves are killed there."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


def forge(folder: Path, **members: bytes | None) -> None:
    """Change members (dots as `__`) and update all hashes, as a forger would."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    for key, data in members.items():
        name = key.replace("__", ".")
        (folder / name).write_bytes(data)
        manifest["members"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    write_manifest(folder, manifest)


def forge_json(folder: Path, name: str, change: dict) -> None:
    """Change keys of a JSON member, or of the manifest; slashes lead into objects."""
    value = json.loads((folder / name).read_bytes())
    for path, new in change.items():
        *above, key = path.split("/")
        inner = value
        for step in above:
            inner = inner[step]
        inner[key] = new
    if name == MANIFEST:
        write_manifest(folder, value)
    else:
        forge(folder, **{name.replace(".", "__"): canonical_json(value)})


def weights(bundle: Bundle, bias: np.ndarray) -> bytes:
    """The model's weights with another bias in the last layer."""
    return safetensors.numpy.save({**bundle.tensors, "logits/bias": bias})


def write_manifest(folder: Path, manifest: dict) -> None:
    manifest.pop("bundle_id", None)
    manifest["bundle_id"] = hashlib.sha256(canonical_json(manifest)).hexdigest()
    (folder / MANIFEST).write_bytes(canonical_json(manifest))


def refusal(folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    return str(caught.value)


def crash(scenario: str, folder: Path) -> list[dict]:
    finished = subprocess.run(
        [sys.executable, FAILPOINTS, scenario, folder], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


# === Round trip ===


def test_a_model_comes_back_bit_for_bit(bundle, tmp_path):
    odd = {
        "layer_0/expand/kernel": np.arange(32, dtype=np.float32).reshape(8, 4).T,
        "logits/bias": np.array([1e-45, 3e38], np.float32),
        "layer_0/attention/query/bias": np.array([0.0, -0.0, -3e38, 1], np.float32),
    }
    bundle = dataclasses.replace(bundle, tensors={**bundle.tensors, **odd})
    bundle_id = write_bundle(bundle, tmp_path / "models" / "triage")
    found = read_bundle(tmp_path / "models" / "triage")
    assert found.bundle_id == bundle_id
    for part in dataclasses.fields(Bundle):
        if part.name not in ("tensors", "scope", "bundle_id"):
            assert getattr(found, part.name) == getattr(bundle, part.name), part.name
    for again, given in (
        (found.tensors, bundle.tensors),
        (found.scope.tensors(), bundle.scope.tensors()),
    ):
        assert again.keys() == given.keys()
        for name, tensor in given.items():
            assert again[name].dtype == np.float32
            assert again[name].tobytes() == tensor.tobytes()
            assert again[name].shape == tensor.shape


def test_saving_the_same_model_twice_gives_the_same_bytes(bundle, folder, tmp_path):
    assert write_bundle(bundle, tmp_path / "again") == read_bundle(folder).bundle_id
    for place in (folder, tmp_path / "again"):
        assert sorted(path.name for path in place.iterdir()) == NAMES
    for name in NAMES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_the_configuration_can_be_read_alone_and_other_files_only_have_their_length(bundle, folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert read_config(folder) == bundle.config
    for path in (weights, folder / "config.json"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(BundleError, match=rf"{path.name} was changed after .*: it has [\d,]+"):
            read_config(folder)
        path.write_bytes(whole)


def test_labels_and_pieces_may_hold_any_text_but_line_breaks_in_pieces(bundle, tmp_path):
    widened = {
        name: np.zeros((*bundle.tensors[name].shape[:-1], 5), np.float32)
        for name in ("logits/kernel", "logits/bias")
    }
    odd = dataclasses.replace(
        bundle,
        labels=("NA", "null", "a\nb", "“ü”", "😀"),
        vocabulary=(*bundle.vocabulary[:4], "\u2028", "\x85"),
        decisions=Decisions(),
        scope=OutOfScopeDetector(),
        tensors={**bundle.tensors, **widened},
    )
    write_bundle(odd, tmp_path / "model")
    found = read_bundle(tmp_path / "model")
    assert (found.labels, found.vocabulary) == (odd.labels, odd.vocabulary)


# === Tampering ===


@pytest.mark.parametrize("name", NAMES)
def test_a_flip_of_any_byte_is_noticed_and_the_file_is_named(folder, name):
    path = folder / name
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= (0x01, 0x20)[place % 2]  # the second one changes the case of letters
        path.write_bytes(changed)
        assert name in refusal(folder), f"byte {place}"
    path.write_bytes(whole)
    read_bundle(folder)


@pytest.mark.parametrize("name", NAMES)
def test_another_length_is_noticed(folder, name):
    whole = (folder / name).read_bytes()
    for data in (whole[:-1], whole + b" ", b""):
        (folder / name).write_bytes(data)
        assert name in refusal(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert (
        f"it has no {name}"
        if name == MANIFEST
        else f"{name} was changed after the model was saved: it is missing"
    ) in refusal(folder)


def test_other_files_in_the_folder_are_left_alone(bundle, folder):
    for name in (".DS_Store", "._config.json", ".nfs0001", "README.md", "evil.py"):
        (folder / name).write_bytes(b"\0\xff")
    (folder / ".git").mkdir(mode=0)
    os.mkfifo(folder / "pipe")
    (folder / "..data").symlink_to("nowhere")
    assert read_bundle(folder).labels == bundle.labels
    assert read_config(folder) == bundle.config


def linked_one_by_one(folder: Path) -> Path:
    """Like the Hugging Face cache: snapshots/REVISION/config.json -> ../../blobs/SHA."""
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for path in list(folder.iterdir()):
        path.rename(blobs / path.name[::-1])
        path.symlink_to(f"../blobs/{path.name[::-1]}")
    return folder


def linked_as_a_volume(folder: Path) -> Path:
    """Like a volume mounted by Kubernetes: config.json -> ..data/config.json, ..data -> ..2026."""
    (folder / "..2026").mkdir()
    (folder / "..data").symlink_to("..2026")
    for path in [path for path in folder.iterdir() if not path.name.startswith("..")]:
        path.rename(folder / "..2026" / path.name)
        path.symlink_to(f"..data/{path.name}")
    return folder


def linked_as_a_whole(folder: Path) -> Path:
    (folder.parent / "current").symlink_to(folder)
    return folder.parent / "current"


@pytest.mark.parametrize("link", [linked_one_by_one, linked_as_a_volume, linked_as_a_whole])
def test_links_are_followed_and_what_they_lead_to_is_checked(bundle, folder, link):
    folder = link(folder)
    assert read_bundle(folder).labels == bundle.labels
    assert read_config(folder) == bundle.config
    labels = (folder / "labels.json").read_bytes()
    (folder / "labels.json").write_bytes(labels.replace(b"billing", b"filling"))
    assert "labels.json was changed after the model was saved: its content is" in refusal(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["/dev/zero", "/dev/tty", "nowhere", "itself", "pipe", "."])
def test_a_link_to_no_file_is_refused(folder, name, target):
    os.mkfifo(folder / "pipe")
    (folder / name).unlink()
    (folder / name).symlink_to(name if target == "itself" else target)
    message = refusal(folder)
    words = (
        "is a link that leads to no file (",
        "was changed after the model was saved: it is not",
    )
    assert any(f"{name} {part}" in message for part in words)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_or_a_pipe_in_a_files_place_is_refused(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert name in refusal(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    assert name in refusal(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_pointer_of_git_lfs_is_called_by_its_name(folder, name):
    (folder / name).write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    )
    message = refusal(folder)
    assert message.startswith(f"{name} was changed after the model was saved: it ")
    assert (
        "a pointer of Git LFS in place of the file, which git lfs pull fetches; expected" in message
    )


# === Forgery: all hashes fit ===


def test_the_forger_of_these_tests_can_make_a_readable_model(folder):
    before = read_bundle(folder).bundle_id
    forge(folder, MODEL_CARD__md=b"another")
    assert read_bundle(folder).model_card == "another"
    assert read_bundle(folder).bundle_id != before


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("config.json", "trust_remote_code"),
        ("config.json", "encoder/loader"),
        ("config.json", "self"),
        ("config.json", "encoder/self"),
        ("calibration.json", "trust_remote_code"),
        ("decisions.json", "trust_remote_code"),
        (MANIFEST, "signed_by"),
        (MANIFEST, "members/labels.json/url"),
    ],
)
def test_an_unknown_key_is_refused_by_its_name(folder, name, key):
    forge_json(folder, name, {key: "http://example.org"})
    message = refusal(folder)
    assert name in message
    assert f"unknown key '{key.replace('/', '.')}'" in message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("thresholds", [0.5], "holds 1 thresholds; expected one for each of the 2 labels"),
        ("thresholds", [0.5, 1.5], "thresholds.1 was '1.5'"),
        (
            "held_out",
            {"confidence": [0.5], "predicted": [2], "right": [True]},
            "names a label that the model does not have",
        ),
        (
            "held_out",
            {"confidence": [0.5], "predicted": [1], "right": []},
            "confidence, predicted and right of the same rows",
        ),
    ],
)
def test_decisions_that_do_not_fit_the_model_are_refused(folder, key, value, words):
    forge_json(folder, "decisions.json", {key: value})
    message = refusal(folder)
    assert "decisions.json" in message
    assert words in message


def test_metrics_may_have_keys_of_later_versions(folder):
    forge(folder, metrics__json=canonical_json({"accuracy": 0.9, "auroc": 0.8}))
    assert read_bundle(folder).metrics == {"accuracy": 0.9, "auroc": 0.8}


def test_a_manifest_lists_the_members_and_no_others(folder):
    (folder / "evil.py").write_bytes(b"1")
    forge(folder, evil__py=b"1")
    assert "lists other members than a model has ('evil.py')" in refusal(folder)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    for name in ("evil.py", "labels.json"):
        del manifest["members"][name]
    write_manifest(folder, manifest)
    assert "lists other members than a model has ('labels.json')" in refusal(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "calibration.json", "decisions.json", "metrics.json", MANIFEST]
)
@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0])
def test_another_schema_version_is_refused_as_such(folder, name, version):
    forge_json(folder, name, {"schema_version": version, "something_new": 1})
    assert refusal(folder).startswith(
        f"{name} has schema version {version}: another version of bertcnn wrote it; expected schema"
        f" version {SCHEMA_VERSION}. What to do: use the version of bertcnn that wrote it"
    )


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
@pytest.mark.parametrize("name", ["config.json", "metrics.json"])
def test_json_that_means_two_things_or_nothing_is_refused(folder, name, data, words):
    forge(folder, **{name.replace(".", "__"): data})
    message = refusal(folder)
    assert name in message
    assert words in message


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a"], "1 labels, 1 of them different"),
        (["a", "a"], "2 labels, 1 of them different"),
        (["a", " "], "not blank"),
        (["a", 1], "not blank"),
        ({"a": "b"}, "not blank"),
        ({"labels": ["a", "b"]}, "labels.json holds something other than labels"),
    ],
)
def test_labels_are_at_least_two_different_texts(folder, labels, words):
    forge(folder, labels__json=canonical_json(labels))
    assert words in refusal(folder)


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
def test_a_vocabulary_that_does_not_fit_is_refused(folder, data, words):
    forge(folder, vocab__txt=data)
    assert words in refusal(folder)


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
def test_weights_that_are_not_finite_or_not_float32_are_refused(bundle, folder, bias, words):
    forge(folder, model__safetensors=weights(bundle, bias))
    assert f"model.safetensors {words}" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("limit", np.array([np.inf], np.float32), "holds 'limit' with NaN or infinity in it"),
        ("embedding_centroids", np.full((1, 4), np.nan, np.float32), "with NaN or infinity in it"),
        ("embedding_centroids", np.eye(4), "as F64; expected F32"),
        ("embedding_centroids", np.eye(3, dtype=np.float32), "(3, 3); expected rows of 4 numbers"),
        ("logit_centroids", np.eye(5, dtype=np.float32), "(5, 5); expected rows of 2 numbers"),
        ("rows", np.zeros(1, np.float32), "lacks 'rows' or should not have it"),
    ],
)
def test_a_scope_that_was_made_up_is_refused(bundle, folder, name, tensor, words):
    tensors = {**bundle.scope.tensors(), name: tensor}
    forge(folder, out_of_scope__safetensors=safetensors.numpy.save(tensors))
    message = refusal(folder)
    assert message.startswith("out_of_scope.safetensors ")
    assert words in message


@pytest.mark.parametrize("name", ["out_of_scope", "model"])
def test_words_hidden_beside_tensors_are_refused(bundle, folder, name):
    tensors = bundle.tensors if name == "model" else bundle.scope.tensors()
    data = safetensors.numpy.save(dict(tensors), metadata={"row": "my router is dead"})
    forge(folder, **{f"{name}__safetensors": data})
    assert f"{name}.safetensors holds the unknown key '__metadata__'" in refusal(folder)


class _Runs:
    def __reduce__(self):
        return (os.mkdir, (str(_Runs.place),))


def test_a_pickle_under_the_name_of_the_weights_is_refused_and_never_opened(folder, tmp_path):
    _Runs.place = tmp_path / "pickle was here"
    size = (folder / "model.safetensors").stat().st_size
    data = pickle.dumps(_Runs()).ljust(size, b".")
    forge(folder, model__safetensors=data)
    assert "model.safetensors is not a safetensors file" in refusal(folder)
    assert not _Runs.place.exists()
    pickle.loads(data)  # noqa: S301 - shows that it would have run
    assert _Runs.place.exists()


def test_a_file_over_our_limit_is_refused_before_it_is_read(folder):
    with (folder / MANIFEST).open("r+b") as file:
        file.truncate(1 << 40)
    assert "manifest.json has 1,099,511,627,776 bytes; expected at most 65,536" in refusal(folder)


def test_settings_that_contradict_each_other_are_refused(folder):
    forge_json(folder, "config.json", {"created_at": "yesterday"})
    assert "expected created_at as an ISO 8601 time, not 'yesterday'" in refusal(folder)
    forge_json(folder, "config.json", {"tokenizer/max_tokens": 17})
    assert "max_tokens of at most the encoder's 16 positions, not 17" in refusal(folder)


# === Not a model folder ===


def test_each_kind_of_place_that_is_no_model_has_its_own_message(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tickets.csv").touch()
    for name, words in [
        ("missing", "does not exist"),
        ("file/model", "does not exist"),
        ("file", "is a file"),
        ("empty", "is an empty folder"),
        ("other", "is not a model: it has no manifest.json (it holds 'tickets.csv')"),
    ]:
        told = f"{tmp_path / name} {words}; expected a folder saved by bertcnn. What to do: give"
        assert refusal(tmp_path / name).startswith(told)
        with pytest.raises(BundleError, match=re.escape(told)):
            read_config(tmp_path / name)
    assert refusal("a\0b").startswith("'a\\x00b' is not a valid folder path; expected a folder")
    (tmp_path / "other" / "manifest.json").write_text('{"format": "web app"}')
    assert "manifest.json is not that of a bertcnn model" in refusal(tmp_path / "other")


# === What is not saved ===


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tensors": {"a": np.array([np.nan], np.float32)}}, "holds 'a' with NaN"),
        ({"tensors": {"a": np.array([1.0])}}, "holds 'a' as float64; expected float32"),
        ({"tensors": {}}, "holds no tensor"),
        (
            {
                "scope": OutOfScopeDetector(
                    *(np.eye(3, dtype=np.float32),) * 2, np.ones(4, np.float32)
                )
            },
            "logit_centroids of shape (3, 3)",
        ),
        ({"labels": ("a", "a")}, "2 labels, 1 of them different"),
        ({"labels": ("a", "\ud800")}, "cannot be saved"),
        ({"vocabulary": ("[PAD]",)}, "holds 1 WordPieces"),
        ({"metrics": {"accuracy": float("nan")}}, "Metrics.accuracy was 'nan'"),
        ({"metrics": {"accuracy": np.float32(1)}}, "cannot be saved"),
    ],
)
def test_a_model_that_could_not_be_read_again_is_not_saved(bundle, tmp_path, change, words):
    with pytest.raises(BundleError) as caught:
        write_bundle(dataclasses.replace(bundle, **change), tmp_path / "model")
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_labels_without_room_in_a_model_are_refused_before_the_training(bundle):
    check_room_for_labels(bundle.labels)
    check_room_for_labels([f"{number:09} a long name of a label" for number in range(100_000)])
    for labels, words in (
        ([f"{number:03}" + 40_000 * "é" for number in range(300)], "at most 16,777,216 bytes"),
        (["a", "b" * 65_537], "at most 100,000 labels of 65,536 characters"),
        (list(map(str, range(100_001))), "at most 100,000 labels of 65,536 characters"),
    ):
        with pytest.raises(LabelError, match=f"expected {words}"):
            check_room_for_labels(labels)


# === Places to save ===


def test_a_model_is_overwritten_only_on_request(bundle, folder):
    other = dataclasses.replace(bundle, labels=("a", "b"))
    for act in (lambda: check_bundle_target(folder, False), lambda: write_bundle(other, folder)):
        with pytest.raises(OutputError, match=r"holds a saved model already.*--force"):
            act()
    assert read_bundle(folder).labels == bundle.labels
    check_bundle_target(folder, True)
    write_bundle(other, folder, overwrite=True)
    assert read_bundle(folder).labels == other.labels
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("name", [".DS_Store", "._labels.json", "Thumbs.db", "@eaDir"])
def test_system_files_do_not_keep_a_model_from_being_overwritten(bundle, folder, tmp_path, name):
    (tmp_path / "new").mkdir()
    for place in (folder, tmp_path / "new"):
        (place / name).mkdir() if name == "@eaDir" else (place / name).touch()
    write_bundle(bundle, folder, overwrite=True)
    write_bundle(bundle, tmp_path / "new")
    for place in (folder, tmp_path / "new"):
        assert sorted(path.name for path in place.iterdir()) == NAMES


def test_links_and_damaged_models_can_be_overwritten(bundle, folder):
    linked_one_by_one(folder)
    (folder / "labels.json").unlink()
    current = linked_as_a_whole(folder)
    write_bundle(dataclasses.replace(bundle, labels=("a", "b")), current, overwrite=True)
    assert current.is_symlink()
    assert read_bundle(current).labels == read_bundle(folder).labels == ("a", "b")
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert len(list((folder.parent / "blobs").iterdir())) == len(NAMES)


def test_what_is_no_model_is_never_overwritten(bundle, folder, tmp_path):
    for kept in ("photos/cat.png", "file", "site/manifest.json", "model/notes.txt"):
        (tmp_path / kept).parent.mkdir(exist_ok=True)
        (tmp_path / kept).write_text("{}")
    for name, words in [
        ("photos", "holds 'cat.png', which is no part of a model"),
        ("file", "file is a file"),
        ("site", "is not a saved model"),
        ("model", "holds 'notes.txt', which is no part of a model"),
        ("file/model", "file is a file"),
    ]:
        with pytest.raises(OutputError, match=words):
            check_bundle_target(tmp_path / name, True)
        with pytest.raises(OutputError, match=words):
            write_bundle(bundle, tmp_path / name, overwrite=True)
    assert (tmp_path / "photos" / "cat.png").exists()
    assert (folder / "notes.txt").exists()
    assert (tmp_path / "file").is_file()


@pytest.mark.parametrize(
    "place", ["/proc/model", "/proc/models/triage", "{tmp_path}/" + "x" * 256, "a\0b"]
)
def test_a_place_that_cannot_be_written_is_refused_before_the_training_even_for_root(
    bundle, tmp_path, place
):
    place = place.format(tmp_path=tmp_path)
    message = r"^[^\n]*(cannot be written \(|is not a valid folder path|is too long)[^\n]*$"
    with pytest.raises(OutputError, match=message):
        check_bundle_target(place, False)
    with pytest.raises(OutputError, match=message):
        write_bundle(bundle, place)
    check_bundle_target(tmp_path / "models" / "triage", False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_arrives_during_the_save_is_not_lost(bundle, folder):
    class Arrives(dict):
        def items(self):
            (folder / "notes.txt").touch()
            return super().items()

    with pytest.raises(OutputError, match=r"holds 'notes\.txt', which is no part of a model"):
        write_bundle(
            dataclasses.replace(bundle, tensors=Arrives(bundle.tensors)), folder, overwrite=True
        )
    assert (folder / "notes.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_the_saved_folder_has_the_rights_that_new_files_get(bundle, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "model").mkdir()  # an empty folder may be filled
    write_bundle(bundle, tmp_path / "model")
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


# === Crashes ===


@pytest.mark.parametrize("scenario", ["first", "over", "over-two-renames", "first-two-renames"])
def test_a_save_killed_at_any_step_leaves_the_old_model_or_the_new_one(memory_disk, scenario):
    outcomes = crash(scenario, memory_disk / "place")
    old = "TARGET does not exist" if scenario.startswith("first") else "old"
    found = [outcome["found"] for outcome in outcomes]
    assert len(found) > 40  # 8 files, each opened, written, synced and closed, and more
    assert set(found) == {old, "new"}
    assert found == sorted(found, key=lambda what: what == "new")  # first only old, then only new
    assert {outcome["after"] for outcome in outcomes} == {"new"}
    assert all(outcome["left"] == ["model"] for outcome in outcomes), (
        "the next save clears what killed ones left"
    )


def test_everything_is_on_the_disk_before_it_is_put_in_place(bundle, folder, monkeypatch):
    opened, events = {}, []

    def watch(name, note):
        real = getattr(os, name)

        def watched(*arguments, **options):
            result = real(*arguments, **options)
            note(result, *arguments)
            return result

        monkeypatch.setattr(os, name, watched)

    watch(
        "open",
        lambda result, path, *_, **__: opened.__setitem__(
            result, Path(path).name if not isinstance(path, int) else path
        ),
    )
    watch("fsync", lambda _, handle: events.append(opened[handle]))
    sys.addaudithook(lambda event, _: events.append(event) if event == "bertcnn.exchange" else None)
    write_bundle(bundle, folder, overwrite=True)
    moved = events.index("bertcnn.exchange")
    assert sorted(events[:moved]) == sorted([*NAMES, "new"])
    assert events[:moved][-1] == "new"
    assert events[moved + 1 :] == [folder.parent.name]


def test_a_full_disk_leaves_the_old_model_and_no_rest(tmp_path):
    over, first = crash("full", tmp_path / "place")
    for outcome, name in ((over, "model"), (first, "other")):
        assert (
            f"OutputError: no space left to write {tmp_path / 'place' / name}; expected room on the"
            " disk" in outcome["error"]
        )
        assert outcome["found"] == "old"
        assert outcome["left"] == ["model"]


def test_places_without_rights_are_reported_in_one_line():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        errors = [outcome["error"] for outcome in crash("closed", Path(place) / "place")]
        (Path(place) / "place" / "closed").chmod(0o755)
    for error in errors[:2]:
        assert re.match("OutputError: .* cannot be written .permission denied.", error)
    assert re.match("BundleError: .* cannot be read .Permission denied.", errors[2])


def test_rests_of_a_living_save_are_left_alone(bundle, folder):
    with work_folder(folder) as work:
        write_bundle(bundle, folder, overwrite=True)
        assert work.is_dir()
    assert not work.exists()


def test_reading_while_others_save_gives_one_of_their_models(bundle, folder):
    stop = threading.Event()

    def save(label: str) -> None:
        other = dataclasses.replace(bundle, labels=("a", label), model_card=label)
        write_bundle(other, folder, overwrite=True)

    def keep_saving(label: str) -> None:
        while not stop.is_set():
            save(label)

    save("b")
    savers = [threading.Thread(target=keep_saving, args=(label,)) for label in "bc"]
    for saver in savers:
        saver.start()
    try:
        for _ in range(150):
            found = read_bundle(folder)
            assert found.labels[1] == found.model_card
    finally:
        stop.set()
        for saver in savers:
            saver.join()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
