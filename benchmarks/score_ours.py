"""A competitor of scoring.py: `score_csv` with one of our engines."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from benchmarks.measuring import TEXT, measure, parser
from bertcnn import load, score_csv
from bertcnn.inference import EngineName


def main() -> None:
    """Load the model, then score and print the speed."""
    arguments = parser("our saved model")
    arguments.add_argument("--engine", choices=get_args(EngineName), default="auto")
    options = arguments.parse_args()
    predictor = load(options.model, engine=options.engine)

    def score(source: Path, target: Path) -> None:
        score_csv(predictor, source, target, text=TEXT)

    measure(score, options, predictor.engine.name)


if __name__ == "__main__":
    main()
