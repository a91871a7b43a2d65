"""A relay in front of a server, which can stall, cut and refuse connections: the network between a client and it."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import Self

import attrs


@attrs.define(eq=False)
class StallingRelay:
    """Forwards to a port of this machine for as long as its ``with`` block."""

    to: int
    port: int = attrs.field(init=False, default=0)
    _answers_pass: Event = attrs.field(init=False, factory=Event)
    _connections: list[socket.socket] = attrs.field(init=False, factory=list[socket.socket])
    _listener: socket.socket = attrs.field(init=False)

    def __enter__(self) -> Self:
        self._answers_pass.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        self._answers_pass.set()
        self.cut()

    def stall(self) -> None:
        """Requests still arrive, and answers wait."""
        self._answers_pass.clear()

    def go_on(self) -> None:
        """Answers pass again, on connections that are left."""
        self._answers_pass.set()

    def cut(self) -> None:
        """Close all connections."""
        connections, self._connections = self._connections, []
        for each in connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.to), 5)
                except OSError:
                    client.close()
                    continue
                self._connections += [client, server]
                Thread(target=self._forward, args=(client, server, None), daemon=True).start()
                Thread(target=self._forward, args=(server, client, self._answers_pass), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, may_pass: Event | None) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if may_pass is not None:
                    may_pass.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
