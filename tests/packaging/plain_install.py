"""The plain install trains, scores and checks outside the checkout.

It takes some minutes and 3 GB, so it runs in `make packaging` and the workflow, not in `make test`.
"""

import csv

from tests.packaging.conftest import ROOT, run


def test_the_plain_install_trains_scores_and_checks(
    environment, distributions, encoder_folder, tmp_path
):
    python = environment(("--no-cache", distributions[1]))
    command = python.with_name("bertcnn")
    for name in ("isp_tickets.csv", "isp_inbox.csv"):
        (tmp_path / name).write_bytes((ROOT / "data" / name).read_bytes())
    run(
        [
            *(command, "train", "isp_tickets.csv", "--out", "model"),
            *("--encoder", encoder_folder, "--recipe", "frozen", "--epochs", "1"),
        ],
        cwd=tmp_path,
    )
    run([command, "score", "model", "isp_inbox.csv", "scored.csv"], cwd=tmp_path)
    with (tmp_path / "scored.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 200
    run([command, "check", "isp_tickets.csv", "--encoder", encoder_folder], cwd=tmp_path)
    run([command, "evaluate", "model", "isp_tickets.csv", "--report", "report"], cwd=tmp_path)
    run([command, "export", "model", "--format", "savedmodel", "--out", "saved"], cwd=tmp_path)
    run([python, "-c", "import altair, pandas, streamlit"], cwd=tmp_path)  # from the dashboard
