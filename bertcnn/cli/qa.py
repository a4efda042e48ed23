"""`bertcnn qa`: question answering."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import answer, check_json, command_line, print_message, show_figures
from bertcnn.cli.options import (
    Encoder,
    FileFlags,
    Force,
    JsonFile,
    OutFolder,
    Source,
    Summary,
    Target,
    TaskModel,
    Texts,
    argument,
    given,
    grouped,
    option,
)
from bertcnn.cli.startup import local_model, skip_converter
from bertcnn.cli.tasks import TaskFlags, add_answers, check_files, task_training
from bertcnn.cli.texts import TextsCommand, given_texts
from bertcnn.errors import SettingsError

qa_app = typer.Typer(
    help="Answer questions about texts, and fill fields from tickets.", no_args_is_help=True
)

_FIELD_HELP = 'A new column and its question: month="Which month is the bill from?"'


@dataclass(frozen=True, kw_only=True)
class AnswererFlags:
    """Changes of `QuestionTrainingSettings`."""

    epochs: Annotated[int | None, option("Passes over the questions.", default="10")] = None
    learning_rate: Annotated[float | None, option("Peak learning rate.", default="2e-4")] = None
    batch_size: Annotated[int | None, option("Windows per batch.", default="8")] = None


@qa_app.command("train")
@grouped
def train(
    questions: Annotated[
        Path,
        argument(
            "Questions with answers: .jsonl, .csv (question, context, answer, start), or"
            " SQuAD's .json."
        ),
    ],
    out: OutFolder,
    encoder: Encoder = "minilm-l6",
    max_tokens: Annotated[
        int | None, option("Tokens of a question and a part of its text.", default="256")
    ] = None,
    *,
    settings: AnswererFlags,
    flags: TaskFlags,
) -> None:
    """Fine-tune an encoder on questions with answers.

    A question without an answer has an empty one: the model learns to say that there is none.
    A training that was interrupted goes on where it was, with the same command.
    """
    from bertcnn.tables import rejects_of
    from bertcnn.tasks.question_answering import FOLDER, AnswerFigures, read_questions

    FOLDER.check_target(out, flags.overwrite)
    with task_training(out, flags) as run:
        from bertcnn.tasks.question_answering import QuestionAnswerer

        rejects = rejects_of(run.folder)
        examples = read_questions(questions, rejects=rejects, progress=run.progress)
        run.model = QuestionAnswerer(
            encoder,
            questions={} if max_tokens is None else _windows_of(max_tokens),
            training=given(settings, precision=flags.precision),
            seed=flags.seed,
            progress=run.progress,
        ).fit(examples, savepoints=run.savepoints)
    print_message("Validation questions:")
    for line in AnswerFigures.from_json(run.model.metrics_).lines:
        print_message(line)
    print_message(
        f"Next: {command_line('qa', 'ask', out, '--question', examples[0].question, 'TEXT')}"
    )


@qa_app.command("evaluate")
def evaluate(
    model: TaskModel,
    questions: Annotated[Path, argument("Questions with answers, as for train.")],
    json_file: JsonFile = None,
    force: Force = False,
) -> None:
    """Exact match and F1 on questions with known answers (SQuAD's definitions)."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import rejects_of
    from bertcnn.tasks.question_answering import read_questions

    check_json(json_file, force, questions)
    rejects = None if json_file is None else rejects_of(json_file)
    with show_progress() as progress:
        examples = read_questions(questions, rejects=rejects, progress=progress)
    folder = local_model(model)
    skip_converter()
    from bertcnn.tasks.question_answering import QuestionAnswerer

    figures = QuestionAnswerer.load(folder).evaluate(examples)
    show_figures(figures.lines, figures.to_json(), json_file, force)


@qa_app.command("ask", cls=TextsCommand)
def ask(
    model: TaskModel,
    question: Annotated[str, option("The question about each text.")],
    texts: Texts = None,
    alternatives: Annotated[bool, option("Also show other answers.", "--alternatives")] = False,
) -> None:
    """Ask a question about single texts.

    Output, separated by tabs: answer (empty if there is none), confidence, text.
    """
    skip_converter()
    from bertcnn.tasks.question_answering import QuestionAnswerer

    answerer = QuestionAnswerer.load(local_model(model))
    for line in given_texts(texts):
        (prediction,) = answerer.answer(question, [line])
        answer(
            " ".join(prediction.text.split()),
            f"{prediction.confidence:.4f}",
            " ".join(line.split()),
        )
        for other, share in prediction.alternatives if alternatives else ():
            answer(" ".join(other.split()), f"{share:.4f}", "")


@qa_app.command("extract")
@grouped
def extract(
    model: TaskModel,
    source: Source,
    target: Target,
    field: Annotated[list[str], option(_FIELD_HELP, "--field")],
    flags: FileFlags,
    as_json: Summary = False,
) -> None:
    """Fill fields from every text of a file: a column for each, its confidence, and its place.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    """
    check_files(source, target, flags)
    fields = _fields(field)
    skip_converter()
    from bertcnn.tasks.question_answering import extract_csv

    extracted = partial(extract_csv, model, source, target, fields)
    add_answers(extracted, target, flags, as_json, counted="with an answer")


def _windows_of(max_tokens: int) -> dict[str, int]:
    """Window settings: a quarter of a window is the question, a quarter is the stride."""
    return {
        "max_tokens": max_tokens,
        "question_tokens": max(4, min(64, max_tokens // 4)),
        "stride": max(1, min(64, max_tokens // 4)),
    }


def _fields(options: list[str]) -> dict[str, str]:
    """Parse `--field NAME=QUESTION`; SettingsError for a missing part or a repeated name."""
    fields: dict[str, str] = {}
    for given_field in options:
        name, equals, question = given_field.partition("=")
        if not equals or not name.strip() or not question.strip() or name.strip() in fields:
            raise SettingsError(
                f"--field {json.dumps(given_field, ensure_ascii=False)}",
                expected="NAME=QUESTION, each name once",
                fix='give for example --field month="Which month is the bill from?"',
            )
        fields[name.strip()] = question.strip()
    return fields
