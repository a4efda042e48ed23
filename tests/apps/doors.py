"""A proxy and an identity provider that let visitors into the dashboard in tests."""

import base64
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwk, jwt

CLIENT, SECRET = "dashboard", "what the provider and the dashboard know"


class Proxy:
    """Forwards requests and adds headers, like a proxy with its own login.

    Attributes:
        address: its own address.
        added: the headers added to every request.
    """

    def __init__(self, port):
        self._port, self.added = port, {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def run(self):
        while True:
            try:
                visitor, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._pass_on, args=(visitor,), daemon=True).start()

    def _pass_on(self, visitor):
        head = b""
        while b"\r\n\r\n" not in head:
            head += (found := visitor.recv(65536))
            if not found:
                return visitor.close()
        first, _, rest = head.partition(b"\r\n")
        if b"upgrade: websocket" not in rest.lower():  # one request on each connection
            rest = rest.replace(b"Connection: keep-alive", b"Connection: close")
        added = "".join(f"{name}: {value}\r\n" for name, value in self.added.items())
        try:
            server = socket.create_connection(("127.0.0.1", self._port))
        except OSError:  # it is not running
            return visitor.close()
        server.sendall(first + b"\r\n" + added.encode() + rest)
        threading.Thread(target=_pump, args=(server, visitor), daemon=True).start()
        return _pump(visitor, server)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _pump(source, target):
    try:
        while found := source.recv(65536):
            target.sendall(found)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # if one side was killed, the other one must notice
        source.close()
        target.close()


@contextmanager
def proxying(port):
    proxy = Proxy(port)
    threading.Thread(target=proxy.run, daemon=True).start()
    try:
        yield proxy
    finally:
        proxy.close()


class Provider(ThreadingHTTPServer):
    """An OpenID Connect provider that logs everybody in with `claims`, without asking."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.key = jwk.RSAKey.generate_key(2048, {"kid": "1", "alg": "RS256", "use": "sig"})
        self.claims, self.nonce = {}, None


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        if asked.path == "/authorize":
            self.server.nonce = query["nonce"]
            back = urlencode({"code": "once", "state": query["state"]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{back}")
            self.end_headers()
        elif asked.path == "/keys":
            self._say({"keys": [self.server.key.as_dict(private=False)]})
        else:
            address = self.server.address
            self._say(
                {
                    "issuer": address,
                    "authorization_endpoint": f"{address}/authorize",
                    "token_endpoint": f"{address}/token",
                    "jwks_uri": f"{address}/keys",
                    "response_types_supported": ["code"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"],
                }
            )

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        assert self.headers["Authorization"] == f"Basic {basic}"
        now = int(time.time())
        claims = {
            "iss": self.server.address,
            "aud": CLIENT,
            "sub": "7",
            "iat": now,
            "exp": now + 60,
            "nonce": self.server.nonce,
            **self.server.claims,
        }
        token = jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.server.key)
        self._say({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def _say(self, answer):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        """Log nothing."""


@contextmanager
def providing():
    with Provider() as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        try:
            yield provider
        finally:
            provider.shutdown()
