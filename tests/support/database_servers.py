"""PostgreSQL and Redis on free ports of this machine, in a temporary folder, for as long as a ``with`` block."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faulty_server import find_closed_port

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


@contextmanager
def postgres() -> Generator[int, None, None]:
    """A server of PostgreSQL; its port. The user is ``tester``, and needs no password."""
    initdb, server = find_program("initdb"), find_program("postgres")
    assert initdb is not None
    assert server is not None
    with _folder() as folder:
        data, port = str(folder / "data"), find_closed_port()
        make = [initdb, "-D", data, "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **_as_user())
        options = [f"port={port}", f"unix_socket_directories={folder}", "listen_addresses=127.0.0.1", "fsync=off"]
        command = [server, "-D", data, *(part for option in options for part in ("-c", option))]
        with _running(command, folder, port):
            yield port


@contextmanager
def redis() -> Generator[int, None, None]:
    """A server of Redis; its port."""
    server = find_program("redis-server")
    assert server is not None
    with _folder() as folder:
        port = find_closed_port()
        with _running([server, "--port", str(port), "--save", "", "--dir", str(folder)], folder, port):
            yield port


@contextmanager
def silent() -> Generator[int, None, None]:
    """A port that takes connections and never answers; the port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield int(listener.getsockname()[1])


@contextmanager
def _running(command: list[str], folder: Path, port: int) -> Generator[None, None, None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **_as_user())
        try:
            end = time.monotonic() + _READY_WITHIN
            while not _accepts(port):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
