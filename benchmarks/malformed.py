"""Malformed requests to `bertcnn serve`: none may return 5xx or kill a worker.

    python -m benchmarks.malformed MODEL [--requests 10000] [--seed 0]

Schemathesis generates a fifth of them from /openapi.json, in its own environment. The others are
bytes sent over a socket: valid requests of each kind with one defect, in their JSON, tensors,
encoding or framing. Afterwards the service must still have the same worker, and must answer.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import struct
import subprocess
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.environment import peers_python
from benchmarks.serving import Service, service

_PATIENCE: Final = 60  # seconds
_SHARE: Final = 5  # one request in 5 is made by schemathesis, which is slow
_MOMENT: Final = 2.0  # seconds
_CLIENTS: Final = 32
_STATUS_LINE: Final = 64  # bytes, at least
_CLOSED, _BROKEN_OFF = "closed", "broken off"
_VALUES: Final = (
    *("NaN", "-Infinity", "1e999", "-0", "1" * 5000, "9" * 4000, "null", "true", "[]", "{}", '""'),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\U0001f468\u200d\U0001f469"', '"\u202e"'),
    *("[" * 20_000, '{"a":' * 20_000, "[" * 500 + "]" * 500, '"' + "x" * 200_000 + '"', "'a'"),
)  # replacements for a part of the JSON
_LENGTHS: Final = ("-1", "0", "1", "+5", "5, 6", "0x10", "1e3", "9" * 30, "9" * 5000, "\xb2", "")
_CODECS: Final = ("utf-16", "utf-32", "utf-8-sig", "cp037", "utf-7")


def request(
    path: str, body: bytes, *headers: str, method: str = "POST", length: str | None = None
) -> bytes:
    """A whole request; its framing is correct unless `length` is given."""
    size = str(len(body)) if length is None else length
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Broken:
    """Makes requests with one defect each.

    Args:
        model: name of a model that is served.
        chance: random generator.
    """

    def __init__(self, model: str, chance: random.Random) -> None:
        self._infer, self._chance = f"/v2/models/{model}/infer", chance
        texts = ["my router is broken", "", "\N{SNOWMAN} refund"]
        tensor = {"name": "text", "shape": [3], "datatype": "BYTES", "data": texts}
        frame = {"columns": ["text"], "data": [[text] for text in texts]}
        self._bodies: dict[str, list[dict[str, Any]]] = {
            "/classify": [{"texts": texts, "because": True, "auto_precision": 0.9}],
            self._infer: [{"id": "7", "inputs": [tensor], "outputs": [{"name": "label"}]}],
            f"/v1/models/{model}:predict": [{"instances": texts}],
            "/invocations": [{"inputs": texts}, {"dataframe_split": frame}],
            "/v2/repository/models/none/load": [{"parameters": {"path": "/etc"}}],
        }

    def request(self) -> bytes:
        """A request with a random kind of defect."""
        ways: tuple[Callable[[], bytes], ...] = (
            self._other_value,
            self._other_bytes,
            self._other_encoding,
            self._other_framing,
            self._chunked,
            self._tensor,
            self._head,
        )
        return self._chance.choice(ways)()

    def _valid(self) -> tuple[str, str]:
        """A path and a valid body for it."""
        path = self._chance.choice(list(self._bodies))
        return path, json.dumps(self._chance.choice(self._bodies[path]))

    def _other_value(self) -> bytes:
        """Replace a string, number, list or key of the JSON."""
        path, body = self._valid()
        parts = [match.span() for match in re.finditer(r'"[^"]*"|[\d.]+|true|\[.*\]', body)]
        start, end = self._chance.choice(parts)
        return request(path, (body[:start] + self._chance.choice(_VALUES) + body[end:]).encode())

    def _other_bytes(self) -> bytes:
        """Replace, cut out or double some bytes, or cut off the end."""
        path, text = self._valid()
        body = bytearray(text.encode())
        for _ in range(self._chance.randrange(1, 4)):
            start = self._chance.randrange(len(body))
            end = min(len(body), start + self._chance.choice((1, 1, 4, 10_000)))
            given = self._chance.choice(
                (b"", bytes(body[start:end]) * 2, self._chance.randbytes(end - start))
            )
            body[start:end] = given
            body = body or bytearray(b" ")
        return request(path, bytes(body))

    def _other_encoding(self) -> bytes:
        """JSON that is not in UTF-8, or that declares another encoding."""
        path, body = self._valid()
        codec = self._chance.choice(_CODECS)
        headers = (
            f"Content-Type: {self._chance.choice(('text/plain', 'a' * 3000, '', 'multipart/x'))}",
            f"Content-Encoding: {self._chance.choice(('identity', 'gzip', 'br', ',', 'IDENTITY'))}",
        )
        return request(path, body.encode(codec), *self._chance.sample(headers, 1))

    def _other_framing(self) -> bytes:
        """A wrong content length, or two of them."""
        path, body = self._valid()
        data, length = body.encode(), self._chance.choice(_LENGTHS)
        if self._chance.random() < 0.5:
            more = f"Content-Length: {self._chance.choice(('4', length))}"
            return request(path, data, more)
        cut = data[: self._chance.randrange(len(data))]
        return request(path, cut, length=self._chance.choice((length, str(len(data)))))

    def _chunked(self) -> bytes:
        """A chunked body with one wrong chunk, or without the last one."""
        path, body = self._valid()
        data, chunks = body.encode(), []
        while data:
            size = self._chance.randrange(1, len(data) + 1)
            chunks.append(b"%x\r\n%s\r\n" % (size, data[:size]))
            data = data[size:]
        chunks.append(b"0\r\n\r\n")
        place = self._chance.randrange(len(chunks))
        wrong = b"zz\r\n", b"fffffffffffffffff\r\n", b"5;a=b\r\nab\r\n", b"-1\r\n\r\n", b"", b"\r\n"
        chunks[place] = self._chance.choice((*wrong, chunks[place]))
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: "
        kind = self._chance.choice(("chunked", "chunked", "gzip, chunked", "identity", "x"))
        return f"{head}{kind}\r\n\r\n".encode() + b"".join(chunks)

    def _tensor(self) -> bytes:
        """A binary tensor whose lengths, sizes, bytes or shape are wrong."""
        data = b"".join(
            struct.pack("<I", self._chance.choice((len(text), len(text), 0, 5, 2**32 - 1))) + text
            for text in (b"my router", b"\xff\xfe\xed\xa0\x80", b"", b"\x00" * 8)
        )[: self._chance.choice((None, None, 2, 7, 15))]
        size = self._chance.choice((len(data), len(data), -1, 0, 2**63, 10**4000))
        shape = self._chance.choice(
            ([4], [2, 2], [], [-4], [0], [2**64, 0], [10**4000] * 3, [1] * 5000, [4] * 5000)
        )
        tensor = {"name": "text", "datatype": "BYTES", "shape": shape}
        given = {
            "inputs": [{**tensor, "parameters": {"binary_data_size": size}}],
            "parameters": {"binary_data_output": self._chance.choice((True, False, "x"))},
            "outputs": [{"name": name} for name in self._chance.choices(("label", "because", "x"))],
        }
        header = json.dumps(given).encode()
        length = self._chance.choice((str(len(header)), str(len(header)), *_LENGTHS))
        return request(self._infer, header + data, f"Inference-Header-Content-Length: {length}")

    def _head(self) -> bytes:
        """A wrong request line or header."""
        path, body = self._valid()
        lines = (
            request(path, body.encode(), method=self._chance.choice(("GET", "PUT", "X", "post"))),
            request(self._chance.choice(("/%ff%00", "/\xff", "//", "/" + "a" * 70_000, "*")), b""),
            request("/v2/models/%ED%A0%80/infer", body.encode()),
            request("/v2/models/" + "%2e%2e%2f" * 50, b"", method="GET"),
            request(path, body.encode(), f"X-A: {'b' * 100_000}"),
            request(path, body.encode(), "Host: \x00", "Origin: http://[", "Expect: 100-continue"),
            request(path, body.encode(), "Upgrade: websocket", "Connection: upgrade"),
            request(path, body.encode(), *(f"X-{number}: 1" for number in range(2000))),
            request(path, body.encode()).replace(b"HTTP/1.1", b"HTTP/9.9"),
            request(path, body.encode()).replace(b"\r\n", b"\n"),
            self._chance.randbytes(200),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        )
        return self._chance.choice(lines)


def answer_to(place: tuple[str, int], data: bytes) -> str:
    """The status of the response to these bytes.

    If the server waits for the rest of the request, the connection is closed after a moment.
    """
    with socket.create_connection(place, timeout=_MOMENT) as connection:
        try:
            connection.sendall(data)
            answer = connection.recv(_STATUS_LINE)
        except TimeoutError:
            return _BROKEN_OFF
        except ConnectionError:
            return _CLOSED
    return answer[9:12].decode("latin-1") if answer else _CLOSED


def hand_made(served: Service, number: int, seed: int) -> Counter[str]:
    """Send `number` broken requests; count their statuses."""
    broken = Broken("model", random.Random(seed))
    requests = [broken.request() for _ in range(number)]
    with ThreadPoolExecutor(_CLIENTS) as clients:
        return Counter(clients.map(partial(answer_to, served.place), requests))


def schemathesis(served: Service, number: int, seed: int) -> str:
    """Send about `number` requests that schemathesis generates from the OpenAPI schema.

    Most of them name the served model, so that the server parses their bodies.

    Returns:
        Its summary of the requests and of its own errors.
    """
    schema = served.ask("/openapi.json")
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "name" and not path.endswith("load"):
                    parameter["schema"] = {"type": "string", "enum": ["model"]}
    with tempfile.TemporaryDirectory() as folder:
        (file := Path(folder, "openapi.json")).write_text(json.dumps(schema), encoding="utf-8")
        each = max(1, number // sum(map(len, schema["paths"].values())))
        program = peers_python("schemathesis").with_name("schemathesis")
        options = ("--url", served.address, "-n", each, "--seed", seed, "--no-shrink")
        checks = (
            "--request-timeout",
            _PATIENCE,
            "--checks",
            "not_a_server_error",
            "--phases",
            "coverage,fuzzing",
        )
        command = [str(part) for part in (program, "run", file, *options, *checks)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    said = re.findall(r"^ *(\d+ generated.*|\S+ [\w ]*Error: \d+)$", done.stdout, re.MULTILINE)
    return "; ".join(said) or done.stderr


def counted(served: Service) -> Counter[str]:
    """Requests by status, as the service counts them."""
    with urllib.request.urlopen(f"{served.address}/metrics", timeout=_PATIENCE) as response:
        page = response.read().decode()
    found = re.findall(r'bertcnn_requests_total\{.*status="(\d+)"\} (\S+)', page)
    statuses: Counter[str] = Counter()
    for status, number in found:
        statuses[status] += int(float(number))
    return statuses


def main() -> None:
    """Send the requests and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with service(options.model, "--drain", 0) as served:
        worker = served.worker
        said = schemathesis(served, options.requests // _SHARE, options.seed)
        made = counted(served)
        by_hand = hand_made(served, options.requests - made.total(), options.seed)
        statuses = counted(served)
        served.ask("/classify", b'{"texts": ["my router is broken"]}')
        same = "the same worker answers" if served.worker == worker else "A WORKER DIED"
    faults = sum(number for status, number in statuses.items() if status.startswith("5"))
    print(f"{made.total():,} requests of schemathesis: {dict(sorted(made.items()))} ({said})")
    print(f"{by_hand.total():,} broken by hand: {dict(sorted(by_hand.items()))}")
    print(f"{faults} answers with 5xx; {same}")


if __name__ == "__main__":
    main()
