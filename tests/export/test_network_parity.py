"""The network has four implementations: in Keras, and for OpenVINO, ONNX and TensorFlow.

All four, with one text in a row and with several, give the outputs of the Keras model on a batch
without padding.
"""

import json

import keras
import numpy as np
import onnxruntime
import openvino as ov
import pytest
from scipy.special import softmax

from bertcnn.bundle.bundle import Bundle
from bertcnn.bundle.schemas import BundleConfig, Calibration
from bertcnn.data.batches import BatchPlan, pad
from bertcnn.data.packing import PackedPlan, lay_out, plan_packed
from bertcnn.export import savedmodel_format
from bertcnn.inference.keras_engine import KerasEngine, classifier_of
from bertcnn.inference.onnx_graph import classifier_onnx
from bertcnn.inference.openvino_engine import OpenVINOEngine, token_embeddings
from bertcnn.inference.openvino_graph import classifier_graph, encoder_graph, one_text_a_row
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn
from bertcnn.settings import HeadSettings, TokenizerSettings
from bertcnn.shapes import classifier_shapes
from bertcnn.text.wordpiece import WordPieceTokenizer
from tests.tiny import tiny_settings

PAD_ID, LONGEST, LABELS = 0, 40, ("billing", "hardware", "software")
LENGTHS = (2, 3, 5, 8, 13, 21, LONGEST)  # tokens of a row; the last row is truncated
ROWS = 84
SHAPES = [
    ("gelu", (5, 1)),  # wider than the shortest rows
    ("gelu_tanh", (2, 3, 4)),
    ("relu", (1,)),
]


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape[0]}, windows {shape[1]}", scope="module")
def bundle(request, tiny_vocabulary):
    """A model in which no weight is 0 or 1, so that a missing weight is noticed."""
    activation, windows = request.param
    encoder = tiny_settings(vocabulary_size=len(tiny_vocabulary), activation=activation)
    head = HeadSettings(window_sizes=windows, filters=6)
    generator = np.random.default_rng(1)
    tensors = {
        name: (name.endswith("gamma") + 0.3 * generator.standard_normal(shape)).astype(np.float32)
        for name, shape in classifier_shapes(encoder, head, len(LABELS)).items()
    }
    config = BundleConfig(
        encoder=encoder,
        encoder_name="random",
        head=head,
        tokenizer=TokenizerSettings(max_tokens=LONGEST, head_tokens=10),
        recipe="full",
        seed=1,
        versions={},
        created_at="2026-01-01T00:00:00+00:00",
    )
    return Bundle(
        config=config,
        labels=LABELS,
        vocabulary=tiny_vocabulary,
        tensors=tensors,
        calibration=Calibration(temperature=2.0, fitted_on_rows=1),
        metrics={},
        model_card="",
    )


@pytest.fixture(scope="module")
def texts(tiny_vocabulary):
    """Rows of each length, unordered."""
    words = [piece for piece in tiny_vocabulary if piece.isalpha()]
    generator = np.random.default_rng(2)
    lengths = generator.permutation(np.resize(LENGTHS, ROWS))
    counts = lengths - 2 + np.where(lengths == LONGEST, 9, 0)
    return [" ".join(generator.choice(words, count)) for count in counts]


@pytest.fixture(scope="module")
def token_ids(bundle, texts):
    rows = WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer).encode(texts).token_ids
    assert {len(row) for row in rows} == set(LENGTHS)
    return rows


@pytest.fixture(scope="module")
def expected(bundle, token_ids):
    """The Keras model's outputs, batched by row length, so that there is no padding."""
    model = classifier_of(bundle)
    branches = [f"convolution_{window}" for window in bundle.config.head.window_sizes]
    outputs = {name: model.head.get_layer(name).output for name in (*branches, "mean", "logits")}
    head = keras.Model(model.head.input, outputs)
    hidden, mask = model.encoder_output, model.input["padding_mask"]
    inside = head({"sequence_output": hidden, "padding_mask": mask})
    whole = keras.Model(model.input, {"hidden": hidden} | inside)
    found = [{} for _ in token_ids]
    for length in LENGTHS:
        rows = [row for row, ids in enumerate(token_ids) if len(ids) == length]
        ids = np.stack([token_ids[row] for row in rows])
        masks = {"segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
        answer = whole({"token_ids": ids, **masks})
        answer = {name: np.asarray(values) for name, values in answer.items()}
        activations = np.concatenate([answer[name] for name in branches], axis=-1)  # [b, T, W * N]
        for place, row in enumerate(rows):
            found[row] = {
                "hidden": answer["hidden"][place],
                "logits": answer["logits"][place],
                "activations": activations[place].max(axis=0),
                "windows": activations[place].argmax(axis=0),
                "means": answer["mean"][place],
            }
    return found


# === The implementations: each returns its outputs for every row ===


def by_row(outputs):
    return [
        dict(zip(outputs, row, strict=True))
        for row in zip(*map(list, outputs.values()), strict=True)
    ]


def of_engine(engine, token_ids):
    answer = engine.run(token_ids, evidence=True)
    names = ("activations", "windows", "means")
    return by_row(
        {"logits": answer.logits} | {name: getattr(answer.evidence, name) for name in names}
    )


def in_one_batch(token_ids):
    """All rows in one batch, padded to the longest."""
    count = len(token_ids)
    return pad(token_ids, BatchPlan(np.arange(count), LONGEST, count), PAD_ID)


def keras_padded(bundle, token_ids, *_):
    return of_engine(KerasEngine.from_bundle(bundle, PAD_ID), token_ids)


def keras_packed(bundle, token_ids, *_):
    """The model as trained, on rows that hold several texts, and on an empty one."""
    single = classifier_of(bundle)
    plans = plan_packed(np.array([len(ids) for ids in token_ids]))
    most = max(plan.slots.shape[1] for plan in plans)
    assert most > 1
    encoder = Bert(bundle.config.encoder, packed=True)
    weights = {weight.path: weight for weight in single.weights}
    for weight in encoder.weights:
        if weight.path in weights:
            weight.assign(weights[weight.path])
    model = BertCnn(encoder, single.head.rebuilt(most))
    logits = np.full((len(token_ids), len(LABELS)), np.nan)
    for plan in plans:
        slots = np.pad(plan.slots, ((0, 1), (0, most - plan.slots.shape[1])), constant_values=-1)
        inputs = lay_out(token_ids, PackedPlan(slots, plan.length), PAD_ID)
        answer = model({name: inputs[name] for name in model.input})
        logits[slots[slots >= 0]] = np.asarray(answer)[slots >= 0]
    return by_row({"logits": logits})


def openvino_packed(bundle, token_ids, *_):
    graph = classifier_graph(bundle.tensors, bundle.config.encoder, bundle.config.head)
    return of_engine(OpenVINOEngine.of_graph(graph, PAD_ID), token_ids)


def openvino_padded(bundle, token_ids, *_):
    graph = one_text_a_row(
        classifier_graph(bundle.tensors, bundle.config.encoder, bundle.config.head)
    )
    batch = in_one_batch(token_ids)
    compiled = ov.Core().compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    answer = compiled({"token_ids": batch.token_ids, "padding_mask": batch.padding_mask})
    return by_row({name: answer[name] for name in ("logits", "activations", "windows", "means")})


def openvino_encoder(bundle, token_ids, *_):
    found = {}

    def store(rows, hidden):
        for row, own in zip(rows.tolist(), hidden, strict=True):
            found[row] = {"hidden": own[: len(token_ids[row])].copy()}

    graph = encoder_graph(bundle.tensors, bundle.config.encoder)
    token_embeddings(graph, PAD_ID, token_ids, store)
    return [found[row] for row in range(len(token_ids))]


def onnx_padded(bundle, token_ids, *_):
    model = classifier_onnx(bundle.tensors, bundle.config.encoder, bundle.config.head)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    batch = in_one_batch(token_ids)
    names = ["logits", "activations", "windows"]
    answer = session.run(
        names,
        {
            "token_ids": batch.token_ids.astype(np.int64),
            "padding_mask": batch.padding_mask.astype(np.int64),
        },
    )
    return by_row(dict(zip(names, answer, strict=True)))


def savedmodel(bundle, _, texts, folder):
    """Takes texts in batches of 32 and returns probabilities."""
    (folder / "labels.json").write_text(json.dumps(bundle.labels))
    savedmodel_format.write(bundle, folder)
    return by_row({"probabilities": savedmodel_format.probabilities(folder, bundle, texts)})


COPIES = [
    keras_padded,
    keras_packed,
    openvino_packed,
    openvino_padded,
    openvino_encoder,
    onnx_padded,
    savedmodel,
]


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: copy.__name__)
def test_every_copy_of_the_network_answers_as_the_keras_model_does(
    bundle, token_ids, texts, expected, copy, tmp_path
):
    answers = copy(bundle, token_ids, texts, tmp_path)
    assert len(answers) == len(expected) == ROWS
    same_windows, active = 0, 0
    for answer, wanted in zip(answers, expected, strict=True):
        wanted["probabilities"] = softmax(wanted["logits"] / bundle.calibration.temperature)
        for name in answer.keys() - {"windows"}:
            np.testing.assert_allclose(answer[name], wanted[name], atol=1e-4, err_msg=name)
        if "windows" in answer:
            fired = wanted["activations"] > 1e-3
            active += fired.sum()
            same_windows += (answer["windows"][fired] == wanted["windows"][fired]).sum()
    assert same_windows >= 0.99 * active  # except for ties
    assert active or "windows" not in answers[0]
