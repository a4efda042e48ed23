"""Export of an encoder to a folder of its own."""

import json

import pytest

from bertcnn.encoders.checkpoint import HEADS, EncoderCheckpoint, read_checkpoint
from bertcnn.encoders.export import export_encoder
from bertcnn.encoders.folder import FILES, PRETRAINING_RECORD, Pieces, write_encoder
from bertcnn.errors import EncoderError, OutputError
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


def test_force_overwrites_an_encoder_and_nothing_else(encoder, tmp_path):
    out = tmp_path / "out"
    export_encoder(encoder, out)
    with pytest.raises(
        OutputError, match=r"out holds an encoder already; .* overwrite it with --force"
    ):
        export_encoder(encoder, out)
    export_encoder(encoder, out, overwrite=True)
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(
        OutputError,
        match=r"holds 'thesis\.txt', which is no part of one; .* it is never overwritten",
    ):
        export_encoder(encoder, out, overwrite=True)
    assert (out / "thesis.txt").read_text() == "years of work"


def test_a_folder_or_file_of_something_else_is_never_overwritten(encoder, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.json").write_text("{}")
    with pytest.raises(OutputError, match="config is none; "):
        export_encoder(encoder, tmp_path / "config", overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file is a file"):
        export_encoder(encoder, tmp_path / "file", overwrite=True)


def test_an_encoder_that_is_not_sound_leaves_nothing(encoder, tmp_path):
    (encoder / "model.safetensors").write_bytes(b"short")
    with pytest.raises(EncoderError, match="could not be read"):
        export_encoder(encoder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]
