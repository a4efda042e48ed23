"""`bertcnn pretrain`: train an encoder on texts, from scratch or from another encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertcnn.cli.console import command_line, print_message, show, summary
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported
from bertcnn.cli.options import DeviceFlags, Seed, Summary, argument, given, grouped, option
from bertcnn.cli.startup import start_training
from bertcnn.errors import SettingsError
from bertcnn.wording import duration


@dataclass(frozen=True, kw_only=True)
class EncoderFlags:
    """The encoder before its pretraining."""

    start: Annotated[
        str | None,
        option("Encoder to continue from: name or folder.", "--from", default="from scratch"),
    ] = None
    size: Annotated[
        str | None,
        option("Size of a new encoder: tiny, mini, small, medium, base or large.", default="mini"),
    ] = None
    vocabulary: Annotated[
        int | None,
        option(
            "Vocabulary size of a new encoder, in WordPieces.",
            default="30,522 or what the texts support",
        ),
    ] = None
    cased: Annotated[bool, option("Keep upper case and accents in a new encoder.", "--cased")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class BatchFlags:
    """Changes of `PretrainingDataSettings`."""

    batch_size: Annotated[int | None, option("Rows per batch.", default="32")] = None
    sequence_length: Annotated[int | None, option("Tokens per row.", default="128")] = None
    whole_words: Annotated[
        bool, option("Mask whole words instead of single pieces.", "--whole-words")
    ] = False
    held_out: Annotated[
        float | None, option("Share of documents kept for evaluation.", default="0.05")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ScheduleFlags:
    """Changes of `PretrainingSettings`."""

    steps: Annotated[int | None, option("Updates of the weights.", default="by epochs")] = None
    epochs: Annotated[
        int | None, option("Passes over the texts.", default="10; with --from, 3")
    ] = None
    accumulate: Annotated[int | None, option("Batches per update (accumulation).", default="1")] = (
        None
    )
    learning_rate: Annotated[
        float | None, option("Peak learning rate.", default="5e-4; with --from, 5e-5")
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunFlags(DeviceFlags):
    """What is read, where it is computed, and what is kept."""

    text: Annotated[
        str | None, option("Text column of tables, or several.", "--text", default="guessed")
    ] = None
    no_next_sentence: Annotated[
        bool, option("Leave out next-sentence prediction.", "--no-next-sentence")
    ] = False
    no_pack: Annotated[bool, option("Do not pack several documents into a row.", "--no-pack")] = (
        False
    )
    seed: Seed = 0
    checkpoint_minutes: Annotated[float, option("Minutes between checkpoints.")] = 5.0
    logs: Annotated[Path | None, option("Folder for TensorBoard.", default="none")] = None
    overwrite: Annotated[bool, option("Overwrite an encoder at OUT.", "--force")] = False
    restart: Annotated[
        bool, option("Discard the checkpoints of an interrupted run.", "--restart")
    ] = False
    as_json: Summary = False


@dataclass(frozen=True, kw_only=True)
class VerdictFlags:
    """A comparison with the encoder that the run started from."""

    verdict: Annotated[
        Path | None,
        option(
            "Labelled file to compare classifiers from the new encoder and from --from.",
            default="none",
        ),
    ] = None
    test: Annotated[
        Path | None,
        option(
            "Labelled file to test these classifiers on.",
            "--verdict-test",
            default="three tenths of --verdict",
        ),
    ] = None
    rows_per_label: Annotated[
        int | None, option("Training rows per label.", "--verdict-rows", default="all")
    ] = None
    seeds: Annotated[int, option("Classifiers trained from each encoder.", "--verdict-seeds")] = 5


@grouped
def pretrain(
    texts: Annotated[
        list[Path],
        argument("Text files with blank lines between documents, or tables with one per row."),
    ],
    out: Annotated[Path, option("Folder to save the encoder in.", "--out")],
    encoder: EncoderFlags,
    batches: BatchFlags,
    schedule: ScheduleFlags,
    flags: RunFlags,
    comparison: VerdictFlags,
) -> None:
    """Pretrain an encoder on unlabelled texts, by masked words and next-sentence prediction.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    Checkpoints stay in OUT.checkpoints until the encoder is finished.
    """
    start, verdict = encoder.start, comparison.verdict
    check_one_start(encoder)
    check_minutes(flags.checkpoint_minutes)
    if verdict is not None:
        check_verdict(start, (verdict, comparison.test), comparison.seeds)
    report = _pretrained(texts, start_training(out, flags), encoder, batches, schedule, flags)
    if flags.as_json:
        summary(report)
    show_pretrained(out, report)
    if verdict is not None and start is not None:
        show_verdict(
            verdict,
            start,
            out,
            seeds=comparison.seeds,
            test=comparison.test,
            rows_per_label=comparison.rows_per_label,
        )
    print_message(
        f"Next: {command_line('train', 'LABELLED.csv', '--encoder', out, '--out', 'MODEL')}"
    )


def _pretrained(
    texts: list[Path],
    folder: Path,
    encoder: EncoderFlags,
    batches: BatchFlags,
    schedule: ScheduleFlags,
    flags: RunFlags,
) -> Any:  # noqa: ANN401 - a report of `bertcnn.pretraining`
    """Pretrain and save an encoder; an interrupted run says how it continues."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.pretraining import NewEncoder, PretrainingInterrupted, RunOptions
    from bertcnn.pretraining import pretrain as run

    new = NewEncoder(encoder.size or "mini", encoder.vocabulary, not encoder.cased)
    options = RunOptions(
        overwrite=flags.overwrite,
        restart=flags.restart,
        seconds_between_checkpoints=60 * flags.checkpoint_minutes,
        logs=flags.logs,
    )
    try:
        with show_progress() as progress:
            return run(
                texts,
                folder,
                start=new if encoder.start is None else encoder.start,
                data=given(
                    batches, next_sentence=not flags.no_next_sentence, pack=not flags.no_pack
                ),
                training=given(schedule, precision=flags.precision),
                columns=flags.text,
                seed=flags.seed,
                options=options,
                progress=progress,
            )
    except PretrainingInterrupted as stop:
        again = "The same command without --restart" if flags.restart else "The same command"
        print_message(
            f"\nbertcnn: interrupted after {stop.step:,} steps; a checkpoint is saved. {again}"
            " continues from there."
        )
        raise AlreadyReported(INTERRUPTED) from None


def check_minutes(minutes: float) -> None:
    """Raise SettingsError for a negative time between checkpoints."""
    if not minutes >= 0:
        raise SettingsError(
            f"--checkpoint-minutes {minutes}",
            expected="0 or more",
            fix="give a number of minutes such as 5",
        )


def check_one_start(encoder: EncoderFlags) -> None:
    """Raise SettingsError if both an old encoder and options of a new one are given."""
    surplus = [
        name
        for name, value in vars(encoder).items()
        if name != "start" and value is not None and value is not False
    ]
    if encoder.start is not None and surplus:
        raise SettingsError(
            f"both --from and --{surplus[0]}",
            expected="either an encoder to continue from, or the shape of a new one",
            fix="leave one of them out",
        )


def check_verdict(
    old: str | None, files: Sequence[Path | None], seeds: int, *, option: str = "--verdict-seeds"
) -> None:
    """Check the options of a comparison before hours of pretraining.

    Raises:
        SettingsError: there is no encoder to compare with, or there are too few seeds.
        TableError: a file is missing.
    """
    from bertcnn.tables import check_input

    if old is None:
        raise SettingsError(
            "--verdict without --from",
            expected="an encoder that the new one is compared with",
            fix="give --from",
        )
    if seeds < 2:
        raise SettingsError(
            f"{option} {seeds}",
            expected="at least 2, to measure the differences between seeds",
            fix="give a number such as 5",
        )
    for path in files:
        if path is not None:
            check_input(path)


def show_pretrained(out: Path, report: Any) -> None:  # noqa: ANN401 - of `bertcnn.pretraining`
    """Print the encoder's folder, and how well it predicts masked words."""
    perplexity = (
        f", perplexity {report.held_out[-1].perplexity:,.2f} on held-out documents"
        if report.held_out
        else ""
    )
    print_message(
        f"Saved {out} after {duration(report.seconds)}: {report.steps:,} steps, {report.tokens:,}"
        f" tokens{perplexity}."
    )


def show_verdict(data: Path, old: str, new: str | Path, *, seeds: int, **options: Any) -> None:  # noqa: ANN401 - as for `compare_encoders`
    """Compare classifiers trained from both encoders; `options` as for `compare_encoders`."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.workflows import compare_encoders

    print_message(f"Verdict: {2 * seeds} classifiers, {seeds} from {old} and {seeds} from {new}")
    with show_progress() as progress:
        comparison = compare_encoders(data, old, new, seeds=seeds, progress=progress, **options)
    show(comparison.describe())
