"""The options of scoring: one object, or single options by name."""

import pytest

from bertcnn import load, score_csv, score_table
from bertcnn.errors import SettingsError
from bertcnn.scoring.options import ScoringOptions
from bertcnn.tables.tables import read_table
from tests.tiny import saved


@pytest.fixture(scope="module")
def model(encoder_folder):
    return load(saved(encoder_folder))


@pytest.fixture
def inbox(tmp_path):
    path = tmp_path / "inbox.csv"
    path.write_text("text\nmy router is dead\nrefund the invoice\n", encoding="utf-8")
    return path


def test_an_object_and_single_options_give_the_same_file(model, inbox, tmp_path):
    one, other, changed = (tmp_path / f"{name}.csv" for name in ("one", "other", "changed"))
    options = ScoringOptions(probabilities=True, reasons=True)
    score_csv(model, inbox, one, options, progress=None)
    score_csv(model, inbox, other, probabilities=True, reasons=True)
    score_csv(model, inbox, changed, options, reasons=False)
    assert one.read_bytes() == other.read_bytes()
    assert set(read_table(one).columns) - set(read_table(changed).columns) == {"reason"}


def test_options_that_do_not_exist_are_refused_before_anything_is_read(model, inbox, tmp_path):
    with pytest.raises(TypeError, match="probability"):
        score_csv(model, inbox, tmp_path / "out.csv", probability=True)
    with pytest.raises(SettingsError, match="engine"):
        ScoringOptions(engine="gpu")
    with pytest.raises(SettingsError, match="automatic precision"):
        ScoringOptions(auto_precision="high")


@pytest.mark.parametrize(
    ("name", "value"),
    [("raw", True), ("overwrite", True), ("allow_rejects", True), ("cluster", "local")],
)
def test_a_database_has_no_options_of_files(model, tmp_path, name, value):
    database = f"sqlite:///{tmp_path / 'desk.db'}"
    with pytest.raises(SettingsError, match=f"{name} for a database; expected a file or a folder"):
        score_table(model, database, query="select 1", into="answers", **{name: value})
