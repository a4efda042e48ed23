"""The download process."""

import sys

import pytest

from bertcnn.encoders.layout import SourceError
from bertcnn.encoders.process import Watched, run_watched
from bertcnn.progress import Silent

FAILS = [sys.executable, "-c", "print('ERROR: Exception:'); raise SystemExit(1)"]


@pytest.mark.parametrize(
    ("total", "reason"),
    [
        (1000, "^it said ERROR: Exception:$"),
        (10**18, r"^[\d,]+ MB more are needed on its disk, which has [\d,]+ MB left$"),
    ],
)
def test_what_fails_is_told_by_its_own_words_or_by_the_full_disk(tmp_path, total, reason):
    with pytest.raises(SourceError, match=reason):
        run_watched(
            FAILS,
            Watched(tmp_path, tmp_path, total, 60.0),
            Silent(),
            explain=lambda output: f"it said {output.strip()}",
        )


def test_what_stalls_is_ended(tmp_path):
    with pytest.raises(SourceError, match=r"^the download stalled for 0 s$"):
        run_watched(
            [sys.executable, "-c", "import time; time.sleep(60)"],
            Watched(tmp_path, tmp_path, 1000, 0.3),
            Silent(),
            explain=str,
        )


def test_what_drips_is_ended(tmp_path):
    """A byte every 10 ms counts as growth; the download would take three days."""
    script = (
        f"import time\nwith open({str(tmp_path / 'file')!r}, 'wb', 0) as file:\n while"
        " file.write(b'x'): time.sleep(0.01)"
    )
    with pytest.raises(SourceError, match=r"^the download is too slow: \d+ bytes in 1 s$"):
        run_watched(
            [sys.executable, "-c", script],
            Watched(tmp_path, tmp_path, 10**9, 1.0),
            Silent(),
            explain=str,
        )


def test_what_never_stops_sending_is_ended(tmp_path):
    script = (
        f"with open({str(tmp_path / 'file')!r}, 'wb', 0) as file:\n while file.write(bytes(1000)):"
        " pass"
    )
    with pytest.raises(SourceError, match=r"^it sent more than 4 times the 1 MB expected$"):
        run_watched(
            [sys.executable, "-c", script],
            Watched(tmp_path, tmp_path, 10**6, 60.0),
            Silent(),
            explain=str,
        )


def test_a_successful_download_reports_its_bytes(tmp_path):
    class Counting(Silent):
        done = 0

        def advance(self, done, **figures):  # noqa: ARG002
            self.done += done

    progress = Counting()
    script = (
        f"open({str(tmp_path / 'file')!r}, 'wb').write(bytes(500)); import time; time.sleep(0.5)"
    )
    run_watched(
        [sys.executable, "-c", script],
        Watched(tmp_path, tmp_path, 1000, 60.0),
        progress,
        explain=str,
    )
    assert 0 < progress.done <= 1000
