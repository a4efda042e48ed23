"""Exports a saved model to other formats; refuses exports with different answers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import numpy as np
from pydantic import Field

from bertcnn.bundle import Bundle, SavedEngine, local_folder, read_bundle, read_config, read_engine
from bertcnn.errors import (
    BertCNNError,
    BundleError,
    ExportError,
    SettingsError,
    missing_package,
    one_line,
)
from bertcnn.evaluation import calibrated_probabilities
from bertcnn.export.layouts import check_config, version_folder, write_config
from bertcnn.export.parity import Parity, compare
from bertcnn.export.parity_texts import PARITY_TEXTS
from bertcnn.export.readme import readme
from bertcnn.progress import Progress, Silent
from bertcnn.settings import Settings
from bertcnn.storage import (
    canonical_json,
    check_replaceable,
    check_target,
    is_debris,
    new_folder,
    open_regular,
    parse_json,
    real_folder,
    settings_of,
    sync_folder,
    write_new,
)
from bertcnn.text import PAD, WordPieceTokenizer

Format = Literal["openvino", "savedmodel", "onnx", "keras", "mlflow"]
SCHEMA_VERSION: Final = 1
RECORD: Final = "export.json"

_NEEDS: Final = {"savedmodel": "tensorflow_text", "onnx": "onnx"}
_MADE_WITH: Final[dict[str, tuple[str, ...]]] = {
    "openvino": ("bertcnn", "openvino"),
    "savedmodel": ("bertcnn", "keras", "tensorflow", "tensorflow-text"),
    "onnx": ("bertcnn", "onnx"),
    "keras": ("bertcnn", "keras"),
    "mlflow": ("bertcnn", "openvino"),
}
_OF_PAIRS: Final = ("keras", "mlflow")  # these take two segments
_WITH_ENGINE: Final = ("openvino", "mlflow")  # these use the engine saved with the model
_LARGEST_RECORD: Final = 1 << 20  # bytes
_Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class ExportRecord(Settings):
    """`export.json`: the export's contents, source and comparison."""

    schema_version: int = Field(SCHEMA_VERSION, ge=1, le=SCHEMA_VERSION, description="of this file")
    format: Format
    bundle_id: str = Field(description="of the model it was made of")
    precision: Literal["int8", "float32"]
    temperature: float = Field(
        gt=0.0,
        description="logits are divided by it before the softmax; the savedmodel does that itself",
    )
    label_thresholds: tuple[float, ...] = Field(
        (),
        description=(
            "where a text may have several labels: from which sigmoid(logit / temperature) on each"
            " is given"
        ),
    )
    parity: Parity
    versions: dict[str, str] = Field(description="of the libraries that made it")
    files: dict[str, _Sha256] = Field(
        description="sha256 of every other file, by its path in the folder"
    )


@dataclass(frozen=True)
class ExportReport:
    """The result of an export: its folder, and the contents of `export.json`."""

    folder: Path
    record: ExportRecord


# === Before the work ===


def check_export(
    model: str | os.PathLike[str],
    form: str,
    out: str | os.PathLike[str],
    overwrite: bool,
    version: int | None = None,
) -> None:
    """Check quickly whether `export_model` would be refused.

    Raises:
        SettingsError: the format is unknown, or cannot have this version or two segments.
        OutputError: `out` is taken or not writable.
        BundleError: `model` is not a saved model.
        MissingPackageError: a package for this format is missing.
    """
    if form not in get_args(Format):
        formats = ", ".join(get_args(Format))
        raise SettingsError(
            f"format {one_line(form)}",
            expected=f"one of {formats}",
            fix="choose one of them with --format",
        )
    target = Path(out)
    if version is not None:
        target = version_folder(target, form, version)
        check_config(Path(out), form, overwrite)
    check_target(target, lambda target: _check_replaceable(target, overwrite))
    if read_config(model).tokenizer.pair and form not in _OF_PAIRS:
        raise SettingsError(
            f"a model of two segments, and the format {form}, whose inputs have one",
            expected=f"one of {', '.join(_OF_PAIRS)}",
            fix="choose one of them with --format",
        )
    package = _NEEDS.get(form)
    if package and not _is_installed(package):
        raise missing_package(package)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # its import was blocked
        return False


def _check_replaceable(target: Path, overwrite: bool) -> None:
    check_replaceable(
        target,
        overwrite,
        holds="an export",
        expected="an export as it was made",
        stranger=_stranger,
    )


def _stranger(folder: Path) -> str | None:
    """Why a folder is not an export; None if it is."""
    listed = _listed(folder)
    if listed is None:
        return "is not an export by bertcnn"
    foreign = sorted(
        name for name in set(_files(folder)) - listed - {RECORD} if not is_debris(name)
    )
    return f"holds {one_line(foreign[0])}, which is no part of the export" if foreign else None


def _listed(folder: Path) -> set[str] | None:
    """The files of an export according to its record; None for other folders."""
    try:
        with open_regular(folder / RECORD) as file:
            content = file.read(_LARGEST_RECORD + 1)
        if len(content) > _LARGEST_RECORD:
            return None
        record = parse_json(RECORD, content)
        return set(settings_of(RECORD, ExportRecord, record, SCHEMA_VERSION).files)
    except (OSError, BertCNNError):
        return None


def _files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    )


# === The work ===


def export_model(
    model: str | os.PathLike[str],
    form: Format,
    out: str | os.PathLike[str],
    *,
    version: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ExportReport:
    """Export a saved model, if the export gives the same answers.

    The report compares the answers on built-in test texts.

    Args:
        model: folder or URL of a saved model.
        form: "openvino" (int8 if the model has an int8 engine with the same answers), "savedmodel"
            (TensorFlow, takes raw texts), "onnx", "keras", "mlflow".
        out: folder for the export; written atomically.
        version: write to a numbered folder in `out`, as TensorFlow Serving (savedmodel) and Triton
            (openvino, onnx) expect; also writes Triton's `config.pbtxt`.
        overwrite: replace an existing export, never anything else.
        progress: progress callback.

    Raises:
        SettingsError, OutputError, BundleError, MissingPackageError: as in `check_export`.
        ExportError: the export gives different answers; nothing is left at `out`.
    """
    progress = progress or Silent()
    model = local_folder(model, progress=progress)
    check_export(model, form, out, overwrite, version)
    progress.stage(f"exporting as {form}", 3, "steps")
    bundle = read_bundle(model)
    engine = read_engine(model, bundle.bundle_id) if form in _WITH_ENGINE else None
    task = _Task(model, bundle, form, _reference(bundle))
    progress.advance(1)
    target = Path(out) if version is None else version_folder(Path(out), form, version)
    with new_folder(real_folder(target), overwrite=overwrite, check=_check_replaceable) as new:
        record = _write(task, engine, new, progress)
        _sync(new)
    if version is not None:
        write_config(Path(out), form, target, overwrite)
    progress.advance(1)
    return ExportReport(target, record)


@dataclass(frozen=True, eq=False)
class _Task:
    """An export to be made.

    Attributes:
        reference: the model's probabilities for the test texts, float32 [rows, C].
    """

    model: Path
    bundle: Bundle
    form: Format
    reference: np.ndarray


def _write(task: _Task, engine: SavedEngine | None, new: Path, progress: Progress) -> ExportRecord:
    """Write all files, from the saved engine if it exists and gives the same answers."""
    if engine is not None and engine.record.weight_bits == 8:
        progress.note(
            "the model's int8 has weights of 8 bits, which would saturate on a CPU without VNNI: it"
            " is exported in float32"
        )
        engine = None
    try:
        return _written(task, engine, new, progress)
    except ExportError as error:
        if engine is None or engine.record.precision == "float32":
            raise
        progress.note(f"in {engine.record.precision} {error.given}: it is exported in float32")
    for name in _files(new):
        (new / name).unlink()
    return _written(task, None, new, Silent())


def _written(
    task: _Task, engine: SavedEngine | None, new: Path, progress: Progress
) -> ExportRecord:
    """Write all files; compares the answers before the last one."""
    bundle, form = task.bundle, task.form
    if form != "mlflow":  # mlflow contains the whole model
        write_new(new / "labels.json", canonical_json(list(bundle.labels)))
        pieces = "".join(f"{piece}\n" for piece in bundle.vocabulary)
        write_new(new / "vocab.txt", pieces.encode("utf-8"))
    probabilities = _write_model(task, engine, new)
    progress.advance(1)
    precision: Literal["int8", "float32"] = (
        "int8" if engine is not None and engine.record.precision == "int8" else "float32"
    )
    thresholds = bundle.calibration.label_thresholds
    parity = compare(
        task.reference,
        probabilities(new, bundle, PARITY_TEXTS),
        PARITY_TEXTS,
        precision=precision,
        label_thresholds=thresholds,
    )
    write_new(new / "README.md", readme(bundle, form, precision, parity.describe()).encode("utf-8"))
    record = ExportRecord(
        format=form,
        bundle_id=bundle.bundle_id,
        precision=precision,
        temperature=bundle.calibration.temperature,
        label_thresholds=thresholds,
        parity=parity,
        versions={package: version(package) for package in _MADE_WITH[form]},
        files={name: hashlib.sha256((new / name).read_bytes()).hexdigest() for name in _files(new)},
    )
    write_new(new / RECORD, canonical_json(record.model_dump(mode="json")))
    return record


def _write_model(
    task: _Task, engine: SavedEngine | None, new: Path
) -> Callable[[Path, Bundle, Sequence[str]], np.ndarray]:
    """Write the model into `new`; returns a function that loads it and scores texts."""
    bundle = task.bundle
    if task.form == "openvino":
        from bertcnn.export import openvino_format

        openvino_format.write(bundle, engine, new)
        return openvino_format.probabilities
    if task.form == "mlflow":
        from bertcnn.export import mlflow_format

        mlflow_format.write(bundle, engine, task.model, new)
        return mlflow_format.probabilities
    if task.form == "savedmodel":
        from bertcnn.export import savedmodel_format

        savedmodel_format.write(bundle, new)
        return savedmodel_format.probabilities
    if task.form == "onnx":
        from bertcnn.export import onnx_format

        onnx_format.write(bundle, new)
        return onnx_format.probabilities
    from bertcnn.export import keras_format

    keras_format.write(bundle, new)
    return keras_format.probabilities


def _reference(bundle: Bundle) -> np.ndarray:
    """The model's own probabilities for the test texts, float32 [rows, C].

    On a CPU they equal `load(model, engine="keras").predict_proba`.
    """
    from bertcnn.inference import KerasEngine

    token_ids = (
        WordPieceTokenizer(bundle.vocabulary, bundle.config.tokenizer)
        .encode(PARITY_TEXTS)
        .token_ids
    )
    pad_id = bundle.vocabulary.index(PAD)
    output = KerasEngine.from_bundle(bundle, pad_id, precision="float32").run(token_ids)
    if not output.is_finite:
        problem = f"the model {bundle.bundle_id[:12]} gives answers that are not finite"
        raise BundleError(problem, expected="weights as they are trained", fix="train it again")
    return calibrated_probabilities(output.logits, bundle.calibration)


def _sync(folder: Path) -> None:
    """Sync every file to disk; other libraries wrote some of them."""
    for name in _files(folder):
        handle = os.open(folder / name, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    for subfolder in (path for path in folder.rglob("*") if path.is_dir()):
        sync_folder(subfolder)
