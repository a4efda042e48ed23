"""`bertcnn pretrain`: train an encoder on texts, from scratch or from another encoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.console import command_line, print_message, show, summary
from bertcnn.cli.devices import Devices, Distributed, start_training
from bertcnn.cli.interrupts import INTERRUPTED, AlreadyReported
from bertcnn.cli.options import Precision, Summary, given
from bertcnn.errors import SettingsError
from bertcnn.wording import duration


def pretrain(
    texts: Annotated[
        list[Path],
        typer.Argument(
            help="Text files with blank lines between documents, or tables with one per row.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder to save the encoder in.", show_default=False)
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Encoder to continue from: name or folder.", show_default="from scratch"
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Size of a new encoder: tiny, mini, small, medium, base or large.",
            show_default="mini",
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Updates of the weights.", show_default="by epochs")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the texts.", show_default="10; with --from, 3")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", help="Text column of tables, or several.", show_default="guessed"),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="Vocabulary size of a new encoder, in WordPieces.",
            show_default="30,522 or what the texts support",
        ),
    ] = None,
    cased: Annotated[
        bool, typer.Option("--cased", help="Keep upper case and accents in a new encoder.")
    ] = False,
    batch_size: Annotated[
        int | None, typer.Option(help="Rows per batch.", show_default="32")
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Batches per update (accumulation).", show_default="1")
    ] = None,
    sequence_length: Annotated[
        int | None, typer.Option(help="Tokens per row.", show_default="128")
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="Peak learning rate.", show_default="5e-4; with --from, 5e-5"),
    ] = None,
    precision: Precision = None,
    devices: Devices = None,
    distributed: Distributed = False,
    whole_words: Annotated[
        bool, typer.Option("--whole-words", help="Mask whole words instead of single pieces.")
    ] = False,
    no_next_sentence: Annotated[
        bool, typer.Option("--no-next-sentence", help="Leave out next-sentence prediction.")
    ] = False,
    no_pack: Annotated[
        bool, typer.Option("--no-pack", help="Do not pack several documents into a row.")
    ] = False,
    held_out: Annotated[
        float | None,
        typer.Option(help="Share of documents kept for evaluation.", show_default="0.05"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Makes a run repeat exactly.")] = 0,
    checkpoint_minutes: Annotated[float, typer.Option(help="Minutes between checkpoints.")] = 5.0,
    logs: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard.", show_default="none")
    ] = None,
    verdict: Annotated[
        Path | None,
        typer.Option(
            help="Labelled file to compare classifiers from the new encoder and from --from.",
            show_default="none",
        ),
    ] = None,
    verdict_test: Annotated[
        Path | None,
        typer.Option(
            help="Labelled file to test these classifiers on.",
            show_default="three tenths of --verdict",
        ),
    ] = None,
    verdict_rows: Annotated[
        int | None, typer.Option(help="Training rows per label.", show_default="all")
    ] = None,
    verdict_seeds: Annotated[int, typer.Option(help="Classifiers trained from each encoder.")] = 5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an encoder at OUT.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard the checkpoints of an interrupted run.")
    ] = False,
    as_json: Summary = False,
) -> None:
    """Pretrain an encoder on unlabelled texts, by masked words and next-sentence prediction.

    After Ctrl-C, a kill or a full disk, run the same command again to continue.
    Checkpoints stay in OUT.checkpoints until the encoder is finished.
    """
    from bertcnn.cli.progress import show_progress

    check_one_start(start, {"--size": size, "--vocabulary": vocabulary, "--cased": cased or None})
    if not checkpoint_minutes >= 0:
        raise SettingsError(
            f"--checkpoint-minutes {checkpoint_minutes}",
            expected="0 or more",
            fix="give a number of minutes such as 5",
        )
    if verdict is not None:
        check_verdict(start, verdict, verdict_test, verdict_seeds)
    output_folder = start_training(out, devices, distributed)
    from bertcnn.pretraining import NewEncoder, PretrainingInterrupted, RunOptions
    from bertcnn.pretraining import pretrain as run

    data = given(
        batch_size=batch_size,
        sequence_length=sequence_length,
        held_out=held_out,
        whole_words=whole_words,
        next_sentence=not no_next_sentence,
        pack=not no_pack,
    )
    training = given(
        steps=steps,
        epochs=epochs,
        accumulate=accumulate,
        learning_rate=learning_rate,
        precision=precision,
    )
    try:
        with show_progress() as progress:
            report = run(
                texts,
                output_folder,
                start=(
                    start
                    if start is not None
                    else NewEncoder(size or "mini", vocabulary, not cased)
                ),
                data=data,
                training=training,
                columns=text,
                seed=seed,
                options=RunOptions(
                    overwrite=force,
                    restart=restart,
                    seconds_between_checkpoints=60 * checkpoint_minutes,
                    logs=logs,
                ),
                progress=progress,
            )
    except PretrainingInterrupted as stop:
        again = "The same command without --restart" if restart else "The same command"
        print_message(
            f"\nbertcnn: interrupted after {stop.step:,} steps; a checkpoint is saved. {again}"
            " continues from there."
        )
        raise AlreadyReported(INTERRUPTED) from None
    if as_json:
        summary(report)
    outcome = (
        f", perplexity {report.held_out[-1].perplexity:,.2f} on held-out documents"
        if report.held_out
        else ""
    )
    print_message(
        f"Saved {out} after {duration(report.seconds)}: {report.steps:,} steps, {report.tokens:,}"
        f" tokens{outcome}."
    )
    if verdict is not None and start is not None:
        show_verdict(verdict, start, out, verdict_test, verdict_rows, verdict_seeds)
    print_message(
        f"Next: {command_line('train', 'LABELLED.csv', '--encoder', out, '--out', 'MODEL')}"
    )


def check_one_start(start: str | None, new: Mapping[str, object]) -> None:
    """Raise SettingsError if both an old encoder and options of a new one are given."""
    surplus = next((name for name, value in new.items() if value is not None), None)
    if start is not None and surplus is not None:
        raise SettingsError(
            f"both --from and {surplus}",
            expected="either an encoder to continue from, or the shape of a new one",
            fix="leave one of them out",
        )


def check_verdict(
    start: str | None,
    verdict: Path,
    test: Path | None,
    seeds: int,
    *,
    option: str = "--verdict-seeds",
) -> None:
    """Check the options of a comparison before hours of pretraining.

    Raises:
        SettingsError: there is no encoder to compare with, or there are too few seeds.
        TableError: a file is missing.
    """
    from bertcnn.tables import check_input

    if start is None:
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
    for path in (verdict, test):
        if path is not None:
            check_input(path)


def show_verdict(
    data: Path,
    old: str,
    new: str | Path,
    test: Path | None,
    rows: int | None,
    seeds: int,
    **columns: str | None,
) -> None:
    """Compare classifiers trained from both encoders; `columns` as for `compare_encoders`."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.workflows import compare_encoders

    print_message(f"Verdict: {2 * seeds} classifiers, {seeds} from {old} and {seeds} from {new}")
    with show_progress() as progress:
        comparison = compare_encoders(
            data,
            old,
            new,
            test=test,
            seeds=seeds,
            rows_per_label=rows,
            progress=progress,
            **columns,  # type: ignore[arg-type]
        )
    show(comparison.describe())
