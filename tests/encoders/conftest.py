"""A hub on loopback that answers like the Hugging Face hub, and misbehaves on request."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PICKLED = "pytorch_model.bin"


class Hub:
    """One repository behind HTTP.

    Large files are redirected to another host (here "localhost"), as the hub does for LFS.

    Attributes:
        files: content by name.
        announced: the sha256 announced for a large file, where it is not the true one.
        drops: for the next answers with a large file, after how many bytes each breaks off.
        hangs: never answers.
        stops_at: how many bytes of a large file are sent before the connection stalls.
        missing_repository: answers as for a repository that does not exist.
        requests: method, path and Range header of all requests.
    """

    large = ("model.safetensors", PICKLED)

    def __init__(self, repository: str, files: dict[str, bytes]) -> None:
        self.repository, self.files = repository, files
        self.announced: dict[str, str] = {}
        self.drops: list[int] = []
        self.hangs = self.missing_repository = False
        self.stops_at: int | None = None
        self.requests: list[tuple[str, str, str | None]] = []
        self.sending = threading.Event()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self})
        )
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ranges(self) -> list[str | None]:
        """The Range headers of the requests for the weights."""
        return [
            wanted
            for method, path, wanted in self.requests
            if method == "GET" and path.startswith("/storage/")
        ]

    def wait(self) -> None:
        """Stay silent until the test is over."""
        self._closing.wait(60)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        hub, path = self.hub, urlsplit(self.path).path
        hub.requests.append((self.command, path, self.headers.get("Range")))
        name = path.rsplit("/", 1)[1]
        if hub.hangs:
            hub.wait()
            self.close_connection = True
        elif path.startswith("/storage/"):
            self._send_large(hub.files[name])
        elif hub.missing_repository or not path.startswith(f"/{hub.repository}/resolve/"):
            self._refuse("RepoNotFound", "Repository not found")
        else:
            self._resolve(*path.removeprefix(f"/{hub.repository}/resolve/").split("/", 1))

    def _resolve(self, revision: str, name: str) -> None:
        hub = self.hub
        if revision not in ("main", COMMIT):
            self._refuse("RevisionNotFound", "Invalid rev id")
        elif name not in hub.files:
            self._refuse("EntryNotFound", "Entry not found", {"X-Repo-Commit": COMMIT})
        elif name in hub.large:
            content = hub.files[name]
            announced = hub.announced.get(name, hashlib.sha256(content).hexdigest())
            headers = {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{announced}"',
                "X-Linked-Size": str(len(content)),
                "Location": f"http://localhost:{hub.port}/storage/{name}",
                "Accept-Ranges": "bytes",
            }
            self._send(302, headers)
        else:
            etag = f'"{hashlib.sha1(hub.files[name]).hexdigest()}"'
            self._send(200, {"X-Repo-Commit": COMMIT, "ETag": etag}, hub.files[name])

    def _refuse(self, code: str, message: str, more: dict[str, str] | None = None) -> None:
        self._send(404, {"X-Error-Code": code, "X-Error-Message": message, **(more or {})})

    def _send(self, status: int, headers: dict[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def _send_large(self, content: bytes) -> None:
        hub, wanted = self.hub, self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        rest = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if hub.drops:
            self.wfile.write(rest[: hub.drops.pop(0)])
            self.close_connection = True
        elif hub.stops_at is not None:
            self.wfile.write(rest[: hub.stops_at])
            self.wfile.flush()
            hub.sending.set()
            hub.wait()
            self.close_connection = True
        else:
            self.wfile.write(rest)


@pytest.fixture(scope="session")
def checkpoint() -> dict[str, bytes]:
    """The files of a small encoder that is still fetched in several parts: 3 MB of weights."""
    import numpy as np
    from safetensors.numpy import save

    width = 16
    vocabulary = [*["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], *(f"word{i}" for i in range(45))]
    config = {
        "model_type": "bert",
        "vocab_size": len(vocabulary),
        "hidden_size": width,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 2 * width,
        "max_position_embeddings": 64,
        "hidden_act": "gelu",
    }
    numbers = np.random.default_rng(1).standard_normal((50_000, width)).astype("float32")
    return {
        "config.json": json.dumps(config).encode(),
        "vocab.txt": ("\n".join(vocabulary) + "\n").encode(),
        "tokenizer_config.json": b'{"do_lower_case": true}',
        "model.safetensors": save(
            {"embeddings.word_embeddings.weight": numbers, "embeddings.position_ids": np.arange(64)}
        ),
    }


@pytest.fixture
def hub(checkpoint, monkeypatch) -> Iterator[Hub]:
    """The repository of the tiny checkpoint; the environment points to its hub."""
    server = Hub("somebody/tiny-bert", dict(checkpoint))
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    yield server
    server.close()
