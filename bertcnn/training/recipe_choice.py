"""How `auto` chooses a recipe: the best one that is expected to finish soon."""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bertcnn.backend import on_gpu
from bertcnn.inference import cpu_flags, usable_cores
from bertcnn.models import Bert
from bertcnn.settings import FULL, Recipe, TrainingSettings
from bertcnn.training.devices import gpu_name, training_mesh
from bertcnn.wording import count

_PATIENCE_MINUTES = 15.0
# time of `frozen` as a share of one epoch in which all layers train, measured
_FROZEN = 0.25
_BACKWARD = 2 / 3  # share of a step's work that a frozen layer saves
# `few-shot` is better below these numbers of rows (docs/benchmarks/recipes.md)
_FEW = 400
_FEW_PER_LABEL = 40
_FEW_UNMEASURED = 20  # per label, for cases that were not measured
_FOLDS, _FOLD_MINUTES = (5, 3, 2), 5.0
_FEW_SHOT_FOLDS = 3  # with 2 folds a model would see only half of few rows
_ENOUGH_HELD_OUT, _FEW_HELD_OUT = 1_000, 300  # held-out rows; above these, more rows add little
_STEPS_PER_LABEL = 5  # over all epochs; with fewer, training the encoder does not pay off
_STEPS_OF_AN_EPOCH = 500  # in one epoch, if each row is seen once
_MORE_TIME = "; --time-budget allows more time, and a named --recipe takes all rows"
# FLOP/s of training on one core, measured on two; never measured on more than eight
_CORE_FLOPS, _CORE_FLOPS_AVX512, _MOST_CORES = 3e10, 5e10, 8
# training speed on real tokens as a share of a matrix product's, and FLOPs spent on compilation
_TRAINED, _COMPILED = 0.5, 6e12
_PRODUCT, _TIMES = (1024, 384, 1536), 20  # about a tenth of a second

# bfloat16 TFLOP/s from data sheets, by a word of the card's name
_CARDS = {
    "B200": 2250,
    "GH200": 989,
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "A40": 150,
    "A30": 165,
    "A10": 125,
    "A10G": 70,
    "L40S": 362,
    "L40": 181,
    "L4": 121,
    "4090": 165,
    "3090": 71,
}
_OTHER_CARD = 80
# share of that peak, and fixed seconds per step: on an H100 a step of BERT-base with 32 rows of 128
# tokens took 35 ms, one of MiniLM with 32 rows of 64 tokens, in two parts, 38 ms
_GPU_SHARE, _GPU_STEP = 0.125, 0.02


@dataclass(frozen=True)
class DeviceSpeed:
    """FLOP/s of a device in training, fixed seconds of a step, and seconds of compilation."""

    name: str
    flops: float
    step: float = 0.0
    compiling: float = 0.0

    def seconds(self, work: float, steps: float) -> float:
        """Seconds for `work` FLOPs in this number of steps, without compilation."""
        return work / self.flops + self.step * steps


def device_speed() -> DeviceSpeed:
    """The speed of this device, from its name."""
    if on_gpu():
        mesh = training_mesh()
        return gpu_speed(gpu_name(), 1 if mesh is None else mesh.size)
    return cpu_speed(usable_cores(), cpu_flags())


def gpu_speed(name: str, cards: int = 1) -> DeviceSpeed:
    """The speed of one or several cards with this name.

    Example:
        >>> gpu_speed("NVIDIA H100 80GB HBM3").flops > 2 * gpu_speed("NVIDIA A100-SXM4-40GB").flops
        True
    """
    words = re.split(r"\W+", name)
    peak = next((_CARDS[word] for word in words if word in _CARDS), _OTHER_CARD)
    several = f"{cards} x " if cards > 1 else ""
    return DeviceSpeed(several + name, cards * peak * 1e12 * _GPU_SHARE, _GPU_STEP)


def cpu_speed(cores: int, flags: str) -> DeviceSpeed:
    """The speed of a CPU with this number of cores and these Linux CPU flags."""
    wide = "avx512f" in flags.split()
    flops = min(cores, _MOST_CORES) * (_CORE_FLOPS_AVX512 if wide else _CORE_FLOPS)
    kind = " with AVX-512" if wide else ""
    return DeviceSpeed(f"this CPU ({count(cores, 'core')}{kind})", flops)


def measured_cpu_speed() -> DeviceSpeed:
    """The speed of this CPU at the moment, from a matrix product of BERT's shape."""
    rows, inner, columns = _PRODUCT
    left, right = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    seconds = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - started)
    product = 2.0 * rows * inner * columns / statistics.median(seconds)
    name = f"this CPU ({product / 1e9:.0f} GFLOP/s just now)"
    return DeviceSpeed(name, _TRAINED * product, compiling=_COMPILED / product)


@dataclass(frozen=True)
class RecipeChoice:
    """A recipe, the reason for it, and its settings that change for lack of time."""

    recipe: Recipe
    reason: str
    changes: dict[str, Any] = field(default_factory=dict)


def choose_recipe(
    encoder: Bert,
    tokens: int,
    rows: int,
    classes: int,
    settings: TrainingSettings = FULL,
    *,
    fewest_epochs: int | None = None,
    multi_label: bool = False,
    sentence_encoder: bool = True,
) -> RecipeChoice:
    """`few-shot` for few rows, else `full` if it finishes in time, else `frozen`.

    If `full` with default settings takes too long, it gets fewer epochs, provided that these have
    enough steps for the labels: even then it is at least as good as `frozen`
    (docs/benchmarks/recipes.md). If even `frozen` takes too long, only a part of the rows is used.

    The time is estimated from the name of the device, so that the same rows always get the same
    recipe. A CPU is measured only if `settings` have a time budget.

    `tokens`, `rows` and `classes` are counts of the training rows. With `fewest_epochs`, `full`
    gets at least that many and uses all rows. Encoders that are not sentence encoders have more to
    learn, so `full` pays off earlier.
    """
    by_name = settings.time_budget is None or on_gpu()
    speed = device_speed() if by_name else measured_cpu_speed()
    return CostEstimate(
        rows,
        classes,
        speed.seconds(_work(encoder, tokens, settings), _steps(rows, settings)),
        settings,
        speed.name,
        speed.compiling,
        fewest_epochs,
        multi_label,
        sentence_encoder,
    ).choice()


@dataclass(frozen=True)
class TrainingPlan:
    """A way to run `full`: epochs, whether to refit on all rows, and a limit of rows."""

    epochs: int
    refit: bool
    most_rows: int | None = None


@dataclass(frozen=True)
class CostEstimate:
    """How long `full` takes, and which plans fit the time; see `choose_recipe`.

    `seconds` is the time of all epochs of one training, `compiling` the compilation of one.
    """

    rows: int
    classes: int
    seconds: float
    settings: TrainingSettings
    device: str = "this CPU"
    compiling: float = 0.0
    fewest_epochs: int | None = None
    multi_label: bool = False
    sentence_encoder: bool = True

    def choice(self) -> RecipeChoice:
        """The recipe and the reason for it."""
        per_label = self.rows / self.classes
        if self.rows < self._few:
            few = f"{per_label:.0f} rows per label"
            few = few if per_label < _FEW_PER_LABEL else count(self.rows, "row")
            return RecipeChoice("few-shot", f"only {few}")
        plans = list(self._plans())
        plan = next(filter(self._is_in_time, plans), None)
        if plan is None and self.fewest_epochs is None and self._frozen_rows < self.rows:
            plan = self._on_a_part()
        return self._frozen(plans) if plan is None else self._full(plan, per_label)

    @property
    def _few(self) -> int:
        if self.multi_label or not self.sentence_encoder:
            return _FEW_UNMEASURED * self.classes
        return max(_FEW, _FEW_PER_LABEL * self.classes)

    @property
    def _allowed(self) -> float:
        return 60 * (self.settings.time_budget or _PATIENCE_MINUTES)

    @property
    def _rows_needed(self) -> tuple[int, int]:
        """Rows to be seen in all epochs together, and in a single epoch if there is only one."""
        size = self.settings.batch_size
        return size * _STEPS_PER_LABEL * self.classes, size * _STEPS_OF_AN_EPOCH

    def _rows_in_time(self, share: float, compiling: float = 0.0) -> float:
        """How many rows fit the time if one pass over all rows takes `share` of an epoch."""
        allowed = (self._allowed - compiling) / (share * self.seconds)
        return allowed * self.settings.epochs * self.rows

    @property
    def _frozen_rows(self) -> float:
        return self._rows_in_time(_FROZEN / _work_share(self.settings))

    def _plans(self) -> Iterator[TrainingPlan]:
        """All reduced versions of `full`, the best first."""
        settings = self.settings
        # without a budget the refit setting is kept
        refits = [True, False] if settings.refit and settings.time_budget else [settings.refit]
        yield from (TrainingPlan(settings.epochs, refit) for refit in refits)
        for_labels, seen_once = self._rows_needed
        enough = max(math.ceil(for_labels / self.rows), 1 if self.rows >= seen_once else 2)
        fewer = range(settings.epochs - 1, (self.fewest_epochs or enough) - 1, -1)
        yield from (TrainingPlan(epochs, refits[-1]) for epochs in fewer)

    def _on_a_part(self) -> TrainingPlan | None:
        part = _rounded_down(self._rows_in_time(1.0, self.compiling))
        again = self.settings.refit and self.settings.time_budget is None
        return TrainingPlan(1, again, part) if part >= max(self._rows_needed) else None

    def _seconds(self, plan: TrainingPlan, *, refit: bool) -> float:
        share = plan.epochs / self.settings.epochs * (plan.most_rows or self.rows) / self.rows
        return (2 if refit else 1) * (self.compiling + self.seconds * share)

    def _is_in_time(self, plan: TrainingPlan) -> bool:
        refit = plan.refit and self.settings.time_budget is not None
        return self._seconds(plan, refit=refit) <= self._allowed

    def _cost(self, plan: TrainingPlan) -> str:
        return f"about {max(1, round(self._seconds(plan, refit=plan.refit) / 60)):,} min"

    def _full(self, plan: TrainingPlan, per_label: float) -> RecipeChoice:
        settings = self.settings
        usual = {"epoch": settings.epochs, "row": self.rows}
        taken = {"epoch": plan.epochs, "row": plan.most_rows or self.rows}
        less = [
            f"{taken[name]:,} {name}{'s' * (taken[name] > 1)} instead of {most:,}"
            for name, most in usual.items()
            if taken[name] < most
        ]
        takes = f"full fine-tuning would take {self._cost(plan)} on {self.device}"
        reason = ", ".join([takes, *less])
        if plan.refit:
            reason += ", the refit on all rows included"
        elif settings.refit:
            reason += f"; {settings.time_budget:g} min leave no time for a refit on all rows"
        if plan.most_rows is not None:
            reason += _MORE_TIME
        reason = f"{per_label:.0f} rows a label are enough to train the encoder too, and {reason}"
        changes = {
            name: value for name, value in asdict(plan).items() if value != getattr(settings, name)
        }
        return RecipeChoice("full", reason, changes)

    def _frozen(self, plans: list[TrainingPlan]) -> RecipeChoice:
        costs = [self._cost(plan) for plan in (plans[0], plans[-1])]
        reason = f"full fine-tuning would take {costs[0]} on {self.device}"
        if costs[1] != costs[0]:
            reason += f", {costs[1]} at least"
        if (budget := self.settings.time_budget) is not None:
            reason += f", {budget:g} are allowed"
        part = max(_rounded_down(self._frozen_rows), self._few)
        if self.fewest_epochs is not None or part >= self.rows:
            return RecipeChoice("frozen", f"{reason}; --recipe full does it anyway")
        reason += f"; {part:,} of {self.rows:,} rows are used{_MORE_TIME}"
        return RecipeChoice("frozen", reason, {"most_rows": part})


def fold_count(
    recipe: Recipe, encoder: Bert, tokens: int, rows: int, held_out: int, settings: TrainingSettings
) -> int:
    """The number of cross-fitting folds.

    Cross-fitting with n folds takes as long as n - 1 trainings, and two folds gain most
    (docs/benchmarks). By default it is the largest number that takes 5 minutes on this kind of
    device; two if few rows are held out, where the gain is largest; none if many are. `tokens`,
    `rows` and `held_out` are counts of training tokens, training rows and validation rows.
    """
    if settings.folds is not None:
        return settings.folds
    if held_out >= _ENOUGH_HELD_OUT:
        return 0
    seconds = device_speed().seconds(_work(encoder, tokens, settings), _steps(rows, settings))
    if recipe == "frozen":
        seconds *= _FROZEN / _work_share(settings) / settings.epochs
    elif recipe == "few-shot":
        return _FEW_SHOT_FOLDS
    in_time = [folds for folds in _FOLDS if (folds - 1) * seconds <= 60 * _FOLD_MINUTES]
    few = [_FOLDS[-1]] if held_out < _FEW_HELD_OUT and settings.time_budget is None else []
    return next(iter([*in_time, *few]), 0)


def _work(encoder: Bert, tokens: int, settings: TrainingSettings) -> float:
    weights = sum(
        int(np.prod(weight.shape)) for weight in encoder.weights if weight.path.startswith("layer_")
    )
    return 6.0 * weights * tokens * settings.epochs * _work_share(settings)


def _steps(rows: int, settings: TrainingSettings) -> int:
    return settings.epochs * math.ceil(rows / settings.batch_size)


def _work_share(settings: TrainingSettings) -> float:
    """The work of a step, relative to a step in which all layers train."""
    return 1.0 - _BACKWARD * settings.frozen_share


def _rounded_down(count: float) -> int:
    """The number rounded down to two significant digits; 0 if negative.

    Example:
        >>> _rounded_down(32_768.5)
        32000
    """
    unit = 10 ** max(0, math.floor(math.log10(max(count, 1.0))) - 1)
    return max(0, int(count // unit * unit))
