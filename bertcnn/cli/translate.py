"""`bertcnn translate`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bertcnn.cli.console import answer, command_line, print_message, show, summary
from bertcnn.cli.options import (
    FileFlags,
    Force,
    OutFolder,
    Source,
    Summary,
    Target,
    Texts,
    argument,
    given,
    grouped,
    option,
)
from bertcnn.cli.tasks import TaskFlags, add_answers, check_files, checked_model, task_training
from bertcnn.cli.texts import Commands, TextsCommand, given_texts
from bertcnn.wording import count

TranslatorModel = Annotated[str, argument("Folder or URL of a translator.", metavar="MODEL")]
SourceColumn = Annotated[
    str | None, option("Column of texts in a table.", "--source", metavar="COLUMN")
]
TargetColumn = Annotated[
    str | None, option("Column of translations in a table.", "--target", metavar="COLUMN")
]
Beam = Annotated[int, option("Translations searched at once; 1: greedy.")]


class TranslateCommands(Commands):
    """`translate train ...`, and `translate MODEL ...` for everything else."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's Context
        """Insert the name of the translating command before a model's folder."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["text", *args]
        return super().parse_args(ctx, args)


translate_app = typer.Typer(
    cls=TranslateCommands,
    no_args_is_help=True,
    help="Train a translator on pairs of texts, and translate with it: translate MODEL [TEXT]...",
)


@dataclass(frozen=True, kw_only=True)
class TranslatorFlags:
    """Changes of `TranslationTrainingSettings`."""

    epochs: Annotated[int | None, option("Passes over the pairs, at most.", default="60")] = None
    vocabulary_size: Annotated[
        int | None,
        option("WordPieces, at most; about 100 for numbers and codes.", "--pieces", default="2000"),
    ] = None


@translate_app.command("train")
@grouped
def train(
    pairs: Annotated[
        Path, argument("File of pairs: a text, a tab and its translation in each line; or a table.")
    ],
    out: OutFolder,
    source: SourceColumn = None,
    target: TargetColumn = None,
    model: Annotated[
        str, option("transformer, or recurrent: LSTMs with additive attention.")
    ] = "transformer",
    *,
    settings: TranslatorFlags,
    flags: TaskFlags,
) -> None:
    """Train a translator on a file of pairs.

    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.tasks.translation import FOLDER, read_pairs

    FOLDER.check_target(out, flags.overwrite)
    corpus = read_pairs(pairs, source=source, target=target)

    with task_training(out, flags) as run:
        from bertcnn.tasks.translation import Translator

        run.model = Translator(
            model,  # type: ignore[arg-type]
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            progress=run.progress,
        ).fit(corpus.sources, corpus.targets, savepoints=run.savepoints)
    figures = run.model.metrics_
    print_message(
        f"On {figures['validation_pairs']:,} validation pairs"
        f" {figures['validation_token_accuracy']:.1%} of pieces right, given those before them."
    )
    print_message(f"Next: {command_line('translate', out, corpus.sources[0])}")


@translate_app.command("evaluate")
def evaluate(
    model: TranslatorModel,
    pairs: Annotated[Path, argument("Texts and translations, as for train.")],
    source: SourceColumn = None,
    target: TargetColumn = None,
    beam: Beam = 4,
    as_json: Summary = False,
) -> None:
    """Compare translations with given ones: the share that is equal, and chrF."""
    from bertcnn.tasks.translation import FOLDER, read_pairs

    examples = read_pairs(pairs, source=source, target=target, least=1)
    folder = checked_model(model, FOLDER)
    from bertcnn.tasks.translation import Translator

    figures = Translator.load(folder).evaluate(examples.sources, examples.targets, beam=beam)
    if as_json:
        summary(figures)
    show(
        f"{count(figures.pairs, 'pair')}: {figures.exact:.1%} translated exactly, chrF"
        f" {figures.chrf:.1f}"
    )


@translate_app.command("run")
@grouped
def run(
    model: TranslatorModel,
    source: Source,
    target: Target,
    beam: Beam = 4,
    *,
    flags: FileFlags,
    as_json: Summary = False,
) -> None:
    """Translate every text of a file: all columns, and a new one, `translation`.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    from bertcnn.tasks import translation

    check_files(source, target, flags)
    folder = checked_model(model, translation.FOLDER)
    translated = partial(translation.translate_csv, folder, source, target, beam=beam)
    add_answers(translated, target, flags, as_json, written="translation")


@translate_app.command("text", cls=TextsCommand)
def translate(
    model: TranslatorModel,
    texts: Texts = None,
    beam: Beam = 4,
    alternatives: Annotated[
        bool, option("Also show the other translations found.", "--alternatives")
    ] = False,
    alignment: Annotated[
        Path | None, option("HTML file with heat maps: which words each word was written for.")
    ] = None,
    force: Force = False,
) -> None:
    """Translate single texts: `translate MODEL`, the word `text` may be left out.

    Output, separated by tabs: translation, score, text. The score is the log-probability by length.
    """
    from bertcnn.storage import check_file_target, write_whole
    from bertcnn.tasks.translation import FOLDER

    if alignment is not None:
        check_file_target(alignment, overwrite=force)
    folder = checked_model(model, FOLDER)
    from bertcnn.tasks.translation import Translator, alignment_page

    translator = Translator.load(folder)
    shown = []
    for line in given_texts(texts):
        result = translator.translate([line], beam=beam)[0]
        answer(result.text, f"{result.score:.3f}", " ".join(line.split()))
        for text, score in result.alternatives if alternatives else ():
            answer(text, f"{score:.3f}", "")
        shown.append(result)
    if alignment is not None:
        write_whole(alignment, alignment_page(shown).encode(), overwrite=force)
