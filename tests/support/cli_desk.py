"""A directory with a module of tools, and ``toolcall run`` in it: for the tests of the command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner, Result

from support import PATIENT, Child
from toolcall_pipeline.cli.commands import toolcall

MODULE = """
import asyncio
import sys
import time
from contextlib import asynccontextmanager, contextmanager
import anyio
from toolcall_pipeline.middlewares import standard
from toolcall_pipeline import ToolContext, ToolFailed, ToolRegistry

tools = ToolRegistry()
running = most = 0
tries = []

@tools.tool(effect="read")
async def echo(n: int) -> int:
    return n

@tools.tool(effect="read")
async def greet(name: str = "you") -> str:
    return f"Grüße, {name}"

@tools.tool(effect="read")
async def slow(n: int) -> int:
    global running, most
    running += 1
    most = max(most, running)
    await anyio.sleep(0.005)
    running -= 1
    return n

@tools.tool(effect="read", context=True)
async def who(context: ToolContext) -> str:
    return " ".join(map(str, (context.principal, context.call_id, context.conversation, context.deps)))

@tools.tool(effect="read")
async def flaky() -> int:
    tries.append(1)
    if len(tries) < 3:
        raise ConnectionError
    return len(tries)

@tools.tool(effect="read")
async def for_ever() -> None:
    await anyio.sleep_forever()

@tools.tool
async def exits() -> None:
    sys.exit(7)

@tools.tool
async def cancels() -> None:
    raise asyncio.CancelledError

@tools.tool
def sleeps() -> None:
    time.sleep(3600)

@tools.tool
async def blocks() -> None:
    time.sleep(3600)

pipeline = standard(tools)
class Deep:
    tools = tools
def make(): return tools
async def later(): return tools
def wants(n): return tools
def none(): return None
def breaks(): return 1 / 0

@tools.tool
async def interrupts() -> None:
    raise KeyboardInterrupt

@tools.tool
async def closes() -> None:
    raise GeneratorExit

@tools.tool
def interrupts_in_a_thread() -> None:
    raise KeyboardInterrupt

@tools.tool
def prints() -> None:
    print("NOISE")

@tools.tool
def reads_stdin() -> str:
    import subprocess
    return subprocess.run(["cat"], capture_output=True, check=True).stdout.decode()

@tools.tool(effect="read")
async def waits() -> None:
    from pathlib import Path
    Path(__file__).with_name("waiting").touch()
    while not Path(__file__).with_name("go").exists():
        await anyio.sleep(0.005)

empty = ToolRegistry()
def noisy():
    print("NOISE from a factory")
    return tools

class App:
    def __init__(self, name): pass
    def __call__(self, scope): pass
app = App("shop")

@tools.tool(effect="read", context=True)
async def borrow(context: ToolContext) -> str:
    return context.deps["title"]

def shelf(): return {"title": "Emma"}
def books(): return "books"
async def books_later(): return "books"
@asynccontextmanager
async def open_books():
    print("opened", file=sys.stderr)
    yield "books"
    print("closed", file=sys.stderr)
@contextmanager
def open_books_here():
    with closing_books() as found:
        yield found
@contextmanager
def closing_books():
    yield "books"
class Library:
    async def __aenter__(self): return "books"
    async def __aexit__(self, *exc): raise OSError("the doors are stuck")
"""
NUMBERS = count()


@attrs.define
class Desk:
    """A directory with a module of tools, and the command run in it."""

    path: Path
    module: str
    started: list[Child] = attrs.field(factory=list[Child], init=False)

    @property
    def calls(self) -> Path:
        return self.path / "calls.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def ledger(self) -> Path:
        return self.path / "results.jsonl.ledger"

    @property
    def effects(self) -> Path:
        return self.path / "effects"

    def put(self, *lines: object) -> None:
        """Write the lines of CALLS: bytes and text as they are, other values as JSON."""
        self.calls.write_bytes(b"".join(as_line(line) + b"\n" for line in lines))

    def put_many(self, number: int, name: str = "slow") -> None:
        self.put(*({"id": f"c{n}", "name": name, "arguments": {"n": n}} for n in range(1, number + 1)))

    def arguments(self, *options: str, target: str = "tools", calls: str | None = None) -> list[str]:
        named = target if ":" in target else f"{self.module}:{target}"
        return ["run", named, calls or str(self.calls), "-o", str(self.results), *options]

    def run(self, *options: str, target: str = "tools") -> Result:
        return CliRunner().invoke(toolcall, self.arguments(*options, target=target))

    def start(
        self, *options: str, target: str = "tools", calls: str | None = None, follow: bool = True, **more: Any
    ) -> Child:
        """Run the command in a process of its own, which ends at the latest with the test."""
        arguments = self.arguments(*["--follow"][: int(follow)], *options, target=target, calls=calls)
        command = [sys.executable, "-m", "toolcall_pipeline", *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        self.started.append(Child(command, cwd=self.path, **pipes))
        return self.started[-1]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.results.read_bytes().splitlines()]

    @property
    def by_line(self) -> dict[int, dict[str, Any]]:
        """The results by line; fails if a line has two."""
        assert len({row["line"] for row in self.rows}) == len(self.rows)
        return {row["line"]: row for row in self.rows}

    def await_rows(self, number: int) -> None:
        until(lambda: self.results.exists() and self.results.read_bytes().count(b"\n") >= number)


def as_line(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


def until(true: Callable[[], bool], seconds: float = PATIENT) -> None:
    """Wait for what another process does; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def open_desk(path: Path, monkeypatch: pytest.MonkeyPatch, module: str = MODULE) -> Generator[Desk]:
    """Write the module, whose name is a new one each time, and make its directory the current one."""
    made = Desk(path, f"desk_{next(NUMBERS)}")
    (path / f"{made.module}.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    try:
        yield made
    finally:
        sys.modules.pop(made.module, None)
        for process in made.started:
            with process:
                process.kill()
