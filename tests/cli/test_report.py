"""`bertcnn evaluate --report`, as people type it."""

from tests.tickets import as_csv, tickets
from tests.tiny import saved


def test_a_report_is_written_once_and_not_overwritten_without_force(run, encoder_folder, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text(as_csv(*tickets(4)))
    folder = tmp_path / "mine"
    code, _, err = run("evaluate", saved(encoder_folder), data, "--report", folder)
    assert code == 0
    assert "report.html; it quotes texts of" in err
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").write_bytes(before + b"my notes")
    code, _, err = run("evaluate", saved(encoder_folder), data, "--report", folder)
    assert code == 2
    assert "--force" in err
    assert len(err.strip().splitlines()) == 1
    assert (folder / "report.html").read_bytes() == before + b"my notes"
    assert run("evaluate", saved(encoder_folder), data, "--report", folder, "--force")[0] == 0
    assert (folder / "report.html").read_bytes() == before
