"""The peers' own environment, so that nothing of theirs becomes a dependency of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS = HERE / ".envs" / "peers"


def peers_python() -> Path:
    """The peers' interpreter; the environment is made on the first call (torch is about 1 GB even without CUDA)."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        print(f"making the peers' environment in {PEERS}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "peers" / "requirements.txt")], check=True)
    return python


def ask_peer(script: str, *arguments: object) -> dict[str, Any]:
    """Run a script of `peers/` in their environment; its answer is the last line it prints."""
    command = [str(peers_python()), str(HERE / "peers" / script), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))
