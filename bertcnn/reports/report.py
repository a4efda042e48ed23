"""report.html: a model's figures in one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from bertcnn.evaluation import (
    LARGEST_MATRIX,
    Automation,
    CalibrationFigures,
    Evaluation,
    ReliabilityBin,
    reliability,
    wilson,
)
from bertcnn.reports.charts import BOTTOM as _BOTTOM
from bertcnn.reports.charts import (
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Chart,
    Line,
    draw,
    nice_top,
)
from bertcnn.reports.profile import DataProfile
from bertcnn.reports.slices import SliceFigures
from bertcnn.reports.spurious_tokens import SpuriousToken
from bertcnn.reports.summary import three_sentences

if TYPE_CHECKING:
    from jinja2 import Template

_CLUSTERED = 20  # labels; with more, labels that are often confused are placed side by side
_CURVE_POINTS = 240
_MUCH_TRUNCATED = 0.05
_FEW_ROWS = 5
_LONG_HEADING = 26
# not allowed in HTML
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Epoch:
    """One point of the learning curves."""

    epoch: int
    loss: float
    macro_f1: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """The calibration figures with their bins."""

    figures: CalibrationFigures
    before: tuple[ReliabilityBin, ...]
    after: tuple[ReliabilityBin, ...]

    @classmethod
    def of(
        cls, figures: CalibrationFigures, before: np.ndarray, after: np.ndarray, right: np.ndarray
    ) -> Reliability:
        """Build from confidences, float [rows], and right answers, bool [rows]."""
        return cls(
            figures,
            reliability(before, right, figures.bins),
            reliability(after, right, figures.bins),
        )


@dataclass(frozen=True)
class Operation:
    """The automatic answers.

    Attributes:
        found: counts of rows, automatic and right answers.
        target: required precision; None if labels have their own targets.
        sentence: the decisions in one sentence.
        curve: (share of rows answered, error rate among them), most confident rows first.
    """

    found: Automation
    target: float | None
    sentence: str
    curve: tuple[tuple[float, float], ...]

    @property
    def precision(self) -> float | None:
        """Right answers as a share of automatic ones."""
        return self.found.right / self.found.automatic if self.found.automatic else None


@dataclass(frozen=True)
class ExampleRow:
    """A row with its text, split into parts with a flag for highlighted phrases."""

    parts: tuple[tuple[str, bool], ...]
    actual: str
    predicted: str
    confidence: float
    decision: str


@dataclass(frozen=True)
class ExampleGroups:
    """Example rows in titled groups."""

    groups: tuple[tuple[str, tuple[ExampleRow, ...]], ...]


@dataclass(frozen=True)
class Report:
    """The content of the page.

    Attributes:
        rows_are: the measured rows, such as "validation rows".
        caution: how reliable the figures are, in a sentence.
        about: provenance, as names and values.
        slices: figures of subsets, by column.
        trained_on: training rows of each label; empty if unknown.
        epochs: the learning curves; empty if unknown.
        kept_epoch: the epoch whose weights were kept.
        averaged: whether the weights are the mean over the last steps instead of one epoch's.
        spurious_tokens: suspicious words; None if not searched.
        examples: with texts; None in reports that must not quote any.
        warning: warning about an uninformative model; otherwise "".
        limits: the limits of automatic answers; "" if not analysed.
    """

    title: str
    rows_are: str
    caution: str
    about: tuple[tuple[str, str], ...]
    profile: DataProfile
    figures: Evaluation
    reliability: Reliability
    operation: Operation
    slices: Mapping[str, tuple[SliceFigures, ...]]
    trained_on: Mapping[str, int] = field(default_factory=dict)
    epochs: tuple[Epoch, ...] = ()
    kept_epoch: int = 0
    averaged: bool = False
    spurious_tokens: tuple[SpuriousToken, ...] | None = None
    examples: ExampleGroups | None = None
    multi_label: bool = False
    warning: str = ""
    limits: str = ""


def risk_coverage(confidence: np.ndarray, right: np.ndarray) -> tuple[tuple[float, float], ...]:
    """The risk-coverage curve (El-Yaniv and Wiener 2010).

    `confidence` is float [rows], `right` bool [rows]. Returns at most 240 points (share of rows
    answered, error rate among them), ascending, with none between rows of equal confidence.

    Example:
        >>> risk_coverage(np.array([0.9, 0.8, 0.8, 0.4]), np.array([True, True, False, False]))
        ((0.25, 0.0), (0.75, 0.3333333333333333), (1.0, 0.5))
    """
    if not len(confidence):
        return ()
    order = np.argsort(-confidence, kind="stable")
    counts = np.arange(1, len(order) + 1)
    risk = np.cumsum(~np.asarray(right, bool)[order]) / counts
    last = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True))
    last = last[np.unique(np.linspace(0, len(last) - 1, min(len(last), _CURVE_POINTS)).astype(int))]
    return tuple(zip((counts[last] / len(order)).tolist(), risk[last].tolist(), strict=True))


def render(report: Report) -> str:
    """The page as one file that makes no requests.

    All user texts are escaped, and only our own script may run.
    """
    return _template().render(
        report=report,
        charts=_charts(report),
        matrix=_matrix(report.figures),
        instead=_instead(report.figures),
        notable=_notable(report),
        in_short=three_sentences(
            report.figures,
            report.operation.found,
            multi_label=report.multi_label,
            knows_nothing=bool(report.warning),
        ),
        interval=wilson(round(report.figures.accuracy * report.figures.rows), report.figures.rows),
        size={
            "width": WIDTH,
            "height": HEIGHT,
            "left": LEFT,
            "right": WIDTH - RIGHT,
            "top": TOP,
            "bottom": HEIGHT - _BOTTOM,
        },
    )


# === The template ===


@cache
def _template() -> Template:
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here, encoding="utf-8"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    environment.filters |= {
        "percent": _percent,
        "number": _number,
        "short": _short,
        "breakable": _breakable,
    }
    script = (here / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = (here / "report.css").read_text(encoding="utf-8")
    environment.globals |= {"script": Markup(script), "script_hash": digest, "style": Markup(style)}
    return environment.get_template("report.html.j2")


def _shown(value: Any) -> Any:  # noqa: ANN401 - whatever the template puts out
    """Replace characters in user texts that are not allowed in HTML; other values stay."""
    return _UNSHOWN.sub("\ufffd", value) if type(value) is str else value


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _breakable(text: str) -> Markup:
    """The escaped text, with a possible line break after each underscore."""
    return escape(_shown(str(text))).replace("_", Markup("_<wbr>"))


def _number(value: float) -> str:
    return f"{value:,}"


def _short(text: str, longest: int = _LONG_HEADING) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


# === What the page shows, worked out ===


def _charts(report: Report) -> dict[str, Chart]:
    charts = {
        "reliability": _reliability_chart(report.reliability),
        "risk": _risk_chart(report.operation),
    }
    if report.epochs:
        last = max(2, report.epochs[-1].epoch)
        epoch = Axis("epoch", 1, last, whole=True)
        loss = [one.loss for one in report.epochs]
        scores = [score for one in report.epochs for score in (one.macro_f1, one.accuracy)]
        charts["loss"] = draw(
            f"Training loss over {len(report.epochs)} epochs, from {loss[0]:.3f} to {loss[-1]:.3f}",
            epoch,
            Axis("mean training loss", 0, nice_top(max(loss))),
            [
                Line(
                    "training loss",
                    "one",
                    tuple((one.epoch, one.loss) for one in report.epochs),
                    dots=True,
                )
            ],
        )
        charts["scores"] = draw(
            f"Accuracy and macro-F1 on the validation rows over {len(report.epochs)} epochs"
            + ("" if report.averaged else f"; epoch {report.kept_epoch} is kept"),
            epoch,
            Axis(
                "on the validation rows",
                max(0.0, np.floor(10 * min(scores) - 0.1) / 10),
                1,
                percent=True,
            ),
            [
                Line(
                    "accuracy",
                    "two",
                    tuple((one.epoch, one.accuracy) for one in report.epochs),
                    dots=True,
                ),
                Line(
                    "macro-F1",
                    "one",
                    tuple((one.epoch, one.macro_f1) for one in report.epochs),
                    dots=True,
                ),
            ],
        )
    return charts


def _reliability_chart(curves: Reliability) -> Chart:
    values = [
        value for bin_ in (*curves.before, *curves.after) for value in (bin_.confidence, bin_.right)
    ]
    low = max(0.0, float(np.floor(10 * min(values, default=0.0)) / 10))
    return draw(
        f"Share of right answers by confidence: off by {_percent(curves.figures.before)} before and"
        f" {_percent(curves.figures.after)} after",
        Axis("mean confidence", low, 1, percent=True),
        Axis("share of right answers", low, 1, percent=True),
        [
            Line("as it should be", "aim", ((low, low), (1, 1))),
            Line(
                "before calibration",
                "two",
                tuple((one.confidence, one.right) for one in curves.before),
                dots=True,
            ),
            Line(
                "after calibration",
                "one",
                tuple((one.confidence, one.right) for one in curves.after),
                dots=True,
            ),
        ],
    )


def _risk_chart(operation: Operation) -> Chart:
    lines = [Line("wrong answers", "one", operation.curve)]
    at_most = 0.0 if operation.target is None else 1 - operation.target
    if at_most:
        lines.insert(0, Line("allowed", "aim", ((0, at_most), (1, at_most))))
    precision = operation.precision
    if precision is not None:
        lines.append(Line("chosen", "point", ((operation.found.share, 1 - precision),), dots=True))
    end = operation.curve[-1][1] if operation.curve else 0.0
    return draw(
        f"Share of wrong answers by share of tickets answered automatically. {operation.sentence}",
        Axis("tickets answered automatically", 0, 1, percent=True),
        Axis("wrong among them", 0, nice_top(1.25 * max(end, at_most)), percent=True),
        lines,
    )


@dataclass(frozen=True)
class _Matrix:
    """The confusion matrix on the page: labels in display order, and the number omitted."""

    order: tuple[int, ...]
    counts: Mapping[tuple[int, int], int]  # of occurring pairs
    dense: bool
    upright: bool
    left_out: int
    clustered: bool
    fit: float  # scale factor for printing


def _matrix(figures: Evaluation) -> _Matrix:
    wrong = _wrong(figures)
    labels = len(figures.labels)
    chosen = np.arange(labels)
    if labels > LARGEST_MATRIX:
        mixed_up = np.bincount(wrong[:, 0], wrong[:, 2], labels) + np.bincount(
            wrong[:, 1], wrong[:, 2], labels
        )
        chosen = np.sort(np.argsort(-mixed_up, kind="stable")[:LARGEST_MATRIX])
    clustered = labels > _CLUSTERED
    if clustered:
        chosen = chosen[_clustered(wrong, chosen)]
    shown = set(chosen.tolist())
    counts = {
        (one, other): rows
        for one, other, rows in figures.confusion_pairs.tolist()
        if one in shown and other in shown
    }
    size = len(chosen)
    longest = max(len(figures.labels[index].name) for index in chosen)
    dense = size > 12
    return _Matrix(
        order=tuple(chosen.tolist()),
        counts=counts,
        dense=dense,
        upright=dense or size * longest > 72,
        left_out=labels - size,
        clustered=clustered,
        fit=round(min(1.0, 660 / (210 + (25 if dense else 75) * size)), 2),
    )


def _wrong(figures: Evaluation) -> np.ndarray:
    pairs = figures.confusion_pairs
    return pairs[pairs[:, 0] != pairs[:, 1]]


def _clustered(wrong: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Order the chosen labels so that those often confused are adjacent."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    actual, predicted, rows = wrong[np.isin(wrong[:, :2], chosen).all(axis=1)].T
    mixed_up = np.zeros((len(chosen), len(chosen)))
    for one, other in ((actual, predicted), (predicted, actual)):
        np.add.at(mixed_up, (np.searchsorted(chosen, one), np.searchsorted(chosen, other)), rows)
    distance = 1 / (1 + mixed_up)
    np.fill_diagonal(distance, 0)
    return np.asarray(leaves_list(linkage(squareform(distance), "average")))


def _instead(figures: Evaluation) -> list[tuple[str, int] | None]:
    wrong = _wrong(figures)
    most_frequent: dict[int, tuple[str, int]] = {}
    for actual, predicted, rows in wrong[np.argsort(-wrong[:, 2], kind="stable")].tolist():
        most_frequent.setdefault(actual, (figures.labels[predicted].name, rows))
    return [most_frequent.get(index) for index in range(len(figures.labels))]


def _notable(report: Report) -> list[str]:
    """The main observations, in sentences; user names in them are escaped."""
    profile = report.profile
    sentences = [
        _of_labels(report.figures),
        _of_pairs(report.figures),
        _of_slices(report.slices),
        _of_spurious_tokens(report.spurious_tokens or ()),
    ]
    if profile.truncated > _MUCH_TRUNCATED * profile.rows:
        share = _percent(profile.truncated / profile.rows)
        sentences.append(
            f"{share} of the texts are longer than {profile.limit} tokens and lose their middle."
        )
    if profile.conflicting:
        texts = "text stands" if profile.conflicting == 1 else "texts stand"
        sentences.append(
            f"{profile.conflicting:,} {texts} in rows with different labels: the model can be right"
            " on one of them only."
        )
    return [sentence for sentence in sentences if sentence]


def _of_pairs(figures: Evaluation) -> str:
    words = figures.no_information.describe_pairs() if figures.no_information else ""
    return f"On these rows {words}." if words else ""


def _of_labels(figures: Evaluation) -> str:
    few = [label.name for label in figures.labels if label.support < _FEW_ROWS]
    weak = sorted(
        (label for label in figures.labels if label.support >= _FEW_ROWS),
        key=lambda label: label.f1,
    )[:1]
    said = (
        [f"The weakest label is {_short(weak[0].name, 60)!s} with an F1 of {weak[0].f1:.2f}."]
        if weak and weak[0].f1 < 0.9
        else []
    )
    if few:
        said.append(
            f"{len(few)} of {len(figures.labels)} labels have fewer than {_FEW_ROWS} rows here:"
            " their figures say little."
        )
    return " ".join(said)


def _of_slices(slices: Mapping[str, tuple[SliceFigures, ...]]) -> str:
    weak = [(name, part) for name, parts in slices.items() for part in parts if part.weak]
    return " ".join(
        f"Of the {part.rows:,} rows with {_short(name, 40)} {_short(part.name, 40)} only"
        f" {_percent(part.accuracy)} are right."
        for name, part in sorted(weak, key=lambda one: one[1].accuracy)[:3]
    )


def _of_spurious_tokens(spurious_tokens: Sequence[SpuriousToken]) -> str:
    used = [mark for mark in spurious_tokens if mark.used]
    if not used:
        return ""
    them = "a word" if len(used) == 1 else f"{len(used)} words"
    return (
        f"The model relies on {them} that may be there by accident, such as a number, a code, a"
        " date or a name: see Suspicious words."
    )
