"""A Hugging Face hub on loopback, with the routes for models and encoders; it fails on request.

Weights are redirected to another host (here "localhost"), as the hub does for large files.
"""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

WEIGHTS = ("model.safetensors", "pytorch_model.bin")


class Hub:
    """Repositories with branches and commits, behind HTTP.

    Attributes:
        repositories: for each, the commit of each branch.
        private: names of repositories created as private.
        commits: the files of each commit, content by path.
        parents: for every new commit, the parent that its author named.
        blobs: large files, by sha256.
        announced: the sha256 announced for a weight file, where it is not the true one.
        refuses: the status sent for every request instead of an answer.
        drops: for the next answers with a large file, after how many bytes each breaks off.
        hangs_up: how many of the next requests get no answer, only a closed connection.
        hangs: never answers.
        stops_at: how many bytes of a weight file are sent before the connection stalls.
        sending: set when a connection has stalled.
        requests: method and path of all requests.
        ranges: the Range headers of the requests for weights.
    """

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, str]] = {}
        self.private: set[str] = set()
        self.commits: dict[str, dict[str, bytes]] = {}
        self.parents: dict[str, str | None] = {}
        self.blobs: dict[str, bytes] = {}
        self.announced: dict[str, str] = {}
        self.refuses: int | None = None
        self.drops: list[int] = []
        self.hangs_up = 0
        self.hangs = False
        self.stops_at: int | None = None
        self.sending, self._closing = threading.Event(), threading.Event()
        self.requests: list[str] = []
        self.ranges: list[str | None] = []
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self})
        )
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def commit(
        self, repository: str, branch: str, files: dict[str, bytes], name: str | None = None
    ) -> str:
        """Add a commit with these files at the head of a branch."""
        new = f"{repository} {branch} {len(self.commits)}".encode()
        name = name or hashlib.sha1(new).hexdigest()
        self.commits[name] = files
        self.repositories.setdefault(repository, {})[branch] = name
        return name

    def files(self, repository: str, branch: str = "main") -> dict[str, bytes]:
        return self.commits[self.repositories[repository][branch]]

    def wait(self) -> None:
        """Stay silent until the test is over."""
        self._closing.wait(60)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # with two packets, each answer would take 40 ms longer
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_HEAD = do_GET  # noqa: N815 - the server's names

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        if self.hub.hangs:
            self.hub.wait()
            self.close_connection = True
        elif self.hub.hangs_up:
            self.hub.hangs_up -= 1
            self.close_connection = True
        elif self.hub.refuses is not None:
            self._send(self.hub.refuses)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.startswith("/upload/"):
            self.hub.blobs[path.removeprefix("/upload/")] = body
            self._send(200)
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._batch(json.loads(body))
        elif path.startswith("/api/models/"):
            owner, name, what, revision = path.removeprefix("/api/models/").split("/", 3)
            self._of_repository(f"{owner}/{name}", what, revision, body)
        elif path.startswith("/weights/"):
            commit, name = path.removeprefix("/weights/").split("/", 1)
            self.hub.ranges.append(self.headers.get("Range"))
            self._content(self.hub.commits[commit][name], commit, may_stall=True)
        elif "/resolve/" not in path:  # requests that the hub library makes by itself
            self._send(404)
        else:
            owner, name, _, revision, file = path[1:].split("/", 4)
            self._file(f"{owner}/{name}", revision, file)

    def _create(self, wanted: dict) -> None:
        name = f"{wanted['organization']}/{wanted['name']}"
        self.hub.repositories[name] = {}
        self.hub.commit(name, "main", {})
        if wanted.get("visibility") == "private":
            self.hub.private.add(name)
        self._json({"url": f"{self.hub.endpoint}/{name}"})

    def _batch(self, wanted: dict) -> None:
        objects = [
            {
                **one,
                "actions": {"upload": {"href": f"{self.hub.endpoint}/upload/{one['oid']}"}},
            }
            for one in wanted["objects"]
        ]
        self._json({"transfer": "basic", "objects": objects})

    def _of_repository(self, repository: str, what: str, revision: str, body: bytes) -> None:
        branches = self.hub.repositories.get(repository)
        if branches is None:
            self._missing("RepoNotFound")
        elif what == "branch":
            branches[revision] = branches["main"]
            self._json({})
        elif revision not in branches:
            self._missing("RevisionNotFound")
        elif what == "revision":
            head = branches[revision]
            siblings = [{"rfilename": path} for path in self.hub.commits[head]]
            self._json({"id": repository, "sha": head, "siblings": siblings})
        elif what == "preupload":
            self._json(
                {
                    "files": [
                        {
                            "path": one["path"],
                            "uploadMode": "lfs" if one["size"] > 20_000 else "regular",
                            "shouldIgnore": False,
                        }
                        for one in json.loads(body)["files"]
                    ]
                }
            )
        else:
            self._commit(repository, revision, [json.loads(line) for line in body.splitlines()])

    def _commit(self, repository: str, branch: str, lines: list[dict]) -> None:
        head = self.hub.repositories[repository][branch]
        files, parent = dict(self.hub.commits[head]), None
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                parent = value.get("parentCommit")
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
            elif line["key"] == "deletedFolder":
                files = {p: data for p, data in files.items() if not p.startswith(value["path"])}
        if parent not in (None, head):
            self._send(412)
            return
        name = self.hub.commit(repository, branch, files)
        self.hub.parents[name] = parent
        self._json({"commitUrl": f"{self.hub.endpoint}/{repository}/commit/{name}",
                    "commitOid": name, "hookOutput": ""})  # fmt: skip

    def _file(self, repository: str, revision: str, file: str) -> None:
        branches = self.hub.repositories.get(repository)
        if branches is None:
            self._missing("RepoNotFound")
            return
        commit = branches.get(revision, revision)
        if commit not in self.hub.commits:
            self._missing("RevisionNotFound")
        elif file not in self.hub.commits[commit]:
            self._missing("EntryNotFound", commit)
        elif file in WEIGHTS:
            self._redirect(commit, file)
        else:
            self._content(self.hub.commits[commit][file], commit)

    def _redirect(self, commit: str, file: str) -> None:
        content = self.hub.commits[commit][file]
        announced = self.hub.announced.get(file, hashlib.sha256(content).hexdigest())
        headers = {
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{announced}"',
            "X-Linked-Size": str(len(content)),
            "Location": f"http://localhost:{self.hub.port}/weights/{commit}/{file}",
            "Accept-Ranges": "bytes",
        }
        self._send(302, headers)

    def _content(self, data: bytes, commit: str, *, may_stall: bool = False) -> None:
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        rest = data[start:]
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.hub.drops and len(rest) > self.hub.drops[0]:
            self.wfile.write(rest[: self.hub.drops.pop(0)])
            self.close_connection = True
        elif may_stall and self.hub.stops_at is not None:
            self.wfile.write(rest[: self.hub.stops_at])
            self.wfile.flush()
            self.hub.sending.set()
            self.hub.wait()
            self.close_connection = True
        else:
            self.wfile.write(rest)

    def _missing(self, code: str, commit: str | None = None) -> None:
        self._send(404, {"X-Error-Code": code, "X-Repo-Commit": commit or "0" * 40})

    def _json(self, value: object) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _send(self, status: int, headers: dict | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
