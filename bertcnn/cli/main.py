"""`bertcnn`: the commands, each a thin door onto a function that Python users call too."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from bertcnn.cli.check import check
from bertcnn.cli.encoder import encoder_app, fill_mask
from bertcnn.cli.export import export
from bertcnn.cli.interrupts import INTERRUPTED, Told
from bertcnn.cli.pretrain import pretrain
from bertcnn.cli.quiet import load_keras, skip_converter
from bertcnn.cli.telling import tell
from bertcnn.cli.texts import TextsCommand
from bertcnn.cli.tune import training_plan, tune
from bertcnn.data.lines import undecodable
from bertcnn.disk.files import DISK_FULL, MORE_ROOM, as_json, check_file_target, write_whole
from bertcnn.errors import BertCNNError, OutputError

app = typer.Typer(
    name="bertcnn",
    help="From a CSV of labelled tickets to a text classifier a support team can trust.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with: bertcnn train tickets.csv --out models/triage",
)
app.add_typer(encoder_app, name="encoder")

Model = Annotated[Path, typer.Argument(help="Folder of a trained model.", show_default=False)]
Text = Annotated[str | None, typer.Option("--text", help="Text column, or several with commas between.", show_default="guessed")]
Label = Annotated[str | None, typer.Option("--label", help="Label column.", show_default="guessed")]
Engine = Annotated[str, typer.Option("--engine", help="openvino: compiled, fast. keras: the reference.", show_default="openvino")]
AutoPrecision = Annotated[
    str | None,
    typer.Option("--auto-precision", help="How often automatic answers have to be right, as for train.", show_default="as at training"),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


@app.command()
def train(
    data: Annotated[Path, typer.Argument(help="Labelled file: .csv .tsv .jsonl (each also .gz) .parquet .xlsx", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Folder to save the model in.", show_default=False)],
    text: Text = None,
    label: Label = None,
    encoder: Annotated[
        str | None, typer.Option(help="Published encoder (`bertcnn encoder list`) or a folder.", show_default="minilm-l6")
    ] = None,
    valid: Annotated[
        Path | None, typer.Option(help="Labelled file that chooses epoch and thresholds.", show_default="a tenth of DATA, 10,000 at most")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="full: train everything. frozen: the head only. few-shot: for few rows a label. auto: choose.",
            show_default="auto",
        ),
    ] = None,
    settings: Annotated[Path | None, typer.Option(help="File that `bertcnn tune` wrote; other options win.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Makes a run repeat exactly.")] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(help="Passes over the rows, at most; where auto takes frozen, that recipe's own.", show_default="by recipe"),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.", show_default="by recipe")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows of a batch.", show_default="by recipe")] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="none, sqrt or balanced: rare labels count more.", show_default="sqrt; none for several a row")
    ] = None,
    min_rows: Annotated[
        int, typer.Option(help="Merge labels with fewer rows: A > B > C into A > B, others into 'other'.", show_default="none are merged")
    ] = 0,
    multi_label: Annotated[
        str,
        typer.Option(help="What parts the labels of a row that has several, such as ','. no: none does.", show_default="; | or lists"),
    ] = "auto",
    time_budget: Annotated[
        float | None,
        typer.Option(
            help="Minutes: auto measures this machine and keeps within them, on a part of the rows if need be.",
            show_default="15, on a usual machine",
        ),
    ] = None,
    trainings: Annotated[
        int | None,
        typer.Option(help="Train so often, from the same start, and average the weights.", show_default="2 with full, else 1"),
    ] = None,
    refit: Annotated[
        bool | None,
        typer.Option(
            "--refit/--no-refit",
            help="In the end, train once more on all rows, in twice the time; not with --valid.",
            show_default="few-shot only",
        ),
    ] = None,
    auto_precision: Annotated[
        str, typer.Option(help="How often automatic answers have to be right; also by label: 0.95,billing=0.99")
    ] = "0.95",
    force: Force = False,
) -> None:
    """Train a classifier on a labelled file."""
    from bertcnn.cli.progress import duration, show_progress
    from bertcnn.data.formats import check_input
    from bertcnn.disk.folders import real_folder
    from bertcnn.saved.bundle import check_bundle_target
    from bertcnn.settings import PrecisionTargets

    PrecisionTargets.of(auto_precision)
    plan = training_plan(settings, encoder, recipe)
    check_bundle_target(out, force)
    for path in (data, valid):
        if path is not None:
            check_input(path)
    load_keras()
    from bertcnn.classifier import BertCNNClassifier
    from bertcnn.labelled import train_csv
    from bertcnn.training.savepoints import savepoint_folder

    given = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "class_weight": class_weight,
        "time_budget": time_budget,
        "trainings": trainings,
        "refit": refit,
    }
    changes = {**plan.training, **{name: value for name, value in given.items() if value is not None}}
    with show_progress() as progress:
        classifier = BertCNNClassifier(
            plan.encoder,
            recipe=plan.recipe,  # type: ignore[arg-type]
            seed=seed,
            training=changes,
            auto_precision=auto_precision,
            head=plan.head,
            progress=progress,
        )
        command = shlex.join(["bertcnn", *sys.argv[1:]])
        try:
            report = train_csv(
                data,
                out,
                classifier,
                text=text,
                label=label,
                valid=valid,
                min_rows=min_rows,
                multi_label=multi_label,
                overwrite=force,
                command=command,
            )
        except KeyboardInterrupt:
            if not savepoint_folder(real_folder(out)).is_dir():
                raise
            tell(
                "\nbertcnn: interrupted; nothing was half-written. "
                "The same command goes on where the training was saved last, a minute ago at most."
            )
            raise Told(INTERRUPTED) from None
    figures = report.metrics
    tell(
        f"Saved {out} (model {report.bundle_id[:12]}) after {duration(report.seconds)}: on {figures['rows']:,} validation rows "
        f"accuracy {figures['accuracy']:.1%}, macro-F1 {figures['macro_f1']:.3f}."
    )
    tell(f"Report: {out / 'report.html'}. Next: bertcnn score {out} INBOX.csv SCORED.csv")


@app.command()
def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Labelled file the model has not learned from.", show_default=False)],
    text: Text = None,
    label: Label = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.", show_default=False)] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Also write a report with examples: a folder, or an .html file.", show_default=False),
    ] = None,
    engine: Engine = "auto",
    force: Force = False,
) -> None:
    """Compare a model's answers with the labels of a file."""
    from bertcnn.cli.evaluation import show_evaluation
    from bertcnn.cli.progress import show_progress
    from bertcnn.data.formats import check_input
    from bertcnn.saved.bundle import read_config

    check_input(data)
    read_config(model)
    if json_file is not None:
        check_file_target(json_file, force, others=[data], option="--json")
    _prepare(engine)
    page = None
    if report is not None:
        from bertcnn.reporting import report_path

        page = report_path(report, model=model, data=data, overwrite=force)
        if json_file is not None and page.resolve() == json_file.resolve():
            raise OutputError(f"{page} for --report and for --json", expected="two different files", fix="choose another name for one")
    from bertcnn.labelled import evaluate_csv

    with show_progress() as progress:
        figures = evaluate_csv(
            model,
            data,
            text=text,
            label=label,
            engine=engine,  # type: ignore[arg-type]
            report=report,
            overwrite=force,
            progress=progress,
        )
    if json_file is not None:  # before anything is printed: who reads that may stop reading
        write_whole(json_file, as_json(figures.to_json()), overwrite=force)
    show_evaluation(figures)
    if json_file is not None:
        tell(f"Figures written to {json_file}")
    if page is not None:
        tell(f"Report written to {page}; it quotes texts of {data}")


@app.command(cls=TextsCommand)
def classify(
    model: Model,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts; without any, each line of standard input.")] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Also show every label's probability.")] = False,
    auto_precision: AutoPrecision = None,
    engine: Engine = "auto",
) -> None:
    """Classify single texts: label, confidence, decision, because (the phrases that moved the answer most) and text, with tabs between.

    The decision is auto, or review: for a person, with the second most probable label in brackets if two come into question.
    """
    from bertcnn.saved.bundle import read_config

    read_config(model)
    _prepare(engine)
    from bertcnn.predictor import load

    predictor = load(model, engine=engine, streams=1, auto_precision=auto_precision)  # type: ignore[arg-type]
    if texts is None and sys.stdin.isatty():
        tell("One text a line; end with Ctrl-D.")
    lines = map(_as_typed, texts) if texts is not None else _lines()
    for line in lines:
        answer = predictor.classify([line])[0]
        confidence = "" if answer.confidence is None else f"{answer.confidence:.4f}"
        rival = f" ({answer.runner_up}?)" if answer.decision == "review:ambiguous" else ""
        phrases = " | ".join(phrase.words for phrase in answer.because)
        cells = [answer.label or "", confidence, f"{answer.decision}{rival}", phrases, line]
        if probabilities:
            cells += [f"{name}={share:.4f}" for name, share in answer.probabilities.items()]
        print("\t".join(" ".join(cell.split()) for cell in cells), flush=True)


def _as_typed(text: str) -> str:
    """A text of the command line: UTF-8, also where Python took it for another encoding since the locale says so."""
    return os.fsencode(text).decode("utf-8", "replace") if undecodable(text) else text


def _prepare(engine: str) -> None:
    """Refuse an unknown engine; import Keras quietly, seconds of work, for the one that needs it."""
    from bertcnn.engines import check_engine

    check_engine(engine)
    if engine == "keras":
        load_keras()
    else:
        skip_converter()


def _lines() -> Iterator[str]:
    """Standard input, line by line, as it comes."""
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        yield line.rstrip("\r\n")


@app.command()
def score(
    model: Model,
    source: Annotated[Path, typer.Argument(metavar="IN", help="File of texts: .csv .tsv .jsonl (.gz) .parquet .xlsx", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, in the format of its extension.", show_default=False)],
    text: Text = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Also write a p_LABEL column for every label.")] = False,
    auto_precision: AutoPrecision = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not quote cells that a spreadsheet would run as a formula.")] = False,
    force: Force = False,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what an interrupted run has answered.")] = False,
    engine: Engine = "auto",
) -> None:
    """Classify every row of a file; the output has the input's columns and rows, then ours.

    After an interruption, even a kill or a full disk, the same command goes on where it was.
    """
    from bertcnn.cli.progress import duration, show_progress
    from bertcnn.data.formats import check_input
    from bertcnn.data.writing import check_output
    from bertcnn.saved.bundle import read_config

    check_output(target, force)
    check_input(source)
    read_config(model)
    _prepare(engine)
    from bertcnn.scoring.score import ScoringInterrupted, score_csv

    try:
        with show_progress() as progress:
            report = score_csv(
                model,
                source,
                target,
                text=text,
                auto_precision=auto_precision,
                probabilities=probabilities,
                raw=raw,
                overwrite=force,
                restart=restart,
                engine=engine,  # type: ignore[arg-type]
                progress=progress,
            )
    except ScoringInterrupted as stop:
        again = "The same command without --restart" if restart else "The same command"
        tell(f"\nbertcnn: interrupted; {stop.rows:,} rows are answered and kept, nothing was half-written. {again} goes on from there.")
        raise Told(INTERRUPTED) from None
    counts = ", ".join(f"{name} {count:,}" for name, count in list(report.labels.items())[:8]) or "no labels"
    tell(f"Wrote {target}: {report.rows:,} rows in {duration(report.seconds)} ({counts}).")
    decided = ", ".join(f"{name} {count:,} ({count / report.rows:.0%})" for name, count in report.decisions.items())
    if decided:
        tell(f"Decisions: {decided}.")
    if report.blank:
        tell(f"{report.blank:,} rows have no text; they got no label.")
    if report.rejects is not None:
        tell(f"{report.rejected:,} rows could not be read; they and the reasons are in {report.rejects}")


app.command()(check)
app.command()(export)
app.command()(pretrain)
app.command()(tune)
app.command("fill-mask", cls=TextsCommand)(fill_mask)


def _replace_closed_streams() -> None:
    """Let a standard stream that was closed by who started us read nothing, and write to nowhere, instead of being None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the process ends


def main() -> None:
    """Run a command; every error a user can act on is one line, and the exit code is 2 (130 after Ctrl-C)."""
    _replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a text that the terminal or pipe cannot show is no reason to stop
    try:
        app()
    except BertCNNError as error:
        tell(f"bertcnn: {error}")
        sys.exit(2)
    except Told:
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != INTERRUPTED:
            raise
        tell("\nbertcnn: interrupted; nothing was half-written. Run the same command to start again.")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        told = BertCNNError(
            "the memory is used up",
            expected="room for the rows and what is computed of them",
            fix="end other programs, or give fewer rows",
        )
        tell(f"bertcnn: {told}")
        sys.exit(2)
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        where = f" ({error.filename})" if error.filename else ""
        told = OutputError(f"no space left on a disk{where}", expected="room for what is written", fix=MORE_ROOM)
        tell(f"bertcnn: {told}")
        sys.exit(2)


if __name__ == "__main__":
    main()
