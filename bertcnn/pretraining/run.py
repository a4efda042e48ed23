"""Pretrains an encoder on texts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import keras

from bertcnn.encoders import (
    PRETRAINING_RECORD,
    EncoderCheckpoint,
    Pieces,
    check_encoder_target,
    write_encoder,
)
from bertcnn.errors import SettingsError, explain_missing_packages
from bertcnn.models import Bert, BertPretraining, extract, pretraining_figures
from bertcnn.pretraining.batches import PretrainingBatches
from bertcnn.pretraining.corpus import Corpus, open_corpus
from bertcnn.pretraining.documents import DocumentFiles
from bertcnn.pretraining.initialization import (
    NewEncoder,
    StartingEncoder,
    begin_from,
    begin_new,
    identify,
)
from bertcnn.pretraining.loop import (
    SHOWN,
    HeldOut,
    HeldOutFigures,
    PretrainingInterrupted,
    batches_of_steps,
    count_steps,
    evaluated_after,
    make_optimizer,
)
from bertcnn.progress import Progress, Silent
from bertcnn.settings import CONTINUED, FROM_NOTHING, PretrainingDataSettings, PretrainingSettings
from bertcnn.storage import (
    canonical_json,
    companion,
    held_folder,
    new_folder,
    output_error,
    real_folder,
    write_new,
)
from bertcnn.text import WordPieceTokenizer
from bertcnn.training import (
    Checkpoint,
    Savepoints,
    Trainer,
    check_same_settings,
    compute_policy,
    forget_checkpoints,
    is_first,
    newest_of_first,
    note_device,
)

VERSION: Final = 1


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its result.

    Attributes:
        overwrite: overwrite an existing encoder.
        restart: discard the checkpoints of an interrupted run.
        logs: folder for TensorBoard; none by default.
        cache: see `cache_folder`.
        callbacks: Keras callbacks; an epoch is a tenth of the run.
    """

    overwrite: bool = False
    restart: bool = False
    seconds_between_checkpoints: float = 300.0
    logs: Path | None = None
    cache: Path | None = None
    callbacks: Sequence[keras.callbacks.Callback] = ()


@dataclass(frozen=True)
class PretrainingReport:
    """The result of a finished run.

    Attributes:
        held_out: figures on held-out documents, starting before the first step.
        seconds: duration of this call.
        resumed_at: the step that it resumed from, or 0.
    """

    folder: Path
    steps: int
    tokens: int
    held_out: tuple[HeldOutFigures, ...]
    seconds: float
    resumed_at: int


def checkpoint_folder(out: Path) -> Path:
    """The folder for checkpoints, next to the encoder; removed when the run has finished."""
    return companion(out, ".checkpoints")


def pretrain(  # noqa: PLR0913 - a public function with keyword options
    texts: Sequence[str | Path],
    out: str | Path,
    *,
    start: str | Path | NewEncoder | None = None,
    data: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    columns: str | Sequence[str] | None = None,
    seed: int = 0,
    options: RunOptions | None = None,
    progress: Progress | None = None,
) -> PretrainingReport:
    """Pretrain an encoder by masked words and next sentences, and save it with both heads.

    The encoder is saved in Hugging Face layout. After an interruption, even a kill or a full disk,
    the same call resumes from the newest checkpoint. On the same machine and backend it ends with
    exactly the weights of an uninterrupted run.

    Args:
        texts: files of documents; see `DocumentFiles`.
        out: folder for the encoder; checkpoints stay in `OUT.checkpoints` until the run finishes.
        start: name or folder of an encoder to continue from, or a new encoder (by default "mini").
        data: changes to `PretrainingDataSettings`, by name.
        training: changes to `FROM_NOTHING` or `CONTINUED`, by name.
        columns: text columns of tables; guessed by default.
        seed: seed of every random choice.
        options: options that do not change the result.
        progress: progress callback; none by default.

    Raises:
        SettingsError: a setting is invalid, or a checkpoint was made with other settings.
        TableError: the texts cannot be read, or are too few.
        EncoderError: the encoder to continue from cannot be fetched or read.
        TrainingError: the loss or the gradient is not finite; such weights are never saved.
        OutputError: `out` exists, or the disk is full; earlier checkpoints are kept.
        PretrainingInterrupted: Ctrl-C, after a checkpoint was saved.
    """
    began = time.monotonic()
    progress = progress or Silent()
    options = options or RunOptions()
    start = start or NewEncoder()
    data_settings = PretrainingDataSettings(**(data or {}))
    defaults = FROM_NOTHING if isinstance(start, NewEncoder) else CONTINUED
    settings = PretrainingSettings(**{**defaults.model_dump(), **(training or {})})
    target = real_folder(out)
    check_encoder_target(target, options.overwrite)
    logs = [_tensorboard(options.logs)] if options.logs is not None and is_first() else []
    callbacks = [*options.callbacks, *logs]
    files = DocumentFiles(texts, columns)
    requested = _requested(start, data_settings, settings, columns, seed)
    with held_folder(checkpoint_folder(target), does="keeps its checkpoints in") as checkpoints:
        if options.restart:
            forget_checkpoints(checkpoints)
        earlier = newest_of_first(checkpoints, progress.note)
        if earlier is not None:
            check_same_settings(earlier.settings, requested, checkpoints)
        beginning = _begin(start, files, earlier, progress)
        corpus = open_corpus(
            texts, beginning.tokenizer, columns=columns, cache=options.cache, progress=progress
        )
        identity = {**requested, "texts": corpus.key, "weights": beginning.sha256}
        if earlier is not None:
            check_same_settings(earlier.settings, identity, checkpoints)
        new = isinstance(start, NewEncoder)
        savepoints = Savepoints(
            checkpoints,
            identity,
            progress,
            options.seconds_between_checkpoints,
            more={"vocabulary": list(beginning.tokenizer.vocabulary)} if new else {},
            checkpoint=earlier,
        )
        trainer, held_out = _prepare(
            beginning, corpus, data_settings, settings, seed, progress, savepoints, callbacks
        )
        if earlier is None:
            beginning.load(trainer.model, progress)
        _train(trainer)
        _save(target, beginning, trainer, held_out, identity, overwrite=options.overwrite)
        forget_checkpoints(checkpoints)
    resumed_at = 0 if earlier is None else earlier.step
    seconds, state = time.monotonic() - began, trainer.state
    return PretrainingReport(
        target, state.step, state.tokens, tuple(held_out.history), seconds, resumed_at
    )


def _requested(
    start: str | Path | NewEncoder,
    data: PretrainingDataSettings,
    settings: PretrainingSettings,
    columns: str | Sequence[str] | None,
    seed: int,
) -> dict[str, Any]:
    """The part of a run's identity that is known before any file is read."""
    return {
        **identify(start),
        **data.model_dump(mode="json"),
        **settings.model_dump(mode="json"),
        "columns": columns if columns is None or isinstance(columns, str) else list(columns),
        "seed": seed,
        "backend": keras.backend.backend(),
    }


def _begin(
    start: str | Path | NewEncoder,
    files: DocumentFiles,
    earlier: Checkpoint | None,
    progress: Progress,
) -> StartingEncoder:
    if not isinstance(start, NewEncoder):
        return begin_from(start, progress)
    learned = None if earlier is None else earlier.progress.get("vocabulary")
    return begin_new(start, files, learned, progress)


def _train(trainer: Trainer) -> None:
    try:
        trainer.run()
    except KeyboardInterrupt:
        raise PretrainingInterrupted(trainer.state.step) from None
    trainer.save()


def _save(
    target: Path,
    beginning: StartingEncoder,
    trainer: Trainer,
    held_out: HeldOut,
    identity: Mapping[str, Any],
    *,
    overwrite: bool,
) -> None:
    save_encoder(
        target,
        EncoderCheckpoint(beginning.settings, extract(trainer.model.weights)),
        beginning.tokenizer,
        record={
            "bertcnn": version("bertcnn"),
            "settings": identity,
            "steps": trainer.state.step,
            "tokens": trainer.state.tokens,
            "history": [asdict(figures) for figures in held_out.history],
        },
        overwrite=overwrite,
    )


def _tensorboard(folder: Path) -> keras.callbacks.Callback:
    """Figures for `tensorboard --logdir FOLDER`; needs the extra `tensorboard`."""
    with explain_missing_packages():
        import tensorboard  # noqa: F401 - without it Keras' callback fails at its first figure
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise output_error(folder, error) from None
    return keras.callbacks.TensorBoard(str(folder), write_graph=False, update_freq=1)


def _prepare(
    beginning: StartingEncoder,
    corpus: Corpus,
    data: PretrainingDataSettings,
    settings: PretrainingSettings,
    seed: int,
    progress: Progress,
    savepoints: Savepoints,
    callbacks: Sequence[keras.callbacks.Callback],
) -> tuple[Trainer, HeldOut]:
    """Build a run's trainer and evaluation; raises SettingsError if rows do not fit the encoder."""
    if data.sequence_length > beginning.settings.max_positions:
        raise SettingsError(
            f"rows of {data.sequence_length} tokens",
            expected=(
                f"at most the {beginning.settings.max_positions} positions of {beginning.name}"
            ),
            fix="give a smaller sequence_length",
        )
    note_device(progress, settings.precision)
    training = PretrainingBatches(corpus, data, seed=seed)
    held_out = PretrainingBatches(corpus, data, seed=seed, part="held_out")
    for line in (*corpus.summary.lines(), *training.report(0).lines()):
        progress.note(line)
    if not held_out.steps_per_epoch(0):
        progress.note("no document is held out, so there are no figures on unseen texts")
    policy = compute_policy(settings.precision)
    encoder = Bert(beginning.settings, packed=data.pack, seed=seed, name="bert", dtype=policy)
    model = BertPretraining(encoder, seed=seed, name="pretraining")
    steps = count_steps(training, settings)
    evaluation = HeldOut(model, held_out, progress)
    trainer = Trainer(
        model,
        make_optimizer(settings, steps),
        pretraining_figures,
        batches_of_steps(model, training, settings.accumulate),
        epoch_ends=evaluated_after(steps),
        progress=progress,
        evaluate=evaluation.evaluate,
        callbacks=[evaluation, *callbacks],
        savepoints=savepoints,
        shown=SHOWN,
        stage=("pretraining", "steps"),
    )
    return trainer, evaluation


def save_encoder(
    target: Path,
    encoder: EncoderCheckpoint,
    tokenizer: WordPieceTokenizer,
    *,
    record: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Save an encoder with its heads atomically; the record is JSON."""
    with new_folder(target, overwrite=overwrite, check=check_encoder_target) as new:
        write_encoder(new, encoder, Pieces(tokenizer.vocabulary, tokenizer.settings.lowercase))
        write_new(new / PRETRAINING_RECORD, canonical_json({"version": VERSION, **record}))
