"""The download process."""

import sys

import pytest

from bertcnn.encoders.layout import SourceError
from bertcnn.encoders.process import Watched, run_watched
from tests.listener import Listener

# a byte every 10 ms counts as growth, but the download would take three days
WRITES = "with open(FILE, 'wb', 0) as file:\n while "


def run(folder, script, total, patience=60.0, progress=None):
    script = "import time\n" + script.replace("FILE", repr(str(folder / "file")))
    watched = Watched(folder, folder, total, patience)
    explain = "it said {}".format
    run_watched([sys.executable, "-c", script], watched, progress or Listener(), explain=explain)


@pytest.mark.parametrize(
    ("script", "total", "patience", "message"),
    [
        ("print('ERROR: Exception:'); exit(1)", 1000, 60, "it said ERROR: Exception:\n"),
        ("exit(1)", 10**18, 60, r"[\d,]+ MB more are needed on its disk, which has [\d,]+ MB left"),
        ("time.sleep(60)", 1000, 0.3, "the download stalled for 0 s"),
        (
            f"{WRITES}file.write(b'x'): time.sleep(0.01)",
            10**9,
            1,
            r"too slow: \d+ bytes in 1 s",
        ),
        (
            f"{WRITES}file.write(bytes(1000)): pass",
            10**6,
            60,
            "more than 4 times the 1 MB",
        ),
    ],
    ids=["fails", "full-disk", "stalls", "drips", "endless"],
)
def test_a_download_that_fails_is_ended_with_its_reason(tmp_path, script, total, patience, message):
    with pytest.raises(SourceError, match=message):
        run(tmp_path, script, total, patience)


def test_a_successful_download_reports_its_bytes(tmp_path):
    progress = Listener()
    run(tmp_path, "open(FILE, 'wb').write(bytes(500)); time.sleep(0.5)", 1000, progress=progress)
    assert 0 < progress.done <= 1000
