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
        typer.Argument(metavar="[TEXT]...", help="Texts; by default the lines of standard input."),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also show every label's probability.")
    ] = False,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Also show why the decision is what it is.")
    ] = False,
    auto_precision: AutoPrecision = None,
    engine: Engine = "auto",
) -> None:
    """Classify single texts.

    Output, separated by tabs: label, confidence, decision, because, text.
    because: the phrases with the largest effect on the answer.
    decision: auto, or why a person should review the answer.
    If two labels are likely, the second one follows in brackets.
    """
    from bertcnn.bundle.bundle import read_config

    read_config(model)
    prepare_engine(engine)
    from bertcnn.inference.predictor import load

    predictor = load(
        model,
        engine=engine,  # type: ignore[arg-type]
        streams=1,
        auto_precision=auto_precision,
    )
    if texts is None and sys.stdin.isatty():
        tell("Type one text per line; end with Ctrl-D.")
    lines = map(_as_utf8, texts) if texts is not None else _lines()
    for line in lines:
        result = predictor.classify([line])[0]
        confidence = "" if result.confidence is None else f"{result.confidence:.4f}"
        rival = f" ({result.runner_up}?)" if result.decision == "review:ambiguous" else ""
        phrases = " | ".join(phrase.words for phrase in result.because)
        cells = [result.label or "", confidence, f"{result.decision}{rival}", phrases, line]
        if reasons:
            cells.append(result.reason)
        if probabilities:
            cells += [f"{name}={share:.4f}" for name, share in result.probabilities.items()]
        answer(*(" ".join(cell.split()) for cell in cells))


def _as_utf8(text: str) -> str:
    """A text of the command line read as UTF-8, whatever encoding the locale names."""
    return os.fsencode(text).decode("utf-8", "replace") if undecodable(text) else text


def _lines() -> Iterator[str]:
    """The lines of standard input, each as soon as it arrives."""
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        yield line.rstrip("\r\n")
