"""Searches the settings that suit a labelled file best, within a time limit."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

import numpy as np

from bertcnn.classifier import embed_on_cpu
from bertcnn.data.label_sets import AUTO, numbered
from bertcnn.errors import SettingsError
from bertcnn.layers.device import on_gpu
from bertcnn.models.weights import extract
from bertcnn.progress import Progress, Silent
from bertcnn.settings import FULL, Recipe
from bertcnn.storage.files import check_file_target
from bertcnn.training.features import TokenizedRows
from bertcnn.training.recipe_choice import choose_recipe
from bertcnn.training.recipes import recipe_settings
from bertcnn.training.savepoints import digest
from bertcnn.training.start import Start, check_seed, load_start
from bertcnn.workflows.clock import Clock
from bertcnn.workflows.folds import divided_rows
from bertcnn.workflows.repeated import FullTrials, HeadTrials, Trials
from bertcnn.workflows.space import Space
from bertcnn.workflows.study import Study, need_optuna, study_path
from bertcnn.workflows.trial_loop import TrialLoop
from bertcnn.workflows.tuned import TunedSettings, write_tuned
from bertcnn.workflows.worker import OwnProcess

_TRAININGS = {"full": 6, "frozen": 32}  # of a process: it grows by about 1 GB


class TuningInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a search.

    What was found is written, and the same call goes on from there.

    Attributes:
        tuned: what was found so far.
    """

    def __init__(self, tuned: TunedSettings) -> None:
        super().__init__(f"{len(tuned.trials)} trials are finished")
        self.tuned = tuned


def tune(  # noqa: PLR0913 - what a search is made of
    data: str | Path,
    out: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    valid: str | Path | None = None,
    multi_label: str = AUTO,
    encoder: str | Path = "minilm-l6",
    recipe: Recipe = "auto",
    seed: int = 0,
    minutes: float = 30.0,
    trials: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TunedSettings:
    """Search the settings that suit a labelled file best, by macro-F1 on validation rows.

    The first trial is of the recipe's defaults. One division of some hundred rows cannot choose
    among settings, so with fewer than 5,000 rows trials are validated in as many of 5 folds as make
    1,000 rows, or in all; from there on once, on a share that makes 1,000 rows, a tenth at least.
    The best trial is chosen only if luck is an unlikely reason (at most 5%, `chance_of_best`); else
    the defaults are.

    Args:
        data: a labelled file, as for training. Rows for testing should not be in it.
        out: the file for what is found. `OUT.study` beside it keeps the search until it is
            finished: after a kill or Ctrl-C the same call goes on, with what is left of the time.
        text: the text column or columns; guessed by default.
        label: the label column; guessed by default.
        valid: a file of validation rows; by default rows of `data`, as above.
        multi_label: "no" takes every cell for one label; rows with several are refused.
        encoder: name of a published encoder, or a folder that holds one.
        recipe: whose settings; "auto" chooses, as for training.
        seed: of the search and its trainings. With a number of trials that fits into the time, the
            outcome is the same each time.
        minutes: after which the search stops, even in the middle of a trial.
        trials: after how many it stops; by default when the time is up.
        overwrite: overwrite existing output, and discard a saved search with other settings.
        progress: reports the seconds gone, and each trial.

    Raises:
        SettingsError: a setting is not what it should be, Optuna is missing, or the time is too
            short for the defaults alone.
        OutputError: `out` or the search beside it exists and may not be used, or cannot be written.
        TableError: a file cannot be read, or has no columns or labels to learn from.
        EncoderError: the encoder cannot be had.
        TuningInterrupted: Ctrl-C, once the defaults have been tried.

    Example:
        tuned = tune("tickets.csv", "settings.json", minutes=10) BertCNNClassifier(tuned.encoder,
        recipe=tuned.recipe, training=tuned.training, head=tuned.head)
    """
    started = time.monotonic()
    progress = progress or Silent()
    _check(recipe, seed, minutes, trials)
    need_optuna()
    target = check_file_target(
        out,
        overwrite or study_path(Path(out).expanduser().absolute()).exists(),
        others=[data, valid],
    )
    rows = divided_rows(data, valid, text, label, multi_label, progress)
    start = load_start(encoder, FULL.max_tokens, seed=seed, progress=progress)
    tokenized = TokenizedRows(
        start.tokenizer.encode(rows.texts).token_ids, numbered(rows.labels)[1]
    )
    chosen = _recipe(recipe, start, tokenized, rows.parts[0][0], progress)
    space = Space.of(chosen, rows.labels, tokenized.lengths[rows.parts[0][0]])
    header = {
        "data file": _of_text(
            json.dumps(
                [rows.texts, rows.labels, [part.tolist() for pair in rows.parts for part in pair]]
            )
        ),
        "encoder": digest(extract(start.encoder.weights)),
        "recipe": chosen,
        "seed": str(seed),
        "space of settings": _of_text(space.in_words()),
    }
    clock = Clock(progress, started, started + 60 * minutes)
    with (
        tempfile.TemporaryDirectory(prefix="bertcnn-tuning-") as folder,
        Study(
            study_path(target), header, seed=seed, warmup=space.epochs // 3, replace=overwrite
        ) as study,
    ):
        search = TrialLoop(study, space, rows, tokenized.labels, seed, clock)
        finished = search.run(
            lambda: _attempts(start, tokenized, chosen, Path(folder) / "features", clock), trials
        )
        if not study.finished:
            study.forget()
            if not finished:
                raise KeyboardInterrupt
            raise SettingsError(
                f"{minutes:g} minutes, in which not even the defaults could be trained and"
                " validated",
                expected="time for several trainings",
                fix="give more --minutes" + (", or --recipe frozen" if chosen == "full" else ""),
            )
        tuned = search.result(str(encoder), finished)
        write_tuned(target, tuned)
        if not finished:
            raise TuningInterrupted(tuned)
        study.forget()
    return tuned


def _check(recipe: str, seed: int, minutes: float, trials: int | None) -> None:
    if recipe not in ("auto", "full", "frozen"):
        raise SettingsError(
            f"recipe {recipe!r}", expected="'auto', 'full' or 'frozen'", fix="choose one of them"
        )
    check_seed(seed)
    if not 0 < minutes < math.inf:
        raise SettingsError(
            f"{minutes:g} minutes", expected="more than 0", fix="give for example --minutes 30"
        )
    if trials is not None and trials < 1:
        raise SettingsError(
            f"{trials} trials",
            expected="at least 1, the defaults",
            fix="give more, or leave it to the time limit",
        )


def _recipe(
    recipe: Recipe, start: Start, rows: TokenizedRows, train: np.ndarray, progress: Progress
) -> Literal["frozen", "full"]:
    """The recipe to tune."""
    if recipe == "auto":
        tokens, classes = int(rows.lengths[train].sum()), int(rows.labels.max()) + 1
        known = start.sentence_encoder
        choice = choose_recipe(
            start.encoder,
            tokens,
            len(train),
            classes,
            recipe_settings("full", start.changes),
            fewest_epochs=FULL.epochs,
            sentence_encoder=known,
        )
        found: Literal["frozen", "full"] = "full" if choice.recipe == "full" else "frozen"
        reason = choice.reason
        if choice.recipe == "few-shot":
            reason = (
                "few-shot, which `train` takes for so few rows, has nothing to tune; it is usually"
                " better than what can be found here"
            )
        progress.note(f"recipe {found}: {reason}")
        return found
    return "full" if recipe == "full" else "frozen"


def _attempts(
    start: Start, rows: TokenizedRows, recipe: str, path: Path, clock: Clock
) -> AbstractContextManager[Trials]:
    attempts: Trials
    if recipe == "full":
        attempts = FullTrials(start.encoder, rows, start.changes)
    else:
        attempts = HeadTrials(
            start.encoder, rows, embed_on_cpu(start.encoder, start.tokenizer.pad_id), path, clock
        )
    if on_gpu():  # whose memory this process has taken
        return nullcontext(attempts)
    return OwnProcess(attempts, trainings=_TRAININGS[recipe])


def _of_text(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
