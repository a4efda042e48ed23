"""Serve S3 on loopback until standard input ends; prints the port."""

from __future__ import annotations

import sys

from moto.server import ThreadedMotoServer  # type: ignore[import-not-found]


def main() -> None:
    """Serve."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
