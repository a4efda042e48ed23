"""A KerasHub preset's weights: HDF5 by an explicit map of names.

Each tensor is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertcnn.encoders.keras_hub import CONFIG, FETCH_AGAIN, weight_files
from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import EncoderSettings

if TYPE_CHECKING:
    import h5py  # type: ignore[import-untyped]

# A layer's place in the weights file -> Hugging Face's name of it, the axes of its kernel, table or
# scale, and those of its bias. D, H, K, F, V as in `layers/attention.py`; P positions, S segment
# types
_OUTSIDE_BLOCKS = {
    "reversible_embedding": ("embeddings.word_embeddings", "VD", ""),
    "position_embedding": ("embeddings.position_embeddings", "PD", ""),
    "embedding": ("embeddings.token_type_embeddings", "SD", ""),
    "layer_normalization": ("embeddings.LayerNorm", "D", "D"),
    "dense": ("pooler.dense", "DD", "D"),
}
_INSIDE_BLOCK = {
    "_self_attention_layer/query_dense": ("attention.self.query", "DHK", "HK"),
    "_self_attention_layer/key_dense": ("attention.self.key", "DHK", "HK"),
    "_self_attention_layer/value_dense": ("attention.self.value", "DHK", "HK"),
    "_self_attention_layer/output_dense": ("attention.output.dense", "HKD", "D"),
    "_self_attention_layer_norm": ("attention.output.LayerNorm", "D", "D"),
    "_feedforward_intermediate_dense": ("intermediate.dense", "DF", "F"),
    "_feedforward_output_dense": ("output.dense", "FD", "D"),
    "_feedforward_layer_norm": ("output.LayerNorm", "D", "D"),
}
# Names that Keras itself still reads (keras/src/saving/saving_lib.py): those of 2.13, and of
# private attributes
_FORMER_LAYERS = "_layer_checkpoint_dependencies/"
_DROPOUT_STATE = re.compile(r"/seed_generator/vars/0$")  # of random numbers: no weight
_FORMER_PROJECTION = re.compile(r"/_(query|key|value|output)_dense/")


@dataclass(frozen=True)
class _Place:
    """What one tensor of the weights file is.

    Hugging Face's name of it, its axes there, and their lengths.
    """

    published: str
    axes: str
    shape: tuple[int, ...]

    def convert(self, values: np.ndarray) -> np.ndarray:
        """The tensor as Hugging Face stores it.

        A kernel as a matrix [out, in], a bias flat, anything else as it is.
        """
        if self.published.endswith(".bias"):
            return values.reshape(-1)
        if len(self.axes) == 1 or self.published.startswith("embeddings."):
            return values
        return values.reshape((-1, self.shape[-1]) if self.axes == "HKD" else (self.shape[0], -1)).T


def read_preset_tensors(folder: Path, shape: EncoderSettings) -> dict[str, np.ndarray]:
    """All weights of the encoder, float32, by Hugging Face's names and in its shapes.

    Half precision is widened.

    Args:
        folder: a preset.
        shape: its settings.

    Raises:
        EncoderError: a file is broken; a tensor is missing, unknown, of another shape or kind, or
            holds NaN or infinity.
    """
    places, tensors = _places(shape), {}
    with _open_weights(folder) as datasets:
        _check(folder, datasets, places)
        for name, place in places.items():
            path, dataset = datasets[name]
            with _reading(path):
                values = _as_float32(dataset)
            if not np.isfinite(values).all():
                raise EncoderError(
                    f"{path} has {name!r} with NaN or infinity in it",
                    expected="finite numbers",
                    fix=FETCH_AGAIN,
                )
            tensors[place.published] = np.ascontiguousarray(place.convert(values))
    return tensors


def count_preset_weights(folder: Path, shape: EncoderSettings) -> int:
    """How many numbers the weights are.

    Names, shapes and kinds are checked, the numbers are not read.

    Raises:
        EncoderError: a file is broken, or a tensor is missing, unknown, or of another shape or
            kind.
    """
    with _open_weights(folder) as datasets:
        _check(folder, datasets, _places(shape))
        return sum(int(dataset.size) for _, dataset in datasets.values())


def _places(shape: EncoderSettings) -> dict[str, _Place]:
    """Every tensor of a BERT of this shape, by its name in the weights file."""
    lengths = {
        "V": shape.vocabulary_size,
        "P": shape.max_positions,
        "S": shape.segment_types,
        "D": shape.width,
        "H": shape.heads,
        "K": shape.width // shape.heads,
        "F": shape.feed_forward_width,
    }
    layers = {f"layers/{place}": found for place, found in _OUTSIDE_BLOCKS.items()}
    for number in range(shape.layers):
        block = f"layers/transformer_encoder_{number}" if number else "layers/transformer_encoder"
        for place, (published, weight_axes, bias_axes) in _INSIDE_BLOCK.items():
            layers[f"{block}/{place}"] = (
                f"encoder.layer.{number}.{published}",
                weight_axes,
                bias_axes,
            )
    places = {}
    for place, (published, weight_axes, bias_axes) in layers.items():
        for number, (parameter, axes) in enumerate((("weight", weight_axes), ("bias", bias_axes))):
            if axes:
                places[f"{place}/vars/{number}"] = _Place(
                    f"{published}.{parameter}", axes, tuple(lengths[axis] for axis in axes)
                )
    return places


_Datasets = dict[
    str, tuple[Path, "h5py.Dataset"]
]  # by today's name of the place: in which file, and the tensor


@contextmanager
def _open_weights(folder: Path) -> Iterator[_Datasets]:
    """The tensors of all weight files, open."""
    import h5py

    datasets: _Datasets = {}
    with ExitStack() as files:
        for path in weight_files(folder):
            if path.suffix == ".json":
                continue
            with _reading(path):
                file = files.enter_context(h5py.File(path, "r"))
                found = _tensors_in(path, file)
            for name, dataset in found:
                if name in datasets:
                    raise EncoderError(
                        f"{path} has {name!r} a second time",
                        expected="every tensor once",
                        fix=FETCH_AGAIN,
                    )
                datasets[name] = (path, dataset)
        yield datasets


def _tensors_in(path: Path, file: h5py.File) -> list[tuple[str, h5py.Dataset]]:
    """The datasets of one file.

    Links to elsewhere are refused, and data that is not stored in full in the file itself.
    """
    import h5py

    links: list[tuple[str, object]] = []
    # an error raised in there would not come out whole
    file.visititems_links(lambda name, link: links.append((name, link)))
    found = []
    for name, link in links:
        node = file[name] if isinstance(link, h5py.HardLink) else None
        if isinstance(node, h5py.Group) or _DROPOUT_STATE.search(name):
            continue
        if (
            not isinstance(node, h5py.Dataset)
            or node.external
            or node.is_virtual
            or node.id.get_storage_size() != node.nbytes
        ):
            raise EncoderError(
                f"{path} has {one_line(name)}, which is not stored in it as it is",
                expected="tensors, neither linked nor compressed",
                fix=FETCH_AGAIN,
            )
        found.append((_todays_name(name), node))
    return found


def _todays_name(name: str) -> str:
    if name.startswith(_FORMER_LAYERS):
        name = f"layers/{name.removeprefix(_FORMER_LAYERS)}"
    return _FORMER_PROJECTION.sub(r"/\1_dense/", name)


def _check(folder: Path, datasets: _Datasets, places: dict[str, _Place]) -> None:
    """Names, shapes and kinds, before anything is read."""
    missing, unknown = (
        sorted(places.keys() - datasets.keys()),
        sorted(datasets.keys() - places.keys()),
    )
    if missing:
        raise EncoderError(
            f"{folder} has no {missing[0]!r}",
            expected=f"every weight of the BERT in its {CONFIG}",
            fix=FETCH_AGAIN,
        )
    if unknown:
        path, _ = datasets[unknown[0]]
        raise EncoderError(
            f"{path} has {one_line(unknown[0])}",
            expected=f"only weights of the BERT in {CONFIG}",
            fix=FETCH_AGAIN,
        )
    for name, place in places.items():
        path, dataset = datasets[name]
        if dataset.shape != place.shape or not (_is_bfloat16(dataset) or dataset.dtype.kind == "f"):
            raise EncoderError(
                f"{path} has {name!r} as {dataset.dtype} {dataset.shape}",
                expected=f"floating-point numbers {place.shape}",
                fix=FETCH_AGAIN,
            )


def _is_bfloat16(dataset: h5py.Dataset) -> bool:
    """Keras writes these as two bytes of no kind and a note."""
    return (
        dataset.attrs.get("dtype") == "bfloat16"
        and dataset.dtype.itemsize == np.dtype(np.uint16).itemsize
    )


def _as_float32(dataset: h5py.Dataset) -> np.ndarray:
    if _is_bfloat16(dataset):
        return (dataset[()].view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return dataset[()].astype(np.float32)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What h5py says of a broken file, as an error the user can act on."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise EncoderError(
            f"{path} could not be read ({one_line(error)})",
            expected="a weights file of Keras",
            fix=FETCH_AGAIN,
        ) from None
