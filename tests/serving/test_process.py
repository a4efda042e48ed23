"""The process: model swaps under load, deaths, stops, tokens, and refusals to start."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bertcnn.bundle.bundle import read_bundle
from tests.serving.served import environment, refused, serving

TOKEN = "a-token-of-enough-characters"


class Load:
    """Clients that send requests continuously; keeps the answers and failures."""

    def __init__(self, server, clients=3):
        self.server, self.failures, self.answers = server, [], []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def _ask(self):
        connection = self.server.connection()
        while not self._stop.is_set():
            try:
                status, answer, _ = self.server.ask(
                    "/classify", {"texts": ["my router", "the invoice"]}, connection=connection
                )
            except OSError as error:
                self.failures.append(repr(error))
                return
            if status == 200:
                self.answers.append(answer)
            else:
                self.failures.append((status, answer))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def load_model(server, body=None, name="triage"):
    return server.ask(f"/v2/repository/models/{name}/load", body, method="POST")[:2]


def test_models_are_exchanged_under_load_and_no_answer_is_of_both(model, renamed, tmp_path):
    versions = [read_bundle(folder).bundle_id[:12] for folder in (model, renamed)]
    labels = dict(zip(versions, ("billing", "bills"), strict=True))
    place = shutil.copytree(model, tmp_path / "model")
    below = os.path.commonpath([tmp_path, model.parent])
    with serving(tmp_path, f"triage={place}", "--drain", 0, "--models", below) as server:
        with Load(server) as load:
            for folder in (renamed, model) * 3:
                other = {"parameters": {"path": str(folder), "other_labels": True}}
                status, answer = load_model(server, other)
                assert (status, answer["name"]) == (200, "triage")
        assert load.failures == []
        assert {answer["version"] for answer in load.answers} == set(versions)
        for answer in load.answers:
            assert answer["answers"][1]["label"] in (labels[answer["version"]], "software")
        refusal = load_model(server, {"parameters": {"path": str(renamed)}})
        assert refusal[0] == 409
        assert refusal[1]["error"].startswith("a model without 'billing', with the new label 'bil")
        assert load_model(server, {"parameters": {"path": str(place / "nothing")}})[0] == 400
        for path in ("/etc", "s3://bucket/model", below, f"{below}/../etc", "a\0b"):
            status, answer = load_model(server, {"parameters": {"path": path}})
            assert (status, answer["error"][:10]) == (403, "the model ")
        assert load_model(server, name="other")[0] == 404

        # a damaged folder leaves the old model serving, by signal too
        load_model(server, {"parameters": {"path": str(place)}})
        damage(place / "model.safetensors")
        status, answer = load_model(server)
        assert (status, answer["error"][:36]) == (400, "model.safetensors was changed after ")
        server.process.send_signal(signal.SIGHUP)
        assert server.event("model refused")["model"] == "triage"
        assert server.ask("/classify", {"texts": ["a"]})[1]["version"] == versions[0]
        shutil.rmtree(place)
        shutil.copytree(model, place)
        loaded = len([event for event in server.events() if event["event"] == "model loaded"])
        server.process.send_signal(signal.SIGHUP)
        server.event("model loaded", loaded + 1)


def niceness(process, task):
    """The nice value of a process's thread."""
    stat = Path(f"/proc/{process}/task/{task}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[16])


def damage(file):
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the worker in /proc")
def test_after_a_kill_another_worker_answers_with_the_same_model(model, renamed, tmp_path):
    with serving(tmp_path, f"triage={model}", "--drain", 0) as server:
        other = {"parameters": {"path": str(renamed), "other_labels": True}}
        version = load_model(server, other)[1]["version"]
        worker = server.worker()
        assert niceness(worker, worker) < max(
            niceness(worker, int(task.name)) for task in Path(f"/proc/{worker}/task").iterdir()
        )  # requests are read even while all cores compute
        assert "MALLOC_MMAP_THRESHOLD_=1048576" in Path(f"/proc/{worker}/environ").read_text()
        os.kill(worker, signal.SIGKILL)
        status, answer, _ = server.ask("/classify", {"texts": ["my router"]})
        assert (status, answer["version"]) == (200, version)
        assert server.event("worker died")["code"] == -signal.SIGKILL
        assert server.worker() != worker
        orphan = server.worker()
        server.process.kill()
        server.process.wait()
        until = time.monotonic() + 20
        while Path(f"/proc/{orphan}").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert not Path(f"/proc/{orphan}").exists()


def test_a_stopping_server_answers_until_no_requests_come(model, tmp_path):
    with serving(tmp_path, model, "--drain", 0.6) as server:
        with Load(server) as load:
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            while server.ask("/v2/health/ready")[0] == 200:
                time.sleep(0.02)
            answered = len(load.answers)
            status, _, headers = server.ask("/classify", {"texts": ["my router"]})
            assert (status, headers["Connection"]) == (200, "close")
            time.sleep(0.1)
        assert load.failures == []
        assert len(load.answers) > answered
        assert server.process.wait(30) == 0
        with pytest.raises(OSError, match="refused"):
            server.ask("/ping")
        assert [event["event"] for event in server.events()][-2:] == ["stopping", "stopped"]


def test_a_stop_while_a_worker_restarts_answers_those_who_wait(model, tmp_path):
    with serving(tmp_path, model, "--drain", 0.5) as server:
        os.kill(server.worker(), signal.SIGKILL)
        server.event("worker died")
        waiting = server.connection()
        waiting.request("POST", "/classify", '{"texts": ["my router"]}')
        server.process.send_signal(signal.SIGTERM)
        assert waiting.getresponse().status == 200
        assert server.process.wait(30) == 0


def test_a_token_is_needed_where_there_is_one(model, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    arguments = (model, "--host", "0.0.0.0", "--token-file", tmp_path / "token", "--log-requests")
    with serving(tmp_path, *arguments, "--drain", 0) as server:
        server.place = "127.0.0.1", server.place[1]
        secret = {"texts": ["a very secret text"]}
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-API-Key": TOKEN + "x"}):
            status, answer, about = server.ask("/classify", secret, headers)
            assert (status, about["WWW-Authenticate"]) == (401, "Bearer")
            assert answer["error"].startswith("no token, or a wrong one; expected the server")
        for headers in ({"Authorization": f"bearer {TOKEN}"}, {"X-API-Key": TOKEN}):
            assert server.ask("/classify", secret, headers)[0] == 200
        assert server.ask("/v2/health/ready")[0] == server.ask("/docs")[0] == 200
        assert server.ask("/metrics")[0] == 401
        requests = [event for event in server.events() if event["event"] == "request"]
        assert {event["status"] for event in requests} >= {200, 401}
        written = server.log.read_text(encoding="utf-8")
        assert "secret" not in written
        assert TOKEN not in written


def test_too_many_waiting_texts_are_refused_and_vanished_clients_forgotten(model, tmp_path):
    limits = ("--queue", 5000, "--most-texts", 5000, "--cores", 1, "--drain", 0)
    with serving(tmp_path, model, *limits) as server:
        texts = [f"router {number} " * 20 for number in range(5000)]
        full, other = server.connection(), server.connection()
        server.ask("/v2", connection=full)
        body = str(texts).replace("'", '"')
        for _ in range(10):  # until the second request comes while the first waits
            full.request("POST", "/classify", f'{{"texts": {body}}}')
            status, answer, headers = server.ask("/classify", {"texts": texts}, connection=other)
            if status == 429:
                break
            full.getresponse().read()
        assert status == 429
        assert int(headers["Retry-After"]) >= 1
        assert "wait; expected at most 5,000 texts that wait. What to do: send" in answer["error"]
        full.close()
        until = time.monotonic() + 20
        page = b""
        while b'route="/classify",status="499"' not in page and time.monotonic() < until:
            page = server.ask("/metrics")[1]
        assert b'bertcnn_requests_total{route="/classify",status="499"} 1.0' in page
        assert server.ask("/classify", {"texts": ["my router"]})[0] == 200


def test_a_client_that_floods_the_service_does_not_keep_others_out(model, tmp_path):
    with serving(tmp_path, model, "--drain", 0, files=200) as server:
        known = server.connection()
        server.ask("/v2", connection=known)
        silent = [socket.create_connection(server.place, 10) for _ in range(250)]
        for connection in (None, known):
            texts = {"texts": ["my router"]}
            assert server.ask("/classify", texts, connection=connection)[0] == 200
        with socket.create_connection(server.place, 10) as flood:
            flood.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000)
            assert flood.recv(1000).startswith(b"HTTP/1.1 431 ")
        assert server.event("limit met", 2)["limit"] == "head_bytes"
        first = next(event for event in server.events() if event["event"] == "limit met")
        assert (first["limit"], first["most"]) == ("connections", 72)
        for each in silent:
            each.close()


# === Refusals to start ===


def test_a_port_in_use_is_refused(model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(model, "--port", port) == (
            f"bertcnn: port {port} at 127.0.0.1, which is in use; expected a free port of this"
            " machine. What to do: choose another one with --port, or 0 for any."
        )


def test_an_address_of_other_machines_needs_a_token(model):
    assert refused(model, "--host", "0.0.0.0").startswith(
        "bertcnn: --host '0.0.0.0' without a token; expected a token in BERTCNN_SERVE_TOKEN or"
    )
    message = refused(model, BERTCNN_SERVE_TOKEN="short")
    assert message.startswith("bertcnn: a token of 5 characters in BERTCNN_SERVE_TOKEN; expected")
    assert "cannot be read" in refused(model, "--token-file", "nowhere")


def test_a_damaged_model_is_refused(model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    damage(folder / "model.safetensors")
    assert refused(folder, "--port", 0).startswith(
        "bertcnn: model.safetensors was changed after the model was saved: its content is not"
    )


@pytest.mark.parametrize(
    ("imported", "unwanted"),
    [
        ("bertcnn.serving.supervise, bertcnn.cli.serve", {"pandas", "openvino", "fastapi"}),
        ("bertcnn.serving.run", {"pandas", "streamlit", "sklearn", "scipy"}),
    ],
    ids=["parent", "worker"],
)
def test_a_process_imports_only_what_it_needs(imported, unwanted):
    code = (
        f"import sys, {imported}; print(*({unwanted | {'keras', 'tensorflow'}} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
