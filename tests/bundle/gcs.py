"""Google Cloud Storage on loopback: the routes of its JSON API that pyarrow's client uses.

It runs in a process of its own, because pyarrow blocks other threads while it waits for some
answers.

    python -m tests.bundle.gcs BUCKET

prints the port, and serves until standard input ends. POST /refuse/STATUS makes it answer every
other request with that status; 0 ends that.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class CloudStorage(ThreadingHTTPServer):
    """Buckets behind HTTP.

    Attributes:
        buckets: for each bucket, its objects: content by name.
        uploads: unfinished uploads: bucket, name and content so far.
        refuses: the status sent for every request instead of an answer; 0 for none.
    """

    daemon_threads = True

    def __init__(self, *buckets: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.buckets: dict[str, dict[str, bytes]] = {name: {} for name in buckets}
        self.uploads: dict[str, tuple[str, str, bytes]] = {}
        self.refuses = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    server: CloudStorage

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        words = parts.path.lstrip("/").split("/")
        if words[0] == "refuse":
            self.server.refuses = int(words[1])
            self._send(200)
        elif self.server.refuses:
            self._send(self.server.refuses, b"{}")
        elif words[0] == "upload":
            self._upload(unquote(words[4]), query, body)
        elif words[:3] == ["storage", "v1", "b"]:
            self._api(
                unquote(words[3]), unquote("/".join(words[5:])), query, listed=len(words) == 5
            )
        else:  # the XML API
            self._media(unquote(words[0]), unquote("/".join(words[1:])))

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the server's names

    def _api(self, bucket: str, name: str, query: dict, *, listed: bool) -> None:
        objects = self.server.buckets.get(bucket)
        if objects is None:
            self._send(404, b"{}")
        elif listed:
            prefix = query.get("prefix", "")
            items = [self._about(bucket, one) for one in sorted(objects) if one.startswith(prefix)]
            self._json({"kind": "storage#objects", "items": items})
        elif not name:
            self._json({"kind": "storage#bucket", "name": bucket, "id": bucket})
        elif name not in objects:
            self._send(404, b"{}")
        elif self.command == "DELETE":
            del objects[name]
            self._send(204)
        elif query.get("alt") == "media":
            self._media(bucket, name)
        else:
            self._json(self._about(bucket, name))

    def _about(self, bucket: str, name: str) -> dict:
        size = len(self.server.buckets[bucket][name])
        return {"kind": "storage#object", "bucket": bucket, "name": name, "size": str(size),
                "generation": "1", "updated": "2026-11-27T00:00:00Z"}  # fmt: skip

    def _media(self, bucket: str, name: str) -> None:
        data = self.server.buckets.get(bucket, {}).get(name)
        if data is None:
            self._send(404, b"{}")
            return
        first, _, last = (
            (self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        )
        end = min(int(last) + 1 if last else len(data), len(data))
        headers = {
            "Content-Range": f"bytes {first}-{end - 1}/{len(data)}",
            "x-goog-generation": "1",
            "x-goog-stored-content-length": str(len(data)),
        }
        partial = self.headers.get("Range") is not None
        self._send(206 if partial else 200, data[int(first) : end], headers if partial else {})

    def _upload(self, bucket: str, query: dict, body: bytes) -> None:
        if bucket not in self.server.buckets:
            self._send(404, b"{}")
            return
        if "upload_id" not in query:
            name = query.get("name") or json.loads(body)["name"]
            key = str(len(self.server.uploads))
            self.server.uploads[key] = (bucket, name, b"")
            location = (
                f"http://127.0.0.1:{self.server.server_address[1]}/upload/storage/v1/b/{bucket}/o"
                f"?uploadType=resumable&name={name}&upload_id={key}"
            )
            self._send(200, b"{}", {"Location": location})
            return
        bucket, name, have = self.server.uploads[query["upload_id"]]
        have += body
        self.server.uploads[query["upload_id"]] = (bucket, name, have)
        if self.headers["Content-Range"].endswith("/*"):
            self._send(308, b"", {"Range": f"bytes=0-{len(have) - 1}"})
        else:
            self.server.buckets[bucket][name] = have
            self._json(self._about(bucket, name))

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes = b"", headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    server = CloudStorage(*sys.argv[1:])
    print(server.server_address[1], flush=True)  # noqa: T201
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
