"""Scoring a folder: new files only, by one process or by several."""

import pytest

import bertcnn
from bertcnn import score_csv, score_folder
from bertcnn.errors import OutputError, SettingsError, TableError
from bertcnn.scoring.folders import Shard
from tests.tiny import saved

ROWS = "id,text\n1,the router again\n2,refund please\n"


@pytest.fixture(scope="module")
def model(encoder_folder):
    return saved(encoder_folder)


@pytest.fixture(scope="module")
def predictor(model):
    return bertcnn.load(model)


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "in"
    for name in ("a.csv", "north/b.csv", "north/deep/c.jsonl", ".hidden/d.csv", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"text": "refund"}\n' if "json" in name else ROWS)
    return folder


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))


def test_every_table_is_scored_as_on_its_own(predictor, inbox, tmp_path):
    report = score_folder(predictor, inbox, tmp_path / "out", reasons=True)
    assert names(tmp_path / "out") == ["a.csv", "north/b.csv", "north/deep/c.jsonl"]
    assert (report.rows, report.there, report.failed) == (5, (), {})
    score_csv(predictor, inbox / "a.csv", tmp_path / "alone.csv", reasons=True)
    alone = (tmp_path / "alone.csv").read_bytes()
    assert (tmp_path / "out" / "north" / "b.csv").read_bytes() == alone


def test_outputs_that_are_there_are_left_alone(predictor, inbox, tmp_path):
    inside = inbox / "out"  # outputs are not inputs of the next run
    score_folder(predictor, inbox, inside)
    (inside / "a.csv").write_text("kept")
    (inbox / "new.csv").write_text(ROWS)
    report = score_folder(predictor, inbox, inside)
    assert list(report.scored) == [inbox / "new.csv"]
    assert len(report.there) == 3
    assert (inside / "a.csv").read_text() == "kept"
    assert not (inside / "out").exists()
    again = score_folder(predictor, inbox, inside, overwrite=True)
    assert len(again.scored) == 4
    assert (inside / "a.csv").read_text() != "kept"


def test_an_empty_folder_takes_no_model(tmp_path):
    (tmp_path / "in").mkdir()
    report = score_folder(tmp_path / "no model", tmp_path / "in", tmp_path / "out")
    assert (report.scored, report.there, report.rows) == ({}, (), 0)


def test_parts_have_every_file_once_whatever_they_see(predictor, inbox, tmp_path):
    for number in range(20):
        (inbox / f"{number}.csv").write_text(ROWS)
    first = score_folder(predictor, inbox, tmp_path / "out", shard=Shard(1, 3))
    (inbox / "00.csv").write_text(ROWS)  # would shift all positions in a list
    others = [score_folder(predictor, inbox, tmp_path / "out", shard=Shard(n, 3)) for n in (2, 3)]
    parts = [set(report.scored) for report in (first, *others)]
    late = set() if Shard(1, 3).has("00.csv") else {inbox / "00.csv"}
    assert sum(map(len, parts)) == len(set.union(*parts)) == 23 + len(late)
    assert all(parts)


def test_a_part_is_named_or_numbered_by_kubernetes():
    assert Shard.of("2/4", {}) == Shard(2, 4)
    assert Shard.of("4", {"JOB_COMPLETION_INDEX": "0"}) == Shard(1, 4)
    assert Shard.of("2/4", {"JOB_COMPLETION_INDEX": "0"}) == Shard(2, 4)
    bad = (("4", ""), ("4", "x"), ("0/4", "0"), ("5/4", "0"), ("1/0", "0"), ("a", "0"))
    for given, index in bad:
        with pytest.raises(SettingsError):
            Shard.of(given, {"JOB_COMPLETION_INDEX": index})


def test_unusable_folders_are_refused_before_any_work(predictor, inbox, tmp_path):
    with pytest.raises(TableError, match="there is no folder"):
        score_folder(predictor, tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(OutputError, match="another folder"):
        score_folder(predictor, inbox, inbox)
    with pytest.raises(OutputError, match="another folder"):
        score_folder(predictor, inbox, inbox / "a.csv")
    with pytest.raises(OutputError, match="without a table's extension"):
        score_folder(predictor, inbox, tmp_path / "out.csv")
    (inbox / "a.json").write_text('[{"text": "refund"}]')
    (inbox / "a.jsonl").write_text('{"text": "refund"}\n')
    with pytest.raises(TableError, match="the same output"):
        score_folder(predictor, inbox, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_to_a_folder_above_is_not_followed(predictor, inbox, tmp_path):
    (inbox / "north" / "round").symlink_to(inbox)
    assert len(score_folder(predictor, inbox, tmp_path / "out").scored) == 3
