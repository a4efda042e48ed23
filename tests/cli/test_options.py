"""Groups of options: one declaration for the command line and the public function."""

from dataclasses import dataclass, fields
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from bertcnn.cli import distill, pretrain, qa, score, train
from bertcnn.cli.options import FileFlags, Force, given, grouped
from bertcnn.scoring import FileOptions, ScoringOptions
from bertcnn.settings import (
    PretrainingDataSettings,
    PretrainingSettings,
    QuestionTrainingSettings,
    TrainingSettings,
)
from bertcnn.workflows import DistillationOptions, TrainingOptions

OWN = {"pair", "settings"}  # parsed by the command itself


@dataclass(frozen=True, kw_only=True)
class Greeting:
    """How to greet."""

    word: Annotated[str, typer.Option("--word", help="Its first word.")] = "hello"
    overwrite: Force = False
    name: Annotated[str, typer.Option(help="Who is greeted.")]


def run(*arguments):
    app, seen = typer.Typer(), []

    @app.command()
    @grouped
    def greet(times: int, greeting: Greeting, loud: bool = False) -> None:
        """Greet somebody."""
        seen.append((times, greeting, loud))

    result = CliRunner().invoke(app, arguments)
    return result, seen


def test_a_command_gets_its_groups_as_frozen_instances():
    result, seen = run("3", "--name", "Ada", "--force", "--loud")
    assert result.exit_code == 0, result.output
    assert seen == [(3, Greeting(name="Ada", overwrite=True), True)]


def test_options_of_a_group_appear_in_the_help_where_its_parameter_stands():
    text, _ = run("--help")
    places = [text.output.index(word) for word in ("--word", "--force", "--name", "--loud")]
    assert places == sorted(places)
    assert "Its first word." in text.output
    assert "--greeting" not in text.output


def test_a_required_option_of_a_group_is_required():
    result, seen = run("3")
    assert result.exit_code == 2
    assert "--name" in result.output
    assert not seen


def test_given_options_are_those_with_a_value():
    assert given(qa.AnswererFlags(epochs=3), precision=None, pair=True) == {
        "epochs": 3,
        "pair": True,
    }


@pytest.mark.parametrize(
    ("group", "options"),
    [
        (FileFlags, FileOptions),
        (score.ScoringFlags, ScoringOptions),
        (train.RowFlags, TrainingOptions),
        (distill.StudentFlags, DistillationOptions),
        (train.SettingFlags, TrainingSettings),
        (distill.SettingFlags, TrainingSettings),
        (qa.AnswererFlags, QuestionTrainingSettings),
        (pretrain.BatchFlags, PretrainingDataSettings),
        (pretrain.ScheduleFlags, PretrainingSettings),
    ],
)
def test_a_group_names_its_options_as_the_library_does(group, options):
    known = getattr(options, "model_fields", None) or {field.name for field in fields(options)}
    assert {field.name for field in fields(group)} <= set(known)
