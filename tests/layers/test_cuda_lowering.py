"""GPU programs without a GPU: lowered for CUDA on a CPU, and their values."""

from collections import Counter, namedtuple

import keras
import numpy as np
import pytest

from bertcnn.inference.keras_engine import with_evidence
from bertcnn.layers.attention import DocumentMask, attend, attend_fused
from bertcnn.models.bert import Bert
from bertcnn.models.classifier import BertCnn, CnnHead
from bertcnn.models.pretraining import BertPretraining
from bertcnn.settings import EncoderSettings, HeadSettings

pytestmark = [
    pytest.mark.on_jax,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="only JAX lowers for other devices"
    ),
]
ROWS, TOKENS, WIDTH, HEADS, LAYERS, CLASSES = 2, 16, 32, 2, 2, 3
FORWARD, BACKWARD = "__cudnn$fmhaScaleBiasSoftmax", "__cudnn$fmhaScaleBiasSoftmaxBackward"
Operation = namedtuple("Operation", "name target operands")


def inputs(*names, tokens=TOKENS):
    return {
        name: np.ones((ROWS, tokens), np.int32) for name in ("token_ids", "segment_ids", *names)
    }


PADDED, PACKED = inputs("padding_mask"), inputs("document_ids", "position_ids")
MASKED = {name: np.zeros((ROWS, 3), np.int32) for name in ("masked_positions", "document_starts")}


def encoder(*, packed=False, heads=HEADS, attention_dropout=0.0):
    settings = EncoderSettings(
        vocabulary_size=30,
        width=WIDTH,
        layers=LAYERS,
        heads=heads,
        feed_forward_width=64,
        max_positions=TOKENS,
        attention_dropout=attention_dropout,
    )
    return Bert(settings, packed=packed, dtype="mixed_bfloat16")


def classifier(*, packed=False, **shape):
    settings, documents = HeadSettings(filters=4), 2 if packed else None
    head = CnnHead(WIDTH, CLASSES, settings, documents=documents, dtype="mixed_bfloat16")
    return BertCnn(encoder(packed=packed, **shape), head)


@pytest.fixture
def lowered(monkeypatch):
    """Lower a model's function for CUDA; returns the operations of its program.

    Keras and JAX look for a GPU and its cuDNN during lowering, so both are simulated.
    """
    import jax
    import jax._src.cudnn.fused_attention_stablehlo as cudnn
    from jax.extend.mlir import ir

    monkeypatch.setattr(cudnn, "check_cudnn_version", lambda: 91100)
    monkeypatch.setattr(cudnn, "check_compute_capability", lambda _: True)
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: ["cuda:0"])

    def operations(model, given, *, training):
        def answer(weights, fixed):
            return model.stateless_call(weights, fixed, given, training=training)[0]

        def loss(weights, fixed):
            return sum(
                part.astype("float32").sum() for part in jax.tree.leaves(answer(weights, fixed))
            )

        weights, fixed = (
            [variable.value for variable in variables]
            for variables in (model.trainable_variables, model.non_trainable_variables)
        )
        traced = jax.jit(jax.grad(loss) if training else answer).trace(weights, fixed)
        program = traced.lower(lowering_platforms=("cuda",)).compiler_ir("stablehlo")
        found = []

        def note(operation):
            named = "call_target_name" in operation.attributes
            target = operation.attributes["call_target_name"].value if named else None
            types = tuple(str(operand.type) for operand in operation.operands)
            found.append(Operation(operation.name, target, types))
            return ir.WalkResult.ADVANCE

        program.operation.walk(note)
        return found

    return operations


def products(operations):
    """The operand types of matrix products, with counts."""
    return Counter(
        tuple(kind[:-1].rsplit("x", 1)[1] for kind in one.operands)
        for one in operations
        if one.name == "stablehlo.dot_general"
    )


def cudnn_calls(operations):
    return Counter(one.target for one in operations if (one.target or "").startswith("__cudnn"))


@pytest.mark.parametrize(("packed", "given"), [(False, PADDED), (True, PACKED)])
def test_attention_uses_cudnn_forward_and_backward(lowered, packed, given, caplog):
    model = classifier(packed=packed)
    assert cudnn_calls(lowered(model, given, training=False)) == {FORWARD: LAYERS}
    assert cudnn_calls(lowered(model, given, training=True)) == {FORWARD: LAYERS, BACKWARD: LAYERS}
    assert not caplog.records


@pytest.mark.parametrize(("heads", "tokens"), [(8, TOKENS), (HEADS, TOKENS - 1)])
def test_cudnn_is_not_used_for_unsupported_shapes(lowered, heads, tokens, caplog):
    given = inputs("padding_mask", tokens=tokens)
    assert not cudnn_calls(lowered(classifier(heads=heads), given, training=True))
    assert not caplog.records


def test_scoring_multiplies_in_bfloat16_except_logits_and_normalises_in_float32(lowered):
    scoring = with_evidence(classifier())
    assert all(len(output.shape) == 2 for output in scoring.outputs)  # no token activations
    operations = lowered(scoring, PADDED, training=False)
    assert cudnn_calls(operations) == {FORWARD: LAYERS}
    counts = products(operations)
    assert counts.pop(("f32", "f32")) == 1
    assert set(counts) == {("bf16", "bf16")}
    roots = [one.operands for one in operations if one.name == "stablehlo.rsqrt"]
    assert len(roots) == 2 * LAYERS + 1
    assert all("f32" in kind for operands in roots for kind in operands)


def test_attention_with_dropout_is_explicit_with_a_float32_softmax(lowered):
    model = classifier(attention_dropout=0.1)
    assert cudnn_calls(lowered(model, PADDED, training=False)) == {FORWARD: LAYERS}
    operations = lowered(model, PADDED, training=True)
    assert not cudnn_calls(operations)
    scores = f"tensor<{ROWS}x{HEADS}x{TOKENS}x{TOKENS}x"
    softmax = [
        one.operands
        for one in operations
        if one.name == "stablehlo.exponential" and one.operands[0].startswith(scores)
    ]
    assert softmax == [(f"{scores}f32>",)] * LAYERS
    products = [
        one.operands
        for one in operations
        if one.name == "stablehlo.dot_general" and one.operands[0].startswith(scores)
    ]
    assert products
    assert all(kind.endswith("xbf16>") for operands in products for kind in operands)


@pytest.mark.parametrize(
    ("make", "given", "tables"),
    [
        (classifier, PADDED, {30}),
        (lambda: classifier(packed=True), PACKED, {30, TOKENS}),
        (
            lambda: BertPretraining(encoder(packed=True)),
            PACKED | MASKED,
            {30, TOKENS, ROWS * TOKENS},
        ),
    ],
    ids=["padded", "packed", "pretraining"],
)
def test_gradients_are_scattered_only_in_float32_and_not_for_segments(lowered, make, given, tables):
    scatters = [
        one.operands
        for one in lowered(make(), given, training=True)
        if one.name == "stablehlo.scatter"
    ]
    assert {operands[0] for operands in scatters} == {
        f"tensor<{rows}x{WIDTH}xf32>" for rows in tables
    }
    assert all("bf16" not in kind for operands in scatters for kind in operands)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("bfloat16", 0.05)])
@pytest.mark.parametrize("packed", [False, True])
def test_both_attentions_have_the_same_gradients_and_a_row_without_tokens_finite_ones(
    packed, dtype, close
):
    import jax

    lengths = np.array([[TOKENS], [5], [0]])
    mask = (np.arange(TOKENS) < lengths).astype(np.int32)
    if packed:
        documents = np.asarray(DocumentMask()(mask * (1 + np.arange(TOKENS) // 4)))
        mask = documents * mask[:, :1, None]
    generator = np.random.default_rng(0)
    *parts, upstream = generator.normal(size=(4, 3, TOKENS, HEADS, 8)).astype(np.float32)
    parts = [keras.ops.cast(part, dtype) for part in parts]

    def gradients(context_of):
        return jax.grad(
            lambda *given: (context_of(*given, mask).astype("float32") * upstream).sum(), (0, 1, 2)
        )(*parts)

    for fused, plain in zip(
        gradients(attend_fused), gradients(lambda *given: attend(*given)[0]), strict=True
    ):
        fused, plain = np.asarray(fused, np.float32), np.asarray(plain, np.float32)
        assert np.isfinite(fused).all()
        np.testing.assert_allclose(fused[:2], plain[:2], rtol=0, atol=close)
