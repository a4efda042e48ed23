"""KerasHub's presets: as `save_to_preset` writes them, and damaged in many ways."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from bertcnn.encoders import keras_hub_source
from bertcnn.encoders.config import read_settings
from bertcnn.encoders.convert import load_encoder
from bertcnn.encoders.download import encoder_info, fetch_encoder
from bertcnn.encoders.keras_hub import read_preset_settings, read_preset_tensors
from bertcnn.errors import BertCNNError, EncoderError
from bertcnn.text.tokenizer_settings import read_tokenizer_settings
from bertcnn.text.wordpiece import read_vocabulary

CLOSE = 1e-5
BATCH, TOKENS, WIDTH, POSITIONS = 3, 12, 16, 24
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the router ##s is off ! é".split()  # noqa: SIM905
NAME = "bert_tiny_en_uncased"
DENSE = "layers/transformer_encoder_1/_feedforward_output_dense/vars/0"


@pytest.fixture(scope="module")
def backbone():
    """KerasHub's BERT with random weights, none near 0 or 1, and heads unlike any width."""
    from keras_hub.models import BertBackbone

    made = BertBackbone(
        len(VOCABULARY), 2, 4, WIDTH, 32, dropout=0.2, max_sequence_length=POSITIONS
    )
    generator = np.random.default_rng(7)
    made.set_weights(
        [generator.normal(0, 0.3, weight.shape).astype(np.float32) for weight in made.weights]
    )
    return made


@pytest.fixture(scope="module")
def saved(backbone, tmp_path_factory):
    from keras_hub.models import BertTokenizer

    folder = tmp_path_factory.mktemp("preset") / "tiny"
    backbone.save_to_preset(str(folder))
    BertTokenizer(vocabulary=VOCABULARY, lowercase=True).save_to_preset(str(folder))
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the preset to damage."""
    return Path(shutil.copytree(saved, tmp_path / "copy"))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTCNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def batch():
    generator = np.random.default_rng(1)
    lengths = np.array([TOKENS, 5, 2])
    padding_mask = (np.arange(TOKENS) < lengths[:, None]).astype(np.int32)
    return {
        "token_ids": (
            generator.integers(2, len(VOCABULARY), (BATCH, TOKENS)).astype(np.int32) * padding_mask
        ),
        "segment_ids": generator.integers(0, 2, (BATCH, TOKENS)).astype(np.int32) * padding_mask,
        "padding_mask": padding_mask,
    }


def assert_same_outputs(ours, theirs, batch, *, close=CLOSE):
    mine, expected = ours.predict_on_batch(batch), theirs.predict_on_batch(batch)
    words = batch["padding_mask"].astype(bool)
    np.testing.assert_allclose(
        mine["sequence_output"][words], expected["sequence_output"][words], rtol=0, atol=close
    )
    np.testing.assert_allclose(mine["pooled_output"], expected["pooled_output"], rtol=0, atol=close)


def change_json(path, **changes):
    record = json.loads(path.read_text())
    record["config"].update(changes.pop("config", {}))
    path.write_text(json.dumps({**record, **changes}))


def same_tensors(folder, other):
    tensors, expected = (
        read_preset_tensors(place, read_preset_settings(place)) for place in (folder, other)
    )
    assert tensors.keys() == expected.keys()
    return all(np.array_equal(tensors[name], expected[name]) for name in expected)


# === What is read ===


def test_padded_batches_equal_keras_hubs(saved, backbone, batch):
    assert_same_outputs(load_encoder(str(saved)), backbone, batch)


def test_a_preset_has_its_tokenizer(saved):
    inputs = load_encoder(saved).tokenizer(["The routers", "off!"])
    assert inputs["token_ids"].tolist() == [[2, 5, 6, 7, 3], [2, 9, 10, 3, 0]]


def test_settings_vocabulary_and_case_come_from_the_preset(saved, cache):
    fetched = fetch_encoder(str(saved), cache=cache)
    settings = read_settings(fetched.folder)
    expected = {"width": WIDTH, "layers": 2, "heads": 4, "feed_forward_width": 32, "dropout": 0.2}
    expected |= {"max_positions": POSITIONS, "activation": "gelu_tanh"}
    assert expected.items() <= settings.model_dump().items()
    assert settings == read_preset_settings(saved)
    assert read_vocabulary(fetched.folder / "vocab.txt") == tuple(VOCABULARY)
    assert read_tokenizer_settings(fetched.folder).lowercase
    assert (fetched.name, fetched.source, fetched.entry) == ("tiny", f"the folder {saved}", None)


def test_a_cased_preset_stays_cased(folder, cache):
    change_json(folder / "tokenizer.json", config={"lowercase": False})
    fetched = fetch_encoder(folder, cache=cache).folder
    assert not read_tokenizer_settings(fetched).lowercase


def test_the_cached_copy_is_reused_until_the_preset_changes(folder, cache):
    first = fetch_encoder(folder, cache=cache).folder
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert fetch_encoder(folder, cache=cache).folder == first
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    (first / "model.safetensors").write_bytes(b"damaged")
    assert load_encoder(fetch_encoder(folder, cache=cache).folder)
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        file[DENSE][0, 0] = 5.0
    assert fetch_encoder(folder, cache=cache).folder != first


def test_weights_in_several_files_are_put_together(saved, backbone, folder):
    (folder / "model.weights.h5").unlink()
    backbone.save_weights(str(folder / "model.weights.json"), max_shard_size=1e-5)
    assert len(list(folder.glob("model_*.weights.h5"))) > 2
    assert same_tensors(folder, saved)
    assert encoder_info(folder).parameters == encoder_info(saved).parameters


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_widened_without_a_loss(backbone, batch, folder, dtype):
    from keras_hub.models import BertBackbone

    half = BertBackbone.from_config({**backbone.get_config(), "dtype": dtype, "name": "half"})
    half.set_weights(backbone.get_weights())
    half.save_to_preset(str(folder))
    widened = BertBackbone.from_preset(str(folder), dtype="float32")
    assert_same_outputs(load_encoder(folder), widened, batch)


def test_names_of_former_versions_are_read_as_keras_reads_them(saved, backbone, batch, folder):
    from keras_hub.models import BertBackbone

    with h5py.File(folder / "model.weights.h5", "r+") as file:
        for block in ("transformer_encoder", "transformer_encoder_1"):
            for part in ("query", "key", "value"):
                file[f"layers/{block}/_self_attention_layer"].move(
                    f"{part}_dense", f"_{part}_dense"
                )
        file.move("layers", "_layer_checkpoint_dependencies")
    assert_same_outputs(load_encoder(folder), BertBackbone.from_preset(str(folder)), batch)
    assert same_tensors(folder, saved)


def test_info_shows_the_presets_shape_without_copying_it(saved, backbone, cache):
    found = encoder_info(saved, cache=cache)
    assert (found.name, found.description, found.folder) == (
        "tiny",
        "a folder in KerasHub layout",
        saved,
    )
    assert (found.parameters, found.encoder.activation) == (backbone.count_params(), "gelu_tanh")
    assert found.size == (saved / "model.weights.h5").stat().st_size
    assert not cache.exists()


# === What is refused ===


def truncate(path):
    path.write_bytes(path.read_bytes()[:-500])


def edit_weights(change):
    def run(path):
        with h5py.File(path, "r+") as file:
            change(file)

    return run


def link_elsewhere(file):
    del file[DENSE]
    file[DENSE] = h5py.ExternalLink("/etc/passwd", "x")


def replace_by(values):
    def change(file):
        del file[DENSE]
        file.create_dataset(DENSE, data=values)

    return edit_weights(change)


def configure(**changes):
    return lambda path: change_json(path, **changes)


def name_shards(weight_map):
    def run(path):
        path.unlink()
        path.with_suffix(".json").write_text(json.dumps({"weight_map": weight_map}))

    return run


WEIGHTS, CONFIG, TOKENIZER = "model.weights.h5", "config.json", "tokenizer.json"
PIECES = "assets/tokenizer/vocabulary.txt"
CANNOT = "KerasHub cannot load"
BROKEN = {
    "truncated": (WEIGHTS, truncate, rf"{CANNOT} .*model\.weights\.h5 .*truncated file"),
    "link": (WEIGHTS, edit_weights(link_elsewhere), CANNOT),
    "NaN": (WEIGHTS, replace_by(np.full((32, WIDTH), np.nan)), "with NaN or infinity in it"),
    "shape": (WEIGHTS, replace_by(np.zeros((WIDTH, 32), np.float32)), f"{CANNOT} .*shape"),
    "backbone": (
        CONFIG,
        configure(registered_name="keras_hub>RobertaBackbone"),
        r"describes 'keras_hub>RobertaBackbone'; expected 'keras_hub>BertBackbone'",
    ),
    "setting": (CONFIG, configure(config={"rotary": True}), r"has the setting 'rotary'"),
    "heads": (CONFIG, configure(config={"num_heads": 3}), r"divisible by heads"),
    "layers": (CONFIG, configure(config={"num_layers": 3}), CANNOT),
    "tokenizer": (
        TOKENIZER,
        configure(registered_name="keras_hub>RobertaTokenizer"),
        r"describes 'keras_hub>RobertaTokenizer'; expected 'keras_hub>BertTokenizer'",
    ),
    "suffix": (TOKENIZER, configure(config={"suffix_indicator": "@@"}), "suffix_indicator '@@'"),
    "case": (TOKENIZER, configure(config={"lowercase": 1}), "'1'; expected 'true or false'"),
    "no vocabulary": (PIECES, Path.unlink, r"has no assets/tokenizer/vocabulary\.txt; expected"),
    "short vocabulary": (PIECES, lambda path: path.write_text("[PAD]\n"), "holds 1 pieces; .* 12"),
    "no weights": (WEIGHTS, Path.unlink, r"has no model\.weights\.h5"),
    "shard elsewhere": (
        WEIGHTS,
        name_shards({"x": "../../model.weights.h5"}),
        r"names '\.\./\.\./model\.weights\.h5'; expected weight files beside it",
    ),
    "no shard": (WEIGHTS, name_shards({"x": ["model_0.h5"]}), r"names 'model_0\.h5'"),
    "shards": (WEIGHTS, name_shards([]), r"names 'nothing'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_preset_is_refused_in_one_line(folder, cache, name):
    member, damage, message = BROKEN[name]
    damage(folder / member)
    with pytest.raises(BertCNNError, match=message) as refusal:
        fetch_encoder(folder, cache=cache)
    assert "\n" not in str(refusal.value)
    assert not list(cache.rglob("model.safetensors"))


# === By name ===


def kaggle_cache(saved, place, handle):
    """The cache of Kaggle's client with the preset, as if downloaded before."""
    model, version = (place / "models" / handle).parent, Path(handle).name
    shutil.copytree(saved, model / version)
    for path in saved.rglob("*"):
        if path.is_file():
            marker = model / ".complete" / version / f"{path.relative_to(saved)}.complete"
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()


@pytest.mark.parametrize("name", [NAME, "bge_small_v1.5_en"])
def test_a_preset_by_name_comes_from_kaggles_client_and_then_from_our_cache(
    saved, cache, tmp_path, monkeypatch, name
):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    handle = keras_hub_source.find_preset(name).handle
    kaggle_cache(saved, tmp_path / "kaggle", handle.removeprefix("kaggle://"))
    fetched = fetch_encoder(f"keras_hub:{name}", cache=cache)
    assert (fetched.name, fetched.source) == (f"keras_hub:{name}", f"the KerasHub preset {name}")
    shutil.rmtree(tmp_path / "kaggle")
    assert fetch_encoder(f"keras_hub:{name}", cache=cache) == fetched
    found = encoder_info(f"keras_hub:{name}", cache=cache)
    assert (found.name, found.folder, found.encoder.activation) == (
        f"keras_hub:{name}",
        fetched.folder,
        "gelu_tanh",
    )
    assert found.repository == handle


def test_an_unknown_preset_is_refused_with_the_closest_names(cache):
    with pytest.raises(
        EncoderError,
        match=rf"no BERT preset 'bert_tiny_uncased'; expected one of its \d+, such as .*{NAME}",
    ):
        fetch_encoder("keras_hub:bert_tiny_uncased", cache=cache)
    with pytest.raises(EncoderError, match=r"no BERT preset '\.\./\.\./x'"):
        fetch_encoder("keras_hub:../../x", cache=cache)


def test_info_of_a_preset_that_is_not_cached_says_how_to_get_it(cache):
    with pytest.raises(
        EncoderError,
        match=rf"not on this machine yet .*run `bertcnn encoder pull keras_hub:{NAME}`",
    ):
        encoder_info(f"keras_hub:{NAME}", cache=cache)


def test_a_kaggle_that_cannot_be_reached_is_reported(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    message = r"Kaggle cannot be reached\).*on a machine that reaches it.*the folder"
    with pytest.raises(EncoderError, match=rf"could not be fetched \({message}"):
        fetch_encoder(f"keras_hub:{NAME}", cache=cache)
