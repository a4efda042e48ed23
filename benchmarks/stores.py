"""An object store on loopback, in its own environment."""

from __future__ import annotations

import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environment import HERE, CompetitorError, peers_python

_REQUEST = re.compile(r"([A-Z]+) (/\S*) HTTP/1\.1")
ACCESS = {  # arbitrary keys, for the server on loopback
    "AWS_ACCESS_KEY_ID": "anybody",
    "AWS_SECRET_ACCESS_KEY": "anything",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass(frozen=True)
class ObjectServer:
    """An S3-compatible server.

    Attributes:
        port: on loopback.
        log: file with a line for each request.
    """

    port: int
    log: Path

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        """The URL of a path, "bucket/folder", that needs no variables except the keys."""
        return f"s3://{path}?scheme=http&endpoint_override=127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        self.ask("PUT", f"/{name}", b"")

    def ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        """The answer to an unsigned request, which the server accepts."""
        request = urllib.request.Request(
            self.endpoint + path, data, {"Content-Type": "text/plain"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def requests(self) -> list[str]:
        """Method and path of every request so far, in their order."""
        found = _REQUEST.findall(self.log.read_text(encoding="utf-8"))
        return [f"{method} {path}" for method, path in found]

    def check_access(self, wanted: bool) -> None:
        """From now on refuse unknown keys, as AWS does, or accept all keys again."""
        self.ask("POST", "/moto-api/reset-auth", b"0" if wanted else b"inf")


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """Start the server; it stops with the block, or with this process.

    Raises:
        CompetitorError: its environment cannot be created, or it does not start.
    """
    python = peers_python("moto")
    with tempfile.TemporaryDirectory(prefix="s3-") as folder:
        log = Path(folder) / "log"
        with (
            log.open("w") as lines,
            subprocess.Popen(
                [str(python), "-m", "benchmarks.peers.serve_s3"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=lines,
                text=True,
                cwd=HERE.parent,
            ) as server,
        ):
            assert server.stdin is not None
            assert server.stdout is not None
            try:
                port = server.stdout.readline()
                if not port:
                    raise CompetitorError(log.read_text(encoding="utf-8").strip()[-200:])
                yield ObjectServer(int(port), log)
            finally:
                server.stdin.close()
