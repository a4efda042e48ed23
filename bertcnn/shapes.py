"""The shapes of all weights by name, without importing Keras or NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from bertcnn.settings import (
    EncoderSettings,
    HeadSettings,
    LanguageModelSettings,
    SummariserSettings,
    TranslatorSettings,
)

Shapes = dict[str, tuple[int, ...]]


def encoder_shapes(settings: EncoderSettings) -> Shapes:
    """Shapes of an encoder without its pooler."""
    width = settings.width
    dense = _block_products(settings)
    layers = [f"layer_{number}" for number in range(settings.layers)]
    tables = {
        "tokens": settings.vocabulary_size,
        "positions": settings.max_positions,
        "segments": settings.segment_types,
    }
    return {
        **{f"embeddings/{name}": (rows, width) for name, rows in tables.items()},
        **_dense({f"{layer}/{part}": shape for layer in layers for part, shape in dense.items()}),
        **_norms(
            [
                "embeddings/normalize",
                *(
                    f"{layer}/{part}"
                    for layer in layers
                    for part in ("attention_norm", "output_norm")
                ),
            ],
            width,
        ),
    }


def pretraining_shapes(settings: EncoderSettings) -> Shapes:
    """Shapes of an encoder with its pooler and pretraining heads."""
    width = settings.width
    heads = {"pooler": (width, width), "mlm/transform": (width, width), "nsp": (width, 2)}
    return {
        **encoder_shapes(settings),
        **_dense(heads),
        **_norms(["mlm/normalize"], width),
        "mlm/bias": (settings.vocabulary_size,),
    }


def classifier_shapes(encoder: EncoderSettings, head: HeadSettings, classes: int) -> Shapes:
    """Shapes of an encoder with a CNN head, as in a saved classifier."""
    shapes = encoder_shapes(encoder)
    for window in head.window_sizes:
        shapes |= {
            f"convolution_{window}/kernel": (window, encoder.width, head.filters),
            f"convolution_{window}/bias": (head.filters,),
        }
    return {
        **shapes,
        **_dense({"logits": (len(head.window_sizes) * head.filters + encoder.width, classes)}),
    }


def int8_shapes(encoder: EncoderSettings, head: HeadSettings | None = None) -> Shapes:
    """Shapes of the tensors that replace the float32 products in an int8 engine.

    Each product has `weights`, int8 [out, in]; all other tensors are float32: `scales` of the
    outputs and `bias`. Each input has `input_factors`, which it is multiplied by, and
    `input_range`, the lower and upper bound before and after rounding to 256 steps; query, key and
    value share one. Queries and keys have an `output_range` too. `taps` are all taps of all windows
    of the head, without a bias. Without `head`, the shapes of the encoder alone.
    """
    products: dict[str, tuple[int, int]] = {}
    inputs: dict[str, int] = {}
    outputs: list[str] = []
    for number in range(encoder.layers):
        layer = f"layer_{number}"
        block = {f"{layer}/{name}": shape for name, shape in _block_products(encoder).items()}
        products |= block
        inputs[f"{layer}/attention"] = encoder.width
        inputs |= {
            f"{layer}/{name}": block[f"{layer}/{name}"][0]
            for name in ("attention/output", "expand", "contract")
        }
        outputs += [f"{layer}/attention/query", f"{layer}/attention/key"]
    shapes: Shapes = {f"{name}/bias": shape[1:] for name, shape in products.items()}
    if head is not None:
        products["taps"] = encoder.width, sum(head.window_sizes) * head.filters
        inputs["taps"] = encoder.width
    for name, (values, results) in products.items():
        shapes |= {f"{name}/weights": (results, values), f"{name}/scales": (results,)}
    for name, values in inputs.items():
        shapes |= {f"{name}/input_factors": (values,), f"{name}/input_range": (4,)}
    return shapes | {f"{name}/output_range": (4,) for name in outputs}


def question_answering_shapes(settings: EncoderSettings) -> Shapes:
    """Shapes of a question answering model."""
    return {**encoder_shapes(settings), **_dense({"spans": (settings.width, 2)})}


def token_labels_shapes(settings: EncoderSettings, tags: int) -> Shapes:
    """Shapes of a model that gives each token one of `tags` tags."""
    return {**encoder_shapes(settings), **_dense({"tags": (settings.width, tags)})}


def translator_shapes(settings: TranslatorSettings) -> Shapes:
    """Shapes of a translator."""
    width, inner = settings.width, settings.feed_forward_width
    table = {"tokens/embeddings": (settings.vocabulary_size, width)}
    if settings.architecture == "recurrent":
        cells = {"forward/lstm_cell": width, "backward/lstm_cell": width, "cell": 3 * width}
        lstms: Shapes = {}
        for name, inputs in cells.items():
            lstms |= {
                f"{name}/kernel": (inputs, 4 * width),
                f"{name}/recurrent_kernel": (width, 4 * width),
                f"{name}/bias": (4 * width,),
            }
        attention = {"query": (width, width), "memory": (2 * width, width), "score": (width, 1)}
        return {
            **table,
            **lstms,
            **{f"attention/{name}": shape for name, shape in attention.items()},
            "attention/bias": (width,),
            **_dense({"first_state": (width, width), "output": (4 * width, width)}),
        }
    blocks = [_blocks(side, settings.layers, width, inner) for side in ("encoder", "decoder")]
    return {**table, **blocks[0], **blocks[1]}


def summariser_shapes(encoder: EncoderSettings, settings: SummariserSettings) -> Shapes:
    """Shapes of a summariser: its encoder and its decoder."""
    width = encoder.width
    square = dict.fromkeys(("embed", "output/transform", "query", "key"), (width, width))
    single = dict.fromkeys(("gate", "continuation"), (width, 1))
    return {
        **encoder_shapes(encoder),
        **_dense({**square, **single}),
        **_norms(["embed_norm", "output/normalize"], width),
        **_blocks("decoder", settings.layers, width, settings.feed_forward_width),
        "output/bias": (encoder.vocabulary_size,),
    }


def language_model_shapes(settings: LanguageModelSettings) -> Shapes:
    """Shapes of a decoder-only Transformer."""
    layers = [f"layer_{number}" for number in range(settings.layers)]
    products = _block_products(settings)
    return {
        "tokens/embeddings": (settings.vocabulary_size, settings.width),
        **_dense(
            {f"{layer}/{part}": shape for layer in layers for part, shape in products.items()}
        ),
        **_norms(
            [f"{layer}/{part}" for layer in layers for part in ("attention_norm", "output_norm")],
            settings.width,
        ),
    }


def parameters_of(shapes: Shapes) -> int:
    """Number of parameters.

    Example:
        >>> parameters_of({"kernel": (2, 3), "bias": (3,)})
        9
    """
    return sum(map(math.prod, shapes.values()))


def _block_products(
    settings: EncoderSettings | LanguageModelSettings,
) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of the products in a Transformer block, by name."""
    width, inner = settings.width, settings.feed_forward_width
    attention = {
        f"attention/{part}": (width, width) for part in ("query", "key", "value", "output")
    }
    return {**attention, "expand": (width, inner), "contract": (inner, width)}


def _blocks(side: str, layers: int, width: int, inner: int) -> Shapes:
    """The blocks of a Transformer's "encoder" or "decoder", named `encoder_0` and so on."""
    attentions, normalisations = {
        "encoder": (("attention",), ("attention_norm", "output_norm")),
        "decoder": (
            ("self_attention", "source_attention"),
            ("self_norm", "source_norm", "output_norm"),
        ),
    }[side]
    dense: dict[str, tuple[int, int]] = {}
    norms: list[str] = []
    for block in (f"{side}_{number}" for number in range(layers)):
        dense |= {f"{block}/expand": (width, inner), f"{block}/contract": (inner, width)}
        dense |= {
            f"{block}/{attention}/{part}": (width, width)
            for attention in attentions
            for part in ("query", "key", "value", "output")
        }
        norms += [f"{block}/{name}" for name in normalisations]
    return {**_dense(dense), **_norms(norms, width)}


def _dense(kernels: dict[str, tuple[int, int]]) -> Shapes:
    return {f"{name}/kernel": shape for name, shape in kernels.items()} | {
        f"{name}/bias": shape[1:] for name, shape in kernels.items()
    }


def _norms(names: Iterable[str], width: int) -> Shapes:
    return {f"{name}/{part}": (width,) for name in names for part in ("gamma", "beta")}
