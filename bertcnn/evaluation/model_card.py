"""MODEL_CARD.md: what a saved model is, how it was made and how good it is, without a word from the training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertcnn.evaluation.metrics import Evaluation

if TYPE_CHECKING:
    from bertcnn.bundle import BundleConfig


def model_card(config: BundleConfig, figures: Evaluation, temperature: float) -> str:
    """The card, in Markdown.

    Args:
        config: the saved model's configuration.
        figures: measured on the validation rows.
        temperature: of the calibration.
    """
    versions = ", ".join(f"{name} {number}" for name, number in sorted(config.versions.items()))
    rows = "\n".join(
        f"| {_cell(label.name)} | {label.precision:.3f} | {label.recall:.3f} | {label.f1:.3f} | {label.support} |"
        for label in figures.labels
    )
    confused = "\n".join(
        f"- {_cell(pair.actual)} called {_cell(pair.predicted)}: {pair.count} rows ({pair.share:.0%})"
        for pair in figures.most_confused  # most frequent first
    )
    return f"""# Text classifier with {len(figures.labels)} labels

Made by bertcnn: a BERT encoder ({config.encoder_name}) with a 1D-CNN head, recipe `{config.recipe}`, seed {config.seed},
on {config.created_at} ({versions}).

## Figures

On the {figures.rows} validation rows, which chose the best epoch and the temperature ({temperature:.3f}), so expect
slightly less on new rows: accuracy {figures.accuracy:.4f}, macro-F1 {figures.macro_f1:.4f}, weighted F1 {figures.weighted_f1:.4f}.

| label | precision | recall | F1 | rows |
|---|---|---|---|---|
{rows}

Most confused:

{confused or "nothing"}

## Use

For texts like those it learned from, in the same language and with the same labels. A text that belongs to none of the
labels still gets one of them. Texts over {config.tokenizer.max_tokens} tokens lose their middle.
"""


def _cell(name: str) -> str:
    """A label's name, safe inside a Markdown table."""
    return name.replace("|", "\\|").replace("\n", " ")
