"""`bertcnn check`: report of a file's faults."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bertcnn.cli.console import check_json, command_line, print_message
from bertcnn.cli.options import Force, Label, MultiLabel, Text, argument, grouped, option
from bertcnn.cli.startup import skip_converter
from bertcnn.storage import as_json, write_whole
from bertcnn.wording import count, visible

if TYPE_CHECKING:
    from bertcnn.cli.screen import Screen
    from bertcnn.doctor import CheckReport, Finding

_STYLES = {"problem": "bold red", "look": "yellow", "note": "dim"}
_WORDS = {"problem": "PROBLEM", "look": "LOOK AT", "note": "NOTE"}
_WIDEST = 100  # columns, on a wide terminal


@dataclass(frozen=True, kw_only=True)
class CheckFlags:
    """The columns, the encoder and the corrected file, as `check_csv` names them."""

    text: Text = None
    label: Label = None
    multi_label: MultiLabel = "auto"
    fix: Annotated[
        Path | None,
        option("Write all rows here, with the columns suggested_label and finding added.", "--fix"),
    ] = None
    encoder: Annotated[str, option("Published encoder (`bertcnn encoder list`) or a folder.")] = (
        "minilm-l6"
    )
    overwrite: Force = False


@grouped
def check(
    data: Annotated[
        Path,
        argument(
            "File of texts, with or without labels: .csv .tsv .jsonl .json (.gz) .parquet .xlsx"
        ),
    ],
    flags: CheckFlags,
    json_file: Annotated[
        Path | None, option("Also write the report to this file.", "--json")
    ] = None,
) -> None:
    """Find label errors, duplicates, leaks and other faults of a file before training on it."""
    from bertcnn.cli.progress import show_progress
    from bertcnn.tables import check_input, check_outcome

    check_input(data)
    if flags.fix is not None:
        check_outcome(data, flags.fix, overwrite=flags.overwrite, option="--fix")
    json_target = check_json(json_file, flags.overwrite, data, flags.fix)
    skip_converter()
    from bertcnn.doctor import check_csv

    with show_progress() as progress:
        report = check_csv(data, **vars(flags), progress=progress)
    if json_target is not None:
        write_whole(json_target, as_json(report.to_json()), overwrite=flags.overwrite)
    show_report(report)
    for path in (flags.fix, json_file):
        if path is not None:
            print_message(f"Wrote {path}")
    if report.rejects is not None:
        print_message(f"Rows that could not be read are in {report.rejects}")


def show_report(report: CheckReport) -> None:
    """Print the report on standard output: 80 columns in a pipe, at most 100 on a terminal."""
    from bertcnn.cli.screen import Screen

    console = Screen(widest=_WIDEST)
    _show_facts(console, report)
    for finding in report.findings:
        _show_finding(console, finding)
    console.print()
    for skipped in report.skipped:
        _print(console, f"Not checked: {skipped}.", style="dim")
    if not report.findings:
        console.print("Nothing was found.")
    for line in _next_steps(report):
        _print(console, line, style="bold")


def _show_facts(console: Screen, report: CheckReport) -> None:
    facts = report.facts
    how = [str(facts["format"])]
    if facts["encoding"]:
        how.append(str(facts["encoding"]))
    if facts["delimiter"]:
        how.append(
            "separated by " + {"\t": "tabs"}.get(facts["delimiter"], repr(facts["delimiter"]))
        )
    size = f"{count(facts['rows'], 'row')}, {count(len(facts['columns']), 'column')}"
    _print(console, f"{report.path}: {size} ({', '.join(how)})", style="bold")
    if facts["examined"] < facts["rows"]:
        _print(console, f"examined: {facts['examined']:,} of {facts['rows']:,} rows")
    _print(console, f"text: {', '.join(facts['text_columns'])}")
    labels = facts["labels"]
    if labels is None:
        _print(console, "label: no such column")
    else:
        shown = ", ".join(f"{name} {number:,}" for name, number in list(labels.items())[:6])
        rest = f", {len(labels) - 6} more" if len(labels) > 6 else ""
        _print(console, f"label: {facts['label_column']}, {len(labels)} labels ({shown}{rest})")


def _show_finding(console: Screen, finding: Finding) -> None:
    from rich.text import Text

    console.print()
    title = Text.assemble(
        (_WORDS[finding.severity], _STYLES[finding.severity]),
        ("  " + visible(finding.title), "bold"),
    )
    for part in title.wrap(console, console.width):
        part.rstrip()
        console.print(part)
    _print(console, finding.advice, indent=2)
    for example in finding.examples:
        where = "" if example.line is None else f"line {example.line:,}: "
        _print(console, f"- {where}{example.says}".rstrip(": "), indent=4)
        if example.text:
            _print(console, example.text, indent=6, style="dim")


def _print(console: Screen, line: str, *, indent: int = 0, style: str = "") -> None:
    from rich.text import Text

    for part in Text(visible(line), style=style).wrap(console, console.width - indent):
        part.rstrip()
        console.print(Text(" " * indent).append_text(part))


def _next_steps(report: CheckReport) -> list[str]:
    rows = {row for finding in report.findings for row in finding.rows}
    if report.fixed is not None:
        marked = "the row" if len(rows) == 1 else f"the {len(rows):,} rows"
        return [
            f"Next: go through {marked} with a finding in {report.fixed}, and correct the labels"
            " that are wrong."
        ]
    useless = report.finding("no_information")
    if useless is not None and useless.severity == "problem":
        return ["Next: the same command with another column: --label NAME or --text NAME."]
    if rows:
        out = report.path.with_name(report.path.name.split(".")[0] + "_checked.csv").name
        marked = "this row" if len(rows) == 1 else f"these {len(rows):,} rows"
        return [
            f"Next: the same command with --fix {shlex.quote(out)} marks {marked} in a copy and"
            " changes nothing else."
        ]
    if report.facts["labels"] is None:
        return ["Next: label the texts, then: bertcnn train DATA --out MODEL"]
    return [f"Next: {command_line('train', report.path, '--out', 'MODEL')}"]
