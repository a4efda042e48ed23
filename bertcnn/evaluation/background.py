"""Texts about anything, against which a model learns what its own texts are like.

Messages to many trades, everyday talk, news, code, spam, scams, job applications, praise, mail for
somebody else, and other languages; all were written for this. A model keeps a direction learned
from them (`bertcnn.evaluation.out_of_scope`) and no text.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def background_texts() -> tuple[str, ...]:
    """All of them, none blank, each once."""
    lines = files("bertcnn.evaluation").joinpath("background.txt").read_text("utf-8").splitlines()
    return tuple(dict.fromkeys(line for line in lines if line.strip()))
