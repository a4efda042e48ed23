"""A competitor of scoring.py: KerasHub's BertTextClassifier.

It has our encoder's weights, and runs in its own process.

Its preprocessor pads every text to one length, 512 tokens by default. Here the length is that of
the longest text, the best possible setting; the batch size is 64. It uses the tanh approximation of
GELU, which takes as long as the exact form, or less.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.measuring import TEXT, measure, parser, read_rows, write_scored
from bertcnn import load_keras

_BATCH_ROWS = 64


def main() -> None:
    """Load the model, then score and print the speed."""
    options = parser("a folder of peer_model.py").parse_args()
    load_keras()
    import keras_hub

    hub = keras_hub.models
    labels = json.loads((options.model / "labels.json").read_text(encoding="utf-8"))
    lowercase = json.loads((options.model / "tokenizer_config.json").read_text(encoding="utf-8"))[
        "do_lower_case"
    ]
    tokenizer = hub.BertTokenizer(str(options.model / "vocab.txt"), lowercase=lowercase)
    backbone = hub.BertBackbone.from_preset(str(options.model))
    longest = (
        max(
            len(tokenizer(row[TEXT]))
            for path in (options.source, options.warm_up)
            for row in read_rows(path)
        )
        + 2
    )
    preprocessor = hub.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=min(longest, backbone.max_sequence_length)
    )
    classifier = hub.BertTextClassifier(
        backbone=backbone, num_classes=len(labels), preprocessor=preprocessor, activation="softmax"
    )

    def score(source: Path, target: Path) -> None:
        rows = read_rows(source)
        shares = classifier.predict([row[TEXT] for row in rows], batch_size=_BATCH_ROWS, verbose=0)
        places = np.argmax(shares, axis=1)
        write_scored(
            target, rows, [labels[place] for place in places], np.max(shares, axis=1).tolist()
        )

    measure(
        score, options, f"KerasHub {keras_hub.__version__}, {preprocessor.sequence_length} tokens"
    )


if __name__ == "__main__":
    main()
