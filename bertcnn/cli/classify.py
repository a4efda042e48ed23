"""`bertcnn classify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from bertcnn.cli.console import answer, tell
from bertcnn.cli.options import AutoPrecision, Engine, Model
from bertcnn.cli.startup import prepare_engine
from bertcnn.tables.lines import undecodable


def classify(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TEXT]...", help="Texts; without any, each line of standard input."
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also show every label's probability.")
    ] = False,
    auto_precision: AutoPrecision = None,
    engine: Engine = "auto",
) -> None:
    """Classify single texts: label, confidence, decision, because (the phrases that moved the answer most) and text, with tabs between.

    The decision is auto, or review: for a person.
    If two labels come into question, the second one follows in brackets.
    """
    from bertcnn.bundle.bundle import read_config

    read_config(model)
    prepare_engine(engine)
    from bertcnn.inference.predictor import load

    predictor = load(model, engine=engine, streams=1, auto_precision=auto_precision)  # type: ignore[arg-type]
    if texts is None and sys.stdin.isatty():
        tell("One text a line; end with Ctrl-D.")
    lines = map(_as_typed, texts) if texts is not None else _lines()
    for line in lines:
        given = predictor.classify([line])[0]
        confidence = "" if given.confidence is None else f"{given.confidence:.4f}"
        rival = f" ({given.runner_up}?)" if given.decision == "review:ambiguous" else ""
        phrases = " | ".join(phrase.words for phrase in given.because)
        cells = [given.label or "", confidence, f"{given.decision}{rival}", phrases, line]
        if probabilities:
            cells += [f"{name}={share:.4f}" for name, share in given.probabilities.items()]
        answer(*(" ".join(cell.split()) for cell in cells))


def _as_typed(text: str) -> str:
    """A text of the command line.

    UTF-8, also where Python took it for another encoding since the locale says so.
    """
    return os.fsencode(text).decode("utf-8", "replace") if undecodable(text) else text


def _lines() -> Iterator[str]:
    """Standard input, line by line, as it comes."""
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        yield line.rstrip("\r\n")
