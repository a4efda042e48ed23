"""The real command in a process of its own, and a client for it."""

import http.client
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 60  # seconds


class Server:
    """A running `bertcnn serve` at a known address."""

    def __init__(self, process, address, log):
        self.process, self.address, self.log = process, address, log
        host, _, port = address.removeprefix("http://").rpartition(":")
        self.place = host, int(port)

    def connection(self):
        return http.client.HTTPConnection(*self.place, timeout=PATIENCE)

    def ask(self, path, body=None, headers=None, method=None, connection=None):
        """Status, JSON or bytes, and headers of a response."""
        connection = connection or self.connection()
        given = json.dumps(body).encode() if isinstance(body, dict | list) else body
        method = method or ("GET" if body is None else "POST")
        connection.request(method, path, given, headers or {})
        response = connection.getresponse()
        data = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(data) if is_json and data else data, response.headers

    def events(self):
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def event(self, name, times=1):
        """Wait until an event was logged `times` times; returns the last one."""
        until = time.monotonic() + PATIENCE
        while len(found := [event for event in self.events() if event["event"] == name]) < times:
            assert time.monotonic() < until, self.events()
            time.sleep(0.02)
        return found[-1]

    def worker(self):
        """The number of the worker process."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(found.split()[0])


def command(*arguments):
    return [sys.executable, "-m", "bertcnn", "serve", *map(str, arguments)]


def environment(**changes):
    return {**os.environ, "PYTHONPATH": str(ROOT), "BERTCNN_SERVE_TOKEN": "", **changes}


@contextmanager
def serving(folder, *arguments, files=None, **variables):
    """A ready server; `files` limits the open files of its processes."""

    def limit():
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    log = folder / f"log-{time.monotonic_ns()}.jsonl"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command(*arguments, "--port", 0),
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=files and limit,
        )
    try:
        line = process.stdout.readline()
        assert " at http" in line, log.read_text(encoding="utf-8")
        yield Server(process, line.split()[-1], log)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.stdout.close()


def refused(*arguments, **variables):
    """The one-line error of a command that does not start."""
    done = subprocess.run(
        command(*arguments),
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line
