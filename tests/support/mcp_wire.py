"""A client of MCP that sees bytes: it starts a command and exchanges lines with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import attrs

from support import PATIENT, Child

INFO = {"name": "wire", "version": "1"}


@attrs.define(eq=False)
class Wire:
    """A server that runs, directly or behind a proxy."""

    process: subprocess.Popen[bytes]
    number: int = 0
    notes: list[Any] = attrs.field(factory=list[Any])  # what came beside the answers

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> tuple[bytes, Any]:
        """The next line, as it came and parsed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the server ended"
        try:
            return line, json.loads(line)
        except ValueError:
            return line, None

    def ask(self, method: str, **params: object) -> bytes:
        """The line that answers a request."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            line, message = self.read()
            found = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
            if found.get("id") == self.number and "method" not in found:
                return line
            self.notes.append(message)

    def call(self, name: str, arguments: object = None, **params: object) -> Any:
        """The answer to a call of a tool."""
        return json.loads(self.ask("tools/call", name=name, arguments={} if arguments is None else arguments, **params))

    def greet(self, **capabilities: object) -> bytes:
        """Shake hands. Returns the line in which the server tells of itself."""
        line = self.ask("initialize", protocolVersion="2025-06-18", capabilities=capabilities, clientInfo=INFO)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return line


@contextmanager
def open_wire(command: Sequence[str]) -> Generator[Wire]:
    """Start a command, and end it."""
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Wire(process)
        with suppress(BrokenPipeError):
            process.communicate(timeout=PATIENT)


def text_of(answer: Any) -> str:
    """What a model reads of an answer."""
    if "error" in answer:
        return f"(error {answer['error']['code']}) {answer['error']['message']}"
    blocks = answer["result"].get("content", [])
    text = " ".join(each.get("text", "") for each in blocks)
    return f"(isError) {text}" if answer["result"].get("isError") else text
