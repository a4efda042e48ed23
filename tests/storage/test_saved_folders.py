"""Saved folders of every kind: what is read, what is refused, and what is overwritten.

Bundles and task models share the manifest. Encoders have the layout of Hugging Face, without one.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bertcnn.bundle.bundle import (
    FORMAT,
    check_bundle_target,
    read_bundle,
    read_config,
    write_bundle,
)
from bertcnn.encoders.checkpoint import EncoderCheckpoint, read_checkpoint
from bertcnn.encoders.export import check_encoder_target, export_encoder
from bertcnn.encoders.folder import Pieces, write_encoder
from bertcnn.errors import BundleError, OutputError
from bertcnn.storage.manifest import MANIFEST, FolderFormat, Member, write_manifest
from bertcnn.tasks.saving import ModelFolder, SavedModel, TaskConfig
from tests.encoders.test_checkpoint import SETTINGS, VOCABULARY, random_tensors
from tests.failpoints import tiny_bundle
from tests.forging import change_manifest, put


class TinyConfig(TaskConfig):
    """The configuration of a task model with one tensor."""

    @property
    def vocabulary_size(self):
        return 2

    @property
    def shapes(self):
        return {"bias": (2,)}


TASK = ModelFolder("tiny task", TinyConfig)
TASK_MODEL = SavedModel(
    TinyConfig(schema_version=1, seed=0, versions={}), ("a", "b"), {"bias": np.ones(2, "f4")}, {}
)


def write_exported_encoder(folder: Path, *, overwrite: bool = False) -> None:
    with tempfile.TemporaryDirectory() as source:
        checkpoint = EncoderCheckpoint(SETTINGS, random_tensors())
        write_encoder(Path(source), checkpoint, Pieces(VOCABULARY, lowercase=False))
        export_encoder(source, folder, overwrite=overwrite)


@dataclass(frozen=True)
class Kind:
    """A kind of saved folder.

    Attributes:
        name: in messages, as in "no part of a model".
        write: saves one; takes `overwrite`.
        read: loads it.
        check: refuses a target before the work; takes `overwrite`.
        form: the format of its manifest, if it has one.
    """

    name: str
    write: Callable[..., object]
    read: Callable[[Path], object]
    check: Callable[[Path, bool], None]
    form: FolderFormat | None = None

    @property
    def members(self) -> list[str]:
        return sorted([MANIFEST, *self.form.largest])


MODEL = Kind(
    "a saved model",
    lambda folder, **options: write_bundle(tiny_bundle(), folder, **options),
    read_bundle,
    check_bundle_target,
    FORMAT,
)
TASK_KIND = Kind(
    "a saved tiny task",
    lambda folder, **options: TASK.write(TASK_MODEL, folder, **options),
    TASK.read,
    TASK.check_target,
    TASK.form,
)
ENCODER = Kind("an encoder", write_exported_encoder, read_checkpoint, check_encoder_target)
with_manifest = pytest.mark.parametrize("kind", [MODEL, TASK_KIND], ids=["model", "task"])
every_kind = pytest.mark.parametrize(
    "kind", [MODEL, TASK_KIND, ENCODER], ids=["model", "task", "encoder"]
)


@pytest.fixture
def folder(kind, tmp_path) -> Path:
    """A saved folder of the kind."""
    kind.write(tmp_path / "saved")
    return tmp_path / "saved"


def refusal(kind: Kind, folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        kind.read(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# === Reading ===


@with_manifest
def test_saving_the_same_model_twice_gives_the_same_bytes(kind, folder, tmp_path):
    kind.write(tmp_path / "again")
    for place in (folder, tmp_path / "again"):
        assert sorted(path.name for path in place.iterdir()) == kind.members
    for name in kind.members:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


@with_manifest
def test_a_flip_of_any_byte_is_noticed_and_the_file_is_named(kind, folder):
    for name in kind.members:
        path = folder / name
        whole = path.read_bytes()
        for place in range(len(whole)):
            changed = bytearray(whole)
            changed[place] ^= (0x01, 0x20)[place % 2]  # the second one changes the case of letters
            path.write_bytes(changed)
            assert name in refusal(kind, folder), f"byte {place}"
        path.write_bytes(whole)
    kind.read(folder)


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A damage that removes the file and makes something else in its place."""

    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def linked_to(target: str) -> Callable[[Path], None]:
    return replaced_by(lambda path: path.symlink_to(target))


CHANGED = "was changed after the model was saved: it "
NO_FILE = "is a link that leads to no file ("
DAMAGES = {  # what happens to a file, and what the message says of it
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1]), ""),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b" "), ""),
    "empty": (lambda path: path.write_bytes(b""), ""),
    "missing": (Path.unlink, f"{CHANGED}is missing"),
    "a folder": (replaced_by(Path.mkdir), f"{CHANGED}is not a file"),
    "a pipe": (replaced_by(os.mkfifo), f"{CHANGED}is not a file"),
    "a link to /dev/zero": (linked_to("/dev/zero"), f"{CHANGED}is not a file"),
    "a link to a folder": (linked_to("."), f"{CHANGED}is not a file"),
    "a link to nowhere": (linked_to("nowhere"), NO_FILE),
    "a link to itself": (replaced_by(lambda path: path.symlink_to(path.name)), NO_FILE),
    "a pointer of Git LFS": (
        lambda path: path.write_text(LFS),
        "a pointer of Git LFS in place of the file, which git lfs pull fetches; expected",
    ),
}


@with_manifest
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_its_name(kind, folder, damage):
    change, words = DAMAGES[damage]
    for name in kind.members:
        change(Path(shutil.copytree(folder, folder.with_name(name))) / name)
        message = refusal(kind, folder.with_name(name))
        assert name in message
        is_unknown = (damage, name) == ("missing", MANIFEST)
        assert (f"it has no {MANIFEST}" if is_unknown else words) in message


@with_manifest
def test_other_files_in_the_folder_are_ignored(kind, folder):
    for name in (".DS_Store", "._config.json", ".nfs0001", "README.md", "evil.py"):
        (folder / name).write_bytes(b"\0\xff")
    (folder / ".git").mkdir(mode=0)
    os.mkfifo(folder / "pipe")
    (folder / "..data").symlink_to("nowhere")
    kind.read(folder)


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


@with_manifest
@pytest.mark.parametrize("link", [linked_one_by_one, linked_as_a_volume, linked_as_a_whole])
def test_links_are_followed_and_their_targets_are_checked(kind, folder, link):
    folder = link(folder)
    kind.read(folder)
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(config.replace(b'"seed": ', b'"Seed": '))
    told = "config.json was changed after the model was saved: its content is"
    assert told in refusal(kind, folder)


@with_manifest
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("signed_by", "somebody"), "unknown key 'signed_by'"),
        (put("members>config.json>url", "http://example.org"), "'members.config.json.url'"),
        (put("members>config.json", None), "other members than a model has ('config.json')"),
        (
            lambda manifest: manifest["members"].update(evil=manifest["members"]["config.json"]),
            "lists other members than a model has ('evil')",
        ),
        (put("schema_version", 9), "manifest.json has schema version 9: another version of"),
        (put("schema_version", 0), "manifest.json has schema version 0: another version of"),
        (put("format", "web app"), "manifest.json is not that of a bertcnn model"),
        (put("format", "bertcnn parrot"), "holds a 'bertcnn parrot'; expected a bertcnn"),
    ],
    ids=["key", "url", "fewer", "more", "newer", "older", "foreign", "other kind"],
)
def test_a_forged_manifest_is_refused(kind, folder, change, words):
    (folder / "evil").write_bytes((folder / "config.json").read_bytes())
    change_manifest(folder, change)
    assert words in refusal(kind, folder)


@with_manifest
def test_a_file_above_its_limit_is_refused_before_it_is_read(kind, folder):
    most = kind.form.largest["config.json"]
    os.truncate(folder / "config.json", most + 1)
    members = {name: (folder / name).read_bytes() for name in kind.form.largest}
    (folder / MANIFEST).write_bytes(write_manifest(kind.form, members)[1])
    told = f"config.json has {most + 1:,} bytes; expected at most {most:,}"
    assert told in refusal(kind, folder)
    os.truncate(folder / MANIFEST, 1 << 40)
    told = "manifest.json has 1,099,511,627,776 bytes; expected at most 65,536"
    assert told in refusal(kind, folder)


@with_manifest
def test_each_place_without_a_model_has_its_own_message(kind, tmp_path):
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
        assert refusal(kind, tmp_path / name).startswith(told)
        with pytest.raises(BundleError, match=re.escape(told)):
            read_config(tmp_path / name)
    told = "'a\\x00b' is not a valid folder path; expected a folder"
    assert refusal(kind, Path("a\0b")).startswith(told)


# === Places to save ===


@every_kind
def test_a_saved_folder_is_overwritten_only_on_request(kind, folder, tmp_path):
    (folder / "config.json").write_bytes(b"damaged")
    for act in (lambda: kind.check(folder, False), lambda: kind.write(folder)):
        with pytest.raises(OutputError, match=rf"holds {kind.name} already.*--force"):
            act()
    assert (folder / "config.json").read_bytes() == b"damaged"
    kind.check(folder, True)
    kind.write(folder, overwrite=True)
    kind.read(folder)
    (tmp_path / "plain").mkdir()
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", "saved"]


@every_kind
@pytest.mark.parametrize("name", [".DS_Store", "._labels.json", "Thumbs.db", "@eaDir"])
def test_system_files_do_not_prevent_overwriting(kind, folder, tmp_path, name):
    names = sorted(path.name for path in folder.iterdir())
    (tmp_path / "new").mkdir()
    for place in (folder, tmp_path / "new"):
        (place / name).mkdir() if name == "@eaDir" else (place / name).touch()
    kind.write(folder, overwrite=True)
    kind.write(tmp_path / "new")
    for place in (folder, tmp_path / "new"):
        assert sorted(path.name for path in place.iterdir()) == names


@every_kind
def test_foreign_files_are_never_overwritten(kind, folder, tmp_path):
    for kept in ("photos/cat.png", "file", "site/manifest.json", "app/config.json", "saved/notes"):
        (tmp_path / kept).parent.mkdir(exist_ok=True)
        (tmp_path / kept).write_text("{}")
    (tmp_path / "other").mkdir()
    other = FolderFormat("bertcnn parrot", 1, (Member("config.json", 9),))
    (tmp_path / "other" / MANIFEST).write_bytes(write_manifest(other, {})[1])
    for name, words in [
        ("photos", "holds 'cat.png', which is no part of "),
        ("file", "file is a file"),
        ("site", "is not a saved|no part of"),
        ("app", "is not a saved|is none|no part of"),
        ("saved", "holds 'notes', which is no part of "),
        ("other", "is not a saved|no part of"),
        ("file/model", "file is a file"),
    ]:
        for act in (kind.check, lambda place, force: kind.write(place, overwrite=force)):
            with pytest.raises(OutputError, match=words):
                act(tmp_path / name, True)
    assert (tmp_path / "photos" / "cat.png").exists()
    assert (folder / "notes").exists()
    assert (tmp_path / "file").is_file()


@every_kind
@pytest.mark.parametrize(
    "place", ["/proc/model", "/proc/models/triage", "{tmp_path}/" + "x" * 256, "a\0b"]
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work_even_for_root(
    kind, tmp_path, place
):
    message = r"^[^\n]*(cannot be written \(|is not a valid folder path|is too long)[^\n]*$"
    with pytest.raises(OutputError, match=message):
        kind.check(place.format(tmp_path=tmp_path), False)
    kind.check(tmp_path / "models" / "triage", False)
    assert list(tmp_path.iterdir()) == []


@every_kind
def test_a_link_to_a_damaged_folder_is_kept_and_its_target_replaced(kind, folder):
    linked_one_by_one(folder)
    files = len(list((folder.parent / "blobs").iterdir()))
    (folder / "vocab.txt").unlink()
    current = linked_as_a_whole(folder)
    kind.write(current, overwrite=True)
    assert current.is_symlink()
    kind.read(current)
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert len(list((folder.parent / "blobs").iterdir())) == files
