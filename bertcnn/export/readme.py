"""The README of an exported model, with a runnable example."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from bertcnn.bundle import Bundle
from bertcnn.export.mlflow_model import input_columns
from bertcnn.text import CLASSIFY, SEPARATE

_IDS: Final = """\
import json
import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
{imports}
labels = json.load(open("labels.json", encoding="utf-8"))
tokenizer = Tokenizer(models.WordPiece.from_file("vocab.txt", unk_token="[UNK]", max_input_chars_per_word=100))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase={lowercase})
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
ids = tokenizer.encode("My router's led is not working", add_special_tokens=False).ids
if len(ids) > {limit}:
    ids = ids[:{head}] + ids[len(ids) - {tail} :]
token_ids = np.array([[{classify}, *ids, {separate}]], "{dtype}")  # several texts: pad with {pad}, and 0 in padding_mask
{run}
{answer}
"""

_ONE: Final = """\
scaled = np.exp((logits - logits.max()) / {temperature})
print(labels[logits.argmax()], scaled.max() / scaled.sum())"""

_MULTI_LABEL: Final = """\
shares = 1 / (1 + np.exp(-logits / {temperature}))
thresholds = {thresholds}
print({{label: share for label, share, threshold in zip(labels, shares, thresholds) if share >= threshold}})"""

_OPENVINO: Final = """\
model = ov.Core().compile_model("model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})  # or some CPUs compute in bfloat16
logits = model({"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)})["logits"][0]"""

_ONNX: Final = """\
session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
(logits,) = session.run(["logits"], {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids)})[0]"""

_KERAS: Final = """\
model = keras.saving.load_model("model.keras", compile=False)
inputs = {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": np.ones_like(token_ids)}
logits = model.predict_on_batch(inputs)[0]"""

_MLFLOW: Final = """\
import mlflow
import pandas as pd

model = mlflow.pyfunc.load_model(".")
table = pd.DataFrame({{{columns}}})
print(model.predict(table, params={{"probabilities": True}}))
"""

_SAVEDMODEL: Final = """\
import tensorflow as tf
import tensorflow_text  # noqa: F401 - brings the tokenizer's operations

model = tf.saved_model.load(".")
serve = model.signatures["serving_default"]
answer = serve(texts=tf.constant(["My router's led is not working", "I was charged twice"]))
for label, shares in zip(answer["labels"].numpy(), answer["probabilities"].numpy()):
    print(label.decode(), shares.max())
"""

_EVIDENCE: Final = """\
Inputs `token_ids` and `padding_mask`, {dtype} [texts, tokens]; outputs `logits`, `activations` (the largest activation of each filter of
the CNN head), `windows` (the token at which it starts: the evidence behind a logit) and `means` (of the token embeddings)."""

_ABOUT: Final[dict[str, str]] = {
    "openvino": (
        "OpenVINO IR, {precision}, for `pip install openvino tokenizers numpy`. " + _EVIDENCE
    ),
    "onnx": (
        "ONNX (opset 20), {precision}, for `pip install onnxruntime tokenizers numpy`. " + _EVIDENCE
    ),
    "keras": (
        """\
A Keras file. It names layers of bertcnn, which has to be installed; use it to go on in Keras.

**Never open a `.keras` file of somebody you do not trust**: such a file can make Keras run what its author wants, and loaders have been
tricked again and again. This one is yours. To pass a model on, give the folder that `bertcnn train` saved: JSON and tensors, no code."""
    ),
    "mlflow": (
        """\
A model for MLflow, for `pip install mlflow-skinny pandas` beside bertcnn. It is not pickled: `model` is the folder that bertcnn saved, {precision},
and `MLmodel` names the module of bertcnn that loads it. `requirements.txt` asks for that version of bertcnn.

The input is a table with the text columns of the training file. The output has `predicted_label`, `confidence`, `decision` and `because`;
with the parameter `probabilities`, also a column `p_LABEL` for each label.

    mlflow models serve -m . --env-manager local
    curl -d '{{"dataframe_split": {{"columns": [{columns}], "data": [[{cells}]]}}}}' -H 'Content-Type: application/json' localhost:5000/invocations"""
    ),
    "savedmodel": (
        """\
A TensorFlow SavedModel that takes raw texts, for `pip install tensorflow tensorflow-text`; `assets/labels.json` names the labels in the
order of `probabilities`. Give some 32 texts at a time: they are padded to the longest. A Python string with half a surrogate pair in
it has to be made bytes by `text.encode("utf-8", "surrogatepass")`.

TensorFlow Serving takes it as version 1 of a model:

    docker run -p 8501:8501 -v "$PWD:/models/triage/1" -e MODEL_NAME=triage tensorflow/serving
    curl -d '{{"inputs": {{"texts": ["My router is broken"]}}}}' localhost:8501/v1/models/triage:predict"""
    ),
}


def readme(bundle: Bundle, form: str, precision: str, parity: str) -> str:
    """The README in Markdown. `parity` is the comparison with the original model, as a sentence."""
    dtype = "int64" if form == "onnx" else "int32"
    columns = [json.dumps(name) for name in input_columns(bundle.config.text_columns)]
    values = {
        "precision": precision,
        "dtype": dtype,
        "columns": ", ".join(columns),
        "cells": ", ".join(json.dumps("My router is broken") for _ in columns),
    }
    end = (
        ""
        if form == "mlflow"
        else " An empty text gets a label here like any other; handle such texts first."
    )
    order = "." if form == "mlflow" else ", in the order of `labels.json`."
    return (
        f"# A text classifier by bertcnn, as {form}\n\n{_ABOUT[form].format(**values)}\n\nRun this in"
        f" the folder:\n\n```python\n{_EXAMPLES[form](bundle, dtype)}```\n\nModel"
        f" {bundle.bundle_id}, {len(bundle.labels)} labels{order}\nCompared with the model it was"
        f" made of: {parity}.\n`export.json` has the figures.{end}\n"
    )


def _by_ids(imports: str, run: str) -> Callable[[Bundle, str], str]:
    def example(bundle: Bundle, dtype: str) -> str:
        settings = bundle.config.tokenizer
        limit = settings.max_tokens - 2
        return _IDS.format(
            imports=imports,
            run=run,
            lowercase=settings.lowercase,
            limit=limit,
            head=settings.head_tokens,
            tail=limit - settings.head_tokens,
            classify=bundle.vocabulary.index(CLASSIFY),
            separate=bundle.vocabulary.index(SEPARATE),
            pad=bundle.vocabulary.index("[PAD]"),
            dtype=dtype,
            answer=(_MULTI_LABEL if bundle.multi_label else _ONE).format(
                temperature=bundle.calibration.temperature,
                thresholds=list(bundle.calibration.label_thresholds),
            ),
        )

    return example


_EXAMPLES: Final[dict[str, Callable[[Bundle, str], str]]] = {
    "openvino": _by_ids("import openvino as ov\n", _OPENVINO),
    "onnx": _by_ids("import onnxruntime\n", _ONNX),
    "keras": _by_ids(
        "import keras\nimport bertcnn.models.classifier  # noqa: F401 - makes its layers known to"
        " Keras\n",
        _KERAS,
    ),
    "mlflow": lambda bundle, _dtype: _MLFLOW.format(
        columns=", ".join(
            f'{json.dumps(name)}: ["My router\'s led is not working"]'
            for name in input_columns(bundle.config.text_columns)
        )
    ),
    "savedmodel": lambda _bundle, _dtype: _SAVEDMODEL,
}
