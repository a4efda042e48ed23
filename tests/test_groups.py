"""The groups of slow tests name tests and paths that exist."""

import subprocess
from pathlib import Path

import pytest

from tests.groups import ALL, GROUPS, changed_since, group_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_names_tests_and_paths_that_exist(name):
    tracked = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.splitlines()
    for test in GROUPS[name].tests:
        path, _, function = test.partition("::")
        assert [file for file in tracked if file.startswith(path)], test
        assert not function or f"def {function.partition('[')[0]}" in (ROOT / path).read_text()
    for path in GROUPS[name].paths:
        assert [file for file in tracked if file.startswith(path)], path


def test_the_whole_loop_in_the_browser_belongs_to_the_trainings():
    assert group_of("tests/apps/test_whole_loop.py::test_anything") == "trainings"


def test_unknown_commits_run_everything_and_no_change_runs_nothing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for word in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{word}_NAME", "test")
        monkeypatch.setenv(f"GIT_{word}_EMAIL", "test@example.org")
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "page.py").write_text("one = 1\n")
    for words in (["init"], ["add", "."], ["commit", "-m", "one"]):
        subprocess.run(["git", *words], check=True, capture_output=True)
    assert changed_since("HEAD") == []
    assert changed_since("0" * 40) == [ALL]
    (tmp_path / "apps" / "page.py").write_text("two = 2\n")
    assert changed_since("HEAD") == ["browser"]
