"""Files written by earlier versions.

From the first release on, these stay readable: saved models, their engines, and the
journals of interrupted scoring runs. tests/golden/saved holds one of each. A format with a new
number gets another folder next to it, and these tests cover all of them.
"""

import json
import shutil
import struct
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from bertcnn import load, score_csv
from bertcnn.bundle.bundle import read_bundle
from bertcnn.bundle.engine import ENGINE_SCHEMA_VERSION, read_engine
from bertcnn.bundle.schemas import SCHEMA_VERSION
from bertcnn.scoring.journal import SCHEMA_VERSION as JOURNAL_VERSION
from tests.golden.make_saved_golden import ROWS, TEXTS, write_rows
from tests.listener import Listener

GOLDEN = Path(__file__).parent / "golden" / "saved"
MODEL = GOLDEN / "model"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
INT8 = 0.02  # tolerance between processors in int8, and between int8 and float32


@pytest.fixture
def rebuilt(tmp_path):
    """The golden model without its engine, which is rebuilt from the weights."""
    shutil.copytree(MODEL, tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "engine")
    return load(tmp_path / "model")


def with_this_version(journal):
    """The journal marked with this version of bertcnn; another version's would be dropped."""
    (length,) = struct.unpack_from("<I", journal, 16)
    header = json.loads(journal[24 : 24 + length]) | {"software": version("bertcnn")}
    payload = json.dumps(header).encode()
    start = struct.pack("<I", len(payload))
    checksum = struct.pack("<I", zlib.crc32(payload, zlib.crc32(start)))
    return journal[:16] + start + checksum + payload + journal[24 + length :]


def test_the_golden_files_have_the_current_formats():
    bundle_id = read_bundle(MODEL).bundle_id
    record = read_engine(MODEL, bundle_id).record
    header = (GOLDEN / "scored.csv.journal").read_bytes()[24:].split(b"}")[0] + b"}"
    assert (
        read_bundle(MODEL).config.schema_version,
        record.schema_version,
        json.loads(header)["schema_version"],
    ) == (SCHEMA_VERSION, ENGINE_SCHEMA_VERSION, JOURNAL_VERSION)


def test_a_stored_model_answers_with_its_stored_engine(caplog):
    predictor = load(MODEL)
    np.testing.assert_allclose(predictor.predict_proba(TEXTS), EXPECTED["stored"], atol=INT8)
    ours = [r for r in caplog.records if r.name.startswith("bertcnn")]
    assert not ours  # no warning about an unusable engine
    assert predictor.hierarchy.parents == ("net",)
    assert predictor.bundle.decisions.thresholds
    assert predictor.bundle.scope


def test_a_stored_model_answers_with_an_engine_built_from_its_weights(rebuilt):
    assert rebuilt.engine.name == "openvino-float32"
    np.testing.assert_allclose(rebuilt.predict_proba(TEXTS), EXPECTED["rebuilt"], atol=1e-4)


def test_scoring_resumes_from_a_stored_journal(rebuilt, tmp_path):
    write_rows(tmp_path / "in.csv")
    journal = (GOLDEN / "scored.csv.journal").read_bytes()
    (tmp_path / ".scored.csv.journal").write_bytes(with_this_version(journal))
    progress, out = Listener(), tmp_path / "scored.csv"
    report = score_csv(rebuilt, tmp_path / "in.csv", out, probabilities=True, progress=progress)
    assert "4,096 rows were already answered by an interrupted run" in " ".join(progress.notes)
    assert (report.rows, report.blank) == (ROWS, ROWS // len(TEXTS))
    begin = out.read_bytes().splitlines(keepends=True)[: 1 + len(TEXTS)]
    assert b"".join(begin) == (GOLDEN / "scored.csv").read_bytes()
