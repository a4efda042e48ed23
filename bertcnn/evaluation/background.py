"""General texts that serve as background for the out-of-scope detector.

Messages to many trades, everyday talk, news, code, spam, scams, job applications, praise,
misdirected mail, and other languages; all written for this purpose. A model stores only a direction
computed from them (`bertcnn.evaluation.out_of_scope`), no text.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def background_texts() -> tuple[str, ...]:
    """All background texts, without blanks and duplicates."""
    lines = files("bertcnn.evaluation").joinpath("background.txt").read_text("utf-8").splitlines()
    return tuple(dict.fromkeys(line for line in lines if line.strip()))
