"""Pretraining as a whole: its output, resuming after a kill, and refusals."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from benchmarks.kill_pretrain import write_texts
from bertcnn.encoders.checkpoint import read_checkpoint
from bertcnn.encoders.convert import load_encoder
from bertcnn.encoders.download import encoder_info
from bertcnn.errors import OutputError, SettingsError, TrainingError
from bertcnn.models.bert import Bert
from bertcnn.models.pretraining import BertPretraining
from bertcnn.pretraining.loop import PretrainingInterrupted
from bertcnn.pretraining.run import checkpoint_folder, pretrain
from tests.pretraining.killing import SHAPE, STEPS, Listener, tiny_run


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretraining")
    write_texts(folder / "texts.txt")
    return folder


def run(place, name, listener=None, **changes):
    return tiny_run(
        place / "texts.txt", place / name, place / "cache", listener or Listener(), **changes
    )


@pytest.fixture(scope="module")
def unbroken(place):
    """The report and the notes of an uninterrupted run."""
    listener = Listener()
    report = run(place, "unbroken", listener, seconds=1000.0, logs=place / "logs")
    return report, listener.notes


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.on_jax
def test_a_run_saves_an_encoder_with_both_heads_and_its_history(unbroken, place):
    report, notes = unbroken
    assert (report.folder, report.steps, report.resumed_at) == (place / "unbroken", STEPS, 0)
    assert sorted(path.name for path in report.folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "pretraining.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert not checkpoint_folder(report.folder).exists()
    encoder = load_encoder(report.folder)
    assert encoder_info(report.folder).encoder == encoder.settings
    assert encoder.settings == SHAPE.model_copy(
        update={"vocabulary_size": encoder.settings.vocabulary_size}
    )
    assert read_checkpoint(report.folder).heads == ("pooler", "mlm", "nsp")
    story = json.loads((report.folder / "pretraining.json").read_text())
    assert (story["version"], story["steps"], story["tokens"]) == (1, STEPS, report.tokens)
    assert story["settings"]["learning_rate"] == 0.01
    assert [figures.step for figures in report.held_out] == [0, *range(1, STEPS + 1)]
    assert report.held_out[-1].perplexity < report.held_out[0].perplexity
    assert sum(note.startswith("held out after") for note in notes) == STEPS + 1


@pytest.mark.on_jax
def test_tensorboard_shows_the_figures(unbroken, place):
    def shown(part):
        files = EventAccumulator(str(place / "logs" / part)).Reload()
        return {
            name: [event.step for event in files.Tensors(name)] for name in files.Tags()["tensors"]
        }

    train, held_out = shown("train"), shown("validation")
    assert {"batch_loss", "batch_mlm_accuracy", "epoch_loss"} <= train.keys()
    assert held_out["epoch_perplexity"] == list(range(STEPS))


@pytest.mark.on_jax
def test_every_weight_has_learned(unbroken):
    found = read_checkpoint(unbroken[0].folder)
    fresh = BertPretraining(Bert(found.settings, packed=True, seed=0, name="bert"), seed=0)
    assert found.tensors.keys() == {weight.path for weight in fresh.weights}
    assert not [
        weight.path
        for weight in fresh.weights
        if np.array_equal(weight.numpy(), found.tensors[weight.path])
    ]


@pytest.mark.on_jax
def test_an_interrupted_killed_and_damaged_run_ends_with_the_same_bytes(unbroken, place):
    out, notes = place / "broken", Listener()

    def interrupt(step):
        if step == 2:
            with pytest.raises(
                OutputError,
                match=r"another run keeps its checkpoints in .*broken.checkpoints right now",
            ):
                run(place, "broken")
            raise KeyboardInterrupt

    with pytest.raises(PretrainingInterrupted, match="2 steps are done"):
        run(place, "broken", Listener(interrupt), seconds=1000.0)
    assert [path.name for path in checkpoint_folder(out).iterdir()] == ["step-000000002"]
    refuse_other_settings(place)
    command = [
        sys.executable,
        "-m",
        "tests.pretraining.killing",
        *map(str, (place / "texts.txt", out, place / "cache")),
    ]
    # 3 files a checkpoint: dies while writing the second file of the second checkpoint
    killed = subprocess.run(
        [*command, "write:5"], cwd=Path(__file__).parents[2], capture_output=True, check=False
    )
    assert killed.returncode == -9, killed.stderr.decode()[-500:]
    assert not out.exists()
    newest = max(path for path in checkpoint_folder(out).iterdir() if path.name.startswith("step"))
    assert newest.name == "step-000000003"
    (newest / "state.safetensors").write_bytes(b"torn")
    report = run(place, "broken", notes)
    assert report.resumed_at == 2
    assert any(
        "step-000000003: state.safetensors was changed" in note and note.endswith("it is skipped")
        for note in notes.notes
    )
    assert any(" training after step 2 of 9" in note for note in notes.notes)
    assert weights_of(out) == weights_of(unbroken[0].folder)
    assert report.tokens == unbroken[0].tokens
    assert report.held_out == unbroken[0].held_out
    assert not checkpoint_folder(out).exists()


def refuse_other_settings(place):
    with pytest.raises(SettingsError, match=r"learning_rate = '0.01', this run has '0.5'"):
        run(place, "broken", learning_rate=0.5)
    write_texts(place / "other.txt", 70)
    with pytest.raises(SettingsError, match="made with texts = "):
        tiny_run(place / "other.txt", place / "broken", place / "cache", Listener())


def test_a_non_finite_loss_stops_the_run_and_is_not_saved(place):
    with pytest.raises(
        TrainingError,
        match=r"(loss|norm).* became (nan|inf) at step [23];.*nothing was saved",
    ):
        run(place, "exploded", learning_rate=1e30, seconds=1000.0, held_out=0.0)
    assert not (place / "exploded").exists()
    assert not checkpoint_folder(place / "exploded").exists()


def test_an_existing_output_is_refused_before_any_work(unbroken, place, tmp_path):
    with pytest.raises(OutputError, match=r"holds an encoder already.*--force"):
        run(place, "unbroken")
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds 'diary.txt', which is no part of one"):
        tiny_run(place / "texts.txt", tmp_path, place / "cache", Listener())
    with pytest.raises(
        SettingsError, match=r"rows of 64 tokens; expected at most the 32 positions"
    ):
        pretrain(
            [place / "texts.txt"],
            tmp_path / "long",
            start=unbroken[0].folder,
            data={"sequence_length": 64, "batch_size": 2},
        )
    assert not checkpoint_folder(tmp_path / "long").exists()
