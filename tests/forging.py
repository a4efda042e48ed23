"""Forged models with consistent hashes, and the outcomes of loading and running them."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcnn.bundle.bundle import FORMAT
from bertcnn.bundle.engine import ENGINE, ENGINE_SCHEMA_VERSION
from bertcnn.storage.manifest import MANIFEST, FolderFormat, canonical_json, write_manifest

_ADDRESS_SPACE = 6 << 30  # so that a failing test does not exhaust the machine's memory
_SECONDS = 120
_ASK = """
import json, pathlib, re, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, ({address_space},) * 2)
warnings.simplefilter("error")
import bertcnn
import bertcnn.inference.compiled  # so that int8 is run on any CPU
flags = "def cpu_flags(): return 'flags : sse2 avx2 avx512f avx512_vnni'"
exec(flags, vars(sys.modules["bertcnn.inference.compiled"]))
told = {{}}
try:
    model = bertcnn.load(sys.argv[1], engine=sys.argv[2], streams=1)
    answers = model.classify(["my router is dead", "a refund please " * 30, ""])
    shares = model.explain(["my router is dead"])[0]
    told = {{"engine": model.engine.name, "confidence": [answer.confidence for answer in answers]}}
    told["numbers"] = [value for answer in answers for value in answer.probabilities.values()]
    told["numbers"] += [shares.logit, shares.bias, shares.mean]
except bertcnn.BertCNNError as error:
    told = {{"kind": type(error).__name__, "error": str(error)}}
peak = re.search(r"VmHWM:\\s*(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]
print(json.dumps({{**told, "mb": int(peak) // 1024}}))
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of loading and running a model: a one-line error, or the outputs.

    Also its peak memory.
    """

    error: str
    kind: str
    engine: str
    numbers: list[float]
    warnings: str
    mb: int


def reseal(folder: Path) -> None:
    """Update the manifests to match the files in a model's folder."""
    members = {
        name: (folder / name).read_bytes() for name in FORMAT.largest if (folder / name).exists()
    }
    bundle_id, manifest = write_manifest(FORMAT, members)
    (folder / MANIFEST).write_bytes(manifest)
    place = folder / ENGINE
    if place.exists():
        record = json.loads((place / "engine.json").read_bytes())
        (place / "engine.json").write_bytes(canonical_json({**record, "bundle_id": bundle_id}))
        parts = {path.name: path.read_bytes() for path in place.iterdir() if path.name != MANIFEST}
        (place / MANIFEST).write_bytes(
            write_manifest(FolderFormat("bertcnn engine", ENGINE_SCHEMA_VERSION, ()), parts)[1]
        )


def replace_member(folder: Path, name: str, data: bytes) -> None:
    """Replace a member and update the hashes."""
    (folder / name).write_bytes(data)
    reseal(folder)


def change_manifest(folder: Path, change: Callable[[Any], Any]) -> None:
    """Change the manifest itself and update its id."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    change(manifest)
    del manifest["bundle_id"]
    manifest["bundle_id"] = hashlib.sha256(canonical_json(manifest)).hexdigest()
    (folder / MANIFEST).write_bytes(canonical_json(manifest))


def put(path: str, value: Any) -> Callable[[Any], None]:
    """A change of a JSON object; ">" leads into objects, and None removes."""

    def change(inner: Any) -> None:
        *above, key = path.split(">")
        for step in above:
            inner = inner[step]
        if value is None:
            del inner[key]
        else:
            inner[key] = value

    return change


def change_json(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a JSON member by `change(member)` and update the hashes."""
    value = json.loads((folder / name).read_bytes())
    changed = change(value)
    (folder / name).write_bytes(canonical_json(value if changed is None else changed))
    reseal(folder)


def ask(folder: Path, engine: str = "auto") -> Outcome:
    """Load a model and run inference, in a process of its own."""
    script = _ASK.format(address_space=_ADDRESS_SPACE)
    finished = subprocess.run(
        [sys.executable, "-c", script, folder, engine],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    told = json.loads(finished.stdout)
    return Outcome(
        told.get("error", ""),
        told.get("kind", ""),
        told.get("engine", ""),
        told.get("numbers", []),
        finished.stderr,
        told["mb"],
    )
