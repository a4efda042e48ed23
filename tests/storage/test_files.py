import errno
import os
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bertcnn.errors import OutputError
from bertcnn.storage.cache import cache_folder, keep, read_kept
from bertcnn.storage.files import (
    check_file_target,
    check_outside_models,
    companion,
    expanded,
    open_regular,
    reserve,
    temporary_name,
    try_lock,
    write_new,
    write_whole,
)
from bertcnn.storage.folders import (
    clean_leftovers,
    held_folder,
    new_folder,
    put_in_place,
    resting_place,
    work_folder,
)


def build(work: Path, content: str) -> Path:
    new = work / "new"
    new.mkdir()
    write_new(new / "content", content.encode())
    return new


def place(target: Path, content: str, *, replace: bool) -> None:
    with work_folder(target) as work:
        put_in_place(build(work, content), target, work, replace=replace)


def test_a_companion_of_the_current_folder_lies_beside_it(tmp_path, monkeypatch):
    (tmp_path / "models" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "models")
    assert companion(Path(), ".rejects.csv") == tmp_path / "models.rejects.csv"
    monkeypatch.chdir(tmp_path / "models" / "inner")
    assert companion(Path(".."), ".rejects.csv") == tmp_path / "models.rejects.csv"


def test_a_companion_of_a_long_name_still_fits(tmp_path):
    assert companion(tmp_path / "a.csv", ".journal") == tmp_path / "a.csv.journal"
    long = tmp_path / ("ü" * 124)
    names = {companion(Path(f"{long}{end}"), ".rejects.csv") for end in (".csv", ".tsv")}
    for name in names:
        name.touch()
    assert len(names) == 2


@pytest.fixture(params=["linux", "darwin"])
def system(request, monkeypatch):
    """Only Linux exchanges two folders in one step."""
    monkeypatch.setattr(sys, "platform", request.param)


def test_a_folder_appears_whole_and_the_work_folder_is_gone(tmp_path, system):
    with work_folder(tmp_path / "a" / "target") as work:
        assert (work.parent, work.stat().st_mode & 0o777) == (tmp_path / "a", 0o700)
    place(tmp_path / "a" / "target", "one", replace=False)
    place(tmp_path / "a" / "target", "two", replace=True)
    assert (tmp_path / "a" / "target" / "content").read_text() == "two"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["target"]


def test_without_a_home_folder_the_cache_has_to_be_named(monkeypatch):
    for name in ("BERTCNN_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERTCNN_CACHE", "~nobody-of-this-name/cache")
    with pytest.raises(OutputError, match="no folder for encoders and compiled engines"):
        cache_folder()


def test_of_many_first_saves_at_once_one_wins(tmp_path):
    together = threading.Barrier(4)

    def save(target: Path, content: str) -> bool:
        together.wait()
        try:
            place(target, content, replace=False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for turn in range(10):
            target = tmp_path / str(turn)
            won = list(pool.map(save, [target] * 4, "abcd"))
            assert won.count(True) == 1
            assert (target / "content").read_text() == "abcd"[won.index(True)]


def test_a_move_that_fails_half_way_is_taken_back(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    target = tmp_path / "target"
    place(target, "one", replace=False)
    moves = []

    def break_the_third_move(event, arguments):
        if event == "os.rename" and os.fspath(arguments[0]).startswith(str(tmp_path)):
            moves.append(arguments[0])
            # after the attempt to replace the target, and its move out of the way
            if len(moves) == 3:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    sys.addaudithook(break_the_third_move)
    with pytest.raises(OSError, match="Input/output"):
        place(target, "two", replace=True)
    assert (target / "content").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_of_many_saves_at_once_each_succeeds_and_the_last_one_stays(tmp_path, system):
    target, together = tmp_path / "target", threading.Barrier(4)
    place(target, "first", replace=False)

    def save(content: str) -> None:
        together.wait()
        for _ in range(20):
            place(target, content, replace=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, "abcd"))
    assert (target / "content").read_text() in "abcd"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.fixture
def killed(tmp_path) -> Path:
    """The work folder of a process killed between two renames.

    Its target is `tmp_path / "target"`.
    """
    work = tmp_path / ".target.0123456789abcdef.tmp"
    (work / "old").mkdir(parents=True)
    (work / "old" / "content").write_text("old")
    return work


@pytest.mark.parametrize("empty", [False, True])
def test_a_folder_moved_away_by_a_killed_process_is_read_and_put_back(tmp_path, killed, empty):
    target = tmp_path / "target"
    if empty:
        target.mkdir()
    (killed / "new").mkdir()
    assert resting_place(target) == killed / "old"
    clean_leftovers(target)
    assert (target / "content").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_work_folder_stays_locked_until_it_is_removed(tmp_path, killed):
    free = []

    def try_to_take_it(event, arguments):
        if event == "shutil.rmtree" and os.fspath(arguments[0]) == str(killed):
            handle = os.open(killed, os.O_RDONLY)
            free.append(try_lock(handle))
            os.close(handle)

    sys.addaudithook(try_to_take_it)
    clean_leftovers(tmp_path / "target")
    assert free == [False]


def test_without_locks_only_old_work_folders_are_taken_for_abandoned(tmp_path, killed, monkeypatch):
    def no_locks(handle, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", no_locks)
    place(tmp_path / "target", "new", replace=True)
    assert killed.exists()
    yesterday = time.time() - 25 * 3600
    os.utime(killed, (yesterday, yesterday))
    clean_leftovers(tmp_path / "target")
    assert not killed.exists()
    assert (tmp_path / "target" / "content").read_text() == "new"


def test_only_names_of_our_own_leftovers_are_removed(tmp_path):
    for name in (
        ".target.0123.tmp",
        ".other.0123456789abcdef.tmp",
        "target.0123456789abcdef.tmp",
        ".target.0123456789abcdef.tmp~",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".target.aaaaaaaaaaaaaaaa.tmp").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.iterdir())
    clean_leftovers(tmp_path / "target")
    assert sorted(tmp_path.iterdir()) == before


def test_cached_bytes_are_read_back_unless_changed(tmp_path):
    path = tmp_path / "kind" / "name.bin"
    assert read_kept(path) is None
    keep(path, b"content", 2)
    assert read_kept(path) == b"content"
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + b"T", b"\0" + whole[1:]):
        path.write_bytes(damaged)
        assert read_kept(path) is None


def test_only_the_newest_of_a_kind_are_kept(tmp_path):
    for number in range(4):
        keep(tmp_path / f"{number}.bin", b"content", 9)
        os.utime(tmp_path / f"{number}.bin", (number, number))
    (tmp_path / "other.txt").write_text("not ours")
    keep(tmp_path / "new.bin", b"content", 3)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["2.bin", "3.bin", "new.bin", "other.txt"]


def test_half_written_cache_files_are_removed_after_a_day(tmp_path):
    for name, age in (("1.7.tmp", 90_000), ("2.7.tmp", 80_000)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    keep(tmp_path / "new.bin", b"content", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.7.tmp", "new.bin"]


# === Room for a memory map ===


def test_a_file_without_room_is_refused_and_removed(tmp_path, largest_file):
    told = r"^numbers take 0 MB for a while, and the disk of .+ has [\d,]+ MB left; expected"
    with largest_file(4999), pytest.raises(OutputError, match=told):
        reserve(tmp_path / "map", 5000, what="numbers")
    assert not list(tmp_path.iterdir())
    reserve(tmp_path / "map", 5000, what="numbers")
    assert (tmp_path / "map").read_bytes() == bytes(5000)


def test_a_folder_that_was_held_is_gone_before_another_run_can_hold_it(tmp_path, monkeypatch):
    there, close = [], os.close

    def closing(handle):
        there.append((tmp_path / "made").exists())
        close(handle)

    with held_folder(tmp_path / "made" / "folder", does="works in"):
        monkeypatch.setattr(os, "close", closing)
    assert there == [False]
    monkeypatch.undo()
    with held_folder(tmp_path / "folder", does="works in") as folder:
        (folder / "kept").touch()
    assert (tmp_path / "folder" / "kept").exists()


def test_a_tilde_with_an_unknown_user_is_an_ordinary_name(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/a") == tmp_path / "a"
    assert expanded("~nobody-of-that-name/a") == Path("~nobody-of-that-name/a")
    with pytest.raises(OutputError, match="in none"):
        check_file_target("~nobody-of-that-name/a", False)


def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(OutputError, match="is a pipe or a device; expected the name of a file"):
            check_file_target(place, overwrite=True)


def test_a_link_is_written_through_and_a_file_keeps_its_rights(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "figures.json", tmp_path / "figures.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(check_file_target(link, overwrite=True), b"new", overwrite=True)
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o640)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_opening_something_other_than_a_file_does_not_block(tmp_path, make):
    make(tmp_path / "manifest.json")
    with pytest.raises(OSError, match="a folder, a pipe or a device"):
        open_regular(tmp_path / "manifest.json")
    check_outside_models(tmp_path / "out.csv")


def test_names_of_temporary_folders_and_companions_fit_the_system(tmp_path):
    for name in ("x" * 255, "字" * 85, "x" * 231, os.fsdecode(b"\xff" * 255)):
        target = tmp_path / name
        for _ in range(2):
            with new_folder(target, overwrite=True, check=lambda *_: None) as folder:
                (folder / "file").write_text("whole")
        # left by a process killed between two renames
        left = tmp_path / temporary_name(target) / "old"
        left.parent.mkdir()
        target.rename(left)
        assert resting_place(target) == left
        clean_leftovers(target)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        assert (target / "file").read_text() == "whole"
        companion(target, ".rejects.csv").write_text("")
        companion(target.with_name(f".{name}"), ".checkpoints").mkdir()
        for path in tmp_path.iterdir():
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
