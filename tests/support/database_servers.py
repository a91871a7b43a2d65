"""PostgreSQL and Redis on free ports of this machine, in a temporary folder, for as long as a ``with`` block."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from benchmarks.scale.servers import hold_port

_READY_WITHIN = 60.0  # seconds


def find_program(name: str) -> str | None:
    """The path of a program; PostgreSQL's are not on Debian's PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


def _as_user() -> Mapping[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def _folder() -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() == 0:
            shutil.chown(name, "nobody", "nogroup")
        yield Path(name)


@attrs.define(eq=False)
class Server:
    """A server that can crash and be started again, on the same port and with the same data."""

    command: list[str]
    folder: Path
    port: int
    crash_signal: int = signal.SIGKILL
    ready: str = ""  # in its log, before which it refuses what it accepts
    _process: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with (self.folder / "log").open("wb") as log:
            process = self._process = subprocess.Popen(
                self.command, stdout=log, stderr=log, cwd=self.folder, **_as_user()
            )
        end = time.monotonic() + _READY_WITHIN
        while not _accepts(self.port) or self.ready not in (self.folder / "log").read_text():
            assert process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.05)

    def crash(self) -> None:
        """End it at once; what was not on the disk is lost."""
        assert self._process is not None
        self._process.send_signal(self.crash_signal)
        self._process.wait()

    def stop(self) -> None:
        """End it."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def postgres_server() -> Generator[Server, None, None]:
    """A server of PostgreSQL. The user is ``tester``, and needs no password."""
    initdb, server = find_program("initdb"), find_program("postgres")
    assert initdb is not None
    assert server is not None
    with _folder() as folder:
        data, port = str(folder / "data"), hold_port()
        make = [initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **_as_user())
        options = [f"port={port}", f"unix_socket_directories={folder}", "listen_addresses=127.0.0.1", "fsync=off"]
        command = [server, "-D", data, *(part for option in options for part in ("-c", option))]
        with _running(
            Server(command, folder, port, signal.SIGQUIT, "ready to accept")
        ) as running:  # else it leaves children
            yield running


@contextmanager
def redis_server(*options: str) -> Generator[Server, None, None]:
    """A server of Redis, with options such as ``"--appendonly", "yes"``."""
    server = find_program("redis-server")
    assert server is not None
    with _folder() as folder:
        port = hold_port()
        command = [server, "--port", str(port), "--save", "", "--dir", str(folder), *options]
        with _running(Server(command, folder, port)) as running:
            yield running


@contextmanager
def postgres() -> Generator[int, None, None]:
    """A server of PostgreSQL; its port. The user is ``tester``, and needs no password."""
    with postgres_server() as server:
        yield server.port


@contextmanager
def redis() -> Generator[int, None, None]:
    """A server of Redis; its port."""
    with redis_server() as server:
        yield server.port


@contextmanager
def silent() -> Generator[int, None, None]:
    """A port that takes connections and never answers; the port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


@contextmanager
def _running(server: Server) -> Generator[Server, None, None]:
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
