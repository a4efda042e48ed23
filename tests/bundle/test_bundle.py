import dataclasses
import json
import os
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

from bertcnn.bundle.bundle import (
    MEMBERS,
    Bundle,
    check_room_for_labels,
    read_bundle,
    read_config,
    write_bundle,
)
from bertcnn.bundle.schemas import Decisions
from bertcnn.bundle.scope import OutOfScopeDetector
from bertcnn.errors import BundleError, LabelError, OutputError
from bertcnn.storage.folders import work_folder
from bertcnn.storage.manifest import MANIFEST
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


def test_a_full_disk_leaves_the_old_model_and_no_leftovers(tmp_path):
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


def test_the_work_folder_of_a_running_save_is_left_alone(bundle, folder):
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
