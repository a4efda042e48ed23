"""`bertcnn lm`: a language model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import answer, command_line, print_message, show, summary
from bertcnn.cli.options import OutFolder, Seed, Summary, Text, argument, given, grouped, option
from bertcnn.cli.tasks import TaskFlags, checked_model, task_training
from bertcnn.cli.texts import TextsCommand, given_texts
from bertcnn.wording import count

lm_app = typer.Typer(
    help="Train a language model on texts, and complete texts with it.", no_args_is_help=True
)

Saved = Annotated[str, argument("Folder or URL of a language model.", metavar="MODEL")]
Files = Annotated[
    list[Path],
    argument(
        "Text files with blank lines between texts, or tables with a text in each row.",
        metavar="TEXTS...",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LanguageTrainingFlags:
    """Changes of `LanguageTrainingSettings`."""

    epochs: Annotated[int | None, option("Passes over the texts, at most.", default="60")] = None
    vocabulary_size: Annotated[
        int | None, option("WordPieces, at most.", "--pieces", default="4000")
    ] = None
    time_budget: Annotated[
        float | None, option("Minutes; training ends with the last epoch that fits.")
    ] = None
    validation_fraction: Annotated[
        float | None,
        option(
            "Share of the texts that chooses the epoch; 0 to learn all by heart.",
            "--held-out",
            default="0.1",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LanguageShapeFlags:
    """Changes of `LanguageModelSettings`."""

    layers: Annotated[int | None, option("Blocks.", default="2")] = None
    width: Annotated[int | None, option("Model width, a multiple of 4.", default="128")] = None
    context_tokens: Annotated[
        int | None, option("Tokens that a prediction sees.", "--context", default="128")
    ] = None


@lm_app.command("train")
@grouped
def train(
    texts: Files,
    out: OutFolder,
    text: Text = None,
    *,
    shape: LanguageShapeFlags,
    settings: LanguageTrainingFlags,
    flags: TaskFlags,
) -> None:
    """Train a language model on texts.

    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.tasks.language_model import FOLDER, read_documents

    FOLDER.check_target(out, flags.overwrite)
    documents = read_documents(texts, text=text)

    with task_training(out, flags) as run:
        from bertcnn.tasks.language_model import LanguageModel

        run.model = LanguageModel(
            model=given(shape),
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            progress=run.progress,
        ).fit(documents, savepoints=run.savepoints)
    figures = run.model.metrics_
    apart = figures["validation_texts"]
    print_message(
        f"Perplexity {figures['validation_perplexity_per_token']:,.1f} per token on"
        f" {count(apart, 'validation text') if apart else 'the texts that it has learned'}."
    )
    start = " ".join(documents[0].split()[:3])
    print_message(f"Next: {command_line('lm', 'complete', out, start)}")


@lm_app.command("complete", cls=TextsCommand)
def complete(
    model: Saved,
    prompts: Annotated[
        list[str] | None,
        argument("Starts of texts; by default lines of standard input.", metavar="[PROMPT]..."),
    ] = None,
    max_tokens: Annotated[int, option("Tokens to generate, at most.")] = 40,
    temperature: Annotated[
        float | None,
        option(
            "Below 1: more probable tokens; above 1: more surprising ones; 0: greedy.",
            default="1 with --top-k or --top-p, else 0",
        ),
    ] = None,
    top_k: Annotated[
        int | None, option("Draw from this many most probable tokens.", default="all")
    ] = None,
    top_p: Annotated[
        float | None,
        option("Draw from the fewest tokens with this probability in total.", default="1"),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Continue texts: with the most probable tokens, or with tokens that are drawn."""
    from bertcnn.tasks.language_model import FOLDER

    folder = checked_model(model, FOLDER)
    from bertcnn.tasks.language_model import LanguageModel

    loaded = LanguageModel.load(folder)
    for prompt in given_texts(prompts):
        completion = loaded.generate(
            prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )
        answer(completion.text)


@lm_app.command("evaluate")
def evaluate(model: Saved, texts: Files, text: Text = None, as_json: Summary = False) -> None:
    """Perplexity of texts, best ones that the model was not trained on."""
    from bertcnn.tasks.language_model import FOLDER, read_documents

    documents = read_documents(texts, text=text)
    folder = checked_model(model, FOLDER)
    from bertcnn.tasks.language_model import LanguageModel

    figures = LanguageModel.load(folder).perplexity(documents)
    if as_json:
        summary(figures)
    show(
        f"{count(figures.texts, 'text')}: perplexity {figures.per_word:,.1f} per word,"
        f" {figures.per_token:,.1f} per token"
    )
    if figures.unknown:
        print_message(
            f"{count(figures.unknown, 'word')} of {figures.words:,} have a character that the model"
            " does not know; their spelling was not predicted."
        )
