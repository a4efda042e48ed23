"""The journal of answers next to an output: returned bit for bit, or not at all."""

import dataclasses
import json
import os
import re
import struct
import zlib

import numpy as np
import pytest

from bertcnn.errors import OutputError
from bertcnn.inference.answers import Answers
from bertcnn.scoring.journal import (
    DIGEST_BYTES,
    Frame,
    InputState,
    Journal,
    JournalHeader,
    OtherTextsError,
)
from bertcnn.settings import REASONS

HEADER = JournalHeader(
    input_bytes=1234,
    input_modified_ns=1_763_700_000_123_456_789,
    input_digest="ab" * 16,
    model="f" * 64,
    engine="keras",
    software="0.1.0",
    text_columns=("subject", "body"),
    auto_precision="0.95",
    probabilities=True,
    reasons=False,
    raw=False,
    labels=3,
    chunk_rows=4096,
    target="out.csv",
)


def frame(number, rows=4, probabilities=True):
    shares = np.random.default_rng(number).random((2, 3 * probabilities), np.float32)
    labels = np.array([number % 3, -1], np.int32)
    spans = np.arange(12, dtype=np.int32).reshape(2, 3, 2) * number
    confidence = np.array([0.1, np.float32(1e-40)], np.float32)
    decisions = np.array([number % 2, 3], np.int32)
    reasons = np.array([[number % 3 + 2, number % 3], [1, -1]], np.int32)
    answers = Answers(labels, confidence, decisions, spans, shares, reasons)
    return Frame(rows, bytes([number]) * DIGEST_BYTES, answers)


FRAMES = [frame(1), frame(2, rows=7), frame(3)]


def same(first, second):
    return first.to_bytes() == second.to_bytes()


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out.csv"


@pytest.fixture
def journal_file(output):
    """A journal with three frames, left by an interrupted run."""
    with Journal(output) as journal:
        journal.begin(HEADER)
        for each in FRAMES:
            assert journal.take(each.rows, each.digest) is None
            journal.append(each)
    return output.with_name(".out.csv.journal")


def taken(journal):
    """The recorded frames, as a run takes them."""
    found = [journal.take(each.rows, each.digest) for each in FRAMES]
    answers = [each for each in found if each is not None]
    assert found == answers + [None] * (3 - len(answers))
    assert all(map(same, answers, FRAMES))
    return len(answers)


def test_answers_come_back_bit_for_bit(output, journal_file):
    with Journal(output) as journal:
        assert journal.rows == 15
        journal.begin(HEADER)
        assert taken(journal) == 3
    assert journal_file.exists()


def test_a_frame_is_read_only_as_it_was_written():
    without = frame(1, probabilities=False)
    assert Frame.from_bytes(without.to_bytes(), 3, False) is not None
    assert Frame.from_bytes(without.to_bytes(), 3, True) is None
    assert Frame.from_bytes(frame(1).to_bytes(), 3, False) is None
    assert Frame.from_bytes(without.to_bytes(), 1, False) is None  # label 1 of one label
    odd = frame(1)
    odd.answers.decisions[:] = [0, 5]
    assert Frame.from_bytes(odd.to_bytes(), 3, True) is None
    odd = frame(1)
    odd.answers.reasons[0] = [len(REASONS), 0]
    assert Frame.from_bytes(odd.to_bytes(), 3, True) is None
    assert Frame.from_bytes(b"", 3, False) is None


def test_a_frame_of_before_there_were_reasons_is_read_without():
    for probabilities in (False, True):
        whole = frame(1, probabilities=probabilities)
        old = Frame.from_bytes(whole.to_bytes()[: -2 * 2 * 4], 3, probabilities)
        assert old.answers.reasons.tolist() == [[0, -1]] * 2
        for column, same in zip(old.answers.columns[:-1], whole.answers.columns, strict=False):
            np.testing.assert_array_equal(column, same)


def test_a_journal_cut_off_at_any_byte_keeps_its_whole_frames(output, journal_file):
    whole = journal_file.read_bytes()
    counts = []
    for length in range(len(whole) + 1):
        journal_file.write_bytes(whole[:length])
        with Journal(output) as journal:
            journal.begin(HEADER)
            rows, count = journal.rows, taken(journal)
            assert rows == sum(each.rows for each in FRAMES[:count])
            for each in FRAMES[count:]:
                journal.append(each)
        assert journal_file.read_bytes() == whole
        counts.append(count)
    assert counts == sorted(counts)
    assert [counts.count(count) for count in (1, 2, 3)] == [
        len(FRAMES[1].to_bytes()) + 8,
        len(FRAMES[2].to_bytes()) + 8,
        1,
    ]


def test_a_flipped_bit_anywhere_never_gives_another_answer(output, journal_file):
    whole = journal_file.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        journal_file.write_bytes(damaged)
        if place < 16:  # instead of overwriting somebody's file
            with pytest.raises(OutputError, match="is not one of bertcnn's"):
                Journal(output)
        else:
            with Journal(output) as journal:
                journal.begin(HEADER)
                assert taken(journal) < 3


def test_noise_behind_the_frames_is_dropped(output, journal_file):
    whole = journal_file.read_bytes()
    for noise in (bytes(4096), b"\xff" * 4096, whole[-40:], struct.pack("<II", 1 << 31, 0)):
        journal_file.write_bytes(whole + noise)
        with Journal(output) as journal:
            journal.begin(HEADER)
            assert taken(journal) == 3
        assert journal_file.read_bytes() == whole


def with_header(whole, header):
    (length,) = struct.unpack_from("<I", whole, 16)
    payload = json.dumps(header).encode()
    start = struct.pack("<I", len(payload))
    checksum = struct.pack("<I", zlib.crc32(payload, zlib.crc32(start)))
    return whole[:16] + start + checksum + payload + whole[24 + length :]


@pytest.mark.parametrize("version", [2, 4, None])
def test_a_journal_of_another_version_is_dropped_in_one_line(output, journal_file, version):
    header = {"schema_version": version, "anything": [1]}
    journal_file.write_bytes(with_header(journal_file.read_bytes(), header))
    with Journal(output) as journal:
        assert journal.rows == 0
        told = journal.begin(HEADER)
        assert f"another version of bertcnn (journal format {version}): starting over" in told
        assert journal.take(4, FRAMES[0].digest) is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("input_bytes", 2345, r"the input's size in bytes changed \(1,234, now 2,345\)"),
        (
            "input_modified_ns",
            10**18,
            r"last change changed \(2025-11-21 04:40:00\.123\+00:00, now",
        ),
        ("input_digest", "cd" * 16, r"the input's content changed \('abababababab', now 'cdcdcdcd"),
        ("model", "e" * 64, r"the model changed \('ffffffffffff', now 'eeeeeeeeeeee'\)"),
        ("engine", "openvino", r"the engine changed \('keras', now 'openvino'\)"),
        ("software", "0.2.0", r"the version of bertcnn changed \('0\.1\.0', now '0\.2\.0'\)"),
        ("text_columns", ("body",), r"the text columns changed \('subject, body', now 'body'\)"),
        ("auto_precision", "0.9", r"--auto-precision changed \('0\.95', now '0\.9'\)"),
        ("probabilities", False, r"--probabilities changed \(on, now off\)"),
        ("raw", True, r"--raw changed \(off, now on\)"),
        ("labels", 4, r"the number of labels changed \(3, now 4\)"),
        ("chunk_rows", 8, r"the rows of a chunk changed"),
        ("target", "other.csv", r"the output's name changed \('out\.csv', now 'other\.csv'\)"),
    ],
)
def test_each_change_since_is_named_and_drops_the_answers(output, journal_file, name, value, words):
    header = dataclasses.replace(HEADER, **{name: value})
    with Journal(output) as journal:
        told = journal.begin(header)
        assert re.fullmatch(
            f"an interrupted run has answered 15 rows, but since then .*{words}.*: starting over",
            told,
        )
        assert journal.take(FRAMES[0].rows, FRAMES[0].digest) is None
        assert journal.rows == 0
    assert not journal_file.exists()


def test_a_header_without_answers_does_not_limit_the_next_run(output):
    journal_file = output.with_name(".out.csv.journal")
    with Journal(output) as journal:
        journal.begin(HEADER)
        left = journal_file.read_bytes()
    journal_file.write_bytes(left)  # as after a kill
    with Journal(output) as journal:
        assert journal.begin(dataclasses.replace(HEADER, raw=True)) == ""


def test_answers_to_other_texts_are_dropped(output, journal_file):
    with Journal(output) as journal:
        assert journal.begin(HEADER) == ""
        assert journal.take(4, FRAMES[0].digest) is not None
        with pytest.raises(OtherTextsError):
            journal.take(FRAMES[1].rows, FRAMES[0].digest)
        assert journal.rows == 0
        journal.begin(HEADER)
        assert journal.take(4, FRAMES[0].digest) is None
        journal.append(FRAMES[0])
    with Journal(output) as journal:
        journal.begin(HEADER)
        assert journal.take(4, FRAMES[0].digest) is not None
    assert journal_file.exists()


def test_another_file_with_a_journals_name_is_left_alone(output):
    there = output.with_name(".out.csv.journal")
    there.write_text("dear diary, today nothing happened")
    for restart in (False, True):
        with pytest.raises(
            OutputError, match=r"the hidden file '.*\.out\.csv\.journal' is not one of bertcnn's"
        ):
            Journal(output, restart=restart)
    assert there.read_text() == "dear diary, today nothing happened"
    there.unlink()
    there.mkdir()
    with pytest.raises(OutputError, match="could not be written"):
        Journal(output)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_is_followed_for_the_output_never_for_the_journal(output, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    output.symlink_to(elsewhere / "real.csv")
    with Journal(output) as journal:
        journal.begin(HEADER)
        assert (elsewhere / ".real.csv.journal").exists()
    (elsewhere / "victim").write_text("")
    (elsewhere / ".real.csv.journal").symlink_to(elsewhere / "victim")
    with pytest.raises(OutputError, match="could not be written"):
        Journal(output)


def test_the_longest_names_have_journals_of_their_own(tmp_path):
    with (
        Journal(tmp_path / ("x" * 250 + "1.csv")) as first,
        Journal(tmp_path / ("x" * 250 + "2.csv")) as second,
    ):
        first.begin(HEADER)
        second.begin(HEADER)
        assert len(list(tmp_path.iterdir())) == 2


def test_the_state_of_an_input_is_its_size_time_and_both_ends(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"a" * 3_000_000)
    state = InputState.of(path)
    status = path.stat()
    assert state.is_that_of(path)
    for place in (0, 2_999_999):
        with path.open("r+b") as stream:
            stream.seek(place)
            stream.write(b"b")
        assert not state.is_that_of(path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert state.is_that_of(path)  # the content is not read
        assert InputState.of(path).input_digest != state.input_digest
        path.write_bytes(b"a" * 3_000_000)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert InputState.of(path) == state
    path.rename(tmp_path / "moved.csv")
    assert InputState.of(tmp_path / "moved.csv") == state
    assert not state.is_that_of(path)
