"""Reads a tokenizer's settings from the JSON files of an encoder's folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from bertcnn.errors import EncoderError, one_line
from bertcnn.settings import TokenizerSettings
from bertcnn.storage import read_text

_LARGEST: Final = 1 << 20  # bytes
_LIMIT: Final = "max_position_embeddings"


def read_tokenizer_settings(
    folder: Path, *, max_tokens: int | None = None, pair: bool = False
) -> TokenizerSettings:
    """The encoder's limit from `config.json` and the casing from `tokenizer_config.json`.

    Without the latter file, the tokenizer is uncased. `max_tokens` may lower the limit.

    Raises:
        EncoderError: a file is damaged, or the folder is not an encoder.
    """
    path = folder / "config.json"
    limit = read_encoder_json(path, expected="a BERT checkpoint's config.json").get(_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise EncoderError(
            f"{path} has {_LIMIT} {one_line(limit)}",
            expected="the folder of an encoder in Hugging Face layout",
            fix="give such a folder; load_encoder(folder).tokenizer also reads KerasHub's presets",
        )
    path = folder / "tokenizer_config.json"
    config = read_encoder_json(path, expected="JSON with do_lower_case") if path.exists() else {}
    lowercase = config.get("do_lower_case", True)
    if not isinstance(lowercase, bool):
        raise EncoderError(
            f"{path} has do_lower_case {one_line(lowercase)}",
            expected="true or false",
            fix="correct it, or fetch the encoder again",
        )
    most = min(limit, max_tokens or limit)
    head = min(TokenizerSettings().head_tokens, (most - 2) // 4 + 1)
    return TokenizerSettings(lowercase=lowercase, max_tokens=most, head_tokens=head, pair=pair)


def read_encoder_json(path: Path, *, expected: str) -> dict[str, Any]:
    """The JSON object in a file of an encoder.

    Raises:
        EncoderError: it cannot be read or is not an object.
    """
    try:
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {_LARGEST:,} bytes")
        config = json.loads(read_text(path))
        if not isinstance(config, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderError(
            f"{path} could not be read ({error})", expected=expected, fix="fetch the encoder again"
        ) from None
    return config
