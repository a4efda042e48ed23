"""Recurrent translation with additive attention (Bahdanau et al. 2014)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from bertcnn.layers import AdditiveAttention, HashDropout
from bertcnn.models.decoding import Arrays, Source
from bertcnn.models.tied_transformer import TiedModel
from bertcnn.settings import TranslatorSettings


@keras.saving.register_keras_serializable(package="bertcnn")
class RecurrentTranslator(TiedModel):
    """A bidirectional LSTM encoder and an LSTM decoder with additive attention.

    h_j = [forward; backward]; at step t the weights alpha_tj come from s_{t-1} and h_j, the context
    phi_t is their weighted sum, s_t = f(s_{t-1}, y_{t-1}, phi_t), and the next token's probability
    is g(y_{t-1}, s_t, phi_t). s_0 is a layer on the backward state of the first token. LSTM and
    tanh layers replace the paper's gated units and maxout output; source, target and output share
    one embedding table, looked up in float32.

    Call arguments, a dict:
        source_ids: int32 [B, S].
        target_ids: int32 [B, T], the target shifted right, after a start token; T is static.

    Returns:
        Logits of the next token at each position, float32 [B, T, V].

    Source: Bahdanau et al. 2014, section 3 and appendix A.
    """

    settings_class = TranslatorSettings
    settings: TranslatorSettings

    def __init__(self, settings: TranslatorSettings, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        width, policy, seed = settings.width, self.dtype_policy, self.seed

        def initializer(offset: int) -> keras.initializers.Initializer:
            return keras.initializers.GlorotUniform(seed=seed + 10 * offset)

        self.forward, self.backward = (
            keras.layers.LSTM(
                width,
                return_sequences=True,
                go_backwards=name == "backward",
                kernel_initializer=initializer(offset),
                recurrent_initializer=keras.initializers.Orthogonal(seed=seed + 10 * offset),
                use_cudnn=False,
                name=name,
                dtype=policy,
            )
            for offset, name in enumerate(("forward", "backward"), 1)
        )
        self.attention = AdditiveAttention(width, seed=seed + 30, name="attention", dtype=policy)
        self.first_state = keras.layers.Dense(
            width, "tanh", kernel_initializer=initializer(4), name="first_state", dtype=policy
        )
        self.cell = keras.layers.LSTMCell(
            width,
            kernel_initializer=initializer(5),
            recurrent_initializer=keras.initializers.Orthogonal(seed=seed + 50),
            name="cell",
            dtype=policy,
        )
        self.output_layer = keras.layers.Dense(
            width, "tanh", kernel_initializer=initializer(6), name="output", dtype=policy
        )
        self.source_drop, self.target_drop, self.output_drop = (
            HashDropout(settings.dropout, seed=seed + offset, dtype=policy) for offset in (1, 2, 3)
        )
        for layer in (self.forward, self.backward):
            layer.build((None, None, width))
        self.attention.build((None, None, width), (None, None, 2 * width))
        self.first_state.build((None, width))
        self.cell.build((None, 3 * width))  # y and phi
        self.output_layer.build((None, 4 * width))  # y, s and phi
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Predict every next token by teacher forcing; see the class."""
        source = self.read(inputs["source_ids"], training=training)
        embedded = self.target_drop(self.tokens(inputs["target_ids"]), training=training)
        state, outputs = self.begin(source), []
        for step in range(embedded.shape[1]):
            output, state, _ = self._write(embedded[:, step], source, state)
            outputs.append(output)
        hidden = self.output_drop(ops.stack(outputs, axis=1), training=training)  # [B, T, D]
        return self.logits(hidden)

    def read(self, source_ids: Any, *, training: bool = False) -> Source:
        """The mask, the states h_j [B, S, 2D], their prepared attention keys, and s_0 [B, D]."""
        mask = ops.not_equal(source_ids, self.pad_id)
        hidden = self.source_drop(self.tokens(source_ids), training=training)
        forward = self.forward(hidden, mask=mask)
        backward = ops.flip(self.backward(hidden, mask=mask), axis=1)
        memory = ops.concatenate([forward, backward], axis=-1)  # [B, S, 2D]
        return (
            ops.cast(mask, "int32"),
            memory,
            self.attention.prepared(memory),
            self.first_state(backward[:, 0]),
        )

    def begin(self, source: Source) -> Arrays:
        """s_0 and an empty cell, float [N, D] each."""
        return source[3], ops.zeros_like(source[3])

    def step(
        self,
        token_ids: Any,
        position: Any,  # noqa: ARG002 - the state knows how far it is
        source: Source,
        written: Arrays,
    ) -> tuple[Any, Arrays, Any]:
        """Logits of the token after `token_ids`; see `bertcnn.models.decoding.Writer`."""
        hidden, written, weights = self._write(self.tokens(token_ids), source, written)
        return self.logits(hidden), written, weights

    def _write(self, embedded: Any, source: Source, state: Arrays) -> tuple[Any, Arrays, Any]:
        """One step: the output [N, D], s_t with its cell, and alpha_t [N, S]."""
        mask, memory, prepared, _ = source
        context, weights = self.attention.look(state[0][:, None], memory, prepared, mask)
        context = context[:, 0]  # phi_t, [N, 2D]
        hidden, (hidden, cell) = self.cell(
            ops.concatenate([embedded, context], axis=-1), list(state)
        )
        output = self.output_layer(ops.concatenate([embedded, hidden, context], axis=-1))
        return output, (hidden, cell), weights[:, 0]
