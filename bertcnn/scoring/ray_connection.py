"""Joins or starts a Ray cluster, without output from Ray."""

from __future__ import annotations

import logging
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Final

import ray
from ray._private import worker as ray_worker
from ray.exceptions import AuthenticationError, RayError

from bertcnn.errors import ClusterError, SettingsError, one_line
from bertcnn.inference import usable_cores

LOCAL: Final = "local"  # also Ray's value for a new cluster on this machine

_MODE = "RAY_AUTH_MODE"
# Ray's ports are open to the network; the token keeps others out. Ray reads it once.
_TOKEN: Final = secrets.token_hex(32)
_ADDRESS = re.compile(r"\[?(?P<host>[\w.:%-]+?)\]?:(?P<port>\d{1,5})", re.ASCII)
_REACHED_WITHIN = 5.0  # seconds to connect to the address


def check_address(address: str) -> None:
    """Refuse an invalid cluster address.

    Raises:
        SettingsError: the address is not "local", "auto" or HOST:PORT.
    """
    if address not in (LOCAL, "auto") and not _ADDRESS.fullmatch(address):
        raise SettingsError(
            f"{one_line(address)} as the address of a Ray cluster",
            expected='"local", "auto" or HOST:PORT, such as 10.0.0.7:6379',
            fix="give the address that `ray start --head` has shown",
        )


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect this process to Ray within a block; does nothing if it is already connected.

    Raises:
        ClusterError: there is no cluster, or it refuses this process.
    """
    if ray.is_initialized():
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        try:
            with _own_sigterm():
                _join(address, stack)
        # Ray raises errors of many types
        except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
            raise explained(error, address) from None
        stack.callback(ray.shutdown)
        yield


def _join(address: str, stack: ExitStack) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False}
    if address != LOCAL:
        if address != "auto":
            _check_reachable(address)
        ray.init(address=address, **quiet)
        return
    # not Ray's default, where other users' files may be
    directory = TemporaryDirectory(prefix="bertcnn-ray-", ignore_cleanup_errors=True)
    if _MODE not in os.environ:  # then Ray requires a token, and sets this variable
        stack.enter_context(_environment({"RAY_AUTH_TOKEN": _TOKEN}))
        stack.callback(os.environ.pop, _MODE, None)
    ray.init(
        address=LOCAL,  # never a running cluster, even if $RAY_ADDRESS is set
        num_cpus=usable_cores(),
        include_dashboard=False,
        _temp_dir=stack.enter_context(directory),
        _node_ip_address="127.0.0.1",
        **quiet,
    )


def _check_reachable(address: str) -> None:
    """Check that the address answers; Ray would try for a minute, then end the process."""
    match = _ADDRESS.fullmatch(address)
    if match:
        with socket.create_connection((match["host"], int(match["port"])), _REACHED_WITHIN):
            pass


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Ray's telemetry and terminal output within a block."""
    logger = logging.getLogger("ray")
    before, printer = logger.level, ray_worker.print_to_stdstream
    logger.setLevel(logging.CRITICAL)
    # prints actor events to standard output, which no setting prevents
    ray_worker.print_to_stdstream = lambda *_, **__: None
    try:
        with _environment({"RAY_USAGE_STATS_ENABLED": "0"}):
            yield
    finally:
        logger.setLevel(before)
        ray_worker.print_to_stdstream = printer


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Restore the SIGTERM handler after a block; Ray's handler ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # a Python handler
            signal.signal(signal.SIGTERM, before)


def explained(error: Exception, address: str) -> ClusterError:
    """Why Ray could not be joined or started, in one line."""
    said = " ".join(f"{error} {error.__cause__ or ''}".split())
    where = "Ray" if address == LOCAL else f"the Ray cluster {address!r}"
    if "Version mismatch" in said:
        match = re.search(r"with: Ray: (\S+) Python: (\S+) .*with: Ray: (\S+) Python: (\S+)", said)
        theirs = f"Ray {match[1]} on Python {match[2]}" if match else "other versions"
        ours = f"Ray {match[3]} on Python {match[4]}" if match else f"Ray {ray.__version__}"
        return ClusterError(
            f"{where} runs {theirs}, this process {ours}",
            expected="the same versions of Ray and Python",
            fix="install the cluster's versions here, or start the cluster with these",
        )
    if isinstance(error, AuthenticationError) or "uthentication" in said:
        return ClusterError(
            f"{where} does not accept this user's token",
            expected="the token that the cluster was started with",
            fix="set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or copy the file ~/.ray/auth_token",
        )
    if "expects this IP address" in said or "No node info found" in said:
        return ClusterError(
            f"this machine is not a node of {where}",
            expected="a machine on which Ray runs",
            fix=f"run `ray start --address={address} --num-cpus=0` here first",
        )
    if address == LOCAL:
        return ClusterError(
            f"Ray cannot be started on this machine ({one_line(said, 200)})",
            expected="a machine with room for Ray",
            fix="free memory and disk space, or leave out --ray",
        )
    if "Could not find any running Ray" in said:
        return ClusterError(
            "no Ray cluster runs on this machine",
            expected="one that was started with `ray start`",
            fix="start it, or give HOST:PORT, and run this again",
            passes=True,
        )
    return ClusterError(
        f"{where} cannot be reached ({one_line(said, 160)})",
        expected="a cluster that was started with `ray start --head`",
        fix="start it, or correct the address, and run this again",
        passes=True,
    )
