"""The file of tuned settings: what a search chose, and what every trial gave."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import FROZEN, FULL, HeadSettings, Settings, Share, TrainingSettings, Whole
from bertcnn.storage.files import as_json, excess, expanded, open_regular, write_whole

FORMAT: Literal["bertcnn settings"] = "bertcnn settings"
VERSION: Literal[1] = 1
_LARGEST = 1 << 26  # bytes; a search of a thousand trials has a hundredth of that


class TrialFigures(Settings):
    """One trial of a search."""

    number: Whole = Field(description="counted from 0, the defaults")
    outcome: Literal["complete", "pruned", "diverged"] = Field(
        description="pruned: stopped early, being worse than half of the others"
    )
    macro_f1: Share = Field(
        description="on the validation rows; of a pruned trial, on those it came to"
    )
    epochs: Whole = Field(description="trained, of all its folds together")
    seconds: Annotated[float, Field(ge=0.0)]
    training: dict[str, Any] = Field(description="what differs from the recipe's settings")
    head: HeadSettings


class TunedSettings(Settings):
    """What a search chose; `training` and `head` are empty where the defaults are kept."""

    format: Literal["bertcnn settings"] = FORMAT
    version: Literal[1] = VERSION
    recipe: Literal["frozen", "full"] = Field(description="that the settings are for")
    encoder: str = Field(description="name or folder, as given")
    training: dict[str, Any] = Field(description="changes to the recipe's settings")
    head: HeadSettings | None = Field(description="shape of the CNN head; none: the recipe's own")
    verdict: str = Field(description="why these, in a sentence")
    macro_f1: Share = Field(
        description="of the chosen settings on the validation rows, which also chose them"
    )
    default_macro_f1: Share = Field(
        description="of the defaults on the same rows; of full with one training, as in all trials"
    )
    best_trial: Whole = Field(description="with the highest macro-F1, chosen or not")
    chance: Share = Field(
        description=(
            "how often the best of so many trials, none better than the defaults, would look as"
            " good as this one"
        )
    )
    validation_rows: Annotated[int, Field(ge=1)]
    folds: Annotated[int, Field(ge=1)] = Field(description="trainings of each trial")
    seed: Whole
    seconds: Annotated[float, Field(ge=0.0)]
    finished: bool = Field(description="false: stopped by hand; the same command goes on")
    trials: tuple[TrialFigures, ...] = Field(min_length=1)

    @pydantic.model_validator(mode="after")
    def _trainable(self) -> Self:
        try:
            TrainingSettings.of_json(
                {**(FROZEN if self.recipe == "frozen" else FULL).model_dump(), **self.training}
            )
        except SettingsError as error:
            raise ValueError(f"training settings that exist ({error.given})") from None
        return self


def write_tuned(path: Path, tuned: TunedSettings) -> None:
    """Write the file, complete or not at all.

    Raises:
        OutputError: its place cannot be written.
    """
    write_whole(path, as_json(tuned.model_dump(mode="json")), overwrite=True)


def read_tuned(path: str | os.PathLike[str]) -> TunedSettings:
    """The settings in a file that `bertcnn tune` wrote.

    Raises:
        SettingsError: there is no such file, or it is something else, of a later version, or
            changed so that it makes no sense.
    """
    fix = "give the file that `bertcnn tune DATA --out SETTINGS.json` wrote, or run it again"
    try:
        with open_regular(expanded(path)) as file:
            found = json.loads(file.read(_LARGEST))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            given, expected = excess(Path(path))
            raise SettingsError(given, expected=expected, fix=fix) from None
        raise SettingsError(
            f"the settings file {one_line(str(path), 200)} cannot be read"
            f" ({(error.strerror or str(error)).lower()})",
            expected="a file",
            fix=fix,
        ) from None
    except (ValueError, RecursionError):
        raise SettingsError(
            f"{one_line(str(path), 200)} is no JSON file", expected="tuned settings", fix=fix
        ) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise SettingsError(
            f"{one_line(str(path), 200)} is some other JSON file",
            expected=f"tuned settings, with the format {FORMAT!r}",
            fix=fix,
        )
    if found.get("version") != VERSION:
        raise SettingsError(
            f"{one_line(str(path), 200)} has version {one_line(found.get('version'))}",
            expected=f"version {VERSION}, which this bertcnn knows",
            fix="tune again with this version, or use the one that wrote it",
        )
    try:
        return TunedSettings.of_json(found)
    except SettingsError as error:
        raise SettingsError(
            f"{one_line(str(path), 200)}: {error.given}", expected=error.expected, fix=fix
        ) from None
