"""Limits for clients that send incomplete requests, with a server in this process."""

import asyncio
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import pytest
import uvicorn

from bertcnn.serving.connections import Connections, LimitedProtocol
from bertcnn.serving.options import Limits
from bertcnn.serving.run import _Server

SILENT = 30  # connections of a client that sends nothing
REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n"
LARGE = b"a" * (2 << 20)


async def echo(scope, receive, send):
    """Respond with the length of the body."""
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message["body"])
        more = message["more_body"]
    body = b"x" * int(scope["query_string"] or 0) + str(length).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Client:
    def __init__(self, place):
        self.socket = socket.create_connection(place, 10)

    def ask(self, data, answers=1):
        """Send bytes and read a number of responses, or everything until the connection ends."""
        with suppress(OSError):  # refused before it had sent everything
            self.socket.sendall(data)
        return self.rest(answers)

    def rest(self, answers=1):
        found = b""
        with suppress(OSError):
            while part := self.socket.recv(1 << 16):
                found += part
                if len(re.findall(rb"\r\n\r\n\d+", found)) == answers:
                    break
        return found

    @property
    def is_closed(self):
        self.socket.settimeout(0.05)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True


@contextmanager
def listening(most=SILENT, **limits):
    connections = Connections(Limits(**limits), most)
    config = uvicorn.Config(
        echo,
        http=partial(LimitedProtocol, connections),
        lifespan="off",
        ws="none",
        log_config=None,
    )
    server = _Server(config, connections)
    clients = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()

        def serve():
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(server.serve(sockets=[listener]))

        thread = threading.Thread(target=serve)
        thread.start()
        while not server.started:
            time.sleep(0.01)

        def client():
            clients.append(Client(place))
            return clients[-1]

        try:
            yield client
        finally:
            for each in clients:
                each.socket.close()
            server.should_exit = True
            thread.join()


def test_a_request_within_the_limits_is_answered():
    with listening() as client:
        fields = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 600) for number in range(95))
        assert client().ask(REQUEST % 5 + fields + b"\r\n12345").endswith(b"\r\n\r\n5")
        body = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 40_000 + b"0\r\n\r\n"
        assert client().ask(b"POST / HTTP/1.1\r\nHost: a\r\n" + body).endswith(b"40000")


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (b"X: " + LARGE, "bytes"),
        (b"X-a: b\r\n" * 200_000, "100 headers"),
        (b"X: " + b"v" * 70_000 + b"\r\n\r\n", "bytes"),
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: " + LARGE, "bytes"),
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n" + b"X-a: b\r\n" * 200_000, "100"),
    ],
    ids=["one header", "many headers", "at once", "one trailer", "many trailers"],
)
def test_too_many_headers_are_refused(rest, why):
    with listening() as client:
        start = b"POST / HTTP/1.1\r\nHost: a\r\n"
        answer = client().ask(start + rest)
        assert answer.startswith(b"HTTP/1.1 431 ") or not answer
        assert why.encode() in answer or not answer
        assert client().ask(REQUEST % 0 + b"\r\n").endswith(b"\r\n\r\n0")


@pytest.mark.parametrize(
    ("sent", "status"),
    [(b"", b""), (REQUEST % 5, b"408"), (REQUEST % 5 + b"\r\n123", b"408")],
    ids=["nothing", "part of the headers", "part of the body"],
)
def test_a_request_that_is_not_whole_in_time_is_ended(sent, status):
    with listening(head_seconds=0.3, body_seconds=0.3) as client:
        slow = client()
        slow.socket.sendall(sent)
        time.sleep(0.2)
        slow.socket.sendall(sent[-1:] if b"123" in sent else b"X" * bool(sent))  # a byte at a time
        answer = slow.rest()
        assert answer[9:12] == status
        assert (b"a request that is not whole" in answer) == bool(status)


def test_the_oldest_silent_connection_goes_first_and_others_get_in():
    with listening(most=6) as client:
        known = client()
        assert known.ask(REQUEST % 5 + b"\r\n12345").endswith(b"5")
        uploading = client()
        uploading.socket.sendall(REQUEST % 5 + b"\r\n1")
        silent = [client() for _ in range(4)]
        time.sleep(0.2)
        more = [client() for _ in range(3)]
        time.sleep(0.2)
        assert [each.is_closed for each in silent] == [True, True, True, False]
        assert uploading.ask(b"2345").endswith(b"5")
        assert known.ask(REQUEST % 0 + b"\r\n").endswith(b"0")
        assert more[-1].ask(REQUEST % 0 + b"\r\n").endswith(b"0")


def test_a_client_that_does_not_take_its_answer_is_ended():
    with listening(body_seconds=0.3) as client:
        slow = client()
        request = b"POST /?20000000 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        slow.socket.sendall(request * 2)
        time.sleep(0.8)
        assert len(slow.rest()) < 40_000_000


def test_requests_sent_without_waiting_are_answered_in_order_up_to_a_number():
    with listening() as client:
        answers = client().ask((REQUEST % 0 + b"\r\n") * 50 + REQUEST % 5 + b"\r\n12345", 51)
        assert answers.count(b" 200 OK") == 51
        few = client().ask((REQUEST % 0 + b"\r\n") * 2000, 2000)
        assert few.count(b" 200 OK") < 200


def test_an_offer_to_speak_http_2_is_passed_over():
    """Java's HttpClient offers it with its first request."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAA\r\n"
    with listening() as client:
        java = client()
        for _ in range(2):
            java.socket.sendall(REQUEST % 5 + offer + b"\r\n123")
            time.sleep(0.05)
            assert java.ask(b"45").endswith(b"\r\n\r\n5")
        assert (
            client().ask(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").startswith(b"HTTP/1.1 405")
        )


def test_each_limit_is_logged_once_a_minute_with_a_count(caplog):
    with listening() as client, caplog.at_level("WARNING", "bertcnn.serving"):
        for _ in range(3):
            client().ask(b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000)
        client().ask(b"hello\r\n\r\n")
        time.sleep(0.3)
    fields = [record.fields for record in caplog.records if record.message == "limit met"]
    assert {each["limit"] for each in fields} == {"head_bytes", "not HTTP"}
    assert len(fields) <= 3
