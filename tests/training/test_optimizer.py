"""Layer-wise AdamW and its schedule."""

import keras
import numpy as np

from bertcnn.settings import TrainingSettings
from bertcnn.training.optimizer import LayerwiseAdamW, WarmupLinearDecay, layer_share

GENERATOR = np.random.default_rng(0)
STEPS = [
    [GENERATOR.normal(0, size, shape).astype(np.float32) for shape in ((3, 2), (2,))]
    for size in (1.0, 0.01, 5.0, 0.3)
]


def variables():
    layer = keras.layers.Dense(
        2,
        kernel_initializer=keras.initializers.GlorotUniform(seed=1),
        bias_initializer="ones",
        name="layer_0",
    )
    layer.build((None, 3))
    return layer.trainable_variables


def trained(optimizer, steps=STEPS):
    weights = variables()
    for gradients in steps:
        optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], weights)
    return [weight.numpy() for weight in weights]


def layerwise(share, rate=0.1, weight_decay=0.3):
    return LayerwiseAdamW(rate, share, weight_decay=weight_decay, clip_norm=1.0)


def test_with_all_shares_one_it_is_keras_adamw():
    schedule = WarmupLinearDecay(0.1, 2, 6)
    theirs = keras.optimizers.AdamW(schedule, weight_decay=0.3, global_clipnorm=1.0)
    theirs.exclude_from_weight_decay(var_names=["bias"])
    for mine, his in zip(trained(layerwise(lambda _: 1.0, schedule)), trained(theirs), strict=True):
        np.testing.assert_allclose(mine, his, rtol=0, atol=1e-6)


def test_a_share_scales_the_step_and_the_decay():
    start = [weight.numpy() for weight in variables()]
    whole = trained(layerwise(lambda _: 1.0), STEPS[:1])
    shares = {"layer_0/kernel": 0.5, "layer_0/bias": 0.0}
    parts = trained(layerwise(shares.__getitem__), STEPS[:1])
    np.testing.assert_array_equal(parts[1], start[1])
    # decay and step are applied in turn, so half of each is half of the whole except for lr x decay
    # x step
    np.testing.assert_allclose(parts[0] - start[0], 0.5 * (whole[0] - start[0]), rtol=0, atol=1e-5)


def test_biases_normalisation_and_tables_do_not_decay():
    nothing = [[np.zeros((3, 2), np.float32), np.zeros(2, np.float32)]]
    start = [weight.numpy() for weight in variables()]
    kernel, bias = trained(layerwise(lambda _: 1.0), nothing)
    np.testing.assert_allclose(kernel, start[0] * (1 - 0.1 * 0.3), rtol=1e-6)
    np.testing.assert_array_equal(bias, start[1])


def test_the_rate_rises_then_falls_to_zero():
    schedule = WarmupLinearDecay(2.0, 4, 12)
    rates = [float(schedule(step)) for step in range(14)]
    np.testing.assert_allclose(rates[:4], [0.5, 1.0, 1.5, 2.0])
    np.testing.assert_allclose(rates[4:], [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0])


def test_the_rate_without_warmup_starts_at_its_peak():
    schedule = WarmupLinearDecay(1.0, 0, 2)
    again = WarmupLinearDecay.from_config(schedule.get_config())
    assert [float(again(step)) for step in range(3)] == [1.0, 0.5, 0.0]


def test_every_layer_below_learns_more_slowly():
    share = layer_share(3, TrainingSettings(layer_decay=0.5, head_multiplier=4))
    names = (
        "convolution_2/kernel",
        "logits/bias",
        "layer_2/expand/kernel",
        "layer_1/attention/query/bias",
        "layer_0/x",
        "embeddings/tokens",
    )
    assert [share(name) for name in names] == [4, 4, 1, 0.5, 0.25, 0.125]
