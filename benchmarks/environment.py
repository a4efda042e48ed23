"""Separate environments for the peers, so that their dependencies do not become ours."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE / ".envs" / "peers"
QUESTIONS = "questions"  # environment with the last transformers that has question answering
_REQUIREMENTS = HERE / "peers" / "requirements.txt"
_REASON = 160  # maximum characters of a failure's reason


class CompetitorError(Exception):
    """A competitor could not be run; the message gives the reason in one line."""


def peers_python(environment: str = "") -> Path:
    """The Python interpreter of the peers' environment, or of another named environment.

    The environment is created on the first call (torch is about 1 GB even without CUDA). It is
    updated if the requirements have changed since, or if its creation was interrupted: a copy of
    the requirements is written to it last.

    Raises:
        CompetitorError: it cannot be created.
    """
    folder = PEERS.with_name(f"peers-{environment}") if environment else PEERS
    wanted = _REQUIREMENTS
    if environment:
        wanted = _REQUIREMENTS.with_stem(f"requirements-{environment}")
    python, installed = folder / "bin" / "python", folder / "requirements.txt"
    if python.exists() and installed.exists() and installed.read_bytes() == wanted.read_bytes():
        return python
    print(f"installing {wanted} in {folder}", file=sys.stderr, flush=True)
    if not python.exists():
        run_quietly([sys.executable, "-m", "venv", str(folder)])
    run_quietly([str(python), "-m", "pip", "install", "-q", "-r", str(wanted)])
    shutil.copyfile(wanted, installed)
    return python


def ask_peer(
    module: str, *arguments: object, limit: float | None = None, environment: str = ""
) -> dict[str, Any]:
    """Run a module of `peers/` in their environment; returns the last line it prints.

    Raises:
        CompetitorError: it prints no result.
    """
    return answer_of(
        [str(peers_python(environment)), "-m", f"benchmarks.peers.{module}", *map(str, arguments)],
        limit,
    )


def ask_ours(module: str, *arguments: object, limit: float | None = None) -> dict[str, Any]:
    """Run a module of `benchmarks/` as a separate process in our own environment.

    Returns the last line it prints.

    Raises:
        CompetitorError: it prints no result.
    """
    return answer_of([sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)], limit)


def answer_of(command: Sequence[str], limit: float | None = None) -> dict[str, Any]:
    """The JSON object that a command prints as its last line.

    Args:
        command: program and arguments.
        limit: timeout in seconds.

    Raises:
        CompetitorError: it fails, times out, or prints something else.
    """
    lines = run_quietly(command, limit).strip().splitlines()
    try:
        return dict(json.loads(lines[-1]))
    except (IndexError, ValueError, TypeError):
        raise CompetitorError(f"printed no answer but {lines[-1:]}") from None


def run_quietly(command: Sequence[str], limit: float | None = None) -> str:
    """The standard output of a command.

    Raises:
        CompetitorError: it fails or takes longer than `limit` seconds; includes the last line of
            its error output.
    """
    # No peer may contact a model hub: everything it needs is in the folder it is given
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            cwd=HERE.parent,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompetitorError(f"not done after {limit:g} s") from None
    except OSError as error:
        raise CompetitorError(str(error)) from None
    if done.returncode < 0:
        # SIGKILL: usually out of memory
        raise CompetitorError(f"was ended by {signal.Signals(-done.returncode).name}")
    if done.returncode:
        complaints = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise CompetitorError(
            shorten(complaints[-1], _REASON, placeholder=" ...")
            if complaints
            else f"ended with {done.returncode}"
        )
    return done.stdout
