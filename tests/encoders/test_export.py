"""Export of an encoder to a folder of its own."""

import json

import pytest

from bertcnn.encoders.checkpoint import HEADS, EncoderCheckpoint, read_checkpoint
from bertcnn.encoders.export import export_encoder
from bertcnn.encoders.folder import FILES, PRETRAINING_RECORD, Pieces, write_encoder
from bertcnn.errors import EncoderError
from tests.encoders.test_checkpoint import SETTINGS, VOCABULARY, random_tensors, same


@pytest.fixture
def encoder(tmp_path):
    folder = tmp_path / "encoder"
    folder.mkdir()
    write_encoder(
        folder, EncoderCheckpoint(SETTINGS, random_tensors()), Pieces(VOCABULARY, lowercase=False)
    )
    return folder


def test_it_has_everything_and_the_same_numbers(encoder, tmp_path):
    report = export_encoder(encoder, tmp_path / "out")
    assert report.heads == HEADS
    found = {
        path.relative_to(tmp_path / "out").as_posix()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert found == FILES - {PRETRAINING_RECORD}  # these weights are not from our own pretraining
    same(read_checkpoint(tmp_path / "out").tensors, random_tensors())
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_encoder_that_is_not_sound_leaves_nothing(encoder, tmp_path):
    (encoder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(EncoderError, match="could not be read"):
        export_encoder(encoder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
