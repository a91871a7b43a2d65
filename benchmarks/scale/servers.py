"""Servers of others, run for one check: on the loopback, with ports and data of their own, ended when it is over."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.request import ProxyHandler, build_opener

HOST = "127.0.0.1"
_PATIENCE = 120.0  # seconds: the first start of Phoenix creates a database, and under load spans take 20 to appear

T = TypeVar("T")


def get(url: str) -> bytes:
    """Return the body of the answer. No proxy is used."""
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def hold_port() -> int:
    """Return a port on which nobody listens, and which this process holds until it ends.

    The system gives it to no other process. A server that is named the port may listen on it, again and again: servers
    set ``SO_REUSEADDR``, as is done here.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    port: int = held.getsockname()[1]
    held.detach()  # it stays open
    return port


def wait_for(failure: str, look: Callable[[], T]) -> T:
    """Return what ``look`` returns as soon as it is true; exit with the failure if that takes too long.

    A server that cannot be reached yet is looked for again.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except OSError:  # a URLError is one
            pass
        time.sleep(0.2)  # another process gives no event to wait for
    raise SystemExit(f"{failure} within {_PATIENCE:.0f} seconds")


@contextmanager
def running(command: Sequence[str], log: Path, ready: Callable[[], object]) -> Generator[None]:
    """Run a server until the block ends; exactly this process is ended.

    Args:
        command: Of the server.
        log: The file for its output.
        ready: True when it answers; an OSError means that it does not yet.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)  # noqa: S603  # our own commands

    def alive() -> object:
        if process.poll() is not None:
            output = log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"{command[0]} ended with {process.returncode}:\n{output}")
        return ready()

    try:
        wait_for(f"{command[0]} did not start", alive)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
