import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from benchmarks.environment import CompetitorError
from benchmarks.stores import ACCESS, object_server
from bertcnn import (
    BertCNNClassifier,
    QuestionAnswerer,
    Translator,
    evaluate_csv,
    load,
    local_folder,
    push_model,
    recalibrate_csv,
    score_csv,
)
from bertcnn.bundle.addresses import is_url
from bertcnn.bundle.model_cache import Pull
from bertcnn.bundle.places import MissingError, RemoteError, UnreachableError
from bertcnn.cli.push import pull, push
from bertcnn.errors import BundleError, OutputError, SettingsError
from bertcnn.export.export import check_export
from bertcnn.review.models import add_model
from bertcnn.review.people import Person
from bertcnn.review.store import open_review
from bertcnn.storage.folders import held_folder
from tests.forging import change_manifest, replace_member
from tests.hub import Hub
from tests.listener import Listener, interrupt

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "saved" / "model"
_NUMBER = count()


# === Models, stores, and concurrent changes ===


@pytest.fixture(scope="module")
def first() -> Path:
    """A model with a compiled engine."""
    return GOLDEN


@pytest.fixture(scope="module")
def second(tmp_path_factory) -> Path:
    """Another model, without an engine."""
    folder = tmp_path_factory.mktemp("second") / "model"
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("engine"))
    replace_member(folder, "MODEL_CARD.md", b"# Another model\n")
    return folder


def identity(folder: Path) -> str:
    return json.loads((folder / "manifest.json").read_bytes())["bundle_id"]


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files."""
    names = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    return names == {
        path.relative_to(other) for path in other.rglob("*") if path.is_file()
    } and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


@pytest.fixture(scope="module")
def server():
    try:
        with object_server() as found:
            found.make_bucket("models")
            yield found
    except CompetitorError as error:
        pytest.skip(f"no server of S3: {error}")


@pytest.fixture
def store(server, monkeypatch):
    """The server, with its access keys in this process's environment."""
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def url(store) -> str:
    """An empty location in a bucket."""
    return store.url(f"models/triage{next(_NUMBER)}")


@pytest.fixture
def files(store):
    """The bucket through pyarrow."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(store.url("models/x"))[0]


@pytest.fixture
def hub(monkeypatch):
    import huggingface_hub.constants

    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def cloud_server():
    """The port of a server that behaves like Google Cloud Storage."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bundle.gcs", "models"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as server:
        yield int(server.stdout.readline())
        server.stdin.close()


@pytest.fixture
def cloud(cloud_server):
    """Gives the URL of a path, and can make the server refuse requests."""

    def url(path: str) -> str:
        return (
            f"gs://anonymous@{path}?scheme=http&endpoint_override=127.0.0.1:{cloud_server}"
            "&retry_limit_seconds=1"
        )

    def refuse(status: int) -> None:
        address = f"http://127.0.0.1:{cloud_server}/refuse/{status}"
        urllib.request.urlopen(address, data=b"").close()

    yield url, refuse
    refuse(0)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def once(act):
    """A callable that acts on its first call only."""
    first = iter([act])
    return lambda: next(first, lambda: None)()


def both_refuse(url, model, error, match):
    """Assert that neither pulling from a URL nor pushing to it is possible; returns the errors."""
    with pytest.raises(error, match=match) as pulled:
        local_folder(url)
    with pytest.raises(error, match=match) as pushed:
        push_model(model, url)
    return f"{pulled.value}{pushed.value}"


def path_of(url: str) -> str:
    """Bucket and folder of a URL."""
    return url.removeprefix("s3://").partition("?")[0]


def paths(files, url: str) -> list[str]:
    """All that is at a URL."""
    from pyarrow.fs import FileSelector

    return [info.path for info in files.get_file_info(FileSelector(path_of(url), recursive=True))]


def write(files, path: str, data: bytes) -> None:
    with files.open_output_stream(path) as stream:
        stream.write(data)


# === Addresses ===


def test_folders_are_distinguished_from_urls_even_after_pathlib(first):
    assert not is_url("models/triage")
    assert not is_url(r"C:\models\triage")
    assert local_folder("models/triage") == Path("models/triage")
    assert is_url(Path("s3://bucket/triage"))
    assert local_folder(Path(f"file://{first}")) == first


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("ftp://bucket/triage", SettingsError, "'ftp'://; expected a folder, or a URL that begins"),
        ("file:///srv/models#2", SettingsError, "# is written as %23"),
        ("file://models/triage", SettingsError, "an absolute path"),
        ("s3://bucket?region=eu-central-1", RemoteError, "names a bucket only"),
        ("s3://bucket/triage?unknown=1", RemoteError, "Unexpected query parameter"),
        *(
            (url, RemoteError, "expected hf://ORGANISATION/NAME")
            for url in ("hf://triage", "hf://datasets/org", "hf://org/triage/x", "hf://")
        ),
    ],
)
def test_an_invalid_url_is_refused(url, error, message):
    with pytest.raises(error, match=message):
        local_folder(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hidden@bucket/triage",
        "s3://key:hid/den@bucket/triage",
        "hf://ada:hidden@org/triage",
        "ftp://ada:hidden@host/triage",
        "gs://ada:hidden@bucket/triage",
        "file://ada:hidden@host/triage",
        "s3://bucket/triage?endpoint_override=http://ada:hidden@host",
    ],
)
def test_no_password_of_a_url_is_ever_shown(url, first):
    assert not re.search("hid|ada", both_refuse(url, first, SettingsError, "."))


@pytest.mark.parametrize("scheme", ["s3://bucket", "hf://org", "file://", "ftp://x"])
def test_characters_that_cannot_be_seen_never_leave_a_url(scheme, first):
    url = f"{scheme}/tri\x1b[31mage"
    assert both_refuse(url, first, SettingsError, r"tri\\x1b\[31mage").isprintable()


# === An object store ===


@dataclass(frozen=True)
class Store:
    """A kind of store.

    Attributes:
        url: an empty place in it.
        missing: a place in a bucket or repository that does not exist.
        is_missing: what the message says of that.
        refuse: makes it answer every request with an HTTP status; 0 ends that.
        credentials: what the message says where they are refused.
    """

    url: str
    missing: str
    is_missing: str
    refuse: Callable[[int], None]
    credentials: str


@pytest.fixture
def s3(store, monkeypatch):
    endpoint = store.endpoint

    def refuse(status: int) -> None:
        store.check_access(status == 403)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9" if status == 503 else endpoint)

    refuse(0)
    url = f"s3://models/triage{next(_NUMBER)}"
    yield Store(url, "s3://none/x", "the bucket 'none' of ", refuse, "AWS_ACCESS_KEY_ID")
    refuse(0)


@pytest.fixture
def gs(cloud):
    url, refuse = cloud
    place, none = url(f"models/triage{next(_NUMBER)}"), url("none/x")
    return Store(place, none, "the bucket 'none' of ", refuse, "GOOGLE_APPLICATION_CREDENTIALS")


@pytest.fixture
def hf(hub):
    def refuse(status: int) -> None:
        hub.refuses = status or None

    missing = "you may not see it.*HF_TOKEN"
    return Store("hf://org/triage", "hf://org/none", missing, refuse, "hub answered 403")


@pytest.fixture(params=["s3", "gs", "hf"])
def kind(request):
    """Each kind of store."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["s3", "gs", "hf", "file"])
def place(request, tmp_path):
    """The URL of an empty place of each kind."""
    if request.param == "file":
        return (tmp_path / "a b" / "model").as_uri()
    return request.getfixturevalue(request.param).url


def test_every_kind_of_place_keeps_a_model_until_it_is_replaced(first, second, place, cache):
    with pytest.raises(BundleError, match=r"there is no model at|does not exist"):
        local_folder(place)
    assert push_model(first, place).pushed
    watch = Listener()
    assert not push_model(first, place, progress=watch).pushed
    assert watch.figures == []
    assert same(first, local_folder(place))
    with pytest.raises(OutputError, match="--force"):
        push_model(second, place)
    push_model(second, place, overwrite=True)
    assert same(second, local_folder(place))


def test_a_missing_bucket_or_repository_and_a_missing_permission_are_named(kind, first, cache):
    with pytest.raises(RemoteError, match=kind.is_missing):
        local_folder(kind.missing)
    kind.refuse(403)
    both_refuse(kind.url, first, RemoteError, f"no permission for .*{kind.credentials}")


def test_an_unreachable_store_leaves_the_last_model_with_a_warning(kind, first, cache, caplog):
    push_model(first, kind.url)
    folder = local_folder(kind.url)
    kind.refuse(503)
    assert local_folder(kind.url) == folder
    assert f"the model {identity(first)[:12]} is used, which was there at" in caplog.text
    assert "cannot be reached (" in caplog.text


def test_a_pushed_model_is_fetched_into_the_cache_and_answers(first, url, cache):
    report = push_model(first, url)
    assert (report.pushed, report.bundle_id) == (True, identity(first))
    assert "?" not in report.url
    assert local_folder(url) == cache / "models" / identity(first)
    expected = load(first).predict(["my router is broken"])
    assert load(url).predict(["my router is broken"]) == expected
    watch = Listener()
    assert push_model(first, url, overwrite=True, progress=watch).pushed
    assert watch.done > 0


def test_an_unchanged_model_costs_a_look_at_its_manifest(first, url, store, cache):
    push_model(first, url)
    local_folder(url)
    before = len(store.requests())
    local_folder(url)
    assert [line.partition(" ")[0] for line in store.requests()[before:]] == ["HEAD", "GET"]
    assert all("manifest.json" in line for line in store.requests()[before:])


def test_while_a_model_is_replaced_readers_get_the_old_or_the_new_one(
    first, second, url, cache, tmp_path
):
    push_model(first, url)
    found = []

    def pull() -> None:
        folder = local_folder(url, cache=tmp_path / f"reader{len(found)}")
        found.append(folder.name)
        assert same(folder, {identity(first): first, identity(second): second}[folder.name])

    push_model(second, url, overwrite=True, progress=Listener(pull, None))
    pull()
    assert found[0] == identity(first)
    assert found[-1] == identity(second)


def test_a_reader_whose_model_is_replaced_meanwhile_gets_the_new_one(first, second, url, cache):
    push_model(first, url)
    other = once(lambda: push_model(second, url, overwrite=True))
    folder = local_folder(url, progress=Listener(other, None))
    assert same(second, folder)


def test_a_push_that_broke_off_leaves_what_was_there_and_can_be_repeated(first, second, url, cache):
    with pytest.raises(KeyboardInterrupt):
        push_model(first, url, progress=Listener(interrupt, None))
    with pytest.raises(MissingError, match="a push is under way or was broken off"):
        local_folder(url)
    push_model(first, url)
    with pytest.raises(KeyboardInterrupt):
        push_model(second, url, overwrite=True, progress=Listener(interrupt, None))
    assert same(first, local_folder(url))
    push_model(second, url, overwrite=True)
    assert same(second, local_folder(url))


def test_a_repeated_push_skips_files_already_sent(first, url, store):
    broken = iter([False] * 4)

    def stop() -> None:
        if next(broken, True):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        push_model(first, url, progress=Listener(stop, None))
    before = len(store.requests())
    push_model(first, url)
    sent = [line for line in store.requests()[before:] if line.startswith("PUT")]
    assert not any("MODEL_CARD" in line or "calibration" in line for line in sent)
    assert any("engine.safetensors" in line for line in sent)


def test_of_two_pushes_at_once_the_last_one_stays_and_nothing_of_the_other(
    first, second, url, files, cache
):
    push_model(first, url)
    third = Path(shutil.copytree(second, cache.with_name("third")))
    replace_member(third, "MODEL_CARD.md", b"# A third model\n")
    other = once(lambda: push_model(third, url, overwrite=True))
    push_model(second, url, overwrite=True, progress=Listener(other, None))
    assert same(second, local_folder(url))
    assert not any(identity(one) in path for path in paths(files, url) for one in (first, third))


def test_without_force_a_model_that_appeared_meanwhile_is_not_replaced(first, second, url, cache):
    other = once(lambda: push_model(second, url))
    with pytest.raises(
        RemoteError, match=f"the model {identity(second)[:12]} was pushed to .* mean"
    ):
        push_model(first, url, progress=Listener(other, None))
    assert same(second, local_folder(url))


def test_a_file_that_another_push_has_removed_is_noticed(first, url, files):
    card = f"{path_of(url)}/{identity(first)}/MODEL_CARD.md"

    def remove() -> None:
        if files.get_file_info(card).is_file:
            files.delete_file(card)

    with pytest.raises(RemoteError, match=r"MODEL_CARD\.md of the model is not at .* any more"):
        push_model(first, url, progress=Listener(remove, None))


def test_a_model_that_was_copied_there_by_hand_is_read_and_replaced(
    first, second, url, files, cache
):
    for path in first.rglob("*"):
        if path.is_file():
            name = path.relative_to(first).as_posix()
            write(files, f"{path_of(url)}/{name}", path.read_bytes())
    assert same(first, local_folder(url))
    push_model(second, url, overwrite=True)
    assert same(second, local_folder(url))
    assert f"{path_of(url)}/config.json" not in paths(files, url)


def test_something_else_at_the_url_is_never_replaced(first, url, files):
    write(files, f"{path_of(url)}/manifest.json", b'{"name": "an app"}')
    with pytest.raises(OutputError, match="has not written"):
        push_model(first, url, overwrite=True)


def test_a_damaged_member_is_named_and_nothing_stays(first, url, files, cache):
    push_model(first, url)
    name = f"{path_of(url)}/{identity(first)}/vocab.txt"
    write(files, name, (first / "vocab.txt").read_bytes()[::-1])
    with pytest.raises(BundleError, match=r"vocab\.txt is not what was saved"):
        local_folder(url)
    assert not (cache / "models" / identity(first)).exists()
    push_model(first, url, overwrite=True)
    assert same(first, local_folder(url))


@pytest.mark.parametrize("name", ["config.json", "engine/engine.safetensors"])
def test_a_member_that_is_gone_is_named(name, first, url, files, cache):
    push_model(first, url)
    files.delete_file(f"{path_of(url)}/{identity(first)}/{name}")
    with pytest.raises(MissingError, match=f"lacks {name} of the model"):
        local_folder(url)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("../../evil", 1, r"lists '\.\./\.\./evil' as a member"),
        ("vocab.txt", 1 << 50, r"a file of 1,125,899,906,842,624 bytes"),
    ],
)
def test_a_manifest_that_no_model_has_is_refused_before_a_file_is_fetched(
    first, url, files, cache, tmp_path, name, size, message
):
    shutil.copy(first / "manifest.json", tmp_path)
    change_manifest(
        tmp_path,
        lambda manifest: manifest["members"].update(
            {name: {**manifest["members"]["vocab.txt"], "bytes": size}}
        ),
    )
    write(files, f"{path_of(url)}/manifest.json", (tmp_path / "manifest.json").read_bytes())
    with pytest.raises(BundleError, match=message):
        local_folder(url)


def test_an_engine_of_another_model_is_refused_and_forgotten(first, second, url, files, cache):
    push_model(second, url)
    engine = f"{path_of(url)}/{identity(second)}/engine"
    for path in (first / "engine").iterdir():
        write(files, f"{engine}/{path.name}", path.read_bytes())
    with pytest.raises(BundleError, match="belongs to the model"):
        local_folder(url)
    files.delete_dir(engine)
    assert same(second, local_folder(url))


def test_a_damaged_model_is_not_pushed(first, url, tmp_path):
    damaged = Path(shutil.copytree(first, tmp_path / "damaged"))
    (damaged / "vocab.txt").write_bytes(b"[PAD]\n")
    with pytest.raises(BundleError, match=r"vocab\.txt is not what was saved"):
        push_model(damaged, url)
    shutil.rmtree(damaged / "engine")
    (damaged / "manifest.json").unlink()
    with pytest.raises(BundleError, match=r"its manifest\.json cannot be read"):
        push_model(damaged, url)


def test_a_model_that_changes_while_it_is_pushed_is_not_published(first, url, tmp_path, cache):
    changing = Path(shutil.copytree(first, tmp_path / "changing"))
    watch = Listener(lambda: (changing / "vocab.txt").write_bytes(b"other"), None)
    with pytest.raises(BundleError, match=r"vocab\.txt is not what was saved"):
        push_model(changing, url, progress=watch)
    with pytest.raises(MissingError):
        local_folder(url)


# === The cache ===


def test_several_pulls_at_once_fetch_a_model_once(first, url, cache, store):
    push_model(first, url)
    before = len(store.requests())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: local_folder(url), range(4)))
    assert len(set(found)) == 1
    assert same(first, found[0])
    fetched = [line for line in store.requests()[before:] if "GET" in line and "vocab" in line]
    assert len(fetched) == 1


def test_a_pull_that_was_killed_goes_on_and_leaves_nothing_behind(first, url, cache, store):
    push_model(first, url)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_PULL, url],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert killed.returncode == 77
    assert not (cache / "models" / identity(first)).exists()
    before = len(store.requests())
    assert same(first, local_folder(url))
    again = [line for line in store.requests()[before:] if "GET" in line]
    assert not any("MODEL_CARD" in line for line in again)  # the file is already complete
    assert sorted(path.name for path in (cache / "models").iterdir()) == [identity(first), "urls"]


_KILLED_PULL = """
import os, sys
from bertcnn import local_folder
from tests.listener import Listener

local_folder(sys.argv[1], progress=Listener(lambda: os._exit(77), 10))
"""


def test_a_damaged_copy_in_the_cache_is_fetched_again(first, url, cache):
    push_model(first, url)
    folder = local_folder(url)
    (folder / "vocab.txt").write_bytes(b"damaged")
    assert same(first, local_folder(url))
    assert sorted(path.name for path in (cache / "models").iterdir()) == [identity(first), "urls"]


def test_half_a_file_of_an_older_pull_is_completed_or_fetched_again(first, url, cache):
    push_model(first, url)
    partial = cache / "models" / f"{identity(first)}.{os.getuid()}.partial"
    partial.mkdir(parents=True)
    whole = (first / "vocab.txt").read_bytes()
    (partial / "vocab.txt").write_bytes(whole[: len(whole) // 2])
    (partial / "config.json").write_bytes(b"other")
    (partial / "labels.json").write_bytes(b" " * (1 << 16))
    assert same(first, local_folder(url))


def test_a_cache_that_cannot_be_written_is_named(first, url, tmp_path):
    push_model(first, url)
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(OutputError, match="cannot be written"):
        local_folder(url, cache=tmp_path / "cache")


# === A folder ===


def test_a_file_url_is_a_folder(first, tmp_path, cache):
    url = (tmp_path / "model").as_uri()
    push_model(first, url)
    assert local_folder(url) == tmp_path / "model"
    assert not cache.exists()
    with pytest.raises(SettingsError, match="give such a URL"):
        push_model(first, str(tmp_path / "model"))


# === The hub ===


def test_a_model_on_the_hub_is_private_and_one_commit(first, hub, cache):
    assert push_model(first, "hf://org/triage").pushed
    assert hub.private == {"org/triage"}
    assert sum("/commit/" in line for line in hub.requests) == 1
    folder = local_folder("hf://org/triage")
    assert same(first, folder)
    assert not push_model(first, "hf://org/triage").pushed
    hub.requests.clear()
    assert local_folder("hf://org/triage") == folder
    assert hub.requests == ["GET /org/triage/resolve/main/manifest.json"]


def test_a_pinned_commit_needs_no_further_request(first, second, hub, cache, monkeypatch):
    push_model(first, "hf://org/triage")
    pinned = f"hf://org/triage@{hub.repositories['org/triage']['main']}"
    push_model(second, "hf://org/triage", overwrite=True)
    folder = local_folder(pinned)
    assert same(first, folder)
    hub.requests.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert local_folder(pinned) == folder
    assert hub.requests == []
    with pytest.raises(UnreachableError, match="HF_HUB_OFFLINE is set"):
        local_folder("hf://org/triage")


def test_a_push_to_a_branch_makes_it_and_leaves_the_others(first, second, hub, cache):
    push_model(first, "hf://org/triage")
    push_model(second, "hf://org/triage@candidate", overwrite=True)
    assert same(first, local_folder("hf://org/triage"))
    assert same(second, local_folder("hf://org/triage@candidate"))
    push_model(second, "hf://org/triage@v1.0+cpu", overwrite=True)
    assert same(second, local_folder("hf://org/triage@v1.0+cpu"))
    with pytest.raises(RemoteError, match="is a commit, which never changes"):
        push_model(first, "hf://org/triage@" + "0" * 40)


def test_a_push_to_the_hub_names_the_commit_that_it_replaces(first, second, hub, cache):
    push_model(first, "hf://org/triage")
    before = hub.repositories["org/triage"]["main"]
    push_model(second, "hf://org/triage", overwrite=True)
    after = hub.repositories["org/triage"]["main"]
    assert hub.parents[after] == before  # a concurrent push would have been refused


def test_all_pulled_files_are_of_one_commit(first, second, hub, cache):
    push_model(first, "hf://org/triage")
    other = once(lambda: push_model(second, "hf://org/triage", overwrite=True))
    folder = local_folder("hf://org/triage", progress=Listener(other, None))
    assert same(first, folder)


def test_a_broken_connection_is_resumed(first, hub, cache):
    push_model(first, "hf://org/triage")
    hub.drops = [10_000] * 2
    assert same(first, local_folder("hf://org/triage"))


def test_a_closed_connection_is_reopened(first, hub, cache):
    push_model(first, "hf://org/triage")
    hub.hangs_up = 1
    assert same(first, local_folder("hf://org/triage"))
    hub.hangs_up = 2
    with pytest.raises(UnreachableError, match=r"cannot be reached \(RemoteProtocolError\)"):
        local_folder("hf://org/other")


def test_missing_or_changed_items_on_the_hub_are_reported(first, hub, cache):
    push_model(first, "hf://org/triage")
    with pytest.raises(MissingError, match="no revision 'v2'"):
        local_folder("hf://org/triage@v2")
    hub.commit("org/triage", "empty", {"README.md": b"nothing yet"})
    with pytest.raises(MissingError, match="there is no model at"):
        local_folder("hf://org/triage@empty")
    hub.files("org/triage")["labels.json"] = b"[]"
    with pytest.raises(BundleError, match=r"hf://org/triage: labels\.json is not what was saved"):
        local_folder("hf://org/triage")
    hub.refuses = 503
    with pytest.raises(UnreachableError, match="run the same command again"):
        local_folder("hf://org/other")


# === Functions and commands ===


def test_functions_take_a_url(first, url, cache, tmp_path):
    push_model(first, url)
    (tmp_path / "in.csv").write_text("text,label\nmy router is broken,hardware\na bill,billing\n")
    scored = [tmp_path / name for name in ("by-url.csv", "by-folder.csv")]
    for model, target in zip((url, first), scored, strict=True):
        score_csv(model, tmp_path / "in.csv", target, text="text")
    assert scored[0].read_bytes() == scored[1].read_bytes()
    figures = evaluate_csv(url, tmp_path / "in.csv", text="text", label="label")
    assert figures.rows == 2
    store = open_review(tmp_path / "review.db")
    added = add_model(store, url, Person("ada", "admin"))
    assert added.folder == str(cache / "models" / identity(first))


@pytest.mark.parametrize(
    "read",
    [
        QuestionAnswerer.load,
        Translator.load,
        BertCNNClassifier.load,
        lambda url: check_export(local_folder(url), "onnx", "exports", False),
        lambda url: recalibrate_csv(url, "in.csv", "new"),
        pull,
    ],
    ids=["answerer", "translator", "classifier", "export", "recalibrate", "pull"],
)
def test_other_functions_take_a_url_too(read, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BundleError, match=r"^/no/model does not exist"):
        read("file:///no/model")


def test_another_users_partial_download_is_left_alone(first, url, cache):
    push_model(first, url)
    other = cache / "models" / f"{identity(first)}.{os.getuid() + 1}.partial" / "config.json"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"other")
    assert same(first, local_folder(url))
    assert other.read_bytes() == b"other"


def test_waiting_for_a_stalled_process_has_a_limit(first, url, cache):
    push_model(first, url)
    partial = cache / "models" / f"{identity(first)}.{os.getuid()}.partial"
    with (
        held_folder(partial, does="fetches a model into"),
        pytest.raises(OutputError, match="another run fetches a model into"),
    ):
        Pull(url, cache, Listener(), patience=0.3).folder()


def test_commands_push_pull_and_use_a_url(first, url, cache, capsys):
    push(str(first), url)
    assert f"Pushed model {identity(first)[:12]} to s3://{path_of(url)}" in capsys.readouterr().err
    push(str(first), url)
    assert f"Model {identity(first)[:12]} is at s3://{path_of(url)}" in capsys.readouterr().err
    pull(url)
    assert capsys.readouterr().out.strip() == str(cache / "models" / identity(first))
    words = ("classify", url, "my router is broken")
    answer = subprocess.run(
        [sys.executable, "-m", "bertcnn", *words], capture_output=True, text=True, cwd=ROOT
    )
    (expected,) = load(first).classify(["my router is broken"])
    assert answer.stdout.split("\t")[0] == expected.label, answer.stderr
