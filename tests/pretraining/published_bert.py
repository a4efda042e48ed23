"""A small BertForMaskedLM as Hugging Face saves it, and its logits computed with NumPy alone.

Weights are random. Names and formulas follow transformers' `modeling_bert.py`; nothing of bertcnn
is used.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scipy.special import erf, softmax

VOCABULARY = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("rome", "paris", "is", "the", "of", "italy", "france", "."),
    *("capital", "king", "city", "##s", "river"),
)
LAYERS, HEADS, WIDTH, FEED_FORWARD, POSITIONS, EPSILON = 2, 4, 16, 24, 12, 1e-12
PADDED = 24  # rows of the embeddings: more than the pieces, as in many published checkpoints
CONFIG = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "vocab_size": PADDED,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": FEED_FORWARD,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": EPSILON,
    "pad_token_id": 0,
    "torch_dtype": "float32",
    "transformers_version": "4.57.1",
}
_BLOCK = {
    "attention.self.query": (WIDTH, WIDTH),
    "attention.self.key": (WIDTH, WIDTH),
    "attention.self.value": (WIDTH, WIDTH),
    "attention.output.dense": (WIDTH, WIDTH),
    "attention.output.LayerNorm": (WIDTH,),
    "intermediate.dense": (FEED_FORWARD, WIDTH),
    "output.dense": (WIDTH, FEED_FORWARD),
    "output.LayerNorm": (WIDTH,),
}


def random_weights() -> dict[str, np.ndarray]:
    """Tensors by Hugging Face's names; a BertForMaskedLM has no pooler, and its decoder is tied."""
    modules = {
        "bert.embeddings.LayerNorm": (WIDTH,),
        **{
            f"bert.encoder.layer.{layer}.{name}": shape
            for layer in range(LAYERS)
            for name, shape in _BLOCK.items()
        },
        "cls.predictions.transform.dense": (WIDTH, WIDTH),
        "cls.predictions.transform.LayerNorm": (WIDTH,),
    }
    shapes = {
        "bert.embeddings.word_embeddings.weight": (PADDED, WIDTH),
        "bert.embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "bert.embeddings.token_type_embeddings.weight": (2, WIDTH),
        "cls.predictions.bias": (PADDED,),
        **{f"{name}.weight": shape for name, shape in modules.items()},
        **{f"{name}.bias": shape[:1] for name, shape in modules.items()},
    }
    generator = np.random.default_rng(20181011)
    return {
        name: generator.normal(1.0 if "LayerNorm.weight" in name else 0.0, 0.4, shape).astype(
            np.float32
        )
        for name, shape in shapes.items()
    }


def save_published(
    folder: Path, weights: Mapping[str, np.ndarray], vocabulary: Sequence[str] = VOCABULARY
) -> Path:
    """Write config.json, vocab.txt, tokenizer_config.json and model.safetensors."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocabulary), "utf-8")
    tokenizer = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def masked_logits(weights: Mapping[str, np.ndarray], token_ids: Sequence[int]) -> np.ndarray:
    """The logits of every position of one text, float64 [T, V]."""
    w = {name.removeprefix("bert."): value.astype(np.float64) for name, value in weights.items()}

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        return x * 0.5 * (1 + erf(x / np.sqrt(2)))

    def heads(name: str, x: np.ndarray) -> np.ndarray:  # [H, T, K]
        return dense(name, x).reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    tokens = w["embeddings.word_embeddings.weight"]
    places = w["embeddings.position_embeddings.weight"][: len(token_ids)]
    segment = w["embeddings.token_type_embeddings.weight"][0]
    x = norm("embeddings.LayerNorm", tokens[list(token_ids)] + places + segment)  # [T, D]
    for layer in range(LAYERS):
        block = f"encoder.layer.{layer}"
        query, key, value = (
            heads(f"{block}.attention.self.{name}", x) for name in ("query", "key", "value")
        )
        scores = softmax(query @ key.transpose(0, 2, 1) / np.sqrt(WIDTH // HEADS), axis=-1)
        mixed = (scores @ value).transpose(1, 0, 2).reshape(x.shape)
        x = norm(
            f"{block}.attention.output.LayerNorm",
            x + dense(f"{block}.attention.output.dense", mixed),
        )
        inner = gelu(dense(f"{block}.intermediate.dense", x))
        x = norm(f"{block}.output.LayerNorm", x + dense(f"{block}.output.dense", inner))
    head = "cls.predictions.transform"
    logits: np.ndarray = norm(f"{head}.LayerNorm", gelu(dense(f"{head}.dense", x))) @ tokens.T
    return logits + w["cls.predictions.bias"]
