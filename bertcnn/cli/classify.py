"""`bertcnn classify`."""

from __future__ import annotations

import json
from typing import Annotated

from bertcnn.cli.console import answer
from bertcnn.cli.options import AutoPrecision, Engine, Model, Texts, option
from bertcnn.cli.startup import local_model, prepare_engine
from bertcnn.cli.texts import given_texts


def classify(
    model: Model,
    texts: Texts = None,
    probabilities: Annotated[
        bool, option("Also show every label's probability.", "--probabilities")
    ] = False,
    reasons: Annotated[
        bool, option("Also show why the decision is what it is.", "--reasons")
    ] = False,
    as_json: Annotated[
        bool, option("Print a JSON object per text, as serve does.", "--json")
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
    from bertcnn.bundle import read_config

    folder = local_model(model)
    read_config(folder)
    prepare_engine(engine, compiled=True)
    from bertcnn.inference import load

    predictor = load(
        folder,
        engine=engine,  # type: ignore[arg-type]
        streams=1,
        auto_precision=auto_precision,
    )
    for line in given_texts(texts):
        result = predictor.classify([line])[0]
        if as_json:
            answer(json.dumps(result.as_json(probabilities=probabilities), ensure_ascii=False))
            continue
        confidence = "" if result.confidence is None else f"{result.confidence:.4f}"
        rival = f" ({result.runner_up}?)" if result.decision == "review:ambiguous" else ""
        phrases = " | ".join(phrase.words for phrase in result.because)
        cells = [result.label or "", confidence, f"{result.decision}{rival}", phrases, line]
        if reasons:
            cells.append(result.reason)
        if probabilities:
            cells += [f"{name}={share:.4f}" for name, share in result.probabilities.items()]
        answer(*(" ".join(cell.split()) for cell in cells))
