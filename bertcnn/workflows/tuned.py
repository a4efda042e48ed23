"""The settings file that a search writes, and `bertcnn train --settings` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from bertcnn.errors import SettingsError, one_line
from bertcnn.settings import HeadSettings, Settings, Share, Whole
from bertcnn.storage import expanded, read_text, unreadable


class TunedSettings(Settings):
    """The result of a search; `training` and `head` are empty if the defaults are kept."""

    format: Literal["bertcnn settings"] = "bertcnn settings"
    version: Literal[1] = 1
    recipe: Literal["frozen", "full"]
    encoder: str = Field(description="name or folder, as given")
    training: dict[str, Any] = Field(description="changes to the recipe's settings")
    head: HeadSettings | None = Field(description="none: the recipe's own")
    verdict: str = Field(description="why these, in a sentence")
    macro_f1: Share = Field(description="of the chosen settings, on the rows that chose them")
    default_macro_f1: Share = Field(description="of the defaults on the same rows")
    best_trial: Whole = Field(description="with the highest macro-F1, chosen or not")
    chance: Share = Field(description="p-value of its gain on the defaults, as the best of many")
    validation_rows: Whole
    folds: Whole = Field(description="trainings of each trial")
    seed: Whole
    seconds: float
    finished: bool = Field(description="false: interrupted; the same command continues")
    trials: tuple[dict[str, Any], ...] = Field(
        description="of each: number (0 has the defaults), outcome (complete, pruned or diverged),"
        " macro_f1 as far as it came, epochs of all folds, seconds, training, head"
    )


def read_tuned(path: str | Path, recipe: str | None = None) -> TunedSettings:
    """The settings in a file that `bertcnn tune` wrote, for this recipe if one is given.

    Raises:
        SettingsError: the file is missing, invalid, of a later version or of another recipe.
    """
    name, expected = f"the settings file {one_line(path, 200)}", "tuned settings, version 1"
    try:
        tuned = TunedSettings.of_json(json.loads(read_text(expanded(path))))
        if recipe in (None, "auto", tuned.recipe):
            return tuned
        given = f"recipe {recipe} with {name}, tuned for the recipe {tuned.recipe}"
        expected = "the same recipe, since each needs its own learning rates"
    except OSError as error:
        given, expected = unreadable(Path(path), error)
    except (ValueError, RecursionError):
        given = f"{name} is no JSON file"
    except SettingsError as error:
        given, expected = f"{name}: {error.given}", error.expected
    fix = "give the file that `bertcnn tune DATA --out SETTINGS.json` wrote, or run it again"
    raise SettingsError(given, expected=expected, fix=fix)
