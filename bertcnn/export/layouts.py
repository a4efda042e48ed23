"""Numbered versions of an export for TensorFlow Serving and Triton.

Versions are numbered folders in the model's folder: `triage/3/`. For Triton, `triage/config.pbtxt`
describes the inputs and outputs of all versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bertcnn.errors import OutputError, SettingsError
from bertcnn.storage import output_error, write_whole

CONFIG: Final = "config.pbtxt"
VERSIONED: Final = ("savedmodel", "openvino", "onnx")
_MODELS: Final = {"openvino": ("openvino", "model.xml"), "onnx": ("onnxruntime", "model.onnx")}
_TYPES: Final = {"i32": "TYPE_INT32", "i64": "TYPE_INT64", "f32": "TYPE_FP32"}


def version_folder(out: Path, form: str, version: int) -> Path:
    """The folder of a version: `out`, named after the model, and the version number.

    Raises:
        SettingsError: the number is below 1, or no server supports versions of the format.
    """
    if form not in VERSIONED:
        raise SettingsError(
            f"version {version} of an export as {form}",
            expected=f"--version with one of {', '.join(VERSIONED)}",
            fix="leave --version out",
        )
    if version < 1:
        raise SettingsError(
            f"version {version}",
            expected="a number from 1 on",
            fix="give the number of the version, such as --version 1",
        )
    return out / str(version)


def check_config(out: Path, form: str, overwrite: bool) -> None:
    """Refuse a folder whose versions another program serves.

    Raises:
        OutputError: its `config.pbtxt` is for another format, and `overwrite` is False.
    """
    if form not in _MODELS or overwrite or not (out / CONFIG).exists():
        return
    backend = _MODELS[form][0]
    if f'backend: "{backend}"' not in (out / CONFIG).read_text(encoding="utf-8", errors="replace"):
        raise OutputError(
            f"{out / CONFIG} is not for the backend {backend}",
            expected="one format for all versions of a model",
            fix="choose another folder, or overwrite it with --force",
        )


def write_config(out: Path, form: str, version: Path, overwrite: bool) -> None:
    """Write Triton's configuration for a finished version; does nothing for other formats.

    `overwrite` replaces a configuration with other inputs or outputs.

    Raises:
        OutputError: not writable, or earlier versions have other inputs or outputs.
    """
    if form not in _MODELS:
        return
    backend, name = _MODELS[form]
    content = triton_config(out.resolve().name, backend, version / name).encode("utf-8")
    try:
        if (out / CONFIG).exists() and (out / CONFIG).read_bytes() == content:
            return
    except OSError as error:
        raise output_error(out / CONFIG, error) from None
    if (out / CONFIG).exists() and not overwrite:
        raise OutputError(
            f"{out / CONFIG} describes other inputs or outputs than version {version.name} has",
            expected="versions that differ only in their weights",
            fix="choose another folder, or overwrite it with --force",
        )
    write_whole(out / CONFIG, content, overwrite=overwrite)


def triton_config(name: str, backend: str, model: Path) -> str:
    """Triton's `config.pbtxt` for the model file of a version.

    `backend` is "onnxruntime" or "openvino".
    """
    from bertcnn.inference import ov  # slow to import, and not needed for checks

    network = ov.Core().read_model(model)
    return (
        f"name: {_quoted(name)}\n"
        f'backend: "{backend}"\n'
        "max_batch_size: 0\n"  # the first axis of every input is declared as the others are
        f"{_ports('input', network.inputs)}{_ports('output', network.outputs)}"
    )


def _ports(kind: str, ports: list[Any]) -> str:
    lines = []
    for port in ports:
        dims = ", ".join(
            "-1" if length.is_dynamic else str(length.get_length()) for length in port.partial_shape
        )
        data_type = _TYPES[port.element_type.get_type_name()]
        lines.append(
            f"  {{ name: {_quoted(port.any_name)} data_type: {data_type} dims: [ {dims} ] }}"
        )
    return f"{kind} [\n" + ",\n".join(lines) + "\n]\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
